/* SPDX-License-Identifier: Apache-2.0 */
/* From the resource record sets of one domain back to a document (zones/domain_json.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/providers/route53_private.h"
#include "zones/domain_json.h"

enum { LEVELS_MAX = 256 };

struct decompiling {
  const struct provider_object *const *objects;
  size_t count;
  json_t *endpoints; /* name -> {"name", "enabled", "addresses" or "host"} */
  json_t *order;     /* their names, as they came */
  json_t *regions;   /* name -> {"name", "atoms", "levels"} */
  json_t *types;
  json_t *down;   /* type -> names */
  json_t *health; /* endpoint -> settings of its check, if Route 53 probes it itself */
  const char *type;
  json_int_t ttl;
  const char *why;
};

static bool fail(struct decompiling *d, const char *why) {
  d->why = why;
  return false;
}

static const char *text(const struct provider_object *object, const char *key) {
  return json_string_value(json_object_get(object->body, key));
}

/* The word of a set identifier at `index`: "MARK REGION ATOM", "MARK ENDPOINT". */
static bool word(const struct provider_object *object, int index, char out[ROUTE53_IDENTIFIER]) {
  size_t skip = strlen(object->name) + 1 + strlen(object->type);
  if (strlen(object->key) <= skip || object->key[skip] != '/')
    return false;
  const char *at = object->key + skip + 1;
  for (; index > 0 && at; index--) {
    at = strchr(at, ' ');
    at = at ? at + 1 : NULL;
  }
  size_t len = at ? strcspn(at, " ") : 0;
  if (len == 0 || len >= ROUTE53_IDENTIFIER)
    return false;
  memcpy(out, at, len);
  out[len] = '\0';
  return true;
}

static const struct provider_object *find(const struct decompiling *d, const char *name,
                                          const char *failover) {
  for (size_t i = 0; i < d->count; i++) {
    const struct provider_object *o = d->objects[i];
    const char *role = text(o, "failover");
    if (strcmp(o->name, name) == 0 && strcmp(o->type, d->type) == 0 && role &&
        strcmp(role, failover) == 0)
      return o;
  }
  return NULL;
}

/* ---- endpoints ------------------------------------------------------------------------------ */

static bool add_endpoint(struct decompiling *d, const char *name, const struct provider_object *o) {
  const json_t *values = json_object_get(o->body, "values");
  json_t *endpoint = json_object_get(d->endpoints, name);
  if (!endpoint) {
    endpoint = json_pack("{s:s, s:b}", "name", name, "enabled", 1);
    if (json_object_set_new(d->endpoints, name, endpoint) != 0 ||
        json_array_append_new(d->order, json_string(name)) != 0)
      return fail(d, "");
  }
  if (strcmp(d->type, "CNAME") == 0)
    return json_array_size(values) == 1 &&
                   json_object_set(endpoint, "host", json_array_get(values, 0)) == 0
               ? true
               : fail(d, "a host name is not one");
  json_t *addresses = json_object_get(endpoint, "addresses");
  if (!addresses) {
    addresses = json_array();
    json_object_set_new(endpoint, "addresses", addresses);
  }
  size_t i;
  json_t *value;
  json_array_foreach(values, i, value) {
    bool known = false;
    for (size_t k = 0; k < json_array_size(addresses); k++)
      known = known || json_equal(json_array_get(addresses, k), value);
    if (!known)
      json_array_append(addresses, value);
  }
  return true;
}

/* Settings of a check that probes, as zones/config_health.h has them. */
static bool note_settings(struct decompiling *d, const char *name, const json_t *body) {
  static const char *const types[][2] = {{"HTTP", "http"},
                                         {"HTTPS", "https"},
                                         {"HTTP_STR_MATCH", "http"},
                                         {"HTTPS_STR_MATCH", "https"},
                                         {"TCP", "tcp"}};
  const char *type = json_string_value(json_object_get(body, "type"));
  const char *path = json_string_value(json_object_get(body, "path"));
  const char *host = json_string_value(json_object_get(body, "host"));
  const char *search = json_string_value(json_object_get(body, "search"));
  const char *ours = NULL;
  for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
    if (strcmp(type, types[i][0]) == 0)
      ours = types[i][1];
  if (!ours || json_object_get(d->health, name))
    return true;
  json_t *settings =
      json_pack("{s:s, s:I, s:I, s:I}", "type", ours, "port",
                (json_int_t)json_integer_value(json_object_get(body, "port")), "interval",
                (json_int_t)json_integer_value(json_object_get(body, "interval")) * 1000, "fall",
                (json_int_t)json_integer_value(json_object_get(body, "threshold")));
  bool web = strcmp(ours, "tcp") != 0;
  if (settings && web && path)
    json_object_set_new(settings, "path", json_string(path));
  if (settings && web && host)
    json_object_set_new(settings, "host", json_string(host));
  if (settings && web && search)
    json_object_set_new(settings, "expect", json_pack("{s:s}", "body", search));
  return json_object_set_new(d->health, name, settings) == 0;
}

