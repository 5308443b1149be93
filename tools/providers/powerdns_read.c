/* SPDX-License-Identifier: Apache-2.0 */
/* From a zone document of PowerDNS's API to objects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/providers/powerdns_private.h"
#include "tools/providers/powerdns_text.h"

enum { TTL_MAX = 2147483647 };

static struct provider_object *named(struct provider_objects *out, const char *name,
                                     const char *type, const char *more) {
  struct provider_object *object = provider_objects_add(out);
  if (!object)
    return NULL;
  object->name = strdup(name);
  object->type = strdup(type);
  if (asprintf(&object->key, "%s/%s%s", name, type, more) < 0)
    object->key = NULL;
  return object->name && object->type && object->key ? object : NULL;
}

struct provider_object *powerdns_add_lua(struct provider_objects *out, const char *name,
                                         const char *type, uint32_t ttl, const char *content) {
  struct provider_object *object = named(out, name, type, "");
  if (!object)
    return NULL;
  object->domain = strdup(name);
  object->body = json_pack("{s:I, s:s}", "ttl", (json_int_t)ttl, "lua", content);
  return object->domain && object->body ? object : NULL;
}

/* ---- RRsets of the document ----------------------------------------------------------------- */

struct reading {
  const char *zone;
  struct provider_objects *out;
  json_t *rrsets;
};

/* The server lower-cases names; one that does not is no reason to differ. */
static bool lower_name(json_t *json) {
  const char *name = json_string_value(json_object_get(json, "name"));
  char *copy = name ? strdup(name) : NULL;
  for (char *c = copy; c && *c; c++)
    if (*c >= 'A' && *c <= 'Z')
      *c = (char)(*c - 'A' + 'a');
  bool ok = copy && json_object_set_new(json, "name", json_string(copy)) == 0;
  free(copy);
  return ok;
}

/* One RRset, whose parts have been checked. */
struct rrset {
  const char *name, *type, *owner;
  json_int_t ttl;
  json_t *json, *records;
  bool disabled; /* a record of it is */
};

static bool is_below(const char *name, const char *zone) {
  size_t n = strlen(name);
  size_t z = strlen(zone);
  if (n < z || strcasecmp(name + n - z, zone) != 0)
    return false;
  return n == z || z == 1 || name[n - z - 1] == '.';
}

static const char *owner_of(const json_t *comments) {
  size_t i;
  const json_t *comment;
  json_array_foreach(comments, i, comment) {
    const char *content = json_string_value(json_object_get(comment, "content"));
    const char *account = json_string_value(json_object_get(comment, "account"));
    if (content && account && strcmp(content, POWERDNS_COMMENT) == 0)
      return account;
  }
  return NULL;
}

static bool check_rrset(const struct reading *r, json_t *json, struct rrset *out) {
  const json_t *ttl = json_object_get(json, "ttl");
  if (!lower_name(json))
    return false;
  *out = (struct rrset){
      .name = json_string_value(json_object_get(json, "name")),
      .type = json_string_value(json_object_get(json, "type")),
      .owner = owner_of(json_object_get(json, "comments")),
      .ttl = json_integer_value(ttl),
      .json = json,
      .records = json_object_get(json, "records"),
  };
  if (!out->name || !out->type || strlen(out->type) >= POWERDNS_TYPE || !json_is_integer(ttl) ||
      out->ttl < 0 || out->ttl > TTL_MAX || !json_is_array(out->records) ||
      !is_below(out->name, r->zone))
    return false;
  size_t i;
  const json_t *record;
  json_array_foreach(out->records, i, record) {
    if (!json_is_string(json_object_get(record, "content")))
      return false;
    out->disabled = out->disabled || json_is_true(json_object_get(record, "disabled"));
  }
  return true;
}

static const char *content_of(const struct rrset *rrset, size_t i) {
  return json_string_value(json_object_get(json_array_get(rrset->records, i), "content"));
}

static bool finish(struct provider_object *object, const struct rrset *rrset, bool ours) {
  if (!object)
    return false;
  object->raw = json_incref(rrset->json);
  if (!ours || !rrset->owner)
    return true;
  object->owner = strdup(rrset->owner);
  return object->owner;
}

/* ---- plain RRsets --------------------------------------------------------------------------- */

/* What cannot be compared value by value: a digest over all of it. */
static bool set_opaque(struct provider_object *object, const struct rrset *rrset,
                       const json_t *content) {
  char *text = json_dumps(content, JSON_COMPACT | JSON_SORT_KEYS);
  char digest[33];
  object->opaque = true;
  if (text && powerdns_digest(text, strlen(text), digest))
    object->body = json_pack("{s:I, s:s}", "ttl", rrset->ttl, "digest", digest);
  free(text);
  return object->body;
}

static bool add_plain(struct reading *r, const struct rrset *rrset) {
  json_t *values = json_array();
  bool ok = values != NULL;
  bool canonical = !rrset->disabled;
  for (size_t i = 0; ok && i < json_array_size(rrset->records); i++) {
    char *text = provider_rdata_text(rrset->type, content_of(rrset, i));
    canonical = canonical && text;
    ok = json_array_append_new(values, json_string(text ? text : "")) == 0;
    free(text);
  }
  if (ok && canonical)
    return finish(
        provider_add_rrset(r->out, rrset->name, rrset->type, (uint32_t)rrset->ttl, values), rrset,
        true);
  json_decref(values);
  struct provider_object *object = ok ? named(r->out, rrset->name, rrset->type, "") : NULL;
  return finish(object, rrset, true) && set_opaque(object, rrset, rrset->records);
}

