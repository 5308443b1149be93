/* SPDX-License-Identifier: Apache-2.0 */
/* `regions:` of a domain: atoms, levels and weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steering/atom.h"
#include "zones/config_domain.h"

static const char *const type_names[STEER_TYPES] = {"A", "AAAA", "CNAME"};

/* ---- atoms ------------------------------------------------------------------------------------
 */

static const struct config_region *find_defined(const struct config *config, const char *name) {
  for (size_t i = 0; i < config->defaults.region_count; i++)
    if (strcasecmp(config->defaults.regions[i].name, name) == 0)
      return &config->defaults.regions[i];
  return NULL;
}

static bool unknown_region(struct domain_reading *d, const struct yaml_node *key) {
  const struct config_defaults *defaults = &d->config->defaults;
  const char **words = calloc(defaults->region_count + 1, sizeof *words);
  char show[CONFIG_SHOW];
  char hint[CONFIG_SHOW] = "";
  if (words != NULL) {
    for (size_t i = 0; i < defaults->region_count; i++)
      words[i] = defaults->regions[i].name;
    words[defaults->region_count] = "global";
    config_hint(&d->file, key->text, words, defaults->region_count + 1, hint);
  }
  free(words);
  config_error(&d->file, key,
               "unknown region %s%s; write global, a continent (eu), country (ca), subdivision "
               "(ca-qc), net (192.0.2.0/24), asn:64500 or a region of defaults.yaml",
               config_show(key, show), hint);
  return false;
}

static bool copy_atoms(struct domain_reading *d, struct steer_region *region,
                       const struct steer_atom *atoms, uint32_t count) {
  region->atoms = calloc((size_t)count + 1, sizeof *region->atoms);
  if (region->atoms == NULL)
    return config_no_memory(d->config);
  memcpy(region->atoms, atoms, count * sizeof *atoms);
  region->atom_count = count;
  return true;
}

static bool read_atoms(struct domain_reading *d, struct steer_region *region,
                       const struct yaml_node *key) {
  struct steer_atom atom;
  const char *why = NULL;
  char show[CONFIG_SHOW];
  if (steer_atom_parse(key->text, &atom, &why))
    return copy_atoms(d, region, &atom, 1);
  const struct config_region *defined = find_defined(d->config, key->text);
  if (defined != NULL)
    return copy_atoms(d, region, defined->atoms, defined->atom_count);
  if (why == NULL)
    return unknown_region(d, key);
  config_error(&d->file, key, "%s: %s", config_show(key, show), why);
  return false;
}

struct placed_atom {
  char text[64];
  uint32_t region;
};

static int compare_placed(const void *va, const void *vb) {
  const struct placed_atom *a = va;
  const struct placed_atom *b = vb;
  int d = strcmp(a->text, b->text);
  if (d != 0)
    return d;
  return (a->region > b->region) - (a->region < b->region);
}

/* The same atom in two regions would make the choice depend on the order of writing. */
static void check_atoms_unique(struct domain_reading *d, const struct yaml_node *node) {
  const struct steer_domain *s = d->steer;
  size_t count = 0;
  for (uint32_t r = 0; r < s->region_count; r++)
    count += s->regions[r].atom_count;
  struct placed_atom *all = calloc(count + 1, sizeof *all);
  if (all == NULL) {
    config_no_memory(d->config);
    return;
  }
  size_t n = 0;
  for (uint32_t r = 0; r < s->region_count; r++) {
    for (uint32_t a = 0; a < s->regions[r].atom_count; a++) {
      steer_atom_text(&s->regions[r].atoms[a], all[n].text);
      all[n++].region = r;
    }
  }
  qsort(all, n, sizeof *all, compare_placed);
  for (size_t i = 1; i < n; i++)
    if (strcmp(all[i - 1].text, all[i].text) == 0)
      config_error(&d->file, node->pairs[all[i].region].key,
                   "the regions `%s` and `%s` both hold %s; an atom may stand in one region only",
                   s->regions[all[i - 1].region].name, s->regions[all[i].region].name, all[i].text);
  free(all);
}

/* ---- levels -----------------------------------------------------------------------------------
 */

static bool read_entry(struct domain_reading *d, struct steer_level *level,
                       const struct yaml_pair *pair) {
  uint32_t weight = 0;
  bool ok = config_weight(&d->file, pair, &weight);
  long index = domain_find_endpoint(d, pair->key->text);
  if (index < 0 && d->steer->endpoint_count == 0)
    return false; /* that there are none is said already */
  if (index < 0) {
    const struct steer_domain *s = d->steer;
    const char **words = calloc((size_t)s->endpoint_count + 1, sizeof *words);
    char show[CONFIG_SHOW];
    char hint[CONFIG_SHOW] = "";
    for (uint32_t i = 0; words != NULL && i < s->endpoint_count; i++)
      words[i] = s->endpoints[i].name;
    if (words != NULL)
      config_hint(&d->file, pair->key->text, words, s->endpoint_count, hint);
    free(words);
    config_error(&d->file, pair->key, "unknown endpoint %s%s; define it under `endpoints`",
                 config_show(pair->key, show), hint);
    return false;
  }
  level->entries[level->entry_count++] = (struct steer_entry){(uint16_t)index, (uint16_t)weight};
  return ok;
}

