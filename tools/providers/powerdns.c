/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PowerDNS Authoritative by its HTTP API (doc.powerdns.com/authoritative/http-api): zones as
 * RRsets, steering as LUA records.
 *
 * A zone is read in one request and changed in one (of at most 1 MiB), which is atomic.  Every
 * PATCH, even an empty one, makes a new serial: none is sent without a reason.  What is ours
 * carries a comment.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "steering/model.h"
#include "tools/providers/powerdns_private.h"
#include "tools/providers/powerdns_text.h"
#include "tools/providers/web.h"
#include "zones/domain_json.h"

enum { REPLY_TEXT = 200 };

/* ---- open and close ------------------------------------------------------------------------- */

static void pd_close(void *self) {
  struct powerdns *pd = self;
  if (!pd)
    return;
  http_close(pd->http);
  secret_wipe_text(pd->secret_header);
  free(pd->name);
  free(pd->base);
  free(pd->marker);
  free(pd->zone);
  json_decref(pd->rrsets);
  free(pd);
}

/* "https://host:port" stands for the API of that server; an address with "/servers/" is it. */
static char *base_of(const char *url) {
  return web_base(url, strstr(url, "/servers/") ? "" : "/api/v1/servers/localhost");
}

static void *pd_open(const struct provider_context *context, struct provider_error *error) {
  const char *url = json_string_value(json_object_get(context->settings, "url"));
  if (!url) {
    provider_fail(error, PROVIDER_LOCAL,
                  "%s: `url` is missing: the address of PowerDNS's web server", context->name);
    return NULL;
  }
  struct powerdns *pd = calloc(1, sizeof *pd);
  if (!pd) {
    web_no_memory(context->name, error);
    return NULL;
  }
  struct http_options options = web_options(context);
  pd->name = strdup(context->name);
  pd->base = base_of(url);
  pd->marker = strdup(context->marker ? context->marker : "sluice");
  pd->read_only = context->read_only;
  pd->http = http_open(&options);
  bool ok = pd->name && pd->base && pd->marker && pd->http;
  pd->secret_header = ok ? web_secret(context, "X-API-Key: ", "the API key", error) : NULL;
  if (pd->secret_header)
    return pd;
  if (!ok)
    web_no_memory(context->name, error);
  pd_close(pd);
  return NULL;
}

/* ---- requests ------------------------------------------------------------------------------- */

/* What the server says of an error: {"error": "..."}, or text in the first line. */
static void reply_text(const struct http_reply *reply, char out[REPLY_TEXT]) {
  json_t *json = json_loadb(reply->body, reply->body_len, 0, NULL);
  const char *text = json_string_value(json_object_get(json, "error"));
  if (!text)
    text = json || reply->body[0] == '<' ? "" : reply->body;
  snprintf(out, REPLY_TEXT, "%.*s", (int)strcspn(text, "\r\n"), text);
  json_decref(json);
}

static bool judge(const struct powerdns *pd, const struct http_reply *reply, const char *what,
                  struct provider_error *error) {
  char text[REPLY_TEXT];
  const char *n = pd->name;
  if (reply->status >= 200 && reply->status < 300)
    return true;
  reply_text(reply, text);
  switch (reply->status) {
  case 401:
  case 403:
    return provider_fail(
        error, PROVIDER_DENIED,
        "%s: the API key is refused; compare the provider's `secret` with `api-key` "
        "in pdns.conf (and `webserver-allow-from`)",
        n);
  case 404:
    return provider_fail(error, PROVIDER_GONE,
                         "%s: %s is not there; create it, or check the provider's `url`", n, what);
  case 409:
    return provider_fail(error, PROVIDER_CONFLICT, "%s: %s is there already", n, what);
  case 400:
  case 422:
    return provider_fail(error, PROVIDER_REFUSED, "%s: %s is refused: %s", n, what, text);
  case 413:
    return provider_fail(error, PROVIDER_REFUSED,
                         "%s: the change of %s is too large; raise `webserver-max-bodysize` in "
                         "pdns.conf",
                         n, what);
  case 429:
    return provider_fail(error, PROVIDER_THROTTLED, "%s: too many requests; try again later", n);
  default:
    break;
  }
  if (reply->status >= 500)
    return provider_fail(error, PROVIDER_UNREACHABLE,
                         "%s: %s: the server fails with status %ld: %s", n, what, reply->status,
                         text);
  return provider_fail(error, PROVIDER_GARBAGE,
                       "%s: %s: status %ld is none of PowerDNS's API; check the provider's `url`",
                       n, what, reply->status);
}

