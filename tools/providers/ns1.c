/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IBM NS1 Connect by its API (ns1.com/api): records with answers, regions and filter chains.
 *
 * Steered records carry our mark in their notes.  For plain ones the marks are TXT records: a note
 * at each would take a request for each to read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "steering/model.h"
#include "tools/providers/ns1_private.h"
#include "tools/providers/web.h"

enum { WHAT = 300 };

/* ---- open and close ------------------------------------------------------------------------- */

static void ns1_close(void *self) {
  struct ns1 *n = self;
  if (!n)
    return;
  for (int i = 0; i < NS1_METHODS; i++)
    http_close(n->http[i]);
  ns1_feeds_forget(n);
  json_decref(n->labels);
  secret_wipe_text(n->secret_header);
  free(n->name);
  free(n->base);
  free(n->marker);
  free(n);
}

/* True if health is pushed, and by feeds. */
static bool wants_feeds(const json_t *settings) {
  const char *health = json_string_value(json_object_get(settings, "health"));
  return (!health || strcmp(health, "pushed") == 0) &&
         !json_is_false(json_object_get(settings, "feeds"));
}

static void *ns1_open(const struct provider_context *context, struct provider_error *error) {
  const char *url = json_string_value(json_object_get(context->settings, "url"));
  struct http_options options = web_options(context);
  struct ns1 *n = calloc(1, sizeof *n);
  if (!n) {
    web_no_memory(context->name, error);
    return NULL;
  }
  n->name = strdup(context->name);
  n->base = web_base(url ? url : "https://api.nsone.net/v1", "");
  n->marker = strdup(context->marker ? context->marker : "sluice");
  n->labels = json_object();
  n->read_only = context->read_only;
  n->feeds = wants_feeds(context->settings);
  bool ok = n->name && n->base && n->marker && n->labels;
  for (int i = 0; ok && i < NS1_METHODS; i++)
    ok = (n->http[i] = http_open(&options)) != NULL;
  n->secret_header = ok ? web_secret(context, "X-NSONE-Key: ", "the API key", error) : NULL;
  if (n->secret_header)
    return n;
  if (!ok)
    web_no_memory(context->name, error);
  ns1_close(n);
  return NULL;
}

static void ns1_select(void *self, const char *const *names, size_t count) {
  struct ns1 *n = self;
  n->names = names;
  n->name_count = count;
}

/* ---- compile and decompile ------------------------------------------------------------------ */

static struct provider_object *named(struct provider_objects *out, const char *name,
                                     const char *type) {
  struct provider_object *object = provider_objects_add(out);
  if (!object)
    return NULL;
  object->name = strdup(name);
  object->type = strdup(type);
  if (asprintf(&object->key, "%s/%s", name, type) < 0)
    object->key = NULL;
  return object->name && object->type && object->key ? object : NULL;
}

struct provider_object *ns1_add_record(struct provider_objects *out, const char *name,
                                       const char *type, json_t *body) {
  json_t *values = json_object_get(body, "values");
  struct provider_object *object;
  if (values) {
    uint32_t ttl = (uint32_t)json_integer_value(json_object_get(body, "ttl"));
    object = provider_add_rrset(out, name, type, ttl, json_incref(values));
    json_decref(body);
    return object;
  }
  object = body ? named(out, name, type) : NULL;
  if (object)
    object->body = body;
  else
    json_decref(body);
  return object;
}

/* Two endpoints must not share a feed, however unlikely it is that their names have one digest. */
static bool check_label(struct ns1 *n, const char *key, const char *domain, const char *endpoint,
                        const char *type, struct provider_error *error) {
  char *what;
  if (asprintf(&what, "%s %s %s", domain, type, endpoint) < 0)
    return web_no_memory(n->name, error);
  const char *other = json_string_value(json_object_get(n->labels, key));
  bool ok = !other || strcmp(other, what) == 0;
  if (!ok)
    provider_fail(error, PROVIDER_REFUSED,
                  "%s: %.200s: the endpoints %.60s and %.100s would have one feed; rename one",
                  n->name, domain, endpoint, other);
  else if (json_object_set_new(n->labels, key, json_string(what)) != 0)
    ok = web_no_memory(n->name, error);
  free(what);
  return ok;
}