/* An endpoint whose check says down. */
static bool note_down(struct decompiling *d, const char *name, const struct provider_object *o) {
  const char *key = text(o, "health");
  char wanted[64];
  snprintf(wanted, sizeof wanted, ROUTE53_HEALTH "/%.40s", key ? key : "");
  for (size_t i = 0; key && i < d->count; i++) {
    const json_t *body = d->objects[i]->body;
    if (strcmp(d->objects[i]->key, wanted) != 0)
      continue;
    if (!json_is_true(json_object_get(body, "disabled")) && !note_settings(d, name, body))
      return false;
    if (!json_is_true(json_object_get(body, "disabled")) ||
        !json_is_true(json_object_get(body, "inverted")))
      continue;
    json_t *list = json_object_get(d->down, d->type);
    if (!list) {
      list = json_array();
      json_object_set_new(d->down, d->type, list);
    }
    for (size_t k = 0; k < json_array_size(list); k++)
      if (strcmp(json_string_value(json_array_get(list, k)), name) == 0)
        return true;
    return json_array_append_new(list, json_string(name)) == 0;
  }
  return true;
}

/* ---- levels --------------------------------------------------------------------------------- */

static bool has_entry(const json_t *level, const char *name) {
  size_t i;
  const json_t *entry;
  json_array_foreach(level, i, entry) {
    const char *other = json_string_value(json_array_get(entry, 0));
    if (other && strcmp(other, name) == 0)
      return true;
  }
  return false;
}

/* Another type of the same region may add endpoints that the first one does not have. */
static bool add_level(struct decompiling *d, const char *name, json_t *level) {
  bool any = false;
  for (size_t i = 0; i < d->count; i++) {
    const struct provider_object *o = d->objects[i];
    char endpoint[ROUTE53_IDENTIFIER];
    const json_t *weight = json_object_get(o->body, "weight");
    if (strcmp(o->name, name) != 0 || strcmp(o->type, d->type) != 0)
      continue;
    if (!weight || !word(o, 1, endpoint))
      return fail(d, "a group holds a record that is not weighted");
    if (!add_endpoint(d, endpoint, o) || !note_down(d, endpoint, o))
      return false;
    any = true;
    d->ttl = json_integer_value(json_object_get(o->body, "ttl"));
    if (!has_entry(level, endpoint))
      json_array_append_new(level,
                            json_pack("[s, I]", endpoint, (json_int_t)json_integer_value(weight)));
  }
  return any ? true : fail(d, "a group of weighted records is empty");
}

/* Follows the chain of a region from its first name. */
static bool add_chain(struct decompiling *d, const char *name, json_t *levels) {
  for (size_t n = 0; n < LEVELS_MAX; n++) {
    char domain[NAME_MAX_TEXT];
    char kind;
    unsigned number;
    if (!route53_helper_domain(name, domain, &kind, &number))
      return fail(d, "an alias leads to a name that is none of sluice's");
    const struct provider_object *primary = kind == 'f' ? find(d, name, "PRIMARY") : NULL;
    const struct provider_object *secondary = kind == 'f' ? find(d, name, "SECONDARY") : NULL;
    if (kind == 'f' && (!primary || !secondary))
      return fail(d, "a failover pair is not complete");
    json_t *level = json_array_get(levels, n);
    if (!level) {
      level = json_array();
      json_array_append_new(levels, level);
    }
    if (!add_level(d, primary ? text(primary, "alias") : name, level))
      return false;
    if (!secondary)
      return true;
    name = text(secondary, "alias");
  }
  return fail(d, "a failover chain has no end");
}

