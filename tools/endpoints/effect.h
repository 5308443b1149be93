/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What weights, status and health do to the answers: for each region, level and type the share of
 * answers now and the one that the configuration alone would give.  It runs the layers themselves
 * (steering/layers.h).  All here is pure.
 */
#ifndef SLUICE_TOOLS_ENDPOINTS_EFFECT_H
#define SLUICE_TOOLS_ENDPOINTS_EFFECT_H

#include "base/buf.h"
#include "steering/model.h"

struct effect_entry {
  size_t index; /* in the space of weights */
  uint16_t endpoint;
  uint16_t level; /* from 1 */
  uint16_t weight;
  uint16_t configured;
  bool has[STEER_TYPES];      /* of the offered types */
  bool eligible[STEER_TYPES]; /* up, as layer 2 means it */
  double share[STEER_TYPES];
  double configured_share[STEER_TYPES];
};

struct effect_region {
  uint32_t region;
  uint16_t level[STEER_TYPES]; /* that is answered from now; 0: the type is not offered */
  bool fallback[STEER_TYPES];
  struct effect_entry *entries;
  size_t count;
};

struct effect {
  struct effect_region *regions; /* those that were picked */
  size_t count;
};

/* Computes the effect of `facts` in the picked regions (NULL: all); false without memory.
 * effect_close() frees in any case. */
bool effect_compute(struct effect *effect, const struct steer_domain *domain,
                    const struct steer_facts *facts, const bool *picked);
void effect_close(struct effect *effect);

/* True if shares of the entry differ by type. */
bool effect_types_differ(const struct steer_domain *domain, const struct effect_entry *entry);

/* True if no entry of the level that has the type has a weight above 0.  `weights` as in
 * steer_facts. */
bool effect_level_is_empty(const struct steer_domain *domain, uint32_t region, uint32_t level,
                           enum steer_type type, const int32_t *weights);

/* The endpoint that alone has the type in a level of several; -1 if there is none such. */
long effect_level_single(const struct steer_domain *domain, uint32_t region, uint32_t level,
                         enum steer_type type);

/* Appends "level 2: b 75%, c 25%": what a type is answered with. */
void effect_describe(const struct steer_domain *domain, const struct effect_region *region,
                     enum steer_type type, struct buf *out);

/* "95%", "33.3%", "<0.1%"; `out` holds EFFECT_SHARE octets. */
enum { EFFECT_SHARE = 16 };
const char *effect_share_text(double share, char *out);

/* "A", "AAAA", "CNAME". */
const char *effect_type_name(enum steer_type type);

#endif
