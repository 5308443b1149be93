/* SPDX-License-Identifier: Apache-2.0 */
#include "helper.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "steering/atom.h"

const char *helper_path(const char *relative) {
  static char paths[4][1024];
  static unsigned next;
  const char *root = getenv("SLUICE_TESTS_DIR");
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", root ? root : SLUICE_TESTS_DIR, relative);
  return path;
}

void helper_address(struct geo_address *address, const char *text) {
  uint8_t octets[16];
  if (inet_pton(AF_INET, text, octets) == 1)
    geo_address_set4(address, octets);
  else if (inet_pton(AF_INET6, text, octets) == 1)
    geo_address_set6(address, octets);
  else
    cr_assert_fail("not an address: %s", text);
}

struct geo_db *helper_db(const char *geo, const char *asn) {
  struct geo_db *db;
  char why[512] = "";
  bool ok = geo_db_load(geo ? helper_path(geo) : NULL, asn ? helper_path(asn) : NULL, &db, why);
  cr_assert(ok, "%s", why);
  return db;
}

static void add_address(struct steer_endpoint *e, const char *text) {
  uint8_t octets[16];
  if (inet_pton(AF_INET, text, octets) == 1) {
    e->addr4 = reallocarray(e->addr4, e->addr4_count + 1, 4);
    memcpy(e->addr4[e->addr4_count++], octets, 4);
  } else if (inet_pton(AF_INET6, text, octets) == 1) {
    e->addr6 = reallocarray(e->addr6, e->addr6_count + 1, 16);
    memcpy(e->addr6[e->addr6_count++], octets, 16);
  } else {
    const char *why = NULL;
    e->host = calloc(1, NAME_BUF);
    cr_assert(name_from_text(e->host, text, strlen(text), NULL, &why), "%s: %s", text, why);
  }
}

static void read_endpoint(struct steer_endpoint *e, const char *name, const json_t *value) {
  *e = (struct steer_endpoint){.name = strdup(name), .enabled = true};
  if (json_is_object(value)) {
    const json_t *enabled = json_object_get(value, "enabled");
    e->enabled = !enabled || json_is_true(enabled);
    value = json_object_get(value, "addresses");
  }
  if (json_is_string(value))
    add_address(e, json_string_value(value));
  size_t i;
  json_t *item;
  json_array_foreach(value, i, item) {
    add_address(e, json_string_value(item));
  }
}

static void add_atom(struct steer_region *region, const char *text) {
  const char *why = NULL;
  region->atoms = reallocarray(region->atoms, region->atom_count + 1, sizeof *region->atoms);
  cr_assert(steer_atom_parse(text, &region->atoms[region->atom_count++], &why), "%s: %s", text,
            why ? why : "not an atom");
}

static void read_level(struct steer_domain *d, struct steer_level *level, const json_t *json) {
  const char *name;
  json_t *weight;
  level->entries = calloc(json_object_size(json), sizeof *level->entries);
  json_object_foreach((json_t *)json, name, weight) {
    long index = steer_endpoint_find(d, name);
    cr_assert_geq(index, 0, "no endpoint %s", name);
    level->entries[level->entry_count++] =
        (struct steer_entry){(uint16_t)index, (uint16_t)json_integer_value(weight)};
  }
  d->entry_count += level->entry_count;
}

static void read_region(struct steer_domain *d, const char *name, const json_t *value,
                        const json_t *defined) {
  struct steer_region *region = &d->regions[d->region_count++];
  *region = (struct steer_region){.name = strdup(name)};
  const json_t *atoms = json_object_get(defined, name);
  size_t i;
  json_t *item;
  json_array_foreach(atoms, i, item) {
    add_atom(region, json_string_value(item));
  }
  if (!atoms)
    add_atom(region, name);
  size_t levels = json_is_array(value) ? json_array_size(value) : 1;
  region->levels = calloc(levels, sizeof *region->levels);
  region->level_count = (uint32_t)levels;
  if (!json_is_array(value))
    read_level(d, &region->levels[0], value);
  json_array_foreach(value, i, item) {
    read_level(d, &region->levels[i], item);
  }
}

static void read_offers(struct steer_domain *d, const json_t *types) {
  for (uint32_t i = 0; i < d->endpoint_count; i++) {
    d->offers[STEER_A] = d->offers[STEER_A] || d->endpoints[i].addr4_count;
    d->offers[STEER_AAAA] = d->offers[STEER_AAAA] || d->endpoints[i].addr6_count;
    d->offers[STEER_CNAME] = d->offers[STEER_CNAME] || d->endpoints[i].host;
  }
  if (!types)
    return;
  bool a = false, aaaa = false;
  size_t i;
  json_t *item;
  json_array_foreach(types, i, item) {
    a = a || strcmp(json_string_value(item), "A") == 0;
    aaaa = aaaa || strcmp(json_string_value(item), "AAAA") == 0;
  }
  d->offers[STEER_A] = a;
  d->offers[STEER_AAAA] = aaaa;
}

struct steer_domain *helper_domain(const json_t *json, const json_t *defined) {
  const json_t *endpoints = json_object_get(json, "endpoints");
  const json_t *regions = json_object_get(json, "regions");
  const json_t *answers = json_object_get(json, "answers");
  const char *draw_per = json_string_value(json_object_get(json, "draw_per"));
  struct steer_domain *d = calloc(1, sizeof *d);
  const char *key, *why = NULL;
  json_t *value;
  d->owner = calloc(1, NAME_BUF);
  name_from_text(d->owner, "cdn.tm.example.com.", 19, NULL, &why);
  d->ttl = 30;
  d->answers = answers ? (uint8_t)json_integer_value(answers) : 1;
  d->draw_per = draw_per && strcmp(draw_per, "subnet") == 0 ? DRAW_PER_SUBNET : DRAW_PER_QUERY;
  d->endpoints = calloc(json_object_size(endpoints), sizeof *d->endpoints);
  json_object_foreach((json_t *)endpoints, key, value) {
    read_endpoint(&d->endpoints[d->endpoint_count++], key, value);
  }
  d->regions = calloc(json_object_size(regions), sizeof *d->regions);
  json_object_foreach((json_t *)regions, key, value) {
    read_region(d, key, value, defined);
  }
  read_offers(d, json_object_get(json, "types"));
  cr_assert(steer_domain_validate(d, &why), "%s", why);
  return d;
}

struct steer_domain *helper_domain_text(const char *text) {
  char *copy = strdup(text);
  for (char *c = copy; *c; c++)
    if (*c == '\'')
      *c = '"';
  json_error_t error;
  json_t *json = json_loads(copy, 0, &error);
  cr_assert(json, "%s: %s", error.text, copy);
  struct steer_domain *d = helper_domain(json, NULL);
  json_decref(json);
  free(copy);
  return d;
}
