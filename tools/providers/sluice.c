/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own server as a provider: what it serves now, read through its control socket and from the
 * records of the build that it has mapped.  Its changes come by deploys, so it is only compared.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/name.h"
#include "steering/model.h"
#include "tools/client.h"
#include "tools/providers/provider.h"
#include "zones/domain_json.h"
#include "zones/record.h"
#include "zones/records.h"

enum { MANIFEST_MAX = 64 << 20 };

struct own {
  char *name;
  char *socket;
};

static void *own_open(const struct provider_context *context, struct provider_error *error) {
  const char *socket = json_string_value(json_object_get(context->settings, "socket"));
  struct own *own = calloc(1, sizeof *own);
  if (own) {
    own->name = strdup(context->name);
    own->socket = strdup(socket ? socket : "/run/sluice/control.sock");
  }
  if (own && own->name && own->socket)
    return own;
  provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", context->name);
  return NULL;
}

static void own_close(void *self) {
  struct own *own = self;
  if (!own)
    return;
  free(own->name);
  free(own->socket);
  free(own);
}

/* Takes the reference of `request` over. */
static json_t *ask(struct own *own, json_t *request, struct provider_error *error) {
  char why[CLIENT_WHY] = "out of memory";
  json_t *reply = NULL;
  enum client_result result =
      request ? client_try(own->socket, request, CLIENT_WAIT, &reply, why) : CLIENT_REFUSED;
  json_decref(request);
  if (result != CLIENT_ANSWERED) {
    provider_fail(error, PROVIDER_UNREACHABLE, "%s: %.400s", own->name, why);
    return NULL;
  }
  if (json_is_true(json_object_get(reply, "ok")))
    return reply;
  const char *text = json_string_value(json_object_get(reply, "error"));
  provider_fail(error, PROVIDER_REFUSED, "%s: %.400s", own->name,
                text ? text : "the server refused without a reason");
  json_decref(reply);
  return NULL;
}

/* ---- steered names -------------------------------------------------------------------------- */

static bool add_domain(const struct own *own, const char *name, const json_t *document,
                       struct provider_objects *out, struct provider_error *error) {
  char why[DOMAIN_JSON_WHY];
  struct steer_domain *steer = domain_json_decode(document, why);
  if (!steer)
    return provider_fail(error, PROVIDER_GARBAGE, "%s: what the server says of %.200s is wrong: %s",
                         own->name, name, why);
  struct provider_object *object = provider_objects_add(out);
  if (object) {
    object->body = domain_json_encode(steer);
    object->name = strdup(name);
    object->domain = strdup(name);
    object->type = strdup("STEER");
    object->owner = strdup("sluice");
    if (asprintf(&object->key, "%s/STEER", name) < 0)
      object->key = NULL;
  }
  steer_domain_free(steer);
  return object && object->body && object->name && object->domain && object->type &&
                 object->owner && object->key
             ? true
             : provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", own->name);
}

static bool read_domains(struct own *own, const char *zone, struct provider_objects *out,
                         struct provider_error *error) {
  json_t *list = ask(own, json_pack("{s:s, s:s}", "command", "domains", "zone", zone), error);
  bool ok = list;
  size_t i;
  const json_t *item;
  json_array_foreach(json_object_get(list, "domains"), i, item) {
    const char *name = json_string_value(json_object_get(item, "name"));
    if (!ok || !name)
      break;
    json_t *reply = ask(own, json_pack("{s:s, s:s}", "command", "domain", "domain", name), error);
    ok = reply && add_domain(own, name, json_object_get(json_object_get(reply, "domain"), "steer"),
                             out, error);
    json_decref(reply);
  }
  json_decref(list);
  return ok;
}

/* ---- static records ------------------------------------------------------------------------- */

/* True for a record of the default answer; beside it static RRsets of other types may stand. */
static bool is_steered(const struct provider_objects *out, size_t steered, const char *name,
                       uint16_t type) {
  if (type != RECORD_A && type != RECORD_AAAA && type != RECORD_CNAME)
    return false;
  for (size_t i = 0; i < steered; i++)
    if (strcmp(out->items[i].name, name) == 0)
      return true;
  return false;
}

