/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of files: which one is what, and the order in which they are read. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zones/config.h"
#include "zones/config_tree.h"
#include "zones/host_name.h"
#include "zones/zone_check.h"
#include "zones/zone_hash.h"

/* ---- shared by the readers --------------------------------------------------------------------
 */

const char *config_shown(struct config *config, const char *path) {
  size_t n = strlen(config->source->prefix) + strlen(path) + 1;
  char *shown = arena_alloc(config->model->memory, n, 1);
  if (shown == NULL) {
    config_no_memory(config);
    return NULL;
  }
  snprintf(shown, n, "%s%s", config->source->prefix, path);
  return shown;
}

bool config_no_memory(struct config *config) {
  diag_error(config->problems, (struct diag_pos){config->source->prefix, 0, 0}, "out of memory");
  return false;
}

const struct yaml_node *config_parse(struct config *config, const char *path, struct arena *arena,
                                     struct config_file *file) {
  file->path = config_shown(config, path);
  file->problems = config->problems;
  if (file->path == NULL)
    return NULL;
  uint8_t *data = NULL;
  size_t len = 0;
  char why[512];
  if (!config->source->read(config->source, path, YAML_MAX_BYTES, &data, &len, why)) {
    diag_error(config->problems, (struct diag_pos){file->path, 0, 0}, "%s", why);
    return NULL;
  }
  const struct yaml_node *root = yaml_tree_read(file->path, data, len, arena, config->problems);
  free(data);
  return root;
}

/* ---- zones and domains ------------------------------------------------------------------------
 */

static void error_at(struct config *config, const char *path, const char *what, const char *name,
                     const char *why) {
  const char *shown = config_shown(config, path);
  if (shown != NULL)
    diag_error(config->problems, (struct diag_pos){shown, 0, 0}, "the directory `%.100s` %s: %s",
               name, what, why);
}

static int compare_zones(const void *a, const void *b) {
  return name_compare(((const struct model_zone *)a)->apex, ((const struct model_zone *)b)->apex);
}

static int compare_domains(const void *a, const void *b) {
  return name_compare(((const struct model_domain *)a)->steer->owner,
                      ((const struct model_domain *)b)->steer->owner);
}

/* `file` is the path of zone.yaml. */
static bool init_zone(struct config *config, struct model_zone *zone, const struct config_dir *dir,
                      const char *file) {
  char why[HOST_NAME_WHY];
  uint8_t name[NAME_BUF] = {0};
  uint8_t lower[NAME_BUF] = {0};
  if (!host_name_read_zone(name, dir->name, strlen(dir->name), why)) {
    error_at(config, file, "is not the name of a zone", dir->name, why);
    return false;
  }
  size_t len = name_copy_lower(lower, name);
  const char *shown = config_shown(config, file);
  zone->apex = calloc(1, len + NAME_PAD);
  zone->path = shown != NULL ? strdup(shown) : NULL;
  if (zone->apex == NULL || zone->path == NULL)
    return config_no_memory(config);
  memcpy(zone->apex, lower, len);
  return true;
}

/* An absolute name in the place of a relative one gives www.example.com.example.com. */
static void warn_absolute(struct config *config, const char *path, const char *name,
                          const struct config_dir *dir) {
  size_t n = strlen(name);
  size_t z = strlen(dir->name);
  if (n <= z || name[n - z - 1] != '.' || strcasecmp(name + n - z, dir->name) != 0)
    return;
  const char *shown = config_shown(config, path);
  if (shown != NULL)
    diag_warning(config->problems, (struct diag_pos){shown, 0, 0},
                 "this is `%.100s.%.100s`; names of directories are relative to the zone", name,
                 dir->name);
}