static bool add_place(struct decompiling *d, const struct provider_object *o) {
  char name[ROUTE53_IDENTIFIER];
  json_t *region;
  json_t *atoms;
  bool known = false;
  if (!word(o, 1, name) || !text(o, "alias"))
    return fail(d, "a geolocation record is not an alias of sluice's");
  region = json_object_get(d->regions, name);
  if (!region) {
    region = json_pack("{s:s, s:[], s:[]}", "name", name, "atoms", "levels");
    if (json_object_set_new(d->regions, name, region) != 0)
      return fail(d, "");
  }
  atoms = json_object_get(region, "atoms");
  for (size_t i = 0; i < json_array_size(atoms); i++)
    known = known || json_equal(json_array_get(atoms, i), json_object_get(o->body, "geo"));
  if (!known)
    json_array_append(atoms, json_object_get(o->body, "geo"));
  return add_chain(d, text(o, "alias"), json_object_get(region, "levels"));
}

/* ---- the whole ------------------------------------------------------------------------------ */

static bool add_type(struct decompiling *d, const char *name, const char *type) {
  bool any = false;
  d->type = type;
  for (size_t i = 0; i < d->count; i++) {
    const struct provider_object *o = d->objects[i];
    if (strcmp(o->name, name) != 0 || strcmp(o->type, type) != 0)
      continue;
    if (o->opaque || !json_object_get(o->body, "geo"))
      return fail(d, "a record made or changed by hand");
    if (!add_place(d, o))
      return false;
    any = true;
  }
  return !any || json_array_append_new(d->types, json_string(type)) == 0;
}

static json_t *values_of(const json_t *map, const json_t *order) {
  json_t *list = json_array();
  size_t i;
  const json_t *name;
  const char *key;
  json_t *value;
  json_array_foreach(order, i, name)
      json_array_append(list, json_object_get(map, json_string_value(name)));
  if (!order)
    json_object_foreach((json_t *)(uintptr_t)map, key, value) json_array_append(list, value);
  return list;
}

static json_t *finish(struct decompiling *d, const char *name, struct provider_error *error,
                      const char *provider) {
  char why[DOMAIN_JSON_WHY] = "";
  json_t *document = json_pack("{s:s, s:I, s:i, s:s, s:O, s:o, s:o, s:O}", "owner", name, "ttl",
                               d->ttl, "answers", 1, "draw_per", "query", "types", d->types,
                               "endpoints", values_of(d->endpoints, d->order), "regions",
                               values_of(d->regions, NULL), "down", d->down);
  if (document && json_object_size(d->health) > 0)
    json_object_set(document, "health", d->health);
  struct steer_domain *steer = document ? domain_json_decode(document, why) : NULL;
  if (steer) {
    steer_domain_free(steer);
    return document;
  }
  json_decref(document);
  provider_fail(error, PROVIDER_GARBAGE, "%s: %.200s is beyond the model: %.200s", provider, name,
                why);
  return NULL;
}

json_t *route53_decompile(const char *provider, const struct provider_object *const *objects,
                          size_t count, struct provider_error *error) {
  static const char *const types[] = {"A", "AAAA", "CNAME"};
  struct decompiling d = {.objects = objects,
                          .count = count,
                          .endpoints = json_object(),
                          .order = json_array(),
                          .regions = json_object(),
                          .types = json_array(),
                          .down = json_object(),
                          .health = json_object()};
  const char *name = count && objects[0]->domain ? objects[0]->domain : "";
  json_t *document = NULL;
  bool ok = d.endpoints && d.order && d.regions && d.types && d.down && d.health;
  for (size_t t = 0; ok && t < 3; t++)
    ok = add_type(&d, name, types[t]);
  if (ok)
    document = finish(&d, name, error, provider);
  else
    provider_fail(error, PROVIDER_GARBAGE, "%s: %.200s is beyond the model: %s", provider, name,
                  d.why ? d.why : "out of memory");
  json_decref(d.endpoints);
  json_decref(d.order);
  json_decref(d.regions);
  json_decref(d.types);
  json_decref(d.down);
  json_decref(d.health);
  return document;
}
