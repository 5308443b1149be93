/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "steering/layers.h"
#include "tools/endpoints/show.h"

static json_t *text_or_null(const char *text) {
  return text ? json_string(text) : json_null();
}

static json_t *time_or_null(int64_t when) {
  return when > 0 ? json_integer(when) : json_null();
}

json_t *show_override_json(const struct store_override *o) {
  const char *value = o->key.kind == STORE_STATUS   ? (o->value == 1 ? "enabled" : "disabled")
                      : o->key.kind == STORE_HEALTH ? (o->value == 1 ? "up" : "down")
                                                    : NULL;
  return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "kind",
                   state_kind_name(o->key.kind), "endpoint", o->key.endpoint, "region",
                   text_or_null(*o->key.region ? o->key.region : NULL), "level",
                   o->key.level ? json_integer(o->key.level) : json_null(), "family",
                   o->key.family ? json_integer(o->key.family) : json_null(), "value",
                   value ? json_string(value) : json_integer(o->value), "who", text_or_null(o->who),
                   "origin", text_or_null(o->origin), "reason", text_or_null(o->reason), "since",
                   time_or_null(o->set_at), "until", time_or_null(o->expires_at), "cause",
                   text_or_null(o->cause));
}

static json_t *health_json(const struct state *state, const struct steer_endpoint *endpoint,
                           uint16_t index) {
  static const char *const words[] = {"unknown", "up", "down"};
  json_t *object = json_object();
  for (int f = 0; f < 2; f++) {
    const struct state_health *health = &state->health[index][f];
    if (!endpoint->host && (f ? endpoint->addr6_count : endpoint->addr4_count) == 0)
      continue;
    json_object_set_new(object, f ? "6" : "4",
                        json_pack("{s:s, s:s, s:b, s:b, s:o, s:o}", "state", words[health->health],
                                  "measured", words[health->measured], "checked",
                                  (int)health->checked, "forced", (int)(health->forced != NULL),
                                  "since", time_or_null(health->since), "why",
                                  text_or_null(health->why)));
  }
  return object;
}

static json_t *endpoints_json(const struct show *show) {
  const struct state *state = show->state;
  json_t *list = json_array();
  for (uint16_t e = 0; e < state->steer->endpoint_count; e++) {
    const struct steer_endpoint *endpoint = &state->steer->endpoints[e];
    const struct store_override *manual = state->status_of[e];
    json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:o, s:o}", "endpoint", endpoint->name,
                                          "enabled",
                                          (int)!status_is_disabled(endpoint, &state->status[e]),
                                          "configured_enabled", (int)endpoint->enabled, "manual",
                                          manual ? show_override_json(manual) : json_null(),
                                          "health", health_json(state, endpoint, e)));
  }
  return list;
}

static json_t *entry_json(const struct show *show, const struct effect_entry *entry) {
  const struct state *state = show->state;
  json_t *share = json_object(), *configured = json_object(), *eligible = json_object();
  for (int t = 0; t < STEER_TYPES; t++) {
    const char *name = effect_type_name((enum steer_type)t);
    if (!entry->has[t])
      continue;
    json_object_set_new(share, name, json_real(entry->share[t]));
    json_object_set_new(configured, name, json_real(entry->configured_share[t]));
    json_object_set_new(eligible, name, json_boolean(entry->eligible[t]));
  }
  const struct store_override *o = state->weight_of[entry->index];
  return json_pack("{s:s, s:i, s:i, s:o, s:o, s:o, s:o}", "endpoint",
                   state->steer->endpoints[entry->endpoint].name, "weight", (int)entry->weight,
                   "configured_weight", (int)entry->configured, "share", share, "configured_share",
                   configured, "eligible", eligible, "override",
                   o ? show_override_json(o) : json_null());
}

static json_t *region_json(const struct show *show, const struct effect_region *region) {
  const struct steer_domain *steer = show->state->steer;
  json_t *levels = json_array(), *now = json_object();
  json_t *entries = NULL;
  unsigned level = 0;
  for (size_t i = 0; i < region->count; i++) {
    const struct effect_entry *entry = &region->entries[i];
    if (entry->level != level) {
      level = entry->level;
      entries = json_array();
      json_array_append_new(levels,
                            json_pack("{s:i, s:o}", "level", (int)level, "endpoints", entries));
    }
    json_array_append_new(entries, entry_json(show, entry));
  }
  for (int t = 0; t < STEER_TYPES; t++)
    if (steer->offers[t])
      json_object_set_new(now, effect_type_name((enum steer_type)t),
                          json_pack("{s:i, s:b}", "level", (int)region->level[t], "fallback",
                                    (int)region->fallback[t]));
  return json_pack("{s:s, s:o, s:o}", "region", steer->regions[region->region].name, "now", now,
                   "levels", levels);
}

static json_t *overrides_json(const struct state *state) {
  json_t *list = json_array();
  for (size_t i = 0; i < state->override_count; i++)
    json_array_append_new(list, show_override_json(&state->overrides[i]));
  return list;
}

json_t *show_json(const struct show *show) {
  const struct state *state = show->state;
  json_t *types = json_array(), *regions = json_array();
  for (int t = 0; t < STEER_TYPES; t++)
    if (state->steer->offers[t])
      json_array_append_new(types, json_string(effect_type_name((enum steer_type)t)));
  for (size_t i = 0; i < show->effect->count; i++)
    json_array_append_new(regions, region_json(show, &show->effect->regions[i]));
  json_t *health = json_pack("{s:b, s:o, s:b}", "connected", (int)state->feed_connected, "age",
                             state->feed_age >= 0 ? json_real(state->feed_age) : json_null(),
                             "stale", (int)state->feed_stale);
  return json_pack(
      "{s:s, s:o, s:o, s:I, s:i, s:o, s:I, s:b, s:o, s:o, s:o, s:o}", "domain", state->name, "zone",
      text_or_null(state->zone), "owner", text_or_null(show->owner), "ttl",
      (json_int_t)state->steer->ttl, "answers", (int)state->steer->answers, "types", types,
      "revision", (json_int_t)state->revision, "serving", (int)!show->offline, "health", health,
      "endpoints", endpoints_json(show), "regions", regions, "overrides", overrides_json(state));
}
