/* SPDX-License-Identifier: Apache-2.0 */
#include "server/exposure.h"

#include <stdlib.h>
#include <string.h>

#include "server/topk.h"

enum {
  SAMPLES_WANTED = 2048, /* of one ring in one tick: about 10 000 a second */
  TAKE = 512,            /* samples at a time */
};

struct cell {
  uint16_t region;
  uint16_t endpoint;
  uint64_t counts[2]; /* of endpoints given, in the running period and the one before */
};

struct counted {
  uint64_t period; /* that the first of two counts is of */
  struct topk *resolvers[2];
  struct cell *cells;
  uint32_t cell_count;
  uint32_t cell_room;
  uint32_t last; /* cell of the latest sample: the next one is often the same */
};

struct exposure {
  struct counted **domains; /* as served->domains; NULL: nobody asked */
  uint32_t domain_count;
  uint32_t counted; /* domains that are not NULL */
  size_t cells;
  uint64_t started;     /* first period */
  uint32_t last_domain; /* of the latest sample */
  uint32_t last_weight;
};

struct exposure *exposure_open(void) {
  return calloc(1, sizeof(struct exposure));
}

static void counted_free(struct counted *counted) {
  if (counted == NULL)
    return;
  free(counted->resolvers[0]);
  free(counted->resolvers[1]);
  free(counted->cells);
  free(counted);
}

static void forget(struct exposure *exposure) {
  for (uint32_t i = 0; i < exposure->domain_count; i++)
    counted_free(exposure->domains[i]);
  free(exposure->domains);
  exposure->domains = NULL;
  exposure->domain_count = exposure->counted = 0;
  exposure->cells = 0;
}

void exposure_close(struct exposure *exposure) {
  if (exposure == NULL)
    return;
  forget(exposure);
  free(exposure);
}

/* ---- counting ---------------------------------------------------------------------------------
 */

/* Makes the running period the one before, if it is over. */
static void turn(struct counted *counted, uint64_t period) {
  uint64_t over = period - counted->period;
  if (over == 0)
    return;
  free(counted->resolvers[1]);
  counted->resolvers[1] = over == 1 ? counted->resolvers[0] : NULL;
  if (over != 1)
    free(counted->resolvers[0]);
  counted->resolvers[0] = NULL;
  for (uint32_t i = 0; i < counted->cell_count; i++) {
    counted->cells[i].counts[1] = over == 1 ? counted->cells[i].counts[0] : 0;
    counted->cells[i].counts[0] = 0;
  }
  counted->period = period;
}

static struct cell *find_cell(struct exposure *exposure, struct counted *counted, uint16_t region,
                              uint16_t endpoint) {
  for (uint32_t n = 0; n < counted->cell_count; n++) {
    uint32_t i = (counted->last + n) % counted->cell_count;
    if (counted->cells[i].endpoint == endpoint && counted->cells[i].region == region) {
      counted->last = i;
      return &counted->cells[i];
    }
  }
  if (exposure->cells == EXPOSURE_CELLS)
    return NULL;
  if (counted->cell_count == counted->cell_room) {
    uint32_t room = counted->cell_room * 2 + 4;
    struct cell *cells = realloc(counted->cells, room * sizeof *cells);
    if (cells == NULL)
      return NULL;
    counted->cells = cells;
    counted->cell_room = room;
  }
  exposure->cells++;
  counted->cells[counted->cell_count] = (struct cell){.region = region, .endpoint = endpoint};
  return &counted->cells[counted->cell_count++];
}

static struct counted *find_counted(struct exposure *exposure, uint32_t domain, uint64_t period) {
  struct counted **place = &exposure->domains[domain];
  if (*place == NULL && exposure->counted < EXPOSURE_DOMAINS) {
    *place = calloc(1, sizeof **place);
    if (*place != NULL) {
      (*place)->period = period;
      exposure->counted++;
    }
  }
  if (*place != NULL)
    turn(*place, period);
  return *place;
}

static void count(struct exposure *exposure, const struct exposure_sample *sample,
                  uint64_t period) {
  struct counted *counted = find_counted(exposure, sample->domain, period);
  if (counted == NULL)
    return;
  if (sample->weight != 0)
    exposure->last_weight = sample->weight;
  struct cell *cell = find_cell(exposure, counted, sample->region, sample->endpoint);
  if (cell != NULL)
    cell->counts[0] += exposure->last_weight;
  if (sample->weight == 0)
    return;
  if (counted->resolvers[0] == NULL)
    counted->resolvers[0] = calloc(1, sizeof(struct topk));
  if (counted->resolvers[0] != NULL)
    topk_add(counted->resolvers[0], sample->resolver, sample->weight);
}