/* ---- LUA records ---------------------------------------------------------------------------- */

/* The records of one type at a name are one object; more than one, or a disabled one, is beyond
 * the model. */
static bool add_lua_type(struct reading *r, const struct rrset *rrset, const char *type) {
  json_t *records = json_array();
  const char *only = NULL;
  bool ours = false;
  bool intact = !rrset->disabled;
  for (size_t i = 0; records && i < json_array_size(rrset->records); i++) {
    char t[POWERDNS_TYPE];
    const char *content = content_of(rrset, i);
    if (!powerdns_type(content, t) || strcmp(t, type) != 0)
      continue;
    json_t *model;
    enum powerdns_maker maker = powerdns_unwrap(content, &model);
    json_decref(model);
    ours = ours || maker != POWERDNS_FOREIGN;
    intact = intact && maker == POWERDNS_OURS && !only;
    only = content;
    json_array_append(records, json_array_get(rrset->records, i));
  }
  bool ok = records;
  if (ok && intact) {
    ok = finish(powerdns_add_lua(r->out, rrset->name, type, (uint32_t)rrset->ttl, only), rrset,
                true);
  } else if (ok) {
    struct provider_object *object = named(r->out, rrset->name, type, "");
    ok = finish(object, rrset, ours) && set_opaque(object, rrset, records) &&
         (object->domain = strdup(rrset->name)) != NULL;
  }
  json_decref(records);
  return ok;
}

static bool add_lua(struct reading *r, const struct rrset *rrset) {
  json_t *seen = json_object();
  bool ok = seen;
  for (size_t i = 0; ok && i < json_array_size(rrset->records); i++) {
    char type[POWERDNS_TYPE];
    if (!powerdns_type(content_of(rrset, i), type))
      snprintf(type, sizeof type, "LUA");
    if (json_object_get(seen, type))
      continue;
    ok = json_object_set_new(seen, type, json_true()) == 0 && add_lua_type(r, rrset, type);
  }
  json_decref(seen);
  return ok;
}

/* ---- the document --------------------------------------------------------------------------- */

/* False without memory; *twice if the same RRset has come before. */
static bool keep(struct reading *r, const struct rrset *rrset, bool *twice) {
  char *key = NULL;
  if (asprintf(&key, "%s/%s", rrset->name, rrset->type) < 0)
    return false;
  *twice = json_object_get(r->rrsets, key) != NULL;
  bool ok = json_object_set(r->rrsets, key, rrset->json) == 0;
  free(key);
  return ok;
}

/* A plain RRset beside a LUA record of the same type: both are answered, so both are told.  The
 * plain one gets a key of its own, and so is in the way of what should be there. */
static bool part_keys(struct provider_objects *out) {
  json_t *lua = json_object();
  bool ok = lua;
  for (size_t i = 0; ok && i < out->count; i++)
    if (out->items[i].domain)
      ok = json_object_set_new(lua, out->items[i].key, json_true()) == 0;
  for (size_t i = 0; ok && i < out->count; i++) {
    struct provider_object *object = &out->items[i];
    char *key = NULL;
    if (object->domain || !json_object_get(lua, object->key))
      continue;
    ok = asprintf(&key, "%s/plain", object->key) >= 0;
    if (ok) {
      free(object->key);
      object->key = key;
    }
  }
  json_decref(lua);
  return ok;
}

static bool garbage(struct provider_error *error, const char *provider, const char *zone,
                    const char *what) {
  return provider_fail(
      error, PROVIDER_GARBAGE,
      "%s: what it says of zone %.200s is no zone of PowerDNS's API: %s; check the "
      "provider's `url`",
      provider, zone, what);
}

bool powerdns_read_document(const char *provider, const char *zone, const json_t *document,
                            struct provider_objects *out, json_t **rrsets, bool *secondary,
                            struct provider_error *error) {
  struct reading r = {.zone = zone, .out = out, .rrsets = json_object()};
  const json_t *list = json_object_get(document, "rrsets");
  const char *name = json_string_value(json_object_get(document, "name"));
  const char *kind = json_string_value(json_object_get(document, "kind"));
  bool ok = r.rrsets;
  bool right = json_is_array(list) && name && strcasecmp(name, zone) == 0;
  const char *what = "the list of RRsets is missing, or the name is another";
  for (size_t i = 0; ok && right && i < json_array_size(list); i++) {
    struct rrset rrset;
    bool twice = false;
    what = "an RRset is malformed";
    right = check_rrset(&r, json_array_get(list, i), &rrset);
    if (!right)
      break;
    if (json_array_size(rrset.records) == 0) /* only comments are left of it */
      continue;
    ok = keep(&r, &rrset, &twice);
    what = "an RRset is there twice";
    right = !twice;
    if (ok && right)
      ok = strcasecmp(rrset.type, "LUA") == 0 ? add_lua(&r, &rrset) : add_plain(&r, &rrset);
  }
  ok = ok && part_keys(out);
  *secondary = kind && (strcasecmp(kind, "Slave") == 0 || strcasecmp(kind, "Secondary") == 0 ||
                        strcasecmp(kind, "Consumer") == 0);
  *rrsets = r.rrsets;
  if (ok && right)
    return true;
  json_decref(r.rrsets);
  *rrsets = NULL;
  return ok ? garbage(error, provider, zone, what)
            : provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", provider);
}