/* Ends the RRset that is gathered. */
static bool flush(struct provider_objects *out, const char *name, uint16_t type, uint32_t ttl,
                  json_t **values) {
  char text[16];
  if (!*values)
    return true;
  struct provider_object *object =
      provider_add_rrset(out, name, record_type_text(type, text), ttl, *values);
  *values = NULL;
  return object && (object->owner = strdup("sluice")) != NULL;
}

static bool add_records(const struct records *records, struct provider_objects *out) {
  size_t steered = out->count;
  char name[NAME_MAX_TEXT] = "";
  char last[NAME_MAX_TEXT] = "";
  uint16_t type = 0;
  uint32_t ttl = 0;
  json_t *values = NULL;
  bool ok = true;
  for (size_t at = records_first(); ok && at < records->size;) {
    struct records_rr rr;
    at = records_read(records, at, &rr);
    name_to_text(name, rr.start);
    if (rr.type != type || strcmp(name, last) != 0)
      ok = flush(out, last, type, ttl, &values);
    if (is_steered(out, steered, name, rr.type))
      continue;
    memcpy(last, name, sizeof last);
    type = rr.type;
    ttl = rr.ttl;
    char *text = provider_rdata_wire(rr.type, rr.rdata, rr.rdata_len);
    if (!values)
      values = json_array();
    ok = ok && text && json_array_append_new(values, json_string(text)) == 0;
    free(text);
  }
  ok = ok && flush(out, last, type, ttl, &values);
  json_decref(values);
  return ok;
}

/* ---- health --------------------------------------------------------------------------------- */

/* The list of checks of the current build (zones/build_lists.h), or NULL. */
static json_t *read_checks(const char *data) {
  char why[FS_WHY];
  uint8_t *text = NULL;
  size_t len;
  json_t *out = NULL;
  char *path = fs_join(data, "current/checks.json");
  if (path && fs_read(path, MANIFEST_MAX, &text, &len, why))
    out = json_loadb((const char *)text, len, 0, NULL);
  free(text);
  free(path);
  return out;
}

/* Keeps the settings of a domain's checks beside what is compared. */
static void keep_checks(struct provider_object *object, const json_t *endpoints) {
  json_t *health = json_object();
  const char *name;
  json_t *endpoint;
  json_object_foreach((json_t *)(uintptr_t)endpoints, name, endpoint)
      json_object_set(health, name, json_object_get(endpoint, "health"));
  json_decref(object->raw);
  object->raw = json_pack("{s:o}", "health", health);
}

/* Without the list, health stays unknown. */
static void add_health(const char *data, struct provider_objects *out) {
  json_t *checks = read_checks(data);
  json_t *places = json_object();
  size_t i;
  const json_t *item;
  for (size_t k = 0; k < out->count; k++)
    if (out->items[k].domain)
      json_object_set_new(places, out->items[k].domain, json_integer((json_int_t)k));
  json_array_foreach(json_object_get(checks, "domains"), i, item) {
    const char *name = json_string_value(json_object_get(item, "domain"));
    const json_t *place = name ? json_object_get(places, name) : NULL;
    if (place)
      keep_checks(&out->items[json_integer_value(place)], json_object_get(item, "endpoints"));
  }
  json_decref(places);
  json_decref(checks);
}

/* ---- the build ------------------------------------------------------------------------------ */

static const json_t *find_zone(const json_t *zones, const char *zone) {
  size_t len = strlen(zone);
  size_t i;
  const json_t *item;
  json_array_foreach(zones, i, item) {
    const char *name = json_string_value(json_object_get(item, "name"));
    size_t n = name ? strlen(name) : 0;
    if (name && strncasecmp(name, zone, len) == 0 && n == len)
      return item;
    if (name && n + 1 == len && zone[n] == '.' && strncasecmp(name, zone, n) == 0)
      return item;
  }
  return NULL;
}

/* The records file of the zone in the current build. */
static char *records_path(const char *data, const char *zone) {
  char why[FS_WHY];
  uint8_t *text = NULL;
  size_t len;
  char *current = fs_join(data, "current");
  char *path = current ? fs_join(current, "manifest.json") : NULL;
  json_t *manifest = NULL;
  if (path && fs_read(path, MANIFEST_MAX, &text, &len, why))
    manifest = json_loadb((const char *)text, len, 0, NULL);
  const json_t *item = find_zone(json_object_get(manifest, "zones"), zone);
  const char *file = json_string_value(json_object_get(item, "records"));
  char *out = file ? fs_join(current, file) : NULL;
  json_decref(manifest);
  free(text);
  free(path);
  free(current);
  return out;
}

