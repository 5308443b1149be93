/* SPDX-License-Identifier: Apache-2.0 */
/* Which share of the answers each endpoint has, by the layers themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steering/layers.h"
#include "tools/sync/run.h"
#include "zones/domain_json.h"

enum { NAME_SHOWN = 64 };

/* A domain as a document tells it, with what is in force there. */
struct view {
  struct steer_domain *steer;
  struct steer_status *status;
  int32_t *weights; /* or NULL: they are in the document */
};

static const char *const types[STEER_TYPES] = {"A", "AAAA", "CNAME"};

/* Names come from a provider: what could drive a terminal does not get on. */
static const char *clean(const char *name, char out[NAME_SHOWN]) {
  size_t i = 0;
  for (; name[i] && i < NAME_SHOWN - 1; i++)
    out[i] = name[i] > ' ' && name[i] < 0x7f ? name[i] : '?';
  out[i] = '\0';
  return out;
}

/* ---- what is in force ----------------------------------------------------------------------- */

/* "down" of what decompile() gives: {type: [endpoints]}. */
static void take_down(struct view *view, const json_t *down) {
  for (int t = 0; t < STEER_TYPES; t++) {
    size_t i;
    const json_t *item;
    json_array_foreach(json_object_get(down, types[t]), i, item) {
      long at =
          json_is_string(item) ? steer_endpoint_find(view->steer, json_string_value(item)) : -1;
      if (at >= 0 && t != STEER_AAAA)
        view->status[at].health4 = HEALTH_DOWN;
      if (at >= 0 && t != STEER_A)
        view->status[at].health6 = HEALTH_DOWN;
    }
  }
}

/* The weight in force of an entry of our configuration, or -1. */
static int32_t weight_of(const struct sync_domain *domain, const char *region, uint32_t level,
                         const char *endpoint) {
  const struct steer_domain *mine = domain->domain->steer;
  size_t at = 0;
  for (uint32_t r = 0; r < mine->region_count; r++)
    for (uint32_t l = 0; l < mine->regions[r].level_count; l++)
      for (uint32_t e = 0; e < mine->regions[r].levels[l].entry_count; e++, at++)
        if (l == level && strcmp(mine->regions[r].name, region) == 0 &&
            strcmp(mine->endpoints[mine->regions[r].levels[l].entries[e].endpoint].name,
                   endpoint) == 0)
          return domain->weights[at];
  return -1;
}

/* Of our own server, whose document is the configuration: the facts, by names. */
static bool take_facts(struct view *view, const struct sync_domain *domain) {
  const struct steer_domain *steer = view->steer;
  size_t at = 0;
  view->weights = malloc((steer->entry_count + 1) * sizeof *view->weights);
  if (!view->weights)
    return false;
  for (uint32_t i = 0; i < steer->endpoint_count; i++) {
    long mine = steer_endpoint_find(domain->domain->steer, steer->endpoints[i].name);
    if (mine >= 0)
      view->status[i] = domain->status[mine];
  }
  for (uint32_t r = 0; r < steer->region_count; r++)
    for (uint32_t l = 0; l < steer->regions[r].level_count; l++)
      for (uint32_t e = 0; e < steer->regions[r].levels[l].entry_count; e++)
        view->weights[at++] =
            weight_of(domain, steer->regions[r].name, l,
                      steer->endpoints[steer->regions[r].levels[l].entries[e].endpoint].name);
  return true;
}

static void view_close(struct view *view) {
  steer_domain_free(view->steer);
  free(view->status);
  free(view->weights);
}

static bool view_open(struct view *view, const struct sync_target *t, size_t d,
                      const json_t *document) {
  char why[DOMAIN_JSON_WHY];
  const struct sync_domain *domain = &t->zone->domains[d];
  *view = (struct view){.steer = document ? domain_json_decode(document, why) : NULL};
  if (!view->steer)
    return false;
  view->status = calloc(view->steer->endpoint_count + 1, sizeof *view->status);
  if (!view->status)
    return false;
  take_down(view, json_object_get(document, "down"));
  return !t->provider->kind->can.deployed || !domain->status || take_facts(view, domain);
}

/* ---- shares --------------------------------------------------------------------------------- */

static json_t *region_shares(const struct view *view, uint32_t region, enum steer_type type) {
  const struct steer_facts facts = {.status = view->status, .weights = view->weights};
  struct draw_table *table = draw_table_build(view->steer, region, type, &facts);
  double *chances = table ? malloc((table->count + 1U) * sizeof *chances) : NULL;
  json_t *out = json_object();
  if (chances)
    draw_probabilities(table, chances);
  for (uint16_t i = 0; chances && i < table->count; i++) {
    char name[NAME_SHOWN];
    json_object_set_new(out, clean(view->steer->endpoints[table->items[i].endpoint].name, name),
                        json_real(chances[i]));
  }
  free(chances);
  free(table);
  return out;
}

json_t *sync_shares(const struct sync_target *t, size_t d, bool after) {
  struct view view;
  bool ok = view_open(&view, t, d, after ? t->after[d] : t->before[d]);
  json_t *out = ok ? json_object() : NULL;
  for (uint32_t r = 0; out && r < view.steer->region_count; r++) {
    char name[NAME_SHOWN];
    json_t *region = json_object();
    for (int type = 0; type < STEER_TYPES; type++)
      if (view.steer->offers[type])
        json_object_set_new(region, types[type], region_shares(&view, r, (enum steer_type)type));
    json_object_set_new(out, clean(view.steer->regions[r].name, name), region);
  }
  view_close(&view);
  return out;
}

json_t *sync_shares_one(const json_t *shares) {
  json_t *out = shares ? json_object() : NULL;
  const char *region;
  json_t *by_type;
  json_object_foreach((json_t *)(uintptr_t)shares, region, by_type) {
    json_t *first = NULL;
    for (int type = 0; type < STEER_TYPES; type++) {
      json_t *one = json_object_get(by_type, types[type]);
      char key[NAME_SHOWN + 8];
      if (!one || (first && json_equal(one, first)))
        continue;
      snprintf(key, sizeof key, "%s%s%s", region, first ? " " : "", first ? types[type] : "");
      json_object_set(out, key, one);
      first = first ? first : one;
    }
  }
  return out;
}
