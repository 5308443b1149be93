/* SPDX-License-Identifier: Apache-2.0 */
#include "server/override_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

/* ---- finding ----------------------------------------------------------------------------------
 */

/* Index of the entry in the index space of weights, or -1. */
static long find_entry(const struct steer_domain *steer, long region, uint32_t level,
                       long endpoint) {
  long at = 0;
  for (long r = 0; r <= region; r++) {
    const struct steer_region *of = &steer->regions[r];
    for (uint32_t l = 0; l < of->level_count; l++) {
      bool wanted = r == region && l + 1 == level;
      for (uint32_t e = 0; wanted && e < of->levels[l].entry_count; e++)
        if (of->levels[l].entries[e].endpoint == endpoint)
          return at + (long)e;
      at += (long)of->levels[l].entry_count;
    }
  }
  return -1;
}

bool override_target_find(const struct served *served, const uint8_t *owner,
                          const struct store_key *key, struct fact_change *change) {
  long domain = load_find_domain(served, owner);
  if (domain < 0)
    return false;
  const struct steer_domain *steer = served->domains[domain].steer;
  long endpoint = steer_endpoint_find(steer, key->endpoint);
  if (endpoint < 0)
    return false;
  *change = (struct fact_change){.domain = (uint32_t)domain, .endpoint = (uint16_t)endpoint};
  if (key->kind == STORE_WEIGHT) {
    long region = steer_region_find(steer, key->region);
    long entry = region >= 0 ? find_entry(steer, region, key->level, endpoint) : -1;
    change->field = FACT_WEIGHT;
    change->entry = (uint32_t)entry;
    return entry >= 0;
  }
  if (key->kind == STORE_STATUS)
    change->field = FACT_MANUAL;
  else
    change->field = key->family == 4 ? FACT_FORCED4 : FACT_FORCED6;
  return true;
}

int32_t override_target_value(const struct store_key *key, const struct store_override *override) {
  if (override != NULL)
    return override->value;
  return key->kind == STORE_WEIGHT ? -1 : 0;
}

const char *override_target_region(const struct served *served, const uint8_t *owner,
                                   const char *region) {
  long domain = load_find_domain(served, owner);
  if (domain < 0)
    return NULL;
  const struct steer_domain *steer = served->domains[domain].steer;
  long at = steer_region_find(steer, region);
  return at >= 0 ? steer->regions[at].name : NULL;
}

/* ---- what is missing --------------------------------------------------------------------------
 */

const char *override_target_near(const struct served *served, const char *text,
                                 char out[OVERRIDE_NEAR]) {
  char name[NAME_MAX_TEXT], best[OVERRIDE_NEAR - 32] = "";
  size_t length = strlen(text);
  unsigned nearest = length / 3 > 0 ? (unsigned)(length / 3) + 1 : 2; /* as diag_nearest() */
  for (uint32_t i = 0; length <= 255 && i < served->domain_count; i++) {
    name_to_text(name, served->domains[i].steer->owner);
    size_t other = strlen(name);
    size_t apart = other > length ? other - length : length - other;
    if (apart >= nearest || other >= sizeof best)
      continue;
    unsigned distance = diag_distance(text, name);
    if (distance < nearest) {
      nearest = distance;
      memcpy(best, name, other + 1);
    }
  }
  if (best[0] == '\0')
    out[0] = '\0';
  else
    snprintf(out, OVERRIDE_NEAR, " (did you mean `%s`?)", best);
  return out;
}

/* Names of a domain's parts, one kind at a time. */
struct names {
  const char **items;
  size_t count;
};

static void say_missing(const char *what, const char *name, const char *where,
                        const struct names *names, char *why) {
  char list[256] = "";
  size_t n = 0;
  const char *near = names->items != NULL ? diag_nearest(name, names->items, names->count) : NULL;
  for (size_t i = 0; names->items != NULL && i < names->count && n < 160; i++)
    n += (size_t)snprintf(list + n, sizeof list - n, "%s%.60s", i > 0 ? ", " : "",
                          n > 100 ? "..." : names->items[i]);
  if (near != NULL)
    snprintf(why, STORE_WHY, "no %s `%.100s` in %.150s (did you mean `%.100s`?)", what, name, where,
             near);
  else
    snprintf(why, STORE_WHY, "no %s `%.100s` in %.100s; there are: %.200s", what, name, where,
             list);
}

static void missing_endpoint(const struct steer_domain *steer, const struct store_key *key,
                             char *why) {
  struct names names = {calloc((size_t)steer->endpoint_count + 1, sizeof *names.items), 0};
  for (uint32_t e = 0; names.items != NULL && e < steer->endpoint_count; e++)
    names.items[names.count++] = steer->endpoints[e].name;
  say_missing("endpoint", key->endpoint, key->domain, &names, why);
  free(names.items);
}

static void missing_region(const struct steer_domain *steer, const struct store_key *key,
                           char *why) {
  struct names names = {calloc((size_t)steer->region_count + 1, sizeof *names.items), 0};
  for (uint32_t r = 0; names.items != NULL && r < steer->region_count; r++)
    names.items[names.count++] = steer->regions[r].name;
  say_missing("region", key->region, key->domain, &names, why);
  free(names.items);
}

static void missing_entry(const struct steer_domain *steer, const struct steer_region *region,
                          const struct store_key *key, char *why) {
  if (key->level < 1 || key->level > region->level_count) {
    snprintf(why, STORE_WHY, "region %.60s of %.200s has no level %u; it has %u", region->name,
             key->domain, key->level, region->level_count);
    return;
  }
  const struct steer_level *level = &region->levels[key->level - 1];
  struct names names = {calloc((size_t)level->entry_count + 1, sizeof *names.items), 0};
  char where[STORE_WHY];
  for (uint32_t e = 0; names.items != NULL && e < level->entry_count; e++)
    names.items[names.count++] = steer->endpoints[level->entries[e].endpoint].name;
  snprintf(where, sizeof where, "level %u of region %.60s of %.200s", key->level, region->name,
           key->domain);
  say_missing("endpoint", key->endpoint, where, &names, why);
  free(names.items);
}

void override_target_missing(const struct served *served, const uint8_t *owner,
                             const struct store_key *key, char *why) {
  char near[OVERRIDE_NEAR];
  long domain = load_find_domain(served, owner);
  if (domain < 0) {
    snprintf(why, STORE_WHY, "%.150s is not a steered name%s", key->domain,
             override_target_near(served, key->domain, near));
    return;
  }
  const struct steer_domain *steer = served->domains[domain].steer;
  if (steer_endpoint_find(steer, key->endpoint) < 0) {
    missing_endpoint(steer, key, why);
    return;
  }
  long region = steer_region_find(steer, key->region);
  if (region < 0)
    missing_region(steer, key, why);
  else
    missing_entry(steer, &steer->regions[region], key, why);
}