static bool make_room(struct exposure *exposure, const struct served *served) {
  if (exposure->domains == NULL) {
    exposure->domains = calloc((size_t)served->domain_count + 1, sizeof(struct counted *));
    exposure->domain_count = exposure->domains != NULL ? served->domain_count : 0;
  }
  return exposure->domains != NULL;
}

static bool is_of(const struct served *served, const struct exposure_sample *sample) {
  if (sample->view != served->view.generation || sample->domain >= served->domain_count)
    return false;
  const struct steer_domain *steer = served->domains[sample->domain].steer;
  return sample->region < steer->region_count && sample->endpoint < steer->endpoint_count;
}

/* As many samples a tick as are wanted, at the rate of the last one. */
static void adapt(struct exposure_ring *ring, uint64_t answers) {
  uint64_t every = answers / SAMPLES_WANTED + 1;
  if (every > EXPOSURE_EVERY_MAX)
    every = EXPOSURE_EVERY_MAX;
  atomic_store_explicit(&ring->every, (uint32_t)every, memory_order_relaxed);
}

void exposure_drain(struct exposure *exposure, struct exposure_ring *ring,
                    const struct served *served, uint64_t now) {
  struct exposure_sample samples[TAKE];
  uint64_t answers = 0;
  size_t taken, left = EXPOSURE_RING;
  uint64_t period = now / EXPOSURE_PERIOD + 1;
  bool room = make_room(exposure, served);
  if (exposure->started == 0)
    exposure->started = now + 1;
  do {
    taken = exposure_ring_take(ring, samples, left < TAKE ? left : TAKE);
    for (size_t i = 0; i < taken; i++) {
      answers += samples[i].weight;
      if (room && is_of(served, &samples[i]))
        count(exposure, &samples[i], period);
    }
    left -= taken;
  } while (taken == TAKE && left > 0);
  /* A ring that was full has seen more than it holds. */
  adapt(ring, left == 0 ? answers * 8 : answers);
}

/* ---- reloads ----------------------------------------------------------------------------------
 */

/* Gives the cells their indexes in the new configuration of the domain; drops what is gone. */
static void rename_cells(struct exposure *exposure, struct counted *counted,
                         const struct steer_domain *old, const struct steer_domain *steer) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < counted->cell_count; i++) {
    struct cell cell = counted->cells[i];
    long region = steer_region_find(steer, old->regions[cell.region].name);
    long endpoint = steer_endpoint_find(steer, old->endpoints[cell.endpoint].name);
    if (region < 0 || endpoint < 0)
      continue;
    cell.region = (uint16_t)region;
    cell.endpoint = (uint16_t)endpoint;
    counted->cells[kept++] = cell;
  }
  exposure->cells -= counted->cell_count - kept;
  counted->cell_count = kept;
  counted->last = 0;
}

void exposure_move(struct exposure *exposure, const struct served *old,
                   const struct served *served) {
  if (exposure->domains == NULL)
    return;
  struct counted **domains = calloc((size_t)served->domain_count + 1, sizeof(struct counted *));
  if (domains == NULL) {
    forget(exposure);
    return;
  }
  for (uint32_t i = 0; i < exposure->domain_count; i++) {
    struct counted *counted = exposure->domains[i];
    const struct steer_domain *before = old->domains[i].steer;
    long at = counted != NULL ? load_find_domain(served, before->owner) : -1;
    if (at >= 0) {
      if (served->domains[at].steer != before)
        rename_cells(exposure, counted, before, served->domains[at].steer);
      domains[at] = counted;
    } else if (counted != NULL) {
      exposure->cells -= counted->cell_count;
      exposure->counted--;
      counted_free(counted);
    }
  }
  free(exposure->domains);
  exposure->domains = domains;
  exposure->domain_count = served->domain_count;
}

/* ---- what is told -----------------------------------------------------------------------------
 */

/* What the two periods hold together at `period`. */
static uint64_t count_of(const struct counted *counted, const struct cell *cell, uint64_t period) {
  uint64_t over = period - counted->period;
  if (over > 1)
    return 0;
  return cell->counts[0] + (over == 0 ? cell->counts[1] : 0);
}

static json_t *share_json(uint64_t part, uint64_t whole) {
  return json_real(whole > 0 ? (double)part / (double)whole : 0.0);
}

/* The chance of an endpoint to be in an answer now, for each type. */
static json_t *expected_json(const struct served *served, uint32_t domain, uint16_t region,
                             uint16_t endpoint) {
  static const char *const names[STEER_TYPES] = {"A", "AAAA", "CNAME"};
  const struct view_draws *draws =
      atomic_load_explicit(&served->domains[domain].draws, memory_order_acquire);
  json_t *json = json_object();
  for (int type = 0; type < STEER_TYPES; type++) {
    const struct draw_table *table = draws->tables[region * STEER_TYPES + type];
    if (table == NULL)
      continue;
    double *chances = calloc(table->count, sizeof *chances);
    double chance = 0;
    if (chances != NULL)
      draw_probabilities(table, chances);
    for (uint16_t i = 0; chances != NULL && i < table->count; i++)
      if (table->items[i].endpoint == endpoint)
        chance += chances[i];
    free(chances);
    json_object_set_new(json, names[type], json_real(chance));
  }
  return json;
}

