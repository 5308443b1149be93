/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The four layers, one file each:
 *   fence.c     1  geographical fencing     which region is the client's?
 *   status.c    2  endpoint status          which entries are up, and what if none is?
 *   priority.c  3  priority                 the best level that is left
 *   weight.c    4  weighted selection       the draw
 *
 * Layer 1 is asked per query through a flattened table (steering/geo.h); fence_match() is the same
 * rule in plain form, for explain, tests and for building that table.  Layers 2 and 3 run when
 * facts change and leave a `draw_table` for layer 4.  All functions are pure.
 */
#ifndef SLUICE_STEERING_LAYERS_H
#define SLUICE_STEERING_LAYERS_H

#include "base/rng.h"
#include "steering/geo.h"
#include "steering/model.h"

/* Layer 1: index of the region whose atom is the most specific that matches. */
uint32_t fence_match(const struct steer_domain *domain, const struct geo_location *location,
                     const struct geo_address *address);

/* An entry on its way through the layers. */
struct layer_entry {
  uint16_t endpoint;
  uint16_t level;  /* from 1 */
  uint16_t weight; /* as in force (override or configuration) */
  bool present;    /* still a candidate */
};

/* All entries of the region whose endpoint has `type`, in order of level; returns how many.
 * `out` must hold layer_entry_max(domain, region) items. */
size_t layer_entry_max(const struct steer_domain *domain, uint32_t region);
size_t layer_entries(const struct steer_domain *domain, uint32_t region, enum steer_type type,
                     const struct steer_facts *facts, struct layer_entry *out);

/* Layer 2: clears `present` of the entries that do not go on.  Returns true on fallback (no entry
 * up). */
bool status_filter(const struct steer_domain *domain, enum steer_type type,
                   const struct steer_facts *facts, uint32_t level_count,
                   struct layer_entry *entries, size_t count);

/* True if the endpoint is down for the type: disabled by hand, or unhealthy. */
bool status_is_down(const struct steer_endpoint *endpoint, const struct steer_status *status,
                    enum steer_type type);
bool status_is_disabled(const struct steer_endpoint *endpoint, const struct steer_status *status);

/* Layer 3: keeps the best level that is present and returns its number. */
uint16_t priority_filter(struct layer_entry *entries, size_t count);

/*
 * What layer 4 draws from: the endpoints that can be drawn, with cumulative weights.  Immutable;
 * freed by free().  All-zero weights have become 1 each.
 */
struct draw_item {
  uint32_t up_to; /* cumulative weight, this item included */
  uint16_t endpoint;
  uint16_t weight;
};
struct draw_table {
  uint32_t total;
  uint16_t count; /* at least 1 */
  uint16_t level;
  uint8_t answers; /* how many to draw */
  bool fallback;
  struct draw_item items[];
};

/* Runs layers 2 and 3 for one (region, type); NULL without memory, or if the type is not offered.
 */
struct draw_table *draw_table_build(const struct steer_domain *domain, uint32_t region,
                                    enum steer_type type, const struct steer_facts *facts);

/* The same in the caller's memory, of draw_table_most() octets; returns how many are used, or 0
 * where draw_table_build() would return NULL. */
size_t draw_table_most(const struct steer_domain *domain, uint32_t region);
size_t draw_table_fill(struct draw_table *table, const struct steer_domain *domain, uint32_t region,
                       enum steer_type type, const struct steer_facts *facts);

/* Layer 4: draws one item's endpoint. */
static inline uint16_t draw_one(const struct draw_table *table, struct rng *rng) {
  if (table->count == 1)
    return table->items[0].endpoint;
  uint32_t x = rng_below(rng, table->total);
  const struct draw_item *item = table->items;
  while (x >= item->up_to)
    item++;
  return item->endpoint;
}

/* Draws table->answers different endpoints without replacement into `out` (STEER_MAX_ANSWERS);
 * returns how many. */
size_t draw_many(const struct draw_table *table, struct rng *rng, uint16_t *out);

/* Exact chance of each item to be in the answer; `out` holds table->count numbers. */
void draw_probabilities(const struct draw_table *table, double *out);

#endif
