/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/endpoints/draining.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/endpoints/effect.h"

size_t draining_match(const struct steer_domain *domain, const char *pattern, bool *picked) {
  size_t count = 0;
  for (uint32_t e = 0; e < domain->endpoint_count; e++) {
    picked[e] = fnmatch(pattern, domain->endpoints[e].name, 0) == 0;
    count += picked[e];
  }
  return count;
}

/* ---- drain ---------------------------------------------------------------------------------- */

static int32_t weight_of(const struct state *state, size_t index, const struct steer_entry *entry) {
  return state->weights[index] >= 0 ? state->weights[index] : entry->weight;
}

/* True if an endpoint that stays has the type and a weight in this level or a later one. */
static bool has_other(const struct state *state, const bool *picked, uint32_t region,
                      uint32_t level, enum steer_type type) {
  const struct steer_region *at = &state->steer->regions[region];
  size_t index = state_level_base(state->steer, region, level);
  for (uint32_t l = level - 1; l < at->level_count; l++)
    for (uint32_t i = 0; i < at->levels[l].entry_count; i++, index++) {
      const struct steer_entry *entry = &at->levels[l].entries[i];
      if (!picked[entry->endpoint] && weight_of(state, index, entry) > 0 &&
          steer_endpoint_has(&state->steer->endpoints[entry->endpoint], type))
        return true;
    }
  return false;
}

static bool can_drain(const struct state *state, const bool *picked, uint32_t region,
                      uint32_t level, uint16_t endpoint, char *why) {
  for (int t = 0; t < STEER_TYPES; t++) {
    if (!state->steer->offers[t] ||
        !steer_endpoint_has(&state->steer->endpoints[endpoint], (enum steer_type)t) ||
        has_other(state, picked, region, level, (enum steer_type)t))
      continue;
    snprintf(why, DRAINING_WHY, "in %.80s nothing else has a weight for %s from level %u on",
             state->steer->regions[region].name, effect_type_name((enum steer_type)t), level);
    return false;
  }
  return true;
}

/* The override that is replaced, so that it can be put back: "" for none. */
static char *before_text(const struct store_override *o) {
  if (!o)
    return strdup("");
  json_t *json = json_pack("{s:i, s:I, s:I, s:s?, s:s?, s:s?}", "value", (int)o->value, "set_at",
                           (json_int_t)o->set_at, "expires_at", (json_int_t)o->expires_at, "who",
                           o->who, "origin", o->origin, "reason", o->reason);
  char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
  json_decref(json);
  return text;
}

/* An entry that has weight 0 already stays as it is, unless that ends by itself. */
static bool needs_drain(const struct state *state, size_t index, const struct steer_entry *entry) {
  const struct store_override *o = state->weight_of[index];
  return weight_of(state, index, entry) > 0 || (o && o->expires_at > 0);
}

static bool plan_entry(struct plan *plan, uint32_t region, uint32_t level, uint16_t endpoint,
                       size_t index, const char *cause, char *why) {
  char *before = before_text(plan->state->weight_of[index]);
  if (!before) {
    snprintf(why, DRAINING_WHY, "out of memory");
    return false;
  }
  plan_weight(plan, region, level, endpoint, 0, cause, before);
  free(before);
  return true;
}

bool draining_plan(struct plan *plan, const bool *picked, const char *cause, char *why) {
  const struct state *state = plan->state;
  size_t index = 0;
  for (uint32_t r = 0; r < state->steer->region_count; r++)
    for (uint32_t l = 0; l < state->steer->regions[r].level_count; l++) {
      const struct steer_level *level = &state->steer->regions[r].levels[l];
      for (uint32_t i = 0; i < level->entry_count; i++, index++) {
        const struct steer_entry *entry = &level->entries[i];
        if (!picked[entry->endpoint] || !needs_drain(state, index, entry))
          continue;
        if (!can_drain(state, picked, r, l + 1, entry->endpoint, why) ||
            !plan_entry(plan, r, l + 1, entry->endpoint, index, cause, why))
          return false;
      }
    }
  return true;
}

/* ---- undrain -------------------------------------------------------------------------------- */

static void undo_one(struct plan *plan, const struct store_override *o, int64_t now) {
  json_t *before = o->before && *o->before ? json_loads(o->before, 0, NULL) : NULL;
  const json_t *value = json_object_get(before, "value");
  json_int_t expires_at = json_integer_value(json_object_get(before, "expires_at"));
  long region = steer_region_find(plan->state->steer, o->key.region);
  long endpoint = steer_endpoint_find(plan->state->steer, o->key.endpoint);
  bool again = json_is_integer(value) && json_integer_value(value) >= 0 &&
               json_integer_value(value) <= STEER_MAX_WEIGHT && region >= 0 && endpoint >= 0 &&
               (expires_at == 0 || expires_at > now);
  if (again) {
    plan->expires_at = expires_at;
    plan->reason = json_string_value(json_object_get(before, "reason"));
    plan_weight(plan, (uint32_t)region, o->key.level, (uint16_t)endpoint,
                (int)json_integer_value(value), NULL, NULL);
  } else {
    plan_drop(plan, o);
  }
  json_decref(before);
}

void draining_undo(struct plan *plan, const char *cause, int64_t now) {
  const char *reason = plan->reason;
  for (size_t i = 0; i < plan->state->override_count; i++) {
    const struct store_override *o = &plan->state->overrides[i];
    if (o->key.kind == STORE_WEIGHT && o->cause && strcmp(o->cause, cause) == 0)
      undo_one(plan, o, now);
  }
  plan->expires_at = 0;
  plan->reason = reason;
}

static const char *text(const json_t *object, const char *key) {
  const char *value = json_string_value(json_object_get(object, key));
  return value ? value : "";
}

/* The override of a weight that a row of the trail is about, or NULL. */
static const struct store_override *override_now(const struct state *state, const json_t *change) {
  long region = steer_region_find(state->steer, text(change, "region"));
  long endpoint = steer_endpoint_find(state->steer, text(change, "endpoint"));
  json_int_t level = json_integer_value(json_object_get(change, "level"));
  long entry =
      region < 0 || endpoint < 0 || level < 1 || level > UINT16_MAX
          ? -1
          : state_entry(state->steer, (uint32_t)region, (uint32_t)level, (uint32_t)endpoint);
  return entry < 0 ? NULL : state->weight_of[entry];
}

json_t *draining_kept(const struct state *state, const json_t *history, const char *pattern,
                      const char *cause) {
  json_t *kept = json_array();
  size_t i;
  const json_t *row;
  json_array_foreach(history, i, row) {
    const json_t *what = json_object_get(row, "what");
    bool drain = strcmp(text(row, "command"), "drain") == 0;
    json_int_t revision = json_integer_value(json_object_get(row, "revision"));
    if (strcmp(text(what, "pattern"), pattern) != 0 || revision > (json_int_t)state->revision)
      continue; /* of something else, or the undrain at hand */
    if (!drain)
      break;
    size_t j;
    const json_t *change;
    json_array_foreach(json_object_get(what, "changes"), j, change) {
      const struct store_override *o = override_now(state, change);
      if (o && (!o->cause || strcmp(o->cause, cause) != 0))
        json_array_append_new(kept, json_pack("{s:s, s:I, s:s, s:i, s:s?, s:I}", "region",
                                              o->key.region, "level", (json_int_t)o->key.level,
                                              "endpoint", o->key.endpoint, "weight", (int)o->value,
                                              "who", o->who, "since", (json_int_t)o->set_at));
    }
    break; /* the latest; those before it were undone, or are part of it */
  }
  return kept;
}
