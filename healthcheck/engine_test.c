/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that someone wants to see run now: beside the schedule, without an effect on any state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "healthcheck/engine_private.h"

enum { TRIES_MAX = 256 }; /* in one test */

struct try {
  struct engine_test *test;
  struct list_check *check; /* a reference */
  struct probe_target target;
  char *text;
  char *endpoint;
  uint8_t state; /* enum machine_state */
  struct probe *probe;
  struct probe_result result;
  bool begun;
};

struct engine_test {
  struct engine *engine;
  struct engine_test *next, **at;
  engine_test_fn *done;
  void *arg;
  uv_timer_t begin; /* so that `done` never comes from inside of engine_test() */
  size_t count, left;
  struct try tries[];
};

/* ---- the end ----------------------------------------------------------------------------------
 */

static void on_test_closed(uv_handle_t *handle) {
  struct engine_test *test = handle->data;
  for (size_t i = 0; i < test->count; i++) {
    list_check_unref(test->tries[i].check);
    free(test->tries[i].text);
    free(test->tries[i].endpoint);
  }
  free(test);
}

static void end_test(struct engine_test *test) {
  for (size_t i = 0; i < test->count; i++)
    if (test->tries[i].probe != NULL)
      probe_cancel(test->tries[i].probe);
  *test->at = test->next;
  if (test->next != NULL)
    test->next->at = test->at;
  uv_close((uv_handle_t *)&test->begin, on_test_closed);
}

void engine_test_cancel(struct engine_test *test) {
  end_test(test);
}

/* ---- results ----------------------------------------------------------------------------------
 */

static json_t *phases_json(const struct probe_result *result) {
  static const char *const names[PROBE_PHASES] = {
      [PHASE_RESOLVE] = "resolve", [PHASE_CONNECT] = "connect",      [PHASE_TLS] = "tls",
      [PHASE_SEND] = "send",       [PHASE_FIRST] = "first_response", [PHASE_ALL] = "all"};
  json_t *out = json_object();
  for (int i = 0; i < PROBE_PHASES; i++)
    json_object_set_new(out, names[i],
                        result->phase_us[i] >= 0 ? json_integer(result->phase_us[i]) : json_null());
  return out;
}

static json_t *try_json(const struct try *try) {
  const struct check *check = try->check->check;
  const char *what = engine_what(check);
  return json_pack("{s:s, s:s, s:s, s:o, s:s?, s:b, s:s, s:o, s:s}", "endpoint", try->endpoint,
                   "target", try->text, "type", check_type_name(check->type), "port",
                   check->port != 0 ? json_integer(check->port) : json_null(), "what", what, "ok",
                   try->result.ok, "why", try->result.reason, "phases_us",
                   phases_json(&try->result), "state",
                   machine_state_name((enum machine_state)try->state));
}

static void finish(struct engine_test *test) {
  json_t *results = json_array();
  for (size_t i = 0; i < test->count; i++)
    json_array_append_new(results, try_json(&test->tries[i]));
  engine_test_fn *done = test->done;
  void *arg = test->arg;
  end_test(test);
  done(arg, results);
  json_decref(results);
}

static void on_tried(void *arg, const struct probe_result *result) {
  struct try *try = arg;
  try->probe = NULL;
  try->result = *result;
  if (--try->test->left == 0)
    finish(try->test);
}

static void on_begin(uv_timer_t *timer) {
  struct engine_test *test = timer->data;
  for (size_t i = 0; i < test->count; i++) {
    struct try *try = &test->tries[i];
    try->probe = probe_start(test->engine->probes, try->check->check, &try->target, on_tried, try);
    if (try->probe != NULL)
      continue;
    snprintf(try->result.reason, sizeof try->result.reason, "out of memory");
    for (int p = 0; p < PROBE_PHASES; p++)
      try->result.phase_us[p] = -1;
    test->left--;
  }
  if (test->left == 0)
    finish(test);
}

/* ---- what is to be tried ----------------------------------------------------------------------
 */

static bool add_try(struct engine_test *test, const struct slot *slot, const char *endpoint) {
  struct try *try = &test->tries[test->count];
  *try = (struct try){.test = test,
                      .check = slot->check,
                      .target = slot->target,
                      .text = strdup(slot->text),
                      .endpoint = strdup(endpoint),
                      .state = slot->judged};
  list_check_ref(try->check);
  test->count++;
  if (slot->target.family == 0)
    try->target.host = try->text;
  return try->text != NULL && try->endpoint != NULL;
}

static bool add_subject(struct engine_test *test, const struct list_subject *subject,
                        const char *endpoint, char *why) {
  for (uint32_t i = 0; i < subject->count4 + subject->count6; i++) {
    if (test->count == TRIES_MAX) {
      snprintf(why, ENGINE_WHY, "more than %d addresses; name one endpoint", TRIES_MAX);
      return false;
    }
    if (!add_try(test, test->engine->slots[subject->probes[i]], endpoint)) {
      snprintf(why, ENGINE_WHY, "out of memory");
      return false;
    }
  }
  return true;
}

/* In the order in which the list has the domain's endpoints. */
static bool collect(struct engine_test *test, uint32_t domain, const char *endpoint, char *why) {
  const struct list *list = test->engine->list;
  const struct list_domain *d = &list->domains[domain];
  uint16_t only = 0;
  if (endpoint != NULL && !engine_find_endpoint(test->engine, domain, endpoint, &only)) {
    snprintf(why, ENGINE_WHY, "%.200s has no endpoint %.80s", d->name, endpoint);
    return false;
  }
  uint32_t *subjects = malloc(((size_t)d->endpoint_count + 1) * sizeof *subjects);
  if (subjects == NULL) {
    snprintf(why, ENGINE_WHY, "out of memory");
    return false;
  }
  for (uint32_t e = 0; e < d->endpoint_count; e++)
    subjects[e] = UINT32_MAX;
  for (uint32_t s = 0; s < list->subject_count; s++)
    for (uint32_t t = 0; t < list->subjects[s].target_count; t++)
      if (list->subjects[s].targets[t].domain == domain)
        subjects[list->subjects[s].targets[t].endpoint] = s;
  bool ok = true;
  for (uint32_t e = 0; ok && e < d->endpoint_count; e++)
    if (subjects[e] != UINT32_MAX && (endpoint == NULL || e == only))
      ok = add_subject(test, &list->subjects[subjects[e]], d->endpoints[e], why);
  free(subjects);
  if (!ok || test->count > 0)
    return ok;
  snprintf(why, ENGINE_WHY, "%.200s%s%.80s has no health check", d->name, endpoint ? " " : "",
           endpoint ? endpoint : "");
  return false;
}

struct engine_test *engine_test(struct engine *engine, const char *domain, const char *endpoint,
                                engine_test_fn *done, void *arg, char *why) {
  uint32_t index;
  if (!engine_find_domain(engine, domain, &index, why))
    return NULL;
  struct engine_test *test = calloc(1, sizeof *test + (size_t)TRIES_MAX * sizeof test->tries[0]);
  if (test == NULL) {
    snprintf(why, ENGINE_WHY, "out of memory");
    return NULL;
  }
  test->engine = engine;
  test->done = done;
  test->arg = arg;
  test->begin.data = test;
  test->next = engine->tests;
  test->at = &engine->tests;
  if (test->next != NULL)
    test->next->at = &test->next;
  engine->tests = test;
  uv_timer_init(engine->loop, &test->begin);
  if (!collect(test, index, endpoint, why)) {
    end_test(test);
    return NULL;
  }
  test->left = test->count;
  uv_timer_start(&test->begin, on_begin, 0, 0);
  return test;
}
