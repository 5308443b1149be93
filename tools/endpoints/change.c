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
  BEHIND_SHOWN = 20,
  AUDITED = 300, /* changes that the trail tells one by one; it has room for 64 KiB */
};

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

/* Never changes the result: what is not level yet will be, and is told at the end. */
static enum backend_commit apply_elsewhere(struct backend *backend, const struct plan *plan,
                                           const json_t *audit, int *status) {
  (void)audit;
  (void)status;
  backend_level(backend, plan->state);
  return BACKEND_DONE;
}

static const struct change_target change_targets[] = {{"sluice", apply_here},
                                                      {"other providers", apply_elsewhere}};

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
    json_t *audit = json_pack("{s:s, s:s, s:o, s:s?}", "command", change->command, "domain",
                              state->name, "what", audited(plan.what), "reason", change->reason);
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
  size_t i;
  const json_t *item;
  json_array_foreach(backend_behind(backend), i, item) {
    const char *error = json_string_value(json_object_get(item, "error"));
    if (i == BEHIND_SHOWN) {
      cli_error("... and %zu more; `sluice status` tells",
                json_array_size(backend_behind(backend)) - i);
      break;
    }
    cli_error("%s is behind at %s and will be brought level: %s",
              json_string_value(json_object_get(item, "name")),
              json_string_value(json_object_get(item, "domain")),
              error ? error : "for an unknown reason");
  }
  if (status == CLI_DONE && json_array_size(backend_behind(backend)) > 0)
    return CLI_PARTIAL;
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
