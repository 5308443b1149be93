/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/endpoints/change.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/buf.h"
#include "tools/cli.h"
#include "tools/wrap.h"

enum {
  ATTEMPTS = 200,
  PAUSE_MAX_MS = 40,
  ITEM = 2,
  AUDITED = 300, /* changes that the trail tells one by one; it has room for 64 KiB */
};

/* ---- plans ---------------------------------------------------------------------------------- */

static json_t *text_or_null(const char *text) {
  return text ? json_string(text) : json_null();
}

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

/* ---- who gets it ----------------------------------------------------------------------------- */

struct change_target {
  const char *name;
  enum backend_commit (*apply)(struct backend *backend, const struct plan *plan,
                               const json_t *audit, int *status);
};

static enum backend_commit apply_here(struct backend *backend, const struct plan *plan,
                                      const json_t *audit, int *status) {
  return backend_commit(backend, plan->state, plan->changes, audit, status);
}

static const struct change_target change_targets[] = {{"sluice", apply_here}};

/* The first one decides whether the plan was still right. */
static enum backend_commit apply_all(struct backend *backend, const struct plan *plan,
                                     const json_t *audit, int *status) {
  enum backend_commit result = BACKEND_DONE;
  for (size_t i = 0; i < CLI_COUNT(change_targets) && result == BACKEND_DONE; i++)
    result = change_targets[i].apply(backend, plan, audit, status);
  return result;
}

/* ---- plan, commit, again --------------------------------------------------------------------- */

static void pause_before(unsigned attempt) {
  uint32_t random = 0;
  if (getrandom(&random, sizeof random, 0) < 0)
    random = attempt;
  uint32_t most = attempt < PAUSE_MAX_MS / 2 ? 2 * attempt + 1 : PAUSE_MAX_MS;
  struct timespec wait = {.tv_nsec = (long)(random % (most * 1000)) * 1000};
  nanosleep(&wait, NULL);
}

/* What the trail gets: of many changes the first ones, and how many there are. */
static json_t *audited(json_t *what) {
  json_t *changes = json_object_get(what, "changes");
  size_t count = json_array_size(changes);
  json_t *copy = json_copy(what);
  if (count <= AUDITED || !copy)
    return copy;
  json_t *some = json_array();
  for (size_t i = 0; i < AUDITED; i++)
    json_array_append(some, json_array_get(changes, i));
  json_object_set_new(copy, "changes", some);
  json_object_set_new(copy, "change_count", json_integer((json_int_t)count));
  return copy;
}

static int attempt(struct backend *backend, const struct change *change, const struct state *state,
                   struct change_result *result, bool *again) {
  struct plan plan = {
      .state = state,
      .changes = json_array(),
      .what = json_pack("{s:[]}", "changes"),
      .expires_at = change->expires_at,
      .reason = change->reason,
  };
  int status = CLI_FAILED;
  *again = false;
  if (!plan.changes || !plan.what)
    cli_error("out of memory");
  else
    status = change->plan(change->arg, &plan);
  if (status == CLI_DONE && change->expires_at > 0)
    json_object_set_new(plan.what, "until", json_integer(change->expires_at));
  if (status == CLI_DONE && !change->dry_run && json_array_size(plan.changes) > 0) {
    json_t *audit =
        json_pack("{s:s, s:s, s:o, s:o}", "command", change->command, "domain", state->name, "what",
                  audited(plan.what), "reason", text_or_null(change->reason));
    enum backend_commit done = apply_all(backend, &plan, audit, &status);
    *again = done == BACKEND_CONFLICT;
    result->unknown = done == BACKEND_UNKNOWN;
    json_decref(audit);
  }
  json_decref(result->changes);
  result->changes = json_incref(json_object_get(plan.what, "changes"));
  json_decref(plan.changes);
  json_decref(plan.what);
  return status;
}

int change_make(struct backend *backend, const char *domain, const struct change *change,
                struct change_result *result) {
  *result = (struct change_result){0};
  for (unsigned i = 0; i < ATTEMPTS; i++) {
    bool again;
    if (i > 0)
      pause_before(i);
    state_free(result->planned);
    int status = backend_domain(backend, domain, &result->planned);
    if (status != CLI_DONE)
      return status;
    status = attempt(backend, change, result->planned, result, &again);
    if (!again)
      return status;
  }
  cli_error("others keep changing %s; nothing was done, try again", domain);
  return CLI_FAILED;
}

void change_result_close(struct change_result *result) {
  json_decref(result->changes);
  state_free(result->planned);
  *result = (struct change_result){0};
}

int change_end(const struct backend *backend, int status) {
  if (status != CLI_DONE || !backend_is_offline(backend))
    return status;
  cli_error("saved, but the server is not running; it holds from its next start on");
  return CLI_PARTIAL;
}

/* ---- output --------------------------------------------------------------------------------- */

static void add_value(struct buf *out, const json_t *value) {
  if (json_is_integer(value))
    buf_printf(out, "%lld", (long long)json_integer_value(value));
  else
    buf_add_str(out, json_is_string(value) ? json_string_value(value) : "as configured");
}

static const char *string(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static void add_change(struct buf *out, const json_t *item) {
  json_int_t family = json_integer_value(json_object_get(item, "family"));
  buf_printf(out, "%s%s ", out->len ? ", " : "", string(item, "endpoint"));
  if (family)
    buf_printf(out, "for IPv%d ", family == 6 ? 6 : 4);
  add_value(out, json_object_get(item, "old"));
  buf_add_str(out, " -> ");
  add_value(out, json_object_get(item, "new"));
}

/* The level that a change is about, or "". */
static void place_of(const json_t *item, char out[96]) {
  json_int_t level = json_integer_value(json_object_get(item, "level"));
  *out = 0;
  if (*string(item, "region"))
    snprintf(out, 96, "%.70s level %lld: ", string(item, "region"), (long long)level);
}

void change_print(FILE *out, const json_t *changes) {
  char place[96] = "", next[96];
  struct buf line;
  size_t i;
  const json_t *item;
  buf_init(&line);
  json_array_foreach(changes, i, item) {
    place_of(item, next);
    if (i > 0 && strcmp(place, next) != 0) {
      wrap_to(out, "", ITEM, "%s%s", place, buf_text(&line));
      buf_clear(&line);
    }
    memcpy(place, next, sizeof place);
    add_change(&line, item);
  }
  if (line.len > 0)
    wrap_to(out, "", ITEM, "%s%s", place, buf_text(&line));
  buf_close(&line);
}
