/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "steering/atom.h"
#include "zones/config.h"
#include "zones/config_health.h"
#include "zones/host_name.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { MAX_REGIONS = 10000 }; /* each is compared with all others */

static bool read_atom(const struct config_file *file, const struct yaml_node *node,
                      const struct yaml_node *regions, struct config_region *region) {
  char show[CONFIG_SHOW];
  const char *why = NULL;
  struct steer_atom atom;
  if (node->kind != YAML_SCALAR) {
    config_error(file, node,
                 "a region is a list of atoms such as ca, us-ny or 192.0.2.0/24; this "
                 "is %s",
                 config_show(node, show));
    return false;
  }
  if (!steer_atom_parse(node->text, &atom, &why)) {
    if (why != NULL)
      config_error(file, node, "%s: %s", config_show(node, show), why);
    else if (yaml_get(regions, node->text) != NULL)
      config_error(file, node,
                   "%s is the name of a region; a region holds only atoms such as ca, "
                   "us-ny or 192.0.2.0/24",
                   config_show(node, show));
    else
      config_error(file, node,
                   "%s is no atom; write a continent (eu), country (ca), subdivision "
                   "(ca-qc), net (192.0.2.0/24) or asn:64500",
                   config_show(node, show));
    return false;
  }
  region->atoms[region->atom_count++] = atom;
  return true;
}

struct numbered_atom {
  struct steer_atom atom;
  uint32_t index;
};

static int compare_atoms(const void *va, const void *vb) {
  const struct numbered_atom *a = va;
  const struct numbered_atom *b = vb;
  int d = (int)a->atom.kind - (int)b->atom.kind;
  if (d == 0)
    d = strcmp(a->atom.code, b->atom.code);
  if (d == 0)
    d = (a->atom.asn > b->atom.asn) - (a->atom.asn < b->atom.asn);
  if (d == 0)
    d = (int)a->atom.net_family - (int)b->atom.net_family;
  if (d == 0)
    d = (int)a->atom.net_bits - (int)b->atom.net_bits;
  if (d == 0)
    d = memcmp(a->atom.net, b->atom.net, sizeof a->atom.net);
  return d != 0 ? d : (a->index > b->index) - (a->index < b->index);
}

/* Drops atoms that are written twice; the order of the others stays. */
static bool drop_repeated(struct config_region *region) {
  uint32_t count = region->atom_count;
  struct numbered_atom *sorted = calloc((size_t)count + 1, sizeof *sorted);
  bool *repeated = calloc((size_t)count + 1, sizeof *repeated);
  bool ok = sorted != NULL && repeated != NULL;
  for (uint32_t i = 0; ok && i < count; i++)
    sorted[i] = (struct numbered_atom){region->atoms[i], i};
  if (ok)
    qsort(sorted, count, sizeof *sorted, compare_atoms);
  for (uint32_t i = 1; ok && i < count; i++)
    repeated[sorted[i].index] = steer_atom_equal(&sorted[i - 1].atom, &sorted[i].atom);
  uint32_t kept = 0;
  for (uint32_t i = 0; ok && i < count; i++)
    if (!repeated[i])
      region->atoms[kept++] = region->atoms[i];
  if (ok)
    region->atom_count = kept;
  free(sorted);
  free(repeated);
  return ok;
}

static bool read_region_name(const struct config_file *file, const struct yaml_node *key,
                             const struct config_defaults *defaults) {
  char show[CONFIG_SHOW];
  if (!config_name(file, key, "the name of a region"))
    return false;
  if (steer_atom_is_built_in_form(key->text)) {
    config_error(file, key,
                 "the region %s would hide a built-in one (continent, country, "
                 "subdivision, net or asn); choose another name",
                 config_show(key, show));
    return false;
  }
  for (size_t i = 0; i < defaults->region_count; i++) {
    if (strcasecmp(defaults->regions[i].name, key->text) != 0)
      continue;
    config_error(file, key, "duplicate region %s: case does not matter in names of regions",
                 config_show(key, show));
    return false;
  }
  return true;
}

static bool read_region(struct config *config, const struct config_file *file,
                        const struct yaml_node *regions, const struct yaml_pair *pair) {
  struct config_defaults *defaults = &config->defaults;
  const struct yaml_node *value = pair->value;
  size_t count = value->kind == YAML_LIST ? value->count : 1;
  bool ok = read_region_name(file, pair->key, defaults);
  if (count == 0) {
    config_error(file, value, "the region `%s` is empty; list its atoms", pair->key->text);
    return false;
  }
  struct config_region region = {pair->key->text, calloc(count, sizeof *region.atoms), 0};
  if (region.atoms == NULL)
    return config_no_memory(config);
  for (size_t i = 0; i < count; i++)
    ok =
        read_atom(file, value->kind == YAML_LIST ? value->items[i] : value, regions, &region) && ok;
  if (!drop_repeated(&region))
    ok = config_no_memory(config);
  /* Kept after an error too, so that domains that use it are not blamed. */
  defaults->regions[defaults->region_count++] = region;
  return ok;
}