/* Every level must have an endpoint for each offered type. */
static bool check_types(struct domain_reading *d, const struct steer_level *level,
                        const struct yaml_node *where, const char *region, size_t number) {
  bool ok = true;
  for (int type = 0; type < STEER_TYPES; type++) {
    uint32_t having = 0;
    const char *only = NULL;
    if (!d->steer->offers[type])
      continue;
    for (uint32_t i = 0; i < level->entry_count; i++) {
      const struct steer_endpoint *e = &d->steer->endpoints[level->entries[i].endpoint];
      if (!domain_endpoint_has(e, (enum steer_type)type))
        continue;
      having++;
      only = e->name;
    }
    if (having == 0) {
      config_error(
          &d->file, where,
          "level %zu of `%.63s` cannot answer %s, which this domain offers; add an endpoint "
          "with an %s address, or restrict `types`",
          number, region, type_names[type], type == STEER_A ? "IPv4" : "IPv6");
      ok = false;
    } else if (having == 1 && level->entry_count > 1) {
      config_warning(
          &d->file, where,
          "level %zu of `%.63s` has only the endpoint `%s` for %s; draining it cannot move "
          "that type",
          number, region, only, type_names[type]);
    }
  }
  return ok;
}

static bool read_level(struct domain_reading *d, struct steer_level *level,
                       const struct yaml_node *where, const struct yaml_node *node,
                       const char *region, size_t number) {
  char show[CONFIG_SHOW];
  if (node->kind != YAML_MAP) {
    config_error(&d->file, node,
                 "a level must map endpoints to weights, as {central: 100}; this is %s",
                 config_show(node, show));
    return false;
  }
  if (node->count == 0) {
    config_error(&d->file, where, "level %zu of `%.63s` is empty; name at least one endpoint",
                 number, region);
    return false;
  }
  level->entries = calloc(node->count, sizeof *level->entries);
  if (level->entries == NULL)
    return config_no_memory(d->config);
  bool ok = true;
  for (size_t i = 0; i < node->count; i++)
    ok = read_entry(d, level, &node->pairs[i]) && ok;
  if (ok && d->endpoints_ok)
    ok = check_types(d, level, where, region, number);
  return ok;
}

static bool read_region(struct domain_reading *d, struct steer_region *region,
                        const struct yaml_pair *pair) {
  const struct yaml_node *value = pair->value;
  bool list = value->kind == YAML_LIST;
  size_t count = list ? value->count : 1;
  region->name = strdup(pair->key->text);
  if (region->name == NULL)
    return config_no_memory(d->config);
  bool ok = read_atoms(d, region, pair->key);
  if (count == 0) {
    config_error(&d->file, value, "the region `%.63s` has no level; add one, as {central: 100}",
                 region->name);
    return false;
  }
  if (count > UINT16_MAX) {
    config_error(&d->file, value, "too many levels: at most 65535");
    return false;
  }
  region->levels = calloc(count, sizeof *region->levels);
  if (region->levels == NULL)
    return config_no_memory(d->config);
  for (size_t i = 0; i < count; i++) {
    struct steer_level *level = &region->levels[region->level_count++];
    const struct yaml_node *node = list ? value->items[i] : value;
    ok = read_level(d, level, list ? node : pair->key, node, region->name, i + 1) && ok;
    d->steer->entry_count += level->entry_count;
  }
  return ok;
}

void domain_read_regions(struct domain_reading *d, const struct yaml_node *key,
                         const struct yaml_node *node) {
  struct steer_domain *s = d->steer;
  if (!config_is_map(&d->file, node, "`regions`"))
    return;
  s->regions = calloc(node->count + 1, sizeof *s->regions);
  if (s->regions == NULL) {
    config_no_memory(d->config);
    return;
  }
  bool global = false;
  for (size_t i = 0; i < node->count && i < UINT16_MAX; i++) {
    struct steer_region *region = &s->regions[s->region_count++];
    read_region(d, region, &node->pairs[i]);
    for (uint32_t a = 0; a < region->atom_count; a++)
      global = global || region->atoms[a].kind == ATOM_GLOBAL;
  }
  if (node->count > UINT16_MAX)
    config_error(&d->file, key, "too many regions: at most 65535");
  if (!global)
    config_error(&d->file, key,
                 "`regions` needs `global`, the answer for everyone in no other region");
  check_atoms_unique(d, node);
}
