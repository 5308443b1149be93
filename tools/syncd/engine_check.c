/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole reading of each provider from time to time.  What differs there and is ours becomes jobs
 * of the queue, as any change: or is only told, with `repair: false`.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "tools/syncd/engine_private.h"

enum { AGAIN_MS = 5000, JITTER = 5, SHOWN = 5 };

/* A fifth more or less, so that many of these do not ask a provider all at once. */
static uint64_t interval(const struct provider *p) {
  double whole = 1000.0 * p->engine->settings->check;
  return (uint64_t)(whole * (1 + (2 * engine_random() - 1) / JITTER));
}

static void on_check(uv_work_t *work) {
  struct provider *p = work->data;
  p->differs = round_check(p->engine->settings, p->queue.name, p->check_why);
}

/* The first differences as a text. */
static void describe(const json_t *differs, char *out, size_t size) {
  const char *key;
  json_t *text;
  size_t n = 0;
  size_t at = 0;
  out[0] = '\0';
  json_object_foreach((json_t *)(uintptr_t)differs, key, text) {
    const char *what = json_string_value(text);
    if (n++ < SHOWN && at < size)
      at += (size_t)snprintf(out + at, size - at, "%s%s", n > 1 ? "; " : "", what ? what : key);
  }
  if (n > SHOWN && at < size)
    snprintf(out + at, size - at, "; and %zu more", n - SHOWN);
}

/* What is a job already will be brought level anyhow. */
static void take_differs(struct provider *p) {
  const char *key;
  json_t *text;
  void *next;
  bool repair = p->engine->settings->repair;
  json_object_foreach_safe(p->differs, next, key, text) {
    const char *want = json_string_value(json_object_get(p->places, key));
    if (want == NULL || json_object_get(p->queue.jobs, key) != NULL)
      json_object_del(p->differs, key);
    else if (repair)
      engine_demand(p, key, want, true);
  }
  p->checked = (int64_t)time(NULL);
  p->check_error[0] = '\0';
  bool told = p->drift_now && json_object_size(p->differs) == p->drift_names;
  p->drift_now = !repair && json_object_size(p->differs) > 0;
  if (json_object_size(p->differs) == 0)
    return;
  p->drift_at = p->checked;
  p->drift_names = json_object_size(p->differs);
  describe(p->differs, p->drift_what, sizeof p->drift_what);
  if (!told)
    log_warning("%s differs from what is to be there, %s: %s", p->queue.name,
                repair ? "and is brought level" : "and stays so (`repair: false`)", p->drift_what);
  engine_save(p->engine);
  engine_start_round(p);
}

static void on_check_done(uv_work_t *work, int status) {
  struct provider *p = work->data;
  uint64_t now = uv_now(p->engine->loop);
  uint64_t pause = interval(p);
  (void)status;
  p->checking = false;
  /* Half of it may be of before a change, and half of afterwards. */
  bool mixed = p->check_mixed || p->working || p->round != p->check_round;
  if (p->differs == NULL) {
    if (strcmp(p->check_error, p->check_why) != 0)
      log_warning("%s cannot be read as a whole: %s", p->queue.name, p->check_why);
    memcpy(p->check_error, p->check_why, sizeof p->check_error);
  } else if (mixed && json_object_size(p->differs) > 0) {
    pause = pause < AGAIN_MS ? pause : AGAIN_MS;
  } else {
    take_differs(p);
  }
  p->check_at = now + pause;
  json_decref(p->differs);
  p->differs = NULL;
}

void engine_start_check(struct provider *p) {
  uint64_t now = uv_now(p->engine->loop);
  unsigned every = p->engine->settings->check;
  if (every == 0 || p->places == NULL || p->checking)
    return;
  if (p->check_at ==
      0) { /* it may have changed while we did not run: soon, but not with all else */
    p->check_at = now + 1 + interval(p) / 10;
    return;
  }
  if (now < p->check_at || p->working)
    return;
  p->check.data = p;
  p->check_round = p->round;
  p->check_mixed = p->working;
  p->checking = uv_queue_work(p->engine->loop, &p->check, on_check, on_check_done) == 0;
}