/* Sends and judges.  `body` may be NULL; *out (if not NULL) is a new reference to the reply. */
static bool request(struct powerdns *pd, const char *method, const char *path, const json_t *body,
                    const char *what, json_t **out, struct provider_error *error) {
  static const char *const headers[] = {"Accept: application/json",
                                        "Content-Type: application/json", NULL};
  char why[HTTP_WHY] = "";
  struct http_reply reply = {0};
  char *url = NULL;
  char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
  if (asprintf(&url, "%s%s", pd->base, path) < 0)
    url = NULL;
  if (!url || (body && !text)) {
    free(url);
    free(text);
    return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", pd->name);
  }
  /* A PATCH may be sent twice: the second does the same again, for one more serial.  Making and
   * removing a zone may not: the second would say that it is there, or gone. */
  bool again = strcmp(method, "PATCH") == 0;
  struct http_request r = {.method = method,
                           .url = url,
                           .headers = headers,
                           .secret_header = pd->secret_header,
                           .body = text,
                           .body_len = text ? strlen(text) : 0,
                           .idempotent = again};
  bool ok = http_send(pd->http, &r, &reply, why);
  if (!ok)
    provider_fail(error, PROVIDER_UNREACHABLE, "%s: %s: %s", pd->name, what, why);
  else
    ok = judge(pd, &reply, what, error);
  if (ok && out) {
    *out = json_loadb(reply.body, reply.body_len, 0, NULL);
    if (!*out)
      ok = provider_fail(error, PROVIDER_GARBAGE,
                         "%s: the reply about %s is no JSON; check the provider's `url`", pd->name,
                         what);
  }
  http_reply_close(&reply);
  free(url);
  free(text);
  return ok;
}

/* The path of a zone: characters beside letters, digits, dots and dashes are =XX there. */
static bool zone_path(const char *zone, char *out, size_t size) {
  size_t n = (size_t)snprintf(out, size, "/zones/");
  for (const char *p = zone; *p; p++) {
    if (n + 4 >= size)
      return false;
    unsigned char c = (unsigned char)*p;
    bool plain = isalnum(c) || c == '.' || c == '-';
    n += (size_t)snprintf(out + n, size - n, plain ? "%c" : "=%02X", c);
  }
  if (n > 0 && out[n - 1] != '.' && n + 1 < size)
    memcpy(out + n, ".", 2);
  return true;
}

static bool zone_request(struct powerdns *pd, const char *method, const char *zone,
                         const json_t *body, json_t **out, struct provider_error *error) {
  char path[4096];
  char what[300];
  snprintf(what, sizeof what, "zone %.255s", zone);
  if (!zone_path(zone, path, sizeof path))
    return provider_fail(error, PROVIDER_LOCAL, "%s: the name of the zone is too long", pd->name);
  return request(pd, method, path, body, what, out, error);
}

/* ---- the server's settings ------------------------------------------------------------------ */

static const char *setting(const json_t *config, const char *name) {
  size_t i;
  const json_t *item;
  json_array_foreach(config, i, item) {
    const char *n = json_string_value(json_object_get(item, "name"));
    if (n && strcmp(n, name) == 0)
      return json_string_value(json_object_get(item, "value"));
  }
  return NULL;
}

static bool is_on(const char *value) {
  return value && strcmp(value, "no") != 0 && strcmp(value, "off") != 0;
}

/* Asks once.  That a server does not tell is no error: then it is taken to be set up well. */
static void ask_server(struct powerdns *pd) {
  struct provider_error ignored;
  json_t *config = NULL;
  if (pd->asked)
    return;
  pd->asked = true;
  if (!request(pd, "GET", "/config", NULL, "the settings", &config, &ignored))
    return;
  const char *launch = setting(config, "launch");
  const char *files = setting(config, "geoip-database-files");
  pd->server.known = launch && setting(config, "enable-lua-records");
  pd->server.lua = is_on(setting(config, "enable-lua-records"));
  pd->server.subnet = is_on(setting(config, "edns-subnet-processing"));
  pd->server.places = launch && strstr(launch, "geoip") && files && *files;
  pd->server.as_numbers = files && strpbrk(files, ", ");
  json_decref(config);
}

