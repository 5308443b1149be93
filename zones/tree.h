/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner names of one zone while it is compiled: authoritative names, empty non-terminals, zone
 * cuts, and names that are occluded (below a cut or a DNAME), which serve only as glue.
 */
#ifndef SLUICE_ZONES_TREE_H
#define SLUICE_ZONES_TREE_H

#include "base/name.h"
#include "zones/model.h"

#define TREE_NONE UINT32_MAX

struct tree_node {
  const uint8_t *name; /* lower case; in the model, or a suffix of a name there */
  uint32_t first_rr;   /* of the zone's sorted records */
  uint32_t rr_count;
  uint32_t wildcard; /* node of "*.<name>" or TREE_NONE */
  uint32_t domain;   /* steered domain or TREE_NONE */
  uint8_t labels;
  uint8_t name_len;
  bool cut; /* has NS and is not the apex */
  bool dname;
  bool cname;
  bool occluded; /* below a cut or a DNAME */
};

struct tree {
  const struct model_zone *zone;
  struct tree_node *nodes; /* nodes[0] is the apex */
  uint32_t count;
  uint32_t cap;
  uint32_t *slots; /* node + 1, 0 = empty; open addressing */
  uint32_t slot_mask;
  uint8_t max_labels;
  uint8_t (*domain_names)[NAME_BUF];
};

/* False with a reason in `why` (512 bytes); tree_close() is needed either way. */
bool tree_init(struct tree *tree, const struct model_zone *zone, char *why);
void tree_close(struct tree *tree);

/* The node of exactly this name (lower case, padded), occluded ones included, or TREE_NONE. */
uint32_t tree_find(const struct tree *tree, const uint8_t *name);

/* What a query for a name (lower case, padded) comes to, RFC 1034 section 4.3.2 step 3. */
enum tree_match {
  TREE_OUTSIDE,  /* not below the apex */
  TREE_EXACT,    /* *node */
  TREE_CUT,      /* at or below the zone cut *node */
  TREE_DNAME,    /* below the DNAME *node */
  TREE_WILDCARD, /* matched by the wildcard *node */
  TREE_NXDOMAIN,
};
enum tree_match tree_lookup(const struct tree *tree, const uint8_t *name, uint32_t *node);

#endif
