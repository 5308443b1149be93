/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/endpoints/effect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steering/layers.h"
#include "tools/endpoints/state.h"

const char *effect_type_name(enum steer_type type) {
  return type == STEER_A ? "A" : type == STEER_AAAA ? "AAAA" : "CNAME";
}

const char *effect_share_text(double share, char *out) {
  double percent = share * 100;
  if (!(percent > 0)) /* also what is not a number */
    snprintf(out, EFFECT_SHARE, "0%%");
  else if (percent < 0.1)
    snprintf(out, EFFECT_SHARE, "<0.1%%");
  else if (percent > 99.9 && percent < 100)
    snprintf(out, EFFECT_SHARE, ">99.9%%");
  else if (fabs(percent - round(percent)) < 0.05)
    snprintf(out, EFFECT_SHARE, "%.0f%%", percent);
  else
    snprintf(out, EFFECT_SHARE, "%.1f%%", percent);
  return out;
}

/* Puts the chances of one draw table to the entries; false without memory. */
static bool take_shares(struct effect_region *region, const struct steer_domain *domain,
                        enum steer_type type, const struct steer_facts *facts, bool configured) {
  struct draw_table *table = draw_table_build(domain, region->region, type, facts);
  double *chance = table ? calloc(table->count, sizeof *chance) : NULL;
  if (chance) {
    draw_probabilities(table, chance);
    uint16_t item = 0; /* the items are in the order of the entries */
    for (size_t i = 0; i < region->count && item < table->count; i++) {
      struct effect_entry *entry = &region->entries[i];
      if (entry->level != table->level || entry->endpoint != table->items[item].endpoint)
        continue;
      if (configured)
        entry->configured_share[type] = chance[item++];
      else
        entry->share[type] = chance[item++];
    }
    if (!configured) {
      region->level[type] = table->level;
      region->fallback[type] = table->fallback;
    }
  }
  bool ok = chance;
  free(chance);
  free(table);
  return ok;
}

static void fill_entries(struct effect_region *region, const struct steer_domain *domain,
                         const struct steer_facts *facts) {
  const struct steer_region *at = &domain->regions[region->region];
  size_t index = state_level_base(domain, region->region, 1);
  for (uint32_t l = 0; l < at->level_count; l++) {
    for (uint32_t i = 0; i < at->levels[l].entry_count; i++, index++) {
      struct steer_entry configured = at->levels[l].entries[i];
      struct effect_entry *entry = &region->entries[region->count++];
      bool overridden = facts->weights && facts->weights[index] >= 0;
      *entry = (struct effect_entry){
          .index = index,
          .endpoint = configured.endpoint,
          .level = (uint16_t)(l + 1),
          .weight = overridden ? (uint16_t)facts->weights[index] : configured.weight,
          .configured = configured.weight,
      };
      const struct steer_endpoint *endpoint = &domain->endpoints[configured.endpoint];
      const struct steer_status *status =
          facts->status ? &facts->status[configured.endpoint] : NULL;
      for (int t = 0; t < STEER_TYPES; t++) {
        entry->has[t] = domain->offers[t] && steer_endpoint_has(endpoint, (enum steer_type)t);
        entry->eligible[t] = entry->has[t] && (entry->weight > 0 || l + 1 == at->level_count) &&
                             !status_is_down(endpoint, status, (enum steer_type)t);
      }
    }
  }
}

bool effect_compute(struct effect *effect, const struct steer_domain *domain,
                    const struct steer_facts *facts, const bool *picked) {
  *effect = (struct effect){0};
  effect->regions = calloc(domain->region_count, sizeof *effect->regions);
  for (uint32_t r = 0; effect->regions && r < domain->region_count; r++) {
    if (picked && !picked[r])
      continue;
    struct effect_region *region = &effect->regions[effect->count++];
    region->region = r;
    region->entries = calloc(layer_entry_max(domain, r), sizeof *region->entries);
    if (!region->entries)
      return false;
    fill_entries(region, domain, facts);
    for (int t = 0; t < STEER_TYPES; t++)
      if (domain->offers[t] && (!take_shares(region, domain, (enum steer_type)t, facts, false) ||
                                !take_shares(region, domain, (enum steer_type)t, NULL, true)))
        return false;
  }
  return effect->regions;
}

void effect_close(struct effect *effect) {
  for (size_t i = 0; i < effect->count; i++)
    free(effect->regions[i].entries);
  free(effect->regions);
  *effect = (struct effect){0};
}

bool effect_types_differ(const struct steer_domain *domain, const struct effect_entry *entry) {
  int first = -1;
  for (int t = 0; t < STEER_TYPES; t++) {
    if (!domain->offers[t])
      continue;
    if (first < 0)
      first = t;
    else if (entry->has[t] != entry->has[first] ||
             fabs(entry->share[t] - entry->share[first]) > 1e-9 ||
             fabs(entry->configured_share[t] - entry->configured_share[first]) > 1e-9)
      return true;
  }
  return false;
}

bool effect_level_is_empty(const struct steer_domain *domain, uint32_t region, uint32_t level,
                           enum steer_type type, const int32_t *weights) {
  const struct steer_level *at = &domain->regions[region].levels[level - 1];
  size_t base = state_level_base(domain, region, level);
  for (uint32_t i = 0; i < at->entry_count; i++) {
    int32_t weight = weights && weights[base + i] >= 0 ? weights[base + i] : at->entries[i].weight;
    if (weight > 0 && steer_endpoint_has(&domain->endpoints[at->entries[i].endpoint], type))
      return false;
  }
  return true;
}

long effect_level_single(const struct steer_domain *domain, uint32_t region, uint32_t level,
                         enum steer_type type) {
  const struct steer_level *at = &domain->regions[region].levels[level - 1];
  long found = -1;
  for (uint32_t i = 0; i < at->entry_count; i++) {
    uint16_t endpoint = at->entries[i].endpoint;
    if (!steer_endpoint_has(&domain->endpoints[endpoint], type))
      continue;
    if (found >= 0)
      return -1;
    found = endpoint;
  }
  return at->entry_count > 1 ? found : -1;
}

void effect_describe(const struct steer_domain *domain, const struct effect_region *region,
                     enum steer_type type, struct buf *out) {
  enum { SHOWN = 8 };
  size_t shown = 0;
  char share[EFFECT_SHARE];
  buf_printf(out, "level %u: ", region->level[type]);
  for (size_t i = 0; i < region->count; i++) {
    const struct effect_entry *entry = &region->entries[i];
    if (entry->level != region->level[type] || !(entry->share[type] > 0))
      continue;
    if (shown++ == SHOWN) {
      buf_add_str(out, ", ...");
      return;
    }
    buf_printf(out, "%s%s %s", shown > 1 ? ", " : "", domain->endpoints[entry->endpoint].name,
               effect_share_text(entry->share[type], share));
  }
}
