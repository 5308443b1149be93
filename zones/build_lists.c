/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/build_lists.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/name.h"

enum { LIST_FORMAT = 1 };

static int append(const char *text, size_t len, void *arg) {
  struct buf *out = arg;
  buf_add(out, text, len);
  return out->failed ? -1 : 0;
}

bool build_dump(json_t *document, struct buf *out) {
  if (!document)
    return false;
  bool ok = json_dump_callback(document, append, out, JSON_SORT_KEYS | JSON_INDENT(1)) == 0;
  buf_add_str(out, "\n");
  json_decref(document);
  return ok && !out->failed;
}

static json_t *name_json(const uint8_t *wire) {
  char text[NAME_MAX_TEXT];
  return json_string(name_to_text(text, wire));
}

static json_t *text_or_null(const char *text) {
  return text ? json_string(text) : json_null();
}

/* A new reference to something of the model, or null. */
static json_t *shared(json_t *value) {
  return value ? json_incref(value) : json_null();
}

static json_t *setting(const struct model *model, const char *key) {
  return shared(model->settings ? json_object_get(model->settings, key) : NULL);
}

static json_t *addresses_json(const struct steer_endpoint *endpoint) {
  json_t *list = json_array();
  char text[INET6_ADDRSTRLEN];
  bool ok = list;
  for (uint32_t i = 0; ok && i < endpoint->addr4_count; i++)
    ok = inet_ntop(AF_INET, endpoint->addr4[i], text, sizeof text) &&
         json_array_append_new(list, json_string(text)) == 0;
  for (uint32_t i = 0; ok && i < endpoint->addr6_count; i++)
    ok = inet_ntop(AF_INET6, endpoint->addr6[i], text, sizeof text) &&
         json_array_append_new(list, json_string(text)) == 0;
  if (ok)
    return list;
  json_decref(list);
  return NULL;
}

static json_t *endpoint_json(const struct steer_endpoint *endpoint, json_t *health) {
  json_t *object = json_pack("{s:b, s:O}", "enabled", endpoint->enabled, "health", health);
  int rc = -1;
  if (object && endpoint->host)
    rc = json_object_set_new(object, "host", name_json(endpoint->host));
  else if (object)
    rc = json_object_set_new(object, "addresses", addresses_json(endpoint));
  if (rc == 0)
    return object;
  json_decref(object);
  return NULL;
}

static json_t *endpoints_json(const struct model_domain *domain) {
  json_t *object = json_object();
  for (uint32_t i = 0; object && i < domain->steer->endpoint_count; i++) {
    const struct steer_endpoint *endpoint = &domain->steer->endpoints[i];
    json_t *health = json_object_get(domain->health, endpoint->name);
    if (!json_is_object(health))
      continue;
    if (json_object_set_new(object, endpoint->name, endpoint_json(endpoint, health)) == 0)
      continue;
    json_decref(object);
    return NULL;
  }
  return object;
}

static json_t *checks_entry(const struct model_zone *zone, const struct model_domain *domain) {
  return json_pack("{s:o, s:o, s:o, s:o, s:o}", "domain", name_json(domain->steer->owner), "zone",
                   name_json(zone->apex), "owner", text_or_null(domain->owner_text), "alerts",
                   shared(domain->alerts), "endpoints", endpoints_json(domain));
}

/* "zone/name/domain.yaml": the path in the repository, wherever that was checked out. */
static const char *path_in_repository(const char *path) {
  if (!path)
    return NULL;
  unsigned slashes = 0;
  for (const char *p = path + strlen(path); p > path; p--)
    if (p[-1] == '/' && ++slashes == 3)
      return p;
  return path;
}

static json_t *domains_entry(const struct model_zone *zone, const struct model_domain *domain) {
  return json_pack("{s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "domain", name_json(domain->steer->owner),
                   "zone", name_json(zone->apex), "owner", text_or_null(domain->owner_text), "path",
                   text_or_null(path_in_repository(domain->path)), "ttl",
                   (json_int_t)domain->steer->ttl, "profiles", shared(domain->profiles),
                   "providers", shared(domain->providers));
}

static json_t *list_json(const struct model *model, bool checks) {
  json_t *list = json_array();
  for (size_t z = 0; list && z < model->zone_count; z++) {
    const struct model_zone *zone = &model->zones[z];
    for (size_t d = 0; d < zone->domain_count; d++) {
      const struct model_domain *domain = &zone->domains[d];
      if (checks && !domain->health)
        continue;
      json_t *entry = checks ? checks_entry(zone, domain) : domains_entry(zone, domain);
      if (json_array_append_new(list, entry) == 0)
        continue;
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

bool build_checks_json(const struct model *model, struct buf *out) {
  return build_dump(json_pack("{s:i, s:o, s:o}", "format", LIST_FORMAT, "routes",
                              setting(model, "alerts"), "domains", list_json(model, true)),
                    out);
}

bool build_domains_json(const struct model *model, struct buf *out) {
  return build_dump(json_pack("{s:i, s:o, s:o, s:o}", "format", LIST_FORMAT, "default_zone",
                              text_or_null(model->default_zone), "providers",
                              setting(model, "providers"), "domains", list_json(model, false)),
                    out);
}