static bool add_feeds(struct ns1 *n, const char *domain, const char *type, const json_t *feeds,
                      struct provider_objects *out, struct provider_error *error) {
  const char *key;
  json_t *feed;
  json_object_foreach((json_t *)(uintptr_t)feeds, key, feed) {
    const char *endpoint = json_string_value(json_object_get(feed, "endpoint"));
    if (!check_label(n, key, domain, endpoint, type, error))
      return false;
    if (!ns1_feed_add(out, domain, endpoint, type, key, json_is_true(json_object_get(feed, "up"))))
      return web_no_memory(n->name, error);
  }
  return true;
}

static bool compile_type(struct ns1 *n, const struct provider_domain *domain, enum steer_type type,
                         struct provider_objects *out, struct provider_error *error) {
  static const char *const types[STEER_TYPES] = {"A", "AAAA", "CNAME"};
  json_t *feeds = json_object();
  json_t *body =
      feeds ? ns1_compile_type(n->name, n->marker, domain, type, n->feeds ? feeds : NULL, error)
            : NULL;
  bool ok = body || (!feeds && web_no_memory(n->name, error));
  if (ok) {
    struct provider_object *object = ns1_add_record(out, domain->name, types[type], body);
    ok = (object && (object->domain = strdup(domain->name))) || web_no_memory(n->name, error);
  }
  ok = ok && add_feeds(n, domain->name, types[type], feeds, out, error);
  json_decref(feeds);
  return ok;
}

static bool ns1_compile(void *self, const struct provider_domain *domain,
                        struct provider_objects *out, struct provider_fidelity *fidelity,
                        struct provider_error *error) {
  ns1_judge(domain, fidelity);
  for (int t = 0; t < STEER_TYPES; t++)
    if (domain->steer->offers[t] && !compile_type(self, domain, (enum steer_type)t, out, error))
      return false;
  return true;
}

static json_t *ns1_document(void *self, const struct provider_object *const *objects, size_t count,
                            struct provider_error *error) {
  const struct ns1 *n = self;
  return ns1_decompile(n->name, n->marker, objects, count, error);
}

/* ---- zones ---------------------------------------------------------------------------------- */

static bool zone_request(struct ns1 *n, enum ns1_method method, const char *zone, json_t *body,
                         json_t **out, struct provider_error *error) {
  char what[WHAT];
  snprintf(what, sizeof what, "zone %.255s", zone);
  return ns1_request(n, method, ns1_url(n, "zones", zone, NULL, NULL), body, false, what, out, NULL,
                     error);
}

static json_t *ns1_servers(void *self, const char *zone, struct provider_error *error) {
  struct ns1 *n = self;
  json_t *document = NULL;
  json_t *out = json_array();
  size_t i;
  const json_t *item;
  bool ok = out && zone_request(n, NS1_GET, zone, NULL, &document, error);
  json_array_foreach(json_object_get(document, "dns_servers"), i, item) {
    char *name = ns1_absolute(json_string_value(item));
    ok = ok && name && json_array_append_new(out, json_string(name)) == 0;
    free(name);
  }
  if (document && (!ok || json_array_size(out) == 0))
    ok = ns1_garbage(n, zone, "its name servers are missing", error);
  json_decref(document);
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

static bool ns1_create_zone(void *self, const char *zone, struct provider_error *error) {
  struct ns1 *n = self;
  size_t len = strlen(zone);
  json_t *body = json_pack("{s:o}", "zone", json_stringn(zone, len > 1 ? len - 1 : len));
  return body ? zone_request(n, NS1_PUT, zone, body, NULL, error) : web_no_memory(n->name, error);
}

static bool ns1_delete_zone(void *self, const char *zone, struct provider_error *error) {
  return zone_request(self, NS1_DELETE, zone, NULL, NULL, error);
}

const struct provider_kind provider_ns1 = {
    .type = "ns1",
    .can = {.steers = true,
            .apex_ns = true,
            .names_servers = true,
            .weight_max = STEER_MAX_WEIGHT,
            .pushed = true},
    .open = ns1_open,
    .close = ns1_close,
    .select = ns1_select,
    .read = ns1_read,
    .compile = ns1_compile,
    .decompile = ns1_document,
    .apply = ns1_apply,
    .servers = ns1_servers,
    .create_zone = ns1_create_zone,
    .delete_zone = ns1_delete_zone,
};
