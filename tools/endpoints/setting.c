/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/endpoints/setting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/endpoints/effect.h"

/* ---- computing ------------------------------------------------------------------------------ */

/* Appends ", NAME" to a list of regions, shortened. */
static void add_region(struct buf *list, const char *name) {
  if (list->len > 300)
    return;
  buf_printf(list, "%s%s", list->len ? ", " : "", list->len > 270 ? "..." : name);
}

static bool has_levels(const struct steer_domain *steer, const bool *picked, uint32_t level,
                       char *why) {
  struct buf without;
  buf_init(&without);
  for (uint32_t r = 0; r < steer->region_count; r++)
    if (picked[r] && level > steer->regions[r].level_count)
      add_region(&without, steer->regions[r].name);
  bool ok = without.len == 0;
  if (!ok)
    snprintf(why, SETTING_WHY, "there is no level %u in: %s", level, buf_text(&without));
  buf_close(&without);
  return ok;
}

static bool level_has(const struct steer_domain *steer, uint32_t region, uint32_t level,
                      const char *name) {
  const struct steer_level *at = &steer->regions[region].levels[level - 1];
  for (uint32_t i = 0; i < at->entry_count; i++)
    if (strcmp(steer->endpoints[at->entries[i].endpoint].name, name) == 0)
      return true;
  return false;
}

/* Every endpoint that is named must be in the level of each region. */
static bool has_endpoints(const struct steer_domain *steer, const bool *picked, uint32_t level,
                          const struct weights *weights, char *why) {
  for (size_t i = 0; i < weights->count; i++) {
    struct buf without;
    buf_init(&without);
    for (uint32_t r = 0; r < steer->region_count; r++)
      if (picked[r] && !level_has(steer, r, level, weights->items[i].endpoint))
        add_region(&without, steer->regions[r].name);
    bool ok = without.len == 0;
    if (!ok)
      snprintf(why, SETTING_WHY,
               "%.200s is not in level %u of: %s (an endpoint is added in git only)",
               weights->items[i].endpoint, level, buf_text(&without));
    buf_close(&without);
    if (!ok)
      return false;
  }
  return true;
}

static bool compute_level(struct setting *setting, const struct state *state, uint32_t region,
                          uint32_t level, const struct weights *weights, char *why) {
  const struct steer_level *at = &state->steer->regions[region].levels[level - 1];
  size_t base = state_level_base(state->steer, region, level);
  char detail[WEIGHTS_WHY] = "out of memory";
  const char **names = calloc(at->entry_count, sizeof *names);
  uint16_t *values = calloc(at->entry_count, sizeof *values);
  bool ok = names && values;
  for (uint32_t i = 0; ok && i < at->entry_count; i++) {
    int32_t now = state->weights[base + i];
    names[i] = state->steer->endpoints[at->entries[i].endpoint].name;
    values[i] = now >= 0 ? (uint16_t)now : at->entries[i].weight;
  }
  struct weights_level arrays = {names, values, &setting->touched[base], at->entry_count};
  ok = ok && weights_apply(weights, &arrays, detail);
  for (uint32_t i = 0; ok && i < at->entry_count; i++)
    if (setting->touched[base + i])
      setting->weights[base + i] = values[i];
  if (!ok)
    snprintf(why, SETTING_WHY, "%.60s level %u: %s", state->steer->regions[region].name, level,
             detail);
  free(names);
  free(values);
  return ok;
}

bool setting_compute(struct setting *setting, const struct state *state, const bool *picked,
                     uint32_t level, const struct weights *weights, char *why) {
  const struct steer_domain *steer = state->steer;
  snprintf(why, SETTING_WHY, "out of memory");
  setting->weights = malloc((steer->entry_count + 1) * sizeof *setting->weights);
  setting->touched = calloc(steer->entry_count + 1, sizeof *setting->touched);
  if (!setting->weights || !setting->touched)
    return false;
  memcpy(setting->weights, state->weights, steer->entry_count * sizeof *setting->weights);
  if (!has_levels(steer, picked, level, why) || !has_endpoints(steer, picked, level, weights, why))
    return false;
  for (uint32_t r = 0; r < steer->region_count; r++)
    if (picked[r] && !compute_level(setting, state, r, level, weights, why))
      return false;
  return true;
}