/* ---- read ----------------------------------------------------------------------------------- */

static void forget(struct powerdns *pd) {
  free(pd->zone);
  json_decref(pd->rrsets);
  pd->zone = NULL;
  pd->rrsets = NULL;
}

static bool pd_read(void *self, const char *zone, struct provider_objects *out,
                    struct provider_error *error) {
  struct powerdns *pd = self;
  json_t *document = NULL;
  forget(pd);
  if (!zone_request(pd, "GET", zone, NULL, &document, error))
    return false;
  bool ok =
      powerdns_read_document(pd->name, zone, document, out, &pd->rrsets, &pd->secondary, error);
  json_decref(document);
  if (!ok)
    return false;
  pd->zone = strdup(zone);
  if (!pd->zone)
    return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", pd->name);
  ask_server(pd);
  return true;
}

/* ---- compile -------------------------------------------------------------------------------- */

static const char *const qtypes[STEER_TYPES] = {"A", "AAAA", "CNAME"};

static bool too_large(const struct powerdns *pd, const struct provider_domain *domain,
                      struct provider_error *error) {
  return provider_fail(error, PROVIDER_REFUSED,
                       "%s: %.255s does not fit into a LUA record of %d octets; give it fewer "
                       "endpoints or regions",
                       pd->name, domain->name, POWERDNS_CONTENT_MAX);
}

static bool compile_type(struct powerdns *pd, const struct provider_domain *domain,
                         enum steer_type type, const char *model,
                         const struct powerdns_probe *probe, struct provider_objects *out,
                         struct provider_error *error) {
  struct buf code;
  buf_init(&code);
  powerdns_lua_code(domain, type, probe, &code);
  const char *text = buf_text(&code);
  bool ok = !code.failed;
  char *content = ok ? powerdns_wrap(qtypes[type], model, text) : NULL;
  /* Without what it was made from it still can be compared, but not be imported. */
  if (ok && !content && model)
    content = powerdns_wrap(qtypes[type], NULL, text);
  buf_close(&code);
  if (!ok)
    return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", pd->name);
  if (!content)
    return too_large(pd, domain, error);
  ok = powerdns_add_lua(out, domain->name, qtypes[type], domain->steer->ttl, content) != NULL;
  free(content);
  return ok ? true : provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", pd->name);
}

