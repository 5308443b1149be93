/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/domain_json.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "steering/atom.h"

enum {
  MAX_NAME = 63,         /* of an endpoint */
  MAX_REGION_NAME = 255, /* a region may be spelled as a prefix */
  MAX_ADDRESSES = 2000,  /* of one family, as in the configuration */
  MAX_WORD = 64,
};

static const char *const draw_words[] = {[DRAW_PER_QUERY] = "query", [DRAW_PER_SUBNET] = "subnet"};
static const char *const type_words[STEER_TYPES] = {"A", "AAAA", "CNAME"};

/* ---- writing ----------------------------------------------------------------------------------
 */

static bool append(json_t *list, json_t *value) {
  return json_array_append_new(list, value) == 0;
}

static json_t *name_text(const uint8_t *wire) {
  char text[NAME_MAX_TEXT];
  return json_string(name_to_text(text, wire));
}

static bool append_address(json_t *list, int family, const void *octets) {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(family, octets, text, sizeof text) && append(list, json_string(text));
}

static json_t *addresses_json(const struct steer_endpoint *e) {
  json_t *list = json_array();
  bool ok = list != NULL;
  for (uint32_t i = 0; ok && i < e->addr4_count; i++)
    ok = append_address(list, AF_INET, e->addr4[i]);
  for (uint32_t i = 0; ok && i < e->addr6_count; i++)
    ok = append_address(list, AF_INET6, e->addr6[i]);
  if (ok)
    return list;
  json_decref(list);
  return NULL;
}

static json_t *endpoint_json(const struct steer_endpoint *e) {
  return json_pack("{s:s, s:b, s:o}", "name", e->name, "enabled", e->enabled,
                   e->host ? "host" : "addresses",
                   e->host ? name_text(e->host) : addresses_json(e));
}

