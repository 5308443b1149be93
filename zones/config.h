/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the configuration reader among themselves.
 */
#ifndef SLUICE_ZONES_CONFIG_H
#define SLUICE_ZONES_CONFIG_H

#include "base/name.h"
#include "zones/arena.h"
#include "zones/config_read.h"
#include "zones/model.h"

/* A named region of defaults.yaml. */
struct config_region {
  const char *name;
  struct steer_atom *atoms; /* malloc'd */
  uint32_t atom_count;
};

/* `catalog:` of defaults.yaml. */
struct config_catalog {
  bool wanted;
  uint8_t apex[NAME_BUF];
  struct diag_pos pos;
  json_t *transfer; /* normalised, or NULL */
};

/* defaults.yaml as read. */
struct config_defaults {
  struct config_file file;
  struct diag_pos default_zone; /* where it is written */
  json_t *health;               /* the block as written, or NULL */
  struct config_region *regions;
  size_t region_count;
  json_t *profiles;  /* name -> {endpoint: weight} */
  json_t *alerts;    /* route -> settings */
  json_t *providers; /* name -> settings */
  struct config_catalog catalog;
};

/* One run of the reader. */
struct config {
  struct config_source *source;
  struct diag_list *problems;
  struct model *model;
  struct arena defaults_tree; /* gone after the run; other trees go with their file */
  struct config_defaults defaults;
};

/* "prefix" + path, as shown in messages; lives as long as the model.  NULL without memory. */
const char *config_shown(struct config *config, const char *path);

/* Reports that memory ran out; returns false. */
bool config_no_memory(struct config *config);

/* Reads and parses one YAML file into a tree in `arena`; NULL after an error. */
const struct yaml_node *config_parse(struct config *config, const char *path, struct arena *arena,
                                     struct config_file *file);

/* defaults.yaml; `root` NULL when there is none. */
bool config_defaults_read(struct config *config, const struct yaml_node *root,
                          const struct config_file *file);
void config_defaults_close(struct config_defaults *defaults);

/* `catalog:`; false after an error.  The zone is added when all others are complete. */
bool config_catalog_read(struct config_catalog *catalog, const struct config_file *file,
                         const struct yaml_node *node);
bool config_catalog_add(struct config *config);

/* Weights of a level or profile: {endpoint: weight}.  Endpoint names are only checked for form. */
bool config_weight(const struct config_file *file, const struct yaml_pair *pair, uint32_t *weight);

/* `profiles:` as JSON name -> {endpoint: weight}; endpoints must be among `known` unless it is
 * NULL. */
json_t *config_profiles_read(const struct config_file *file, const struct yaml_node *node,
                             const json_t *known);

/* `alerts:` and `providers:` of a domain; `transfer:` and `providers:` of a zone.  NULL after an
 * error. */
json_t *config_domain_alerts(const struct config *config, const struct config_file *file,
                             const struct yaml_node *key, const struct yaml_node *node);
json_t *config_domain_providers(const struct config *config, const struct config_file *file,
                                const struct yaml_node *node);
json_t *config_zone_providers(const struct config *config, const struct config_file *file,
                              const struct yaml_node *node);
json_t *config_zone_transfer(const struct config_file *file, const struct yaml_node *node);
/* `alerts:` and `providers:` of defaults.yaml, put into an object; false after an error. */
bool config_alert_routes(const struct config_file *file, const struct yaml_node *node,
                         json_t *routes);
bool config_provider_list(const struct config_file *file, const struct yaml_node *node,
                          json_t *providers);

/*
 * zone.yaml and its master file, into `zone` (apex and path are set).  Problems are reported; the
 * zone is then not to be used.
 */
void config_zone_read(struct config *config, const char *path, struct model_zone *zone);

/* One domain.yaml, into `domain`; `owner` is its wire name in lower case. */
void config_domain_read(struct config *config, const char *path, const uint8_t *owner,
                        struct model_zone *zone, struct model_domain *domain);

/* Rules between static records and steered names; records must be sorted. */
void config_check_collisions(struct config *config, const struct model_zone *zone);

#endif