static bool compile_all(struct powerdns *pd, const struct provider_domain *domain,
                        const struct powerdns_probe *probe, struct provider_objects *out,
                        struct provider_error *error) {
  json_t *model = powerdns_lua_model(domain, domain->pushed);
  if (model && probe) /* all endpoints are checked alike */
    json_object_set(model, "check",
                    json_object_get(domain->health, domain->steer->endpoints[0].name));
  char *text = model ? json_dumps(model, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
  bool ok = text != NULL;
  bool first = true;
  json_decref(model);
  if (!ok)
    return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", pd->name);
  for (int t = 0; ok && t < STEER_TYPES; t++) {
    if (!domain->steer->offers[t])
      continue;
    ok = compile_type(pd, domain, (enum steer_type)t, first ? text : NULL, probe, out, error);
    first = false;
  }
  free(text);
  return ok;
}

static bool compile_static(struct powerdns *pd, const struct provider_domain *domain,
                           struct provider_objects *out, struct provider_fidelity *fidelity,
                           struct provider_error *error) {
  if (!provider_compile_default(domain, out, fidelity))
    return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", pd->name);
  for (int l = 0; l < PROVIDER_LAYERS; l++)
    if (fidelity->grade[l] == FIDELITY_LOST)
      snprintf(fidelity->why[l], sizeof fidelity->why[l],
               "its LUA records are off, so records are static; set enable-lua-records=yes in "
               "pdns.conf");
  return true;
}

static bool pd_compile(void *self, const struct provider_domain *domain,
                       struct provider_objects *out, struct provider_fidelity *fidelity,
                       struct provider_error *error) {
  struct powerdns *pd = self;
  if (pd->server.known && !pd->server.lua)
    return compile_static(pd, domain, out, fidelity, error);
  struct powerdns_probe probe;
  bool native = !domain->pushed && domain->health;
  powerdns_probe_find(domain, &probe);
  powerdns_lua_judge(domain, &pd->server, &probe, fidelity);
  bool ok = compile_all(pd, domain, native && probe.possible ? &probe : NULL, out, error);
  powerdns_probe_close(&probe);
  return ok;
}

/* ---- decompile ------------------------------------------------------------------------------ */

/* True if the document offers exactly the types that the objects have. */
static bool offers_types(const json_t *model, const struct provider_object *const *objects,
                         size_t count) {
  const json_t *types = json_object_get(model, "types");
  if (json_array_size(types) != count)
    return false;
  for (size_t i = 0; i < count; i++) {
    bool found = false;
    for (size_t k = 0; !found && k < count; k++) {
      const char *type = json_string_value(json_array_get(types, i));
      found = type && strcmp(type, objects[k]->type) == 0;
    }
    if (!found)
      return false;
  }
  return true;
}

/* "check" of a record that checks itself, as "health" of each endpoint. */
static bool spread_check(json_t *model) {
  json_t *check = json_object_get(model, "check");
  json_t *health = json_object();
  size_t i;
  const json_t *endpoint;
  bool ok = health;
  const char *type = json_string_value(json_object_get(check, "type"));
  bool known = type && (strcmp(type, "tcp") == 0 || strncmp(type, "http", 4) == 0);
  json_array_foreach(json_object_get(model, "endpoints"), i, endpoint) {
    const char *name = json_string_value(json_object_get(endpoint, "name"));
    ok = ok && name && json_object_set(health, name, check) == 0;
  }
  ok = ok && (!known || json_object_set(model, "health", health) == 0);
  json_decref(health);
  json_object_del(model, "check");
  return ok;
}

static json_t *checked(struct powerdns *pd, json_t *model, const char *name,
                       struct provider_error *error) {
  char why[DOMAIN_JSON_WHY];
  struct steer_domain *steer = domain_json_decode(model, why);
  const char *owner = json_string_value(json_object_get(model, "owner"));
  json_object_del(model, "health");
  bool whole = steer && (!json_is_object(json_object_get(model, "check")) || spread_check(model));
  if (whole && owner && strcmp(owner, name) == 0) {
    steer_domain_free(steer);
    return model;
  }
  provider_fail(error, PROVIDER_GARBAGE, "%s: %.200s: what the record says of itself is wrong: %s",
                pd->name, name, steer ? "it was made for another name" : why);
  steer_domain_free(steer);
  json_decref(model);
  return NULL;
}

static json_t *pd_decompile(void *self, const struct provider_object *const *objects, size_t count,
                            struct provider_error *error) {
  struct powerdns *pd = self;
  json_t *model = NULL;
  const char *name = count ? objects[0]->name : "";
  for (size_t i = 0; i < count; i++) {
    const char *lua = json_string_value(json_object_get(objects[i]->body, "lua"));
    json_t *one = NULL;
    if (objects[i]->opaque || !lua || powerdns_unwrap(lua, &one) != POWERDNS_OURS) {
      provider_fail(error, PROVIDER_GARBAGE,
                    "%s: %.200s %s is not as sluice wrote it: a record made or changed by hand",
                    pd->name, name, objects[i]->type);
      json_decref(model);
      return NULL;
    }
    if (one && !model)
      model = one;
    else
      json_decref(one);
  }
  if (model && offers_types(model, objects, count))
    return checked(pd, model, name, error);
  provider_fail(error, PROVIDER_GARBAGE, "%s: %.200s: %s", pd->name, name,
                model ? "the types of its LUA records are not those of the domain"
                      : "the records are too large to say what they were made from");
  json_decref(model);
  return NULL;
}

/* ---- apply ---------------------------------------------------------------------------------- */

static bool is_read(const struct powerdns *pd, const char *zone) {
  return pd->zone && strcmp(pd->zone, zone) == 0;
}

static bool may_write(const struct powerdns *pd, const char *zone, bool lua,
                      struct provider_error *error) {
  if (pd->secondary)
    return provider_fail(
        error, PROVIDER_REFUSED,
        "%s: zone %.255s is a secondary there, what is written would be lost; make "
        "it native or primary",
        pd->name, zone);
  if (lua && pd->server.known && !pd->server.lua)
    return provider_fail(error, PROVIDER_REFUSED,
                         "%s: LUA records are off there, the names would be empty; set "
                         "enable-lua-records=yes in pdns.conf",
                         pd->name);
  return true;
}

/* How many of the changes are of names in the body. */
static size_t count_changes(const json_t *body, const struct provider_change *changes,
                            size_t count) {
  json_t *names = json_object();
  size_t done = 0;
  size_t i;
  const json_t *item;
  json_array_foreach(json_object_get(body, "rrsets"), i, item) {
    json_object_set_new(names, json_string_value(json_object_get(item, "name")), json_true());
  }
  for (i = 0; i < count; i++)
    if (json_object_get(names, changes[i].new ? changes[i].new->name : changes[i].old->name))
      done++;
  json_decref(names);
  return done;
}

static bool send_all(struct powerdns *pd, const char *zone, const json_t *bodies,
                     const struct provider_change *changes, size_t count, size_t *done,
                     struct provider_error *error) {
  size_t i;
  const json_t *body;
  json_array_foreach(bodies, i, body) {
    if (!zone_request(pd, "PATCH", zone, body, NULL, error))
      return false;
    *done += count_changes(body, changes, count);
  }
  *done = count;
  return true;
}

static bool pd_apply(void *self, const char *zone, const struct provider_change *changes,
                     size_t count, size_t *done, struct provider_error *error) {
  struct powerdns *pd = self;
  bool lua = false;
  *done = 0;
  if (pd->read_only)
    return provider_fail(error, PROVIDER_LOCAL, "%s: opened for reading only", pd->name);
  if (count == 0)
    return true;
  if (!is_read(pd, zone)) {
    struct provider_objects objects;
    provider_objects_init(&objects);
    bool ok = pd_read(pd, zone, &objects, error);
    provider_objects_close(&objects);
    if (!ok)
      return false;
  }
  json_t *bodies = powerdns_patch(pd->name, pd->marker, pd->rrsets, changes, count, &lua, error);
  if (!bodies)
    return false;
  bool ok =
      may_write(pd, zone, lua, error) && send_all(pd, zone, bodies, changes, count, done, error);
  json_decref(bodies);
  forget(pd); /* what is there now, a new read tells */
  return ok;
}

/* ---- zones ---------------------------------------------------------------------------------- */

/* The names in the NS RRset of the apex. */
static json_t *pd_servers(void *self, const char *zone, struct provider_error *error) {
  struct powerdns *pd = self;
  struct provider_objects objects;
  json_t *list = NULL;
  provider_objects_init(&objects);
  if (pd_read(pd, zone, &objects, error)) {
    for (size_t i = 0; i < objects.count && !list; i++)
      if (strcmp(objects.items[i].type, "NS") == 0 && strcasecmp(objects.items[i].name, zone) == 0)
        list = json_deep_copy(json_object_get(objects.items[i].body, "values"));
    if (!list)
      provider_fail(error, PROVIDER_GONE, "%s: zone %.255s has no NS records", pd->name, zone);
  }
  provider_objects_close(&objects);
  return list;
}

static bool pd_create_zone(void *self, const char *zone, struct provider_error *error) {
  struct powerdns *pd = self;
  char what[300];
  snprintf(what, sizeof what, "zone %.255s", zone);
  json_t *body = json_pack("{s:s, s:s, s:[], s:s}", "name", zone, "kind", "Native", "nameservers",
                           "account", pd->marker);
  if (!body)
    return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", pd->name);
  bool ok = request(pd, "POST", "/zones", body, what, NULL, error);
  json_decref(body);
  return ok;
}

static bool pd_delete_zone(void *self, const char *zone, struct provider_error *error) {
  struct powerdns *pd = self;
  forget(pd);
  return zone_request(pd, "DELETE", zone, NULL, NULL, error);
}

const struct provider_kind provider_powerdns = {
    .type = "powerdns",
    .can = {.steers = true,
            .marks = true,
            .apex_ns = true,
            .atomic = true,
            .weight_max = STEER_MAX_WEIGHT,
            .pushed = true,
            .native = true},
    .open = pd_open,
    .close = pd_close,
    .read = pd_read,
    .compile = pd_compile,
    .decompile = pd_decompile,
    .apply = pd_apply,
    .servers = pd_servers,
    .create_zone = pd_create_zone,
    .delete_zone = pd_delete_zone,
};