static bool read_records(struct own *own, const char *zone, struct provider_objects *out,
                         struct provider_error *error) {
  struct records records;
  char why[512] = "the build has no records of it";
  json_t *status = ask(own, json_pack("{s:s}", "command", "status"), error);
  if (!status)
    return false;
  const json_t *served =
      find_zone(json_object_get(json_object_get(status, "build"), "zones"), zone);
  const char *data = json_string_value(json_object_get(status, "data"));
  json_int_t serial = json_integer_value(json_object_get(served, "serial"));
  bool ok = served;
  if (!ok)
    provider_fail(error, PROVIDER_GONE, "%s: the server does not serve %.200s; deploy it",
                  own->name, zone);
  char *path = ok && data ? records_path(data, zone) : NULL;
  if (ok && !(path && records_open(&records, path, why)))
    ok = provider_fail(error, PROVIDER_GONE, "%s: cannot tell the records of %.100s: %.300s",
                       own->name, zone, why);
  else if (ok) {
    if (serial != (json_int_t)records.header->serial)
      ok = provider_fail(error, PROVIDER_CONFLICT,
                         "%s: the server serves serial %lld of %.200s, the current build has %u; "
                         "run `sluice reload`",
                         own->name, (long long)serial, zone, records.header->serial);
    else if (!add_records(&records, out))
      ok = provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", own->name);
    else
      add_health(data, out);
    records_close(&records);
  }
  free(path);
  json_decref(status);
  return ok;
}

static bool own_read(void *self, const char *zone, struct provider_objects *out,
                     struct provider_error *error) {
  return read_domains(self, zone, out, error) && read_records(self, zone, out, error);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static bool own_compile(void *self, const struct provider_domain *domain,
                        struct provider_objects *out, struct provider_fidelity *fidelity,
                        struct provider_error *error) {
  const struct own *own = self;
  memset(fidelity, 0, sizeof *fidelity);
  json_t *document = domain_json_encode(domain->steer);
  bool ok = document && add_domain(own, domain->name, document, out, error);
  json_decref(document);
  return ok ? true : provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", own->name);
}

static json_t *own_decompile(void *self, const struct provider_object *const *objects, size_t count,
                             struct provider_error *error) {
  const struct own *own = self;
  json_t *health = count == 1 ? json_object_get(objects[0]->raw, "health") : NULL;
  if (health) {
    json_t *document = json_copy(objects[0]->body);
    json_object_set(document, "health", health);
    return document;
  }
  if (count == 1)
    return json_incref(objects[0]->body);
  provider_fail(error, PROVIDER_GARBAGE, "%s: not one object", own->name);
  return NULL;
}

static bool own_apply(void *self, const char *zone, const struct provider_change *changes,
                      size_t count, size_t *done, struct provider_error *error) {
  const struct own *own = self;
  (void)changes;
  (void)count;
  *done = 0;
  return provider_fail(error, PROVIDER_REFUSED, "%s: %.200s changes by a deploy only", own->name,
                       zone);
}

static json_t *own_servers(void *self, const char *zone, struct provider_error *error) {
  (void)zone;
  json_t *status = ask(self, json_pack("{s:s}", "command", "status"), error);
  json_t *list = json_incref(json_object_get(status, "listen"));
  if (status && !list)
    provider_fail(error, PROVIDER_GARBAGE, "%s: its server does not tell where it listens",
                  ((const struct own *)self)->name);
  json_decref(status);
  return list;
}

const struct provider_kind provider_sluice = {
    .type = "sluice",
    .can = {.steers = true,
            .marks = true,
            .apex_ns = true,
            .atomic = true,
            .deployed = true,
            .weight_max = STEER_MAX_WEIGHT,
            .pushed = true},
    .open = own_open,
    .close = own_close,
    .read = own_read,
    .compile = own_compile,
    .decompile = own_decompile,
    .apply = own_apply,
    .servers = own_servers,
};
