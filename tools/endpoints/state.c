/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/endpoints/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zones/domain_json.h"

/* ---- finding -------------------------------------------------------------------------------- */

size_t state_level_base(const struct steer_domain *domain, uint32_t region, uint32_t level) {
  size_t base = 0;
  for (uint32_t r = 0; r <= region; r++) {
    uint32_t levels = r == region ? level - 1 : domain->regions[r].level_count;
    for (uint32_t l = 0; l < levels; l++)
      base += domain->regions[r].levels[l].entry_count;
  }
  return base;
}

long state_entry(const struct steer_domain *domain, uint32_t region, uint32_t level,
                 uint32_t endpoint) {
  if (region >= domain->region_count || level < 1 || level > domain->regions[region].level_count)
    return -1;
  const struct steer_level *at = &domain->regions[region].levels[level - 1];
  for (uint32_t i = 0; i < at->entry_count; i++)
    if (at->entries[i].endpoint == endpoint)
      return (long)(state_level_base(domain, region, level) + i);
  return -1;
}

static const char *const kinds[] = {
    [STORE_WEIGHT] = "weight", [STORE_STATUS] = "status", [STORE_HEALTH] = "health"};

const char *state_kind_name(enum store_kind kind) {
  return kinds[kind];
}

int state_kind(const char *name) {
  for (int kind = 0; name && kind < (int)(sizeof kinds / sizeof *kinds); kind++)
    if (strcmp(kinds[kind], name) == 0)
      return kind;
  return -1;
}

/* ---- reading -------------------------------------------------------------------------------- */

static const char *text(const json_t *object, const char *key) {
  return json_string_value(json_object_get(object, key));
}

static json_int_t integer(const json_t *object, const char *key) {
  return json_integer_value(json_object_get(object, key));
}

static bool in(json_int_t value, json_int_t low, json_int_t high) {
  return value >= low && value <= high;
}

/* Puts one override to what it is about; one whose target the configuration does not have is kept
 * in the list only. */
static bool place_override(struct state *state, const struct store_override *o) {
  long endpoint = steer_endpoint_find(state->steer, o->key.endpoint);
  long region = steer_region_find(state->steer, o->key.region);
  if (o->key.kind == STORE_WEIGHT) {
    if (!in(o->value, 0, STEER_MAX_WEIGHT))
      return false;
    long entry = endpoint < 0 || region < 0 ? -1
                                            : state_entry(state->steer, (uint32_t)region,
                                                          o->key.level, (uint32_t)endpoint);
    if (entry >= 0) {
      state->weights[entry] = o->value;
      state->weight_of[entry] = o;
    }
    return true;
  }
  if (!in(o->value, 1, 2))
    return false;
  if (endpoint >= 0 && o->key.kind == STORE_STATUS) {
    state->status[endpoint].manual =
        o->value == STATE_STATUS_ENABLED ? MANUAL_ENABLED : MANUAL_DISABLED;
    state->status_of[endpoint] = o;
  }
  return true;
}

static bool read_override(struct state *state, const json_t *json) {
  int kind = state_kind(text(json, "kind"));
  const char *endpoint = text(json, "endpoint");
  const char *region = text(json, "region");
  if (kind < 0 || !endpoint || !json_is_integer(json_object_get(json, "value")))
    return false;
  json_int_t value = integer(json, "value");
  json_int_t level = integer(json, "level");
  json_int_t family = integer(json, "family");
  if (!in(value, 0, STEER_MAX_WEIGHT) || !in(level, 0, UINT16_MAX) || !in(family, 0, 6))
    return false;
  struct store_override *o = &state->overrides[state->override_count++];
  *o = (struct store_override){
      .key = {.kind = (enum store_kind)kind,
              .domain = state->name,
              .endpoint = endpoint,
              .region = region ? region : "",
              .level = (uint32_t)level,
              .family = (uint8_t)family},
      .value = (int32_t)value,
      .set_at = integer(json, "set_at"),
      .expires_at = integer(json, "expires_at"),
      .who = text(json, "who"),
      .origin = text(json, "origin"),
      .reason = text(json, "reason"),
      .cause = text(json, "cause"),
      .before = text(json, "before"),
  };
  return place_override(state, o);
}

static bool read_overrides(struct state *state, const json_t *list) {
  size_t i;
  const json_t *item;
  state->overrides = calloc(json_array_size(list) + 1, sizeof *state->overrides);
  json_array_foreach(list, i,
                     item) if (!state->overrides || !read_override(state, item)) return false;
  return state->overrides;
}