static void read_domains(struct config *config, struct model_zone *zone,
                         const struct config_dir *dir) {
  zone->domains = calloc(dir->domain_count + 1, sizeof *zone->domains);
  if (zone->domains == NULL) {
    config_no_memory(config);
    return;
  }
  for (size_t i = 0; i < dir->domain_count; i++) {
    char why[HOST_NAME_WHY];
    uint8_t name[NAME_BUF] = {0};
    uint8_t owner[NAME_BUF] = {0};
    const struct config_leaf *leaf = &dir->domains[i];
    if (!host_name_read_domain(name, leaf->name, strlen(leaf->name), zone->apex, why)) {
      error_at(config, leaf->path, "is not the name of a domain", leaf->name, why);
      continue;
    }
    warn_absolute(config, leaf->path, leaf->name, dir);
    name_copy_lower(owner, name);
    struct model_domain *domain = &zone->domains[zone->domain_count];
    config_domain_read(config, leaf->path, owner, zone, domain);
    if (domain->steer != NULL)
      zone->domain_count++;
  }
  if (zone->domain_count > 1)
    qsort(zone->domains, zone->domain_count, sizeof *zone->domains, compare_domains);
}

/* What one directory at the root says of its zone, once apex and path are set. */
static void read_zone(struct config *config, struct model_zone *zone,
                      const struct config_dir *dir) {
  struct config_source *source = config->source;
  source->reading = dir->name;
  source->read_outside = false;
  config_zone_read(config, dir->zone_file, zone);
  zone->reads_outside = source->read_outside;
  source->reading = NULL;
  read_domains(config, zone, dir);
  config_check_collisions(config, zone);
}

static bool add_zone(struct config *config, struct model_zone *zone, const struct config_dir *dir) {
  char path[4096 + sizeof "/zone.yaml"];
  const char *file = dir->zone_file;
  if (dir->kept) {
    snprintf(path, sizeof path, "%.4095s/zone.yaml", dir->name);
    file = path;
  }
  if (init_zone(config, zone, dir, file))
    return true;
  free(zone->apex);
  free(zone->path);
  memset(zone, 0, sizeof *zone);
  return false;
}

