/* SPDX-License-Identifier: Apache-2.0 */
/* Layer 4: draw tables and draws. */
#include <stdlib.h>

#include "steering/layers.h"

size_t layer_entry_max(const struct steer_domain *domain, uint32_t region) {
  size_t count = 0;
  for (uint32_t l = 0; l < domain->regions[region].level_count; l++)
    count += domain->regions[region].levels[l].entry_count;
  return count;
}

size_t layer_entries(const struct steer_domain *domain, uint32_t region, enum steer_type type,
                     const struct steer_facts *facts, struct layer_entry *out) {
  const int32_t *weights = facts ? facts->weights : NULL;
  size_t index = 0; /* in the index space of weights */
  for (uint32_t r = 0; weights && r < region; r++)
    index += layer_entry_max(domain, r);
  const struct steer_region *at = &domain->regions[region];
  size_t count = 0;
  for (uint32_t l = 0; l < at->level_count; l++) {
    for (uint32_t i = 0; i < at->levels[l].entry_count; i++, index++) {
      struct steer_entry entry = at->levels[l].entries[i];
      if (!steer_endpoint_has(&domain->endpoints[entry.endpoint], type))
        continue;
      bool overridden = weights && weights[index] >= 0;
      out[count++] = (struct layer_entry){
          .endpoint = entry.endpoint,
          .level = (uint16_t)(l + 1),
          .weight = overridden ? (uint16_t)weights[index] : entry.weight,
          .present = true,
      };
    }
  }
  return count;
}

/* Fills the items from the entries that are left; `all` takes those of weight 0 as 1 each. */
static void add_items(struct draw_table *table, const struct layer_entry *entries, size_t count,
                      bool all) {
  for (size_t i = 0; i < count; i++) {
    if (!entries[i].present || (entries[i].weight == 0 && !all))
      continue;
    uint16_t weight = all ? 1 : entries[i].weight;
    table->total += weight;
    table->items[table->count++] = (struct draw_item){
        .up_to = table->total, .endpoint = entries[i].endpoint, .weight = weight};
  }
}

size_t draw_table_most(const struct steer_domain *domain, uint32_t region) {
  return sizeof(struct draw_table) + layer_entry_max(domain, region) * sizeof(struct draw_item);
}

size_t draw_table_fill(struct draw_table *table, const struct steer_domain *domain, uint32_t region,
                       enum steer_type type, const struct steer_facts *facts) {
  if (!domain->offers[type])
    return 0;
  /* Most regions are small, and one change of health may rebuild the tables of many domains. */
  struct layer_entry small[64];
  size_t max = layer_entry_max(domain, region);
  struct layer_entry *entries =
      max <= sizeof small / sizeof *small ? small : calloc(max, sizeof *entries);
  if (!entries)
    return 0;
  size_t count = layer_entries(domain, region, type, facts, entries);
  bool fallback =
      status_filter(domain, type, facts, domain->regions[region].level_count, entries, count);
  uint16_t level = priority_filter(entries, count);
  bool all_zero = true;
  for (size_t i = 0; i < count; i++)
    all_zero = all_zero && (!entries[i].present || entries[i].weight == 0);
  *table = (struct draw_table){.level = level, .answers = domain->answers, .fallback = fallback};
  add_items(table, entries, count, all_zero);
  if (entries != small)
    free(entries);
  return table->count > 0 ? sizeof *table + table->count * sizeof table->items[0] : 0;
}

struct draw_table *draw_table_build(const struct steer_domain *domain, uint32_t region,
                                    enum steer_type type, const struct steer_facts *facts) {
  struct draw_table *table = malloc(draw_table_most(domain, region));
  if (table && draw_table_fill(table, domain, region, type, facts) > 0)
    return table;
  free(table);
  return NULL;
}

/* Index of the item that holds `x`. */
static size_t item_at(const struct draw_table *table, uint32_t x) {
  size_t low = 0, high = table->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (x >= table->items[middle].up_to)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

size_t draw_many(const struct draw_table *table, struct rng *rng, uint16_t *out) {
  size_t want = table->answers < table->count ? table->answers : table->count;
  size_t drawn[STEER_MAX_ANSWERS]; /* indexes of items, ascending */
  uint32_t left = table->total;
  for (size_t n = 0; n < want; n++) {
    /* A number below the weight that is left, moved past what was drawn before: every remaining
     * item has exactly its weight's share, and no draw has to be repeated. */
    uint32_t x = rng_below(rng, left);
    for (size_t i = 0; i < n; i++) {
      const struct draw_item *gone = &table->items[drawn[i]];
      if (x < gone->up_to - gone->weight)
        break;
      x += gone->weight;
    }
    size_t index = item_at(table, x);
    out[n] = table->items[index].endpoint;
    left -= table->items[index].weight;
    size_t place = n;
    for (; place > 0 && drawn[place - 1] > index; place--)
      drawn[place] = drawn[place - 1];
    drawn[place] = index;
  }
  return want;
}