static bool read_regions(struct config *config, const struct config_file *file,
                         const struct yaml_node *node) {
  if (!config_is_map(file, node, "`regions`"))
    return false;
  if (node->count > MAX_REGIONS) {
    config_error(file, node, "too many regions: at most %d", MAX_REGIONS);
    return false;
  }
  config->defaults.regions = calloc(node->count + 1, sizeof *config->defaults.regions);
  if (config->defaults.regions == NULL)
    return config_no_memory(config);
  bool ok = true;
  for (size_t i = 0; i < node->count; i++)
    ok = read_region(config, file, node, &node->pairs[i]) && ok;
  return ok;
}

static bool read_default_zone(struct config *config, const struct config_file *file,
                              const struct yaml_node *node) {
  char why[HOST_NAME_WHY];
  char show[CONFIG_SHOW];
  uint8_t name[NAME_BUF];
  if (!config_text(file, node, "`default_zone`"))
    return false;
  size_t len = node->len;
  if (len > 1 && node->text[len - 1] == '.')
    len--;
  if (!host_name_read_zone(name, node->text, len, why)) {
    config_error(file, node, "`default_zone`: %s is not the name of a zone: %s",
                 config_show(node, show), why);
    return false;
  }
  config->defaults.default_zone = config_pos(file, node);
  config->model->default_zone = strndup(node->text, len);
  return config->model->default_zone != NULL || config_no_memory(config);
}

/* `regions` as JSON: name -> [atoms in the long spelling]. */
static json_t *regions_json(const struct config_defaults *defaults) {
  json_t *regions = json_object();
  for (size_t i = 0; i < defaults->region_count; i++) {
    json_t *list = json_array();
    char text[64];
    for (uint32_t a = 0; a < defaults->regions[i].atom_count; a++)
      json_array_append_new(list,
                            json_string(steer_atom_text(&defaults->regions[i].atoms[a], text)));
    json_object_set_new(regions, defaults->regions[i].name, list);
  }
  return regions;
}

/* The secrets of alert routes or providers, where the machine's settings are known. */
static void look_secrets_up(const struct config *config, const struct config_file *file,
                            const struct yaml_node *users) {
  const struct config_source *source = config->source;
  bool wanted = source->has_secret != NULL && users->kind == YAML_MAP;
  for (size_t i = 0; wanted && i < users->count; i++) {
    const struct yaml_node *secret = yaml_get(users->pairs[i].value, "secret");
    if (secret != NULL && secret->kind == YAML_SCALAR &&
        !source->has_secret(source->programs, secret->text))
      config_error(file, secret, "%.200s has no secret `%.100s`; add it there under `secrets:`",
                   source->programs_path, secret->text);
  }
}

bool config_defaults_read(struct config *config, const struct yaml_node *root,
                          const struct config_file *file) {
  static const char *const keys[] = {"default_zone", "regions",   "health", "profiles",
                                     "alerts",       "providers", "catalog"};
  struct config_defaults *d = &config->defaults;
  bool ok = root == NULL || config_keys(file, root, "defaults.yaml", keys, COUNT(keys));
  const struct yaml_node *node;
  d->alerts = json_object();
  d->providers = json_object();
  if ((node = yaml_get(root, "regions")) != NULL)
    ok = read_regions(config, file, node) && ok;
  if ((node = yaml_get(root, "default_zone")) != NULL)
    ok = read_default_zone(config, file, node) && ok;
  if ((node = yaml_get(root, "profiles")) != NULL)
    ok = (d->profiles = config_profiles_read(file, node, NULL)) != NULL && ok;
  if ((node = yaml_get(root, "alerts")) != NULL) {
    ok = config_alert_routes(file, node, d->alerts) && ok;
    look_secrets_up(config, file, node);
  }
  if ((node = yaml_get(root, "providers")) != NULL) {
    ok = config_provider_list(file, node, d->providers) && ok;
    if (config->source->provider_secrets)
      look_secrets_up(config, file, node);
  }
  if ((node = yaml_get(root, "catalog")) != NULL)
    ok = config_catalog_read(&d->catalog, file, node) && ok;
  if (root != NULL)
    d->file = *file;
  if ((node = yaml_get(root, "health")) != NULL) {
    d->health = config_health_block(file, node);
    if (d->health != NULL && !config_health_check_times(file, node, d->health)) {
      json_decref(d->health); /* said here, so that domains are not blamed */
      d->health = NULL;
    }
    ok = d->health != NULL && ok;
  }
  if (d->profiles == NULL)
    d->profiles = json_object();
  config->model->settings =
      json_pack("{s:O, s:O, s:O, s:o}", "profiles", d->profiles, "alerts", d->alerts, "providers",
                d->providers, "regions", regions_json(d));
  return config->model->settings != NULL ? ok : config_no_memory(config);
}

void config_defaults_close(struct config_defaults *defaults) {
  for (size_t i = 0; i < defaults->region_count; i++)
    free(defaults->regions[i].atoms);
  free(defaults->regions);
  json_decref(defaults->health);
  json_decref(defaults->profiles);
  json_decref(defaults->alerts);
  json_decref(defaults->providers);
  json_decref(defaults->catalog.transfer);
}