static void read_zones(struct config *config, const struct config_tree *tree) {
  struct model *model = config->model;
  model->zones = calloc(tree->dir_count + 1, sizeof *model->zones);
  if (model->zones == NULL) {
    config_no_memory(config);
    return;
  }
  for (size_t i = 0; i < tree->dir_count; i++) {
    const struct config_dir *dir = &tree->dirs[i];
    if (dir->zone_file == NULL && !dir->kept)
      continue;
    struct model_zone *zone = &model->zones[model->zone_count];
    if (!add_zone(config, zone, dir))
      continue;
    model->zone_count++;
    zone->kept = dir->kept;
    if (!dir->kept)
      read_zone(config, zone, dir);
  }
  qsort(model->zones, model->zone_count, sizeof *model->zones, compare_zones);
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static void check_same_zone(struct config *config) {
  const struct model *model = config->model;
  char name[NAME_MAX_TEXT];
  for (size_t i = 1; i < model->zone_count; i++) {
    const struct model_zone *a = &model->zones[i - 1];
    const struct model_zone *b = &model->zones[i];
    if (!name_equal(a->apex, b->apex))
      continue;
    bool later = strcmp(a->path, b->path) > 0;
    diag_error(config->problems, (struct diag_pos){later ? a->path : b->path, 0, 0},
               "the zone `%s` stands in %s as well; keep one of them", name_to_text(name, b->apex),
               later ? b->path : a->path);
  }
}

static int compare_owners(const void *va, const void *vb) {
  const struct model_domain *a = *(const struct model_domain *const *)va;
  const struct model_domain *b = *(const struct model_domain *const *)vb;
  int d = name_compare(a->steer->owner, b->steer->owner);
  return d != 0 ? d : strcmp(a->path, b->path);
}

/* Also across zones: `cdn.tm` in example.com is `cdn` in tm.example.com. */
static void check_same_domain(struct config *config) {
  const struct model *model = config->model;
  char name[NAME_MAX_TEXT];
  size_t count = 0;
  for (size_t z = 0; z < model->zone_count; z++)
    count += model->zones[z].domain_count;
  const struct model_domain **all = calloc(count + 1, sizeof *all);
  if (all == NULL) {
    config_no_memory(config);
    return;
  }
  size_t n = 0;
  for (size_t z = 0; z < model->zone_count; z++)
    for (size_t i = 0; i < model->zones[z].domain_count; i++)
      if (model->zones[z].domains[i].path != NULL)
        all[n++] = &model->zones[z].domains[i];
  qsort(all, n, sizeof *all, compare_owners);
  for (size_t i = 1; i < n; i++)
    if (name_equal(all[i - 1]->steer->owner, all[i]->steer->owner))
      diag_error(config->problems, (struct diag_pos){all[i]->path, 0, 0},
                 "this gives the name `%s`, as %s does; keep one of them",
                 name_to_text(name, all[i]->steer->owner), all[i - 1]->path);
  free(all);
}

static bool has_domain(const struct model_zone *zone, const uint8_t *owner) {
  for (size_t i = 0; i < zone->domain_count; i++)
    if (name_equal(zone->domains[i].steer->owner, owner))
      return true;
  return false;
}

static void check_domains_of_child(struct config *config, const struct model_zone *zone,
                                   const struct model_zone *child) {
  char name[NAME_MAX_TEXT];
  char top[NAME_MAX_TEXT];
  for (size_t i = 0; i < zone->domain_count; i++) {
    const struct model_domain *domain = &zone->domains[i];
    const uint8_t *owner = domain->steer->owner;
    if (domain->path == NULL || !name_is_below_or_equal(owner, child->apex) ||
        zone_check_occluder(zone, owner) != NULL || has_domain(child, owner)) /* reported already */
      continue;
    diag_error(
        config->problems, (struct diag_pos){domain->path, 0, 0},
        "`%s` belongs to the zone `%s` (%s), which answers for it; move this directory there",
        name_to_text(name, owner), name_to_text(top, child->apex), child->path);
  }
}

/* A zone takes its names out of the zone above it, where nobody would ever see them. */
static void check_nested_zones(struct config *config) {
  const struct model *model = config->model;
  for (size_t i = 0; i < model->zone_count; i++) {
    const struct model_zone *zone = &model->zones[i];
    struct zone_check check = {.zone = zone, .yaml_path = zone->path, .problems = config->problems};
    for (size_t j = i + 1; j < model->zone_count; j++) { /* in canonical order, children follow */
      const struct model_zone *child = &model->zones[j];
      if (!name_is_below_or_equal(child->apex, zone->apex))
        break;
      if (name_equal(child->apex, zone->apex) || zone->kept || child->kept)
        continue; /* kept zones are related only to kept ones or to those that they went with */
      zone_check_child(&check, child);
      check_domains_of_child(config, zone, child);
    }
  }
}

static void check_default_zone(struct config *config) {
  const struct model *model = config->model;
  uint8_t name[NAME_BUF] = {0};
  const char *why = NULL;
  if (model->default_zone == NULL || config->defaults.file.path == NULL ||
      name_from_text(name, model->default_zone, strlen(model->default_zone), NULL, &why) == 0)
    return;
  for (size_t i = 0; i < model->zone_count; i++)
    if (name_equal(model->zones[i].apex, name))
      return;
  diag_warning(config->problems, config->defaults.default_zone,
               "`default_zone`: there is no zone `%.200s` here", model->default_zone);
}

static void read_defaults(struct config *config, const struct config_tree *tree) {
  struct config_file file = {NULL, config->problems};
  const struct yaml_node *root = NULL;
  if (tree->defaults)
    root = config_parse(config, "defaults.yaml", &config->defaults_tree, &file);
  config_defaults_read(config, root, &file);
}

struct model *config_load(struct config_source *source, struct diag_list *problems) {
  struct config config = {.source = source, .problems = problems, .model = model_new()};
  struct config_tree tree;
  if (config.model == NULL)
    return NULL;
  arena_init(&config.defaults_tree);
  if (config_tree_read(&config, &tree)) {
    read_defaults(&config, &tree);
    read_zones(&config, &tree);
    check_same_zone(&config);
    check_same_domain(&config);
    check_nested_zones(&config);
    check_default_zone(&config);
  }
  for (size_t i = 0; problems->errors == 0 && i < config.model->zone_count; i++)
    if (!config.model->zones[i].kept && !zone_hash(&config.model->zones[i]))
      config_no_memory(&config);
  if (problems->errors == 0)
    config_catalog_add(&config);
  config_tree_close(&tree);
  config_defaults_close(&config.defaults);
  arena_close(&config.defaults_tree);
  return config.model;
}
