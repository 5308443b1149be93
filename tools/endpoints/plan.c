/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan holds: the changes for a commit, and the same for the audit trail. */
#include <string.h>

#include "tools/endpoints/change.h"

/* The new value in words where it has one. */
static json_t *shown_value(enum store_kind kind, int value) {
  if (kind == STORE_STATUS)
    return json_string(value == STATE_STATUS_ENABLED ? "enabled" : "disabled");
  if (kind == STORE_HEALTH)
    return json_string(value == 1 ? "up" : "down");
  return json_integer(value);
}

static void add(struct plan *plan, const struct store_key *key, json_t *old, json_t *new) {
  json_t *item = json_pack("{s:s, s:s, s:o, s:o}", "kind", state_kind_name(key->kind), "endpoint",
                           key->endpoint, "old", old, "new", new);
  if (*key->region)
    json_object_set_new(item, "region", json_string(key->region));
  if (key->level)
    json_object_set_new(item, "level", json_integer(key->level));
  if (key->family)
    json_object_set_new(item, "family", json_integer(key->family));
  json_array_append_new(json_object_get(plan->what, "changes"), item);
}

static json_t *change_json(const struct plan *plan, const char *op, const struct store_key *key) {
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "op", op, "kind",
                   state_kind_name(key->kind), "domain", plan->state->name, "endpoint",
                   key->endpoint, "region", key->region, "level", (json_int_t)key->level, "family",
                   (json_int_t)key->family);
}

static void add_set(struct plan *plan, const struct store_key *key, int value, const char *cause,
                    const char *before) {
  json_t *change = change_json(plan, "set", key);
  json_object_set_new(change, "value", json_integer(value));
  json_object_set_new(change, "expires_at", json_integer(plan->expires_at));
  if (cause)
    json_object_set_new(change, "cause", json_string(cause));
  if (before)
    json_object_set_new(change, "before", json_string(before));
  if (plan->reason)
    json_object_set_new(change, "reason", json_string(plan->reason));
  json_array_append_new(plan->changes, change);
}

static int weight_now(const struct state *state, uint32_t region, uint32_t level, size_t entry) {
  if (state->weights[entry] >= 0)
    return state->weights[entry];
  size_t at = entry - state_level_base(state->steer, region, level);
  return state->steer->regions[region].levels[level - 1].entries[at].weight;
}

void plan_weight(struct plan *plan, uint32_t region, uint32_t level, uint16_t endpoint, int value,
                 const char *cause, const char *before) {
  const struct steer_domain *steer = plan->state->steer;
  long entry = state_entry(steer, region, level, endpoint);
  if (entry < 0)
    return;
  struct store_key key = {.kind = STORE_WEIGHT,
                          .endpoint = steer->endpoints[endpoint].name,
                          .region = steer->regions[region].name,
                          .level = level};
  add(plan, &key, json_integer(weight_now(plan->state, region, level, (size_t)entry)),
      json_integer(value));
  add_set(plan, &key, value, cause, before);
}

void plan_status(struct plan *plan, uint16_t endpoint, int value) {
  const struct store_override *old = plan->state->status_of[endpoint];
  struct store_key key = {
      .kind = STORE_STATUS, .endpoint = plan->state->steer->endpoints[endpoint].name, .region = ""};
  add(plan, &key, old ? shown_value(STORE_STATUS, old->value) : json_null(),
      shown_value(STORE_STATUS, value));
  add_set(plan, &key, value, NULL, NULL);
}

static const struct store_override *find_health(const struct state *state, const char *endpoint,
                                                uint8_t family) {
  for (size_t i = 0; i < state->override_count; i++) {
    const struct store_override *o = &state->overrides[i];
    if (o->key.kind == STORE_HEALTH && o->key.family == family &&
        strcmp(o->key.endpoint, endpoint) == 0)
      return o;
  }
  return NULL;
}

void plan_health(struct plan *plan, uint16_t endpoint, uint8_t family, int value) {
  const char *name = plan->state->steer->endpoints[endpoint].name;
  const struct store_override *old = find_health(plan->state, name, family);
  struct store_key key = {.kind = STORE_HEALTH, .endpoint = name, .region = "", .family = family};
  if (value == 0 && old) {
    plan_drop(plan, old);
  } else if (value != 0) {
    add(plan, &key, old ? shown_value(STORE_HEALTH, old->value) : json_null(),
        shown_value(STORE_HEALTH, value));
    add_set(plan, &key, value, NULL, NULL);
  }
}

/* What holds after an override of a weight is gone, or null. */
static json_t *configured(const struct state *state, const struct store_key *key) {
  long region = steer_region_find(state->steer, key->region);
  long endpoint = steer_endpoint_find(state->steer, key->endpoint);
  long entry = key->kind != STORE_WEIGHT || region < 0 || endpoint < 0
                   ? -1
                   : state_entry(state->steer, (uint32_t)region, key->level, (uint32_t)endpoint);
  if (entry < 0)
    return json_null();
  size_t at = (size_t)entry - state_level_base(state->steer, (uint32_t)region, key->level);
  return json_integer(state->steer->regions[region].levels[key->level - 1].entries[at].weight);
}

void plan_drop(struct plan *plan, const struct store_override *o) {
  add(plan, &o->key, shown_value(o->key.kind, o->value), configured(plan->state, &o->key));
  json_array_append_new(plan->changes, change_json(plan, "drop", &o->key));
}