static json_t *endpoints_json(const struct steer_domain *d) {
  json_t *list = json_array();
  for (uint32_t i = 0; list && i < d->endpoint_count; i++) {
    if (append(list, endpoint_json(&d->endpoints[i])))
      continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

static json_t *level_json(const struct steer_domain *d, const struct steer_level *level) {
  json_t *list = json_array();
  for (uint32_t i = 0; list && i < level->entry_count; i++) {
    const struct steer_entry *entry = &level->entries[i];
    if (append(list, json_pack("[s, i]", d->endpoints[entry->endpoint].name, (int)entry->weight)))
      continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

static json_t *levels_json(const struct steer_domain *d, const struct steer_region *region) {
  json_t *list = json_array();
  for (uint32_t i = 0; list && i < region->level_count; i++) {
    if (append(list, level_json(d, &region->levels[i])))
      continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

static json_t *atoms_json(const struct steer_region *region) {
  json_t *list = json_array();
  for (uint32_t i = 0; list && i < region->atom_count; i++) {
    char text[MAX_WORD];
    if (append(list, json_string(steer_atom_text(&region->atoms[i], text))))
      continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

static json_t *regions_json(const struct steer_domain *d) {
  json_t *list = json_array();
  for (uint32_t i = 0; list && i < d->region_count; i++) {
    const struct steer_region *region = &d->regions[i];
    if (append(list, json_pack("{s:s, s:o, s:o}", "name", region->name, "atoms", atoms_json(region),
                               "levels", levels_json(d, region))))
      continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

static json_t *types_json(const struct steer_domain *d) {
  json_t *list = json_array();
  bool ok = list != NULL;
  for (int t = 0; ok && t < STEER_TYPES; t++)
    ok = !d->offers[t] || append(list, json_string(type_words[t]));
  if (ok)
    return list;
  json_decref(list);
  return NULL;
}

json_t *domain_json_encode(const struct steer_domain *domain) {
  return json_pack("{s:o, s:I, s:i, s:s, s:o, s:o, s:o}", "owner", name_text(domain->owner), "ttl",
                   (json_int_t)domain->ttl, "answers", (int)domain->answers, "draw_per",
                   draw_words[domain->draw_per], "types", types_json(domain), "endpoints",
                   endpoints_json(domain), "regions", regions_json(domain));
}

/* ---- reading ----------------------------------------------------------------------------------
 */

struct reading {
  struct steer_domain *domain;
  json_t *indexes; /* endpoint -> its index */
  char *why;
};

static bool refuse(struct reading *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(struct reading *r, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(r->why, DOMAIN_JSON_WHY, format, args);
  va_end(args);
  return false;
}

static bool no_memory(struct reading *r) {
  return refuse(r, "not enough memory");
}

/* Names come into messages and logs: nothing but visible ASCII. */
static bool is_name(const char *text, size_t limit) {
  size_t len = text ? strlen(text) : 0;
  for (size_t i = 0; i < len; i++)
    if (text[i] <= ' ' || text[i] > '~')
      return false;
  return len >= 1 && len <= limit;
}

static bool read_number(struct reading *r, const json_t *json, const char *key, json_int_t least,
                        json_int_t most, json_int_t *out) {
  const json_t *value = json_object_get(json, key);
  *out = json_integer_value(value);
  if (json_is_integer(value) && *out >= least && *out <= most)
    return true;
  return refuse(r, "\"%s\" is not a whole number from %lld to %lld", key, (long long)least,
                (long long)most);
}

/* A list of 1 to `limit` items. */
static const json_t *read_list(struct reading *r, const json_t *json, const char *key,
                               size_t limit) {
  const json_t *list = json_object_get(json, key);
  size_t count = json_array_size(list);
  if (count >= 1 && count <= limit)
    return list;
  refuse(r, "\"%s\" is not a list of 1 to %zu items", key, limit);
  return NULL;
}

/* A padded wire name in lower case. */
static uint8_t *read_wire(struct reading *r, const json_t *value, const char *what) {
  uint8_t wire[NAME_BUF];
  const char *text = json_string_value(value);
  const char *why = "it is no text";
  if (!text || !name_from_text(wire, text, strlen(text), NULL, &why)) {
    refuse(r, "%s is not a name: %s", what, why);
    return NULL;
  }
  uint8_t *name = calloc(1, NAME_BUF);
  if (name)
    name_copy_lower(name, wire);
  else
    no_memory(r);
  return name;
}

static bool add_address(struct steer_endpoint *e, const char *text) {
  uint8_t octets[16];
  if (!text)
    return false;
  if (inet_pton(AF_INET, text, octets) == 1 && e->addr4_count < MAX_ADDRESSES)
    memcpy(e->addr4[e->addr4_count++], octets, 4);
  else if (inet_pton(AF_INET6, text, octets) == 1 && e->addr6_count < MAX_ADDRESSES)
    memcpy(e->addr6[e->addr6_count++], octets, 16);
  else
    return false;
  return true;
}

static bool read_addresses(struct reading *r, struct steer_endpoint *e, const json_t *json) {
  const json_t *list = read_list(r, json, "addresses", (size_t)2 * MAX_ADDRESSES);
  if (!list)
    return false;
  size_t count = json_array_size(list);
  e->addr4 = calloc(count, sizeof *e->addr4);
  e->addr6 = calloc(count, sizeof *e->addr6);
  if (!e->addr4 || !e->addr6)
    return no_memory(r);
  for (size_t i = 0; i < count; i++)
    if (!add_address(e, json_string_value(json_array_get(list, i))))
      return refuse(r, "endpoint %s: \"addresses\" holds what is no address, or more than %d",
                    e->name, MAX_ADDRESSES);
  return true;
}

static bool read_endpoint(struct reading *r, const json_t *json) {
  struct steer_domain *d = r->domain;
  struct steer_endpoint *e = &d->endpoints[d->endpoint_count++];
  const char *name = json_string_value(json_object_get(json, "name"));
  if (!is_name(name, MAX_NAME))
    return refuse(r, "\"name\" of endpoint %u is not 1 to %d visible ASCII characters",
                  d->endpoint_count, MAX_NAME);
  e->name = strdup(name);
  if (!e->name)
    return no_memory(r);
  if (json_object_get(r->indexes, name))
    return refuse(r, "the endpoint %s is there twice", name);
  if (json_object_set_new(r->indexes, name, json_integer(d->endpoint_count - 1)) != 0)
    return no_memory(r);
  const json_t *enabled = json_object_get(json, "enabled");
  if (!json_is_boolean(enabled))
    return refuse(r, "endpoint %s: \"enabled\" is neither true nor false", name);
  e->enabled = json_is_true(enabled);
  const json_t *host = json_object_get(json, "host");
  if (!host)
    return read_addresses(r, e, json);
  e->host = read_wire(r, host, "\"host\" of an endpoint");
  return e->host != NULL;
}

static bool read_endpoints(struct reading *r, const json_t *json) {
  struct steer_domain *d = r->domain;
  const json_t *list = read_list(r, json, "endpoints", STEER_MAX_ENDPOINTS);
  if (!list)
    return false;
  d->endpoints = calloc(json_array_size(list), sizeof *d->endpoints);
  r->indexes = json_object();
  if (!d->endpoints || !r->indexes)
    return no_memory(r);
  for (size_t i = 0; i < json_array_size(list); i++)
    if (!read_endpoint(r, json_array_get(list, i)))
      return false;
  return true;
}

static bool read_entry(struct reading *r, struct steer_entry *entry, const json_t *json) {
  const char *name = json_string_value(json_array_get(json, 0));
  const json_t *weight = json_array_get(json, 1);
  const json_t *index = name ? json_object_get(r->indexes, name) : NULL;
  if (json_array_size(json) != 2 || !name || !json_is_integer(weight))
    return refuse(r, "an entry of a level is not [endpoint, weight]");
  if (!index)
    return refuse(r, "a level names the endpoint \"%.63s\", which does not exist",
                  is_name(name, MAX_NAME) ? name : "?");
  if (json_integer_value(weight) < 0 || json_integer_value(weight) > STEER_MAX_WEIGHT)
    return refuse(r, "a weight of endpoint %s is not in 0..%d", name, STEER_MAX_WEIGHT);
  entry->endpoint = (uint16_t)json_integer_value(index);
  entry->weight = (uint16_t)json_integer_value(weight);
  return true;
}

static bool read_level(struct reading *r, struct steer_level *level, const json_t *json) {
  size_t count = json_array_size(json);
  if (count < 1 || count > r->domain->endpoint_count)
    return refuse(r, "a level is not a list of 1 to %u entries", r->domain->endpoint_count);
  level->entries = calloc(count, sizeof *level->entries);
  if (!level->entries)
    return no_memory(r);
  for (; level->entry_count < count; level->entry_count++)
    if (!read_entry(r, &level->entries[level->entry_count],
                    json_array_get(json, level->entry_count)))
      return false;
  if (count > UINT32_MAX - r->domain->entry_count)
    return refuse(r, "too many entries");
  r->domain->entry_count += (uint32_t)count;
  return true;
}

static bool read_atoms(struct reading *r, struct steer_region *region, const json_t *json) {
  const json_t *list = read_list(r, json, "atoms", UINT32_MAX);
  if (!list)
    return false;
  region->atoms = calloc(json_array_size(list), sizeof *region->atoms);
  if (!region->atoms)
    return no_memory(r);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *text = json_string_value(json_array_get(list, i));
    const char *why = NULL;
    if (!text || !steer_atom_parse(text, &region->atoms[region->atom_count], &why))
      return refuse(r, "region %s: an atom is wrong: %s", region->name,
                    why ? why : "it is none of the known forms");
    region->atom_count++;
  }
  return true;
}

static bool read_region(struct reading *r, const json_t *json) {
  struct steer_domain *d = r->domain;
  struct steer_region *region = &d->regions[d->region_count++];
  const char *name = json_string_value(json_object_get(json, "name"));
  if (!is_name(name, MAX_REGION_NAME))
    return refuse(r, "\"name\" of region %u is not 1 to %d visible ASCII characters",
                  d->region_count, MAX_REGION_NAME);
  region->name = strdup(name);
  if (!region->name)
    return no_memory(r);
  if (!read_atoms(r, region, json))
    return false;
  const json_t *levels = read_list(r, json, "levels", UINT16_MAX);
  if (!levels)
    return false;
  region->levels = calloc(json_array_size(levels), sizeof *region->levels);
  if (!region->levels)
    return no_memory(r);
  for (size_t i = 0; i < json_array_size(levels); i++)
    if (!read_level(r, &region->levels[region->level_count++], json_array_get(levels, i)))
      return false;
  return true;
}

static int by_name_without_case(const void *a, const void *b) {
  const struct steer_region *const *x = a, *const *y = b;
  return strcasecmp((*x)->name, (*y)->name);
}

static bool check_region_names(struct reading *r) {
  const struct steer_domain *d = r->domain;
  const struct steer_region **sorted = calloc(d->region_count, sizeof(void *));
  if (!sorted)
    return no_memory(r);
  for (uint32_t i = 0; i < d->region_count; i++)
    sorted[i] = &d->regions[i];
  qsort(sorted, d->region_count, sizeof(void *), by_name_without_case);
  bool ok = true;
  for (uint32_t i = 1; ok && i < d->region_count; i++)
    if (strcasecmp(sorted[i - 1]->name, sorted[i]->name) == 0)
      ok = refuse(r, "the region %s is there twice", sorted[i]->name);
  free(sorted);
  return ok;
}

static bool read_regions(struct reading *r, const json_t *json) {
  struct steer_domain *d = r->domain;
  const json_t *list = read_list(r, json, "regions", UINT16_MAX);
  if (!list)
    return false;
  d->regions = calloc(json_array_size(list), sizeof *d->regions);
  if (!d->regions)
    return no_memory(r);
  for (size_t i = 0; i < json_array_size(list); i++)
    if (!read_region(r, json_array_get(list, i)))
      return false;
  return check_region_names(r);
}

static bool read_types(struct reading *r, const json_t *json) {
  const json_t *list = read_list(r, json, "types", 2);
  if (!list)
    return false;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *word = json_string_value(json_array_get(list, i));
    int t = 0;
    while (word && t < STEER_TYPES && strcmp(word, type_words[t]) != 0)
      t++;
    if (!word || t == STEER_TYPES)
      return refuse(r, "\"types\" holds something else than A, AAAA and CNAME");
    r->domain->offers[t] = true;
  }
  if (r->domain->offers[STEER_CNAME] && json_array_size(list) > 1)
    return refuse(r, "\"types\" holds CNAME and another");
  return true;
}

static bool read_options(struct reading *r, const json_t *json) {
  struct steer_domain *d = r->domain;
  json_int_t ttl, answers;
  if (!read_number(r, json, "ttl", 0, INT32_MAX, &ttl) ||
      !read_number(r, json, "answers", 1, STEER_MAX_ANSWERS, &answers))
    return false;
  d->ttl = (uint32_t)ttl;
  d->answers = (uint8_t)answers;
  const char *per = json_string_value(json_object_get(json, "draw_per"));
  if (!per || (strcmp(per, draw_words[DRAW_PER_QUERY]) != 0 &&
               strcmp(per, draw_words[DRAW_PER_SUBNET]) != 0))
    return refuse(r, "\"draw_per\" is neither \"query\" nor \"subnet\"");
  d->draw_per = per[0] == 's' ? DRAW_PER_SUBNET : DRAW_PER_QUERY;
  return true;
}

static bool read_domain(struct reading *r, const json_t *json) {
  if (!json_is_object(json))
    return refuse(r, "a domain is not an object");
  r->domain->owner = read_wire(r, json_object_get(json, "owner"), "\"owner\"");
  if (!r->domain->owner || !read_options(r, json) || !read_types(r, json) ||
      !read_endpoints(r, json) || !read_regions(r, json))
    return false;
  const char *why;
  return steer_domain_validate(r->domain, &why) || refuse(r, "%s", why);
}

struct steer_domain *domain_json_decode(const json_t *json, char *why) {
  struct reading r = {.domain = calloc(1, sizeof *r.domain), .why = why};
  if (!r.domain) {
    no_memory(&r);
    return NULL;
  }
  bool ok = read_domain(&r, json);
  json_decref(r.indexes);
  if (ok)
    return r.domain;
  steer_domain_free(r.domain);
  return NULL;
}
