/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/alerts/outlook.h"

#include <stdlib.h>

#include "steering/layers.h"

/* The facts in three depths. */
enum depth { DEPTH_PLAIN, DEPTH_BY_HAND, DEPTH_NOW };

struct steer_status outlook_status(const struct outlook_facts *facts, uint32_t endpoint) {
  struct steer_status status = {0};
  if (facts->by_hand != NULL)
    status = facts->by_hand[endpoint];
  if (facts->checked == NULL)
    return status;
  if (status.health4 == HEALTH_UNKNOWN)
    status.health4 = facts->checked[endpoint].health4;
  if (status.health6 == HEALTH_UNKNOWN)
    status.health6 = facts->checked[endpoint].health6;
  return status;
}

/* The status of all endpoints with all that is known; NULL without memory. */
static struct steer_status *merge(const struct steer_domain *domain,
                                  const struct outlook_facts *facts) {
  struct steer_status *status = calloc(domain->endpoint_count, sizeof *status);
  for (uint32_t i = 0; status != NULL && i < domain->endpoint_count; i++)
    status[i] = outlook_status(facts, i);
  return status;
}

static struct steer_facts at_depth(const struct outlook_facts *facts,
                                   const struct steer_status *now, enum depth depth) {
  switch (depth) {
  case DEPTH_PLAIN:
    return (struct steer_facts){NULL, NULL};
  case DEPTH_BY_HAND:
    return (struct steer_facts){facts->by_hand, facts->weights};
  default:
    return (struct steer_facts){now, facts->weights};
  }
}

static void list_add(struct outlook_list *list, uint16_t endpoint) {
  for (size_t i = 0; i < list->count && i < OUTLOOK_NAMES; i++)
    if (list->endpoints[i] == endpoint)
      return;
  if (list->count < OUTLOOK_NAMES)
    list->endpoints[list->count] = endpoint;
  list->count++;
}

static bool is_entry_up(const struct steer_domain *domain, const struct layer_entry *entry,
                        const struct steer_status *status, enum steer_type type,
                        uint32_t level_count) {
  bool drained = entry->weight == 0 && entry->level != level_count;
  return !drained && !status_is_down(&domain->endpoints[entry->endpoint],
                                     status != NULL ? &status[entry->endpoint] : NULL, type);
}

/* Which endpoints explain the levels. */
static bool find_causes(const struct steer_domain *domain, uint32_t region, enum steer_type type,
                        const struct outlook_facts *facts, const struct steer_status *now,
                        struct outlook *out) {
  uint32_t levels = domain->regions[region].level_count;
  size_t most = layer_entry_max(domain, region);
  struct layer_entry *entries = calloc(most + 1, sizeof *entries);
  struct layer_entry *plain = calloc(most + 1, sizeof *plain);
  bool ok = entries != NULL && plain != NULL;
  if (ok) {
    struct steer_facts with = at_depth(facts, now, DEPTH_NOW);
    struct steer_facts without = at_depth(facts, now, DEPTH_PLAIN);
    size_t count = layer_entries(domain, region, type, &with, entries);
    layer_entries(domain, region, type, &without, plain); /* the same entries in the same order */
    for (size_t i = 0; i < count; i++) {
      bool up = is_entry_up(domain, &entries[i], now, type, levels);
      bool up_by_hand = is_entry_up(domain, &entries[i], facts->by_hand, type, levels);
      bool up_plain = is_entry_up(domain, &plain[i], NULL, type, levels);
      if (!up && up_by_hand && (out->all_down || entries[i].level < out->level))
        list_add(&out->failed, entries[i].endpoint);
      if (up_by_hand != up_plain && (out->none_by_hand || entries[i].level < out->level_by_hand ||
                                     entries[i].level < out->level_plain ||
                                     (up_by_hand && entries[i].level == out->level_by_hand)))
        list_add(&out->set, entries[i].endpoint);
    }
  }
  free(entries);
  free(plain);
  return ok;
}

bool outlook_make(const struct steer_domain *domain, uint32_t region, enum steer_type type,
                  const struct outlook_facts *facts, struct outlook *out) {
  struct draw_table *tables[3] = {NULL};
  struct steer_status *now = merge(domain, facts);
  bool ok = now != NULL;
  *out = (struct outlook){0};
  for (int depth = DEPTH_PLAIN; ok && depth <= DEPTH_NOW; depth++) {
    struct steer_facts with = at_depth(facts, now, (enum depth)depth);
    tables[depth] = draw_table_build(domain, region, type, &with);
    ok = tables[depth] != NULL;
  }
  if (ok) {
    const struct draw_table *table = tables[DEPTH_NOW];
    out->level = table->level;
    out->level_by_hand = tables[DEPTH_BY_HAND]->level;
    out->level_plain = tables[DEPTH_PLAIN]->level;
    out->all_down = table->fallback && !tables[DEPTH_BY_HAND]->fallback;
    out->none_by_hand = tables[DEPTH_BY_HAND]->fallback && !tables[DEPTH_PLAIN]->fallback;
    for (size_t i = 0; i < table->count; i++)
      list_add(&out->serves, table->items[i].endpoint);
    bool plain = out->level == out->level_by_hand && out->level_by_hand == out->level_plain &&
                 !out->all_down && !out->none_by_hand;
    ok = plain || find_causes(domain, region, type, facts, now, out);
  }
  for (int depth = DEPTH_PLAIN; depth <= DEPTH_NOW; depth++)
    free(tables[depth]);
  free(now);
  return ok;
}

static bool region_has(const struct steer_region *region, uint16_t endpoint) {
  for (uint32_t l = 0; l < region->level_count; l++)
    for (uint32_t i = 0; i < region->levels[l].entry_count; i++)
      if (region->levels[l].entries[i].endpoint == endpoint)
        return true;
  return false;
}

static bool draws(const struct steer_domain *domain, uint32_t region, enum steer_type type,
                  const struct steer_facts *facts, uint16_t endpoint) {
  struct draw_table *table = draw_table_build(domain, region, type, facts);
  bool found = table == NULL;
  for (size_t i = 0; table != NULL && !found && i < table->count; i++)
    found = table->items[i].endpoint == endpoint;
  free(table);
  return found;
}

bool outlook_is_used(const struct steer_domain *domain, const struct outlook_facts *facts,
                     uint16_t endpoint) {
  struct steer_status *status = merge(domain, facts);
  if (status == NULL)
    return true;
  status[endpoint].health4 = HEALTH_UP;
  status[endpoint].health6 = HEALTH_UP;
  struct steer_facts with = {status, facts->weights};
  bool used = false;
  for (uint32_t r = 0; !used && r < domain->region_count; r++)
    for (int t = 0; !used && t < STEER_TYPES; t++)
      used = domain->offers[t] &&
             steer_endpoint_has(&domain->endpoints[endpoint], (enum steer_type)t) &&
             region_has(&domain->regions[r], endpoint) &&
             draws(domain, r, (enum steer_type)t, &with, endpoint);
  free(status);
  return used;
}