static bool read_health(struct state *state, const json_t *list) {
  static const char *const names[] = {
      [HEALTH_UNKNOWN] = "unknown", [HEALTH_UP] = "up", [HEALTH_DOWN] = "down"};
  size_t i;
  const json_t *item;
  json_array_foreach(list, i, item) {
    const char *name = text(item, "endpoint");
    const char *word = text(item, "state");
    json_int_t family = integer(item, "family");
    long endpoint = name ? steer_endpoint_find(state->steer, name) : -1;
    if (!name || !word || (family != 4 && family != 6))
      return false;
    if (endpoint < 0)
      continue;
    int value = 0;
    while (value < 3 && strcmp(names[value], word) != 0)
      value++;
    if (value == 3)
      return false;
    state->health[endpoint][family == 6] = (struct state_health){
        .health = (enum steer_health)value,
        .measured = (enum steer_health)value,
        .checked = json_is_true(json_object_get(item, "checked")),
        .since = integer(item, "since"),
        .why = text(item, "why"),
    };
  }
  return true;
}

/* Forced health counts in the place of what was measured; and that not once it is stale. */
static void force_health(struct state *state) {
  for (uint32_t e = 0; state->feed_stale && e < state->steer->endpoint_count; e++)
    state->health[e][0].health = state->health[e][1].health = HEALTH_UNKNOWN;
  for (size_t i = 0; i < state->override_count; i++) {
    const struct store_override *o = &state->overrides[i];
    long endpoint = steer_endpoint_find(state->steer, o->key.endpoint);
    if (o->key.kind != STORE_HEALTH || endpoint < 0)
      continue;
    struct state_health *health = &state->health[endpoint][o->key.family == 6];
    health->forced = o;
    health->health = o->value == 1 ? HEALTH_UP : HEALTH_DOWN;
  }
  for (uint32_t e = 0; e < state->steer->endpoint_count; e++) {
    state->status[e].health4 = (uint8_t)state->health[e][0].health;
    state->status[e].health6 = (uint8_t)state->health[e][1].health;
  }
}

static void read_feed(struct state *state, const json_t *feed) {
  const json_t *age = json_object_get(feed, "age");
  state->feed_configured = json_is_string(json_object_get(feed, "socket"));
  state->feed_connected = json_is_true(json_object_get(feed, "connected"));
  state->feed_age = json_is_number(age) ? json_number_value(age) : -1;
  state->feed_stale = json_is_true(json_object_get(feed, "stale"));
}

static bool allocate(struct state *state) {
  const struct steer_domain *steer = state->steer;
  state->weights = malloc((steer->entry_count + 1) * sizeof *state->weights);
  state->weight_of = calloc(steer->entry_count + 1, sizeof(struct store_override *));
  state->status = calloc(steer->endpoint_count, sizeof *state->status);
  state->status_of = calloc(steer->endpoint_count, sizeof(struct store_override *));
  state->health = calloc(steer->endpoint_count, sizeof *state->health);
  if (!state->weights || !state->weight_of || !state->status || !state->status_of || !state->health)
    return false;
  for (uint32_t i = 0; i < steer->entry_count; i++)
    state->weights[i] = -1;
  state->facts = (struct steer_facts){.status = state->status, .weights = state->weights};
  return true;
}

struct state *state_read(json_t *reply, char *why) {
  char detail[DOMAIN_JSON_WHY] = "";
  const char *problem = "out of memory";
  struct state *state = calloc(1, sizeof *state);
  if (!state) {
    json_decref(reply);
    goto fail;
  }
  state->reply = reply;
  const json_t *domain = json_object_get(reply, "domain");
  state->name = text(domain, "name");
  state->zone = text(domain, "zone");
  state->data = text(reply, "data");
  state->revision = (uint64_t)integer(domain, "revision");
  problem = "it has no name";
  if (!state->name)
    goto fail;
  state->steer = domain_json_decode(json_object_get(domain, "steer"), detail);
  problem = detail;
  if (!state->steer)
    goto fail;
  problem = "out of memory";
  if (!allocate(state))
    goto fail;
  problem = "an override is not well-formed";
  if (!read_overrides(state, json_object_get(domain, "overrides")))
    goto fail;
  problem = "the health of an endpoint is not well-formed";
  if (!read_health(state, json_object_get(domain, "health")))
    goto fail;
  read_feed(state, json_object_get(reply, "health"));
  force_health(state);
  return state;
fail:
  snprintf(why, STATE_WHY, "what the server tells of the domain cannot be used: %s", problem);
  state_free(state);
  return NULL;
}

void state_free(struct state *state) {
  if (!state)
    return;
  steer_domain_free(state->steer);
  free(state->weights);
  free(state->weight_of);
  free(state->status);
  free(state->status_of);
  free(state->health);
  free(state->overrides);
  json_decref(state->reply);
  free(state);
}
