/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files of a source are configuration.
 */
#ifndef SLUICE_ZONES_CONFIG_TREE_H
#define SLUICE_ZONES_CONFIG_TREE_H

#include "zones/config.h"

struct config_leaf {
  char *path; /* of domain.yaml */
  char *name; /* of its directory */
};

/* A directory at the root that holds a zone.yaml, or domains, or both. */
struct config_dir {
  char *name;
  bool kept;       /* not looked into: as in an earlier build */
  char *zone_file; /* path of zone.yaml, or NULL */
  struct config_leaf *domains;
  size_t domain_count;
  size_t domain_cap;
};

struct config_tree {
  bool defaults;
  struct config_dir *dirs;
  size_t dir_count;
  size_t dir_cap;
};

/*
 * Lists the source.  Reports links, submodules, files in the wrong place, names that are close to
 * the right ones, and domains without a zone.  False if the source cannot be listed (reported too).
 */
bool config_tree_read(struct config *config, struct config_tree *tree);
void config_tree_close(struct config_tree *tree);

#endif