static uint64_t cell_count(const struct counted *counted, uint16_t region, uint16_t endpoint,
                           uint64_t period) {
  for (uint32_t i = 0; counted != NULL && i < counted->cell_count; i++)
    if (counted->cells[i].region == region && counted->cells[i].endpoint == endpoint)
      return count_of(counted, &counted->cells[i], period);
  return 0;
}

static uint64_t region_count(const struct counted *counted, uint16_t region, uint64_t period) {
  uint64_t sum = 0;
  for (uint32_t i = 0; counted != NULL && i < counted->cell_count; i++)
    if (counted->cells[i].region == region)
      sum += count_of(counted, &counted->cells[i], period);
  return sum;
}

/* True if some level of the region names the endpoint. */
static bool is_named(const struct steer_region *region, uint16_t endpoint) {
  for (uint32_t l = 0; l < region->level_count; l++)
    for (uint32_t e = 0; e < region->levels[l].entry_count; e++)
      if (region->levels[l].entries[e].endpoint == endpoint)
        return true;
  return false;
}

static json_t *region_json(const struct counted *counted, const struct served *served,
                           uint32_t domain, uint16_t region, uint64_t period) {
  const struct steer_domain *steer = served->domains[domain].steer;
  uint64_t sum = region_count(counted, region, period);
  json_t *list = json_array();
  for (uint32_t e = 0; e < steer->endpoint_count; e++) {
    uint64_t given = cell_count(counted, region, (uint16_t)e, period);
    if (given == 0 && !is_named(&steer->regions[region], (uint16_t)e))
      continue;
    json_array_append_new(list, json_pack("{s:s, s:I, s:o, s:o}", "endpoint",
                                          steer->endpoints[e].name, "answers", (json_int_t)given,
                                          "share", share_json(given, sum), "expected",
                                          expected_json(served, domain, region, (uint16_t)e)));
  }
  return json_pack("{s:s, s:I, s:o}", "region", steer->regions[region].name, "answers",
                   (json_int_t)sum, "endpoints", list);
}

static void merge_resolvers(struct topk *all, const struct counted *counted, uint64_t period) {
  uint64_t over = counted != NULL ? period - counted->period : 2;
  if (over <= 1 && counted->resolvers[0] != NULL)
    topk_merge(all, counted->resolvers[0]);
  if (over == 0 && counted->resolvers[1] != NULL)
    topk_merge(all, counted->resolvers[1]);
  topk_sort(all);
}

static json_t *resolvers_json(const struct topk *all) {
  json_t *list = json_array();
  char network[EXPOSURE_NETWORK];
  for (uint32_t i = 0; i < all->count && i < EXPOSURE_NETWORKS; i++)
    json_array_append_new(list, json_pack("{s:s, s:I, s:o, s:I}", "network",
                                          exposure_network(all->items[i].key, network), "answers",
                                          (json_int_t)all->items[i].count, "share",
                                          share_json(all->items[i].count, all->total), "error",
                                          (json_int_t)all->items[i].error));
  return json_pack("{s:I, s:b, s:o}", "seen", (json_int_t)topk_distinct(all), "exact",
                   (int)!all->full, "largest", list);
}

json_t *exposure_json(const struct exposure *exposure, const struct served *served, uint32_t domain,
                      uint64_t now) {
  const struct counted *counted =
      domain < exposure->domain_count ? exposure->domains[domain] : NULL;
  const struct steer_domain *steer = served->domains[domain].steer;
  uint64_t period = now / EXPOSURE_PERIOD + 1;
  uint64_t window = now % EXPOSURE_PERIOD + EXPOSURE_PERIOD;
  uint64_t up = exposure->started != 0 ? now + 1 - exposure->started : 0;
  struct topk *all = calloc(1, sizeof *all);
  if (all == NULL)
    return NULL;
  merge_resolvers(all, counted, period);
  json_t *regions = json_array();
  for (uint32_t r = 0; r < steer->region_count; r++)
    json_array_append_new(regions, region_json(counted, served, domain, (uint16_t)r, period));
  json_t *json = json_pack(
      "{s:I, s:I, s:o, s:o}", "seconds", (json_int_t)(up < window ? up : window), "answers",
      (json_int_t)all->total, "regions", regions, "resolvers", resolvers_json(all));
  free(all);
  return json;
}