void setting_close(struct setting *setting) {
  free(setting->weights);
  free(setting->touched);
  *setting = (struct setting){0};
}

/* ---- judging -------------------------------------------------------------------------------- */

struct judging {
  const struct setting *setting;
  const struct state *state;
  uint32_t level;
  struct buf *refusal;
  struct buf *warnings;
};

/* Appends "; then served: level 2: b 100%". */
static void add_served(const struct judging *j, const struct effect_region *region, int type,
                       struct buf *out) {
  const struct steer_domain *steer = j->state->steer;
  if (type >= 0) {
    effect_describe(steer, region, (enum steer_type)type, out);
    return;
  }
  bool first = true;
  for (int t = 0; t < STEER_TYPES; t++) {
    if (!steer->offers[t])
      continue;
    buf_printf(out, "%s%s by ", first ? "" : "; ", effect_type_name((enum steer_type)t));
    effect_describe(steer, region, (enum steer_type)t, out);
    first = false;
  }
}

/* Tells of a level, or of a type in it, that has no weight above 0. */
static void judge_empty(const struct judging *j, const struct effect_region *region, int type,
                        bool before) {
  const char *name = j->state->steer->regions[region->region].name;
  const char *type_name = type >= 0 ? effect_type_name((enum steer_type)type) : "";
  if (before) {
    buf_printf(j->warnings, "level %u of %s has no weight above 0%s%s\n", j->level, name,
               type >= 0 ? " for " : "", type_name);
    return;
  }
  if (j->refusal->len > 600)
    return;
  buf_printf(j->refusal, "%slevel %u of %s would have no weight above 0%s%s (served then: ",
             j->refusal->len ? "; " : "", j->level, name, type >= 0 ? " for " : "", type_name);
  add_served(j, region, type, j->refusal);
  buf_add_str(j->refusal, ")");
}

static bool is_touched(const struct judging *j, uint32_t region, uint16_t endpoint) {
  long entry = state_entry(j->state->steer, region, j->level, endpoint);
  return entry >= 0 && j->setting->touched[entry];
}

static void judge_region(const struct judging *j, const struct effect_region *region) {
  const struct steer_domain *steer = j->state->steer;
  bool empty[STEER_TYPES] = {false}, before[STEER_TYPES] = {false};
  bool all_empty = true, all_before = true;
  for (int t = 0; t < STEER_TYPES; t++) {
    if (!steer->offers[t])
      continue;
    empty[t] = effect_level_is_empty(steer, region->region, j->level, (enum steer_type)t,
                                     j->setting->weights);
    before[t] = effect_level_is_empty(steer, region->region, j->level, (enum steer_type)t,
                                      j->state->weights);
    all_empty = all_empty && empty[t];
    all_before = all_before && before[t];
  }
  if (all_empty) {
    judge_empty(j, region, -1, all_before);
    return;
  }
  for (int t = 0; t < STEER_TYPES; t++) {
    if (!steer->offers[t])
      continue;
    long single = effect_level_single(steer, region->region, j->level, (enum steer_type)t);
    if (empty[t])
      judge_empty(j, region, t, before[t]);
    else if (single >= 0 && is_touched(j, region->region, (uint16_t)single))
      buf_printf(j->warnings,
                 "only %s has %s in level %u of %s: its weight cannot move that type\n",
                 steer->endpoints[single].name, effect_type_name((enum steer_type)t), j->level,
                 steer->regions[region->region].name);
  }
}

bool setting_judge(const struct setting *setting, const struct state *state, const bool *picked,
                   uint32_t level, struct buf *refusal, struct buf *warnings) {
  struct effect effect;
  struct steer_facts facts = {.status = state->status, .weights = setting->weights};
  bool ok = effect_compute(&effect, state->steer, &facts, picked);
  struct judging j = {setting, state, level, refusal, warnings};
  for (size_t i = 0; ok && i < effect.count; i++)
    judge_region(&j, &effect.regions[i]);
  effect_close(&effect);
  return ok && !refusal->failed && !warnings->failed;
}
