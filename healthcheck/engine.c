/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/log.h"
#include "base/utf8.h"
#include "healthcheck/engine_private.h"

enum {
  TICK_MS = 250,
  LINK_TICKS = 2,  /* DATA/current is looked at so often */
  STALL_MS = 1000, /* without a tick for so long, the process did not run */
  PUMP_MS = 2,     /* probes that are due within so much start together */
  PUMP_MAX_MS = 60000,
  DESCRIPTORS_KEPT = 128,
};

/* ---- time -------------------------------------------------------------------------------------
 */

static uint64_t clock_ms(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int64_t engine_clock(void) {
  time_t now = time(NULL);
  return now > 0 ? (int64_t)now : 0;
}

/* The time that this machine slept: CLOCK_MONOTONIC stands still then. */
static uint64_t asleep_ms(void) {
  uint64_t monotonic = clock_ms(CLOCK_MONOTONIC);
  uint64_t boot = clock_ms(CLOCK_BOOTTIME);
  return boot > monotonic ? boot - monotonic : 0;
}

static void note_stall(struct engine *engine, uint64_t now, uint64_t lost) {
  log_notice("this process did not run for %llu ms: missed checks are left out",
             (unsigned long long)lost);
  engine->stalled_to = now + 1;
  schedule_skip(engine->schedule, now);
}

uint64_t engine_now(struct engine *engine) {
  uint64_t now = clock_ms(CLOCK_MONOTONIC);
  uint64_t before = engine->last_seen;
  engine->last_seen = now;
  if (now - before > STALL_MS)
    note_stall(engine, now, now - before);
  return now;
}

/* ---- probing ----------------------------------------------------------------------------------
 */

static void on_pump(uv_timer_t *timer) {
  struct engine *engine = timer->data;
  uint64_t now = engine_now(engine);
  uint32_t entry;
  uint64_t late;
  while (schedule_next(engine->schedule, now, &entry, &late)) {
    if (late > engine->late_max)
      engine->late_max = late;
    slot_probe(engine->entries[entry]);
  }
  engine_pump(engine);
}

void engine_pump(struct engine *engine) {
  uint64_t wait = schedule_wait(engine->schedule, engine_now(engine));
  if (engine->closing)
    return;
  if (wait == UINT64_MAX)
    uv_timer_stop(&engine->pump);
  else
    uv_timer_start(&engine->pump, on_pump,
                   wait < PUMP_MS       ? PUMP_MS
                   : wait < PUMP_MAX_MS ? wait
                                        : PUMP_MAX_MS,
                   0);
}

/* ---- loading ----------------------------------------------------------------------------------
 */

static void tell_waiters(struct engine_waiter *waiter, const char *why) {
  while (waiter != NULL) {
    struct engine_waiter *next = waiter->next;
    if (waiter->done != NULL)
      waiter->done(waiter->arg, why);
    free(waiter);
    waiter = next;
  }
}

static bool open_feed(struct engine *engine, char *why) {
  const struct feed_source source = {
      .arg = engine, .snapshot = engine_snapshot, .overrides = engine_overrides};
  if (engine->feed != NULL) {
    feed_reset(engine->feed);
    return true;
  }
  engine->feed = feed_open(engine->loop, engine->settings->feed, &source, why);
  return engine->feed != NULL;
}

void engine_say_ready(const struct engine *engine) {
  if (engine->list == NULL) {
    log_notice("waiting for a build: %s", engine->load_why);
    return;
  }
  log_info("ready: build %s, %u checks", engine->build, engine->list->probe_count);
}

/* Takes the result of a load into use; false with the reason in load_why. */
static bool take_loaded(struct engine *engine) {
  struct list *list = engine->loaded;
  engine->loaded = NULL;
  if (list == NULL || !engine_install(engine, list, engine->load_build, engine->load_why) ||
      !open_feed(engine, engine->load_why))
    return false;
  engine_pump(engine);
  return true;
}

static void load_work(uv_work_t *work) {
  struct engine *engine = work->data;
  engine->loaded = list_read(engine->settings->data, engine->load_build, &engine->load_missing,
                             engine->load_why);
}

static void start_load(struct engine *engine);

static void load_done(uv_work_t *work, int status) {
  struct engine *engine = work->data;
  struct engine_waiter *waiting = engine->waiting;
  (void)status;
  engine->waiting = NULL;
  engine->loading = false;
  if (engine->closing) {
    list_free(engine->loaded);
    tell_waiters(waiting, "the checker is stopping");
    return;
  }
  bool first = engine->list == NULL;
  bool ok = take_loaded(engine);
  if (ok && first)
    engine_say_ready(engine);
  engine->reloaded_at = engine_clock();
  snprintf(engine->reload_error, sizeof engine->reload_error, "%s", ok ? "" : engine->load_why);
  utf8_repair(engine->reload_error);
  snprintf(engine->failed_build, sizeof engine->failed_build, "%s", ok ? "" : engine->load_build);
  if (!ok)
    log_error("%s: %s",
              engine->list != NULL ? "reload failed, the old checks go on" : "no checks yet",
              engine->reload_error);
  tell_waiters(waiting, ok ? NULL : engine->reload_error);
  if (engine->load_again)
    start_load(engine);
}

static void start_load(struct engine *engine) {
  engine->waiting = engine->next;
  engine->next = NULL;
  engine->load_again = false;
  engine->loading = true;
  engine->load.data = engine;
  if (uv_queue_work(engine->loop, &engine->load, load_work, load_done) == 0)
    return;
  engine->loaded = NULL;
  snprintf(engine->load_why, sizeof engine->load_why, "out of memory");
  load_done(&engine->load, 0);
}

static void load(struct engine *engine) {
  if (engine->loading)
    engine->load_again = true;
  else if (!engine->closing)
    start_load(engine);
}

void engine_reload(struct engine *engine, engine_reload_fn *done, void *arg) {
  struct engine_waiter *waiter = calloc(1, sizeof *waiter);
  if (waiter == NULL) {
    if (done != NULL)
      done(arg, "out of memory");
    return;
  }
  *waiter = (struct engine_waiter){.done = done, .arg = arg};
  struct engine_waiter **end = &engine->next;
  while (*end != NULL)
    end = &(*end)->next;
  *end = waiter;
  load(engine);
}

/* A new build is taken by itself; one that failed is not tried again and again. */
static void look_at_link(struct engine *engine) {
  static struct log_limit limit;
  char build[LIST_BUILD];
  char why[FEED_WHY];
  if (engine->list != NULL && engine->feed == NULL) { /* the socket was in use until now, say */
    if (open_feed(engine, why))
      engine_say_ready(engine);
    else
      log_limited(&limit, LOG_LEVEL_ERROR, "%s", why);
  }
  if (list_current(engine->settings->data, build) && strcmp(build, engine->build) != 0 &&
      strcmp(build, engine->failed_build) != 0 && !engine->loading)
    load(engine);
}

/* ---- now and then -----------------------------------------------------------------------------
 */

static void on_tick(uv_timer_t *timer) {
  struct engine *engine = timer->data;
  uint64_t now = engine_now(engine);
  uint64_t asleep = asleep_ms();
  if (asleep > engine->last_asleep + STALL_MS)
    note_stall(engine, now, asleep - engine->last_asleep);
  engine->last_asleep = asleep;
  engine_isolation_tick(engine, now);
  engine_save_tick(engine, now);
  if (++engine->ticks % LINK_TICKS == 0)
    look_at_link(engine);
}

void engine_overrides(void *arg, const json_t *list) {
  struct engine *engine = arg;
  if (engine->alerts != NULL)
    alerts_overrides(engine->alerts, list);
}

/* ---- start and end ----------------------------------------------------------------------------
 */

/* So many probes that the process never runs out of descriptors. */
static uint32_t concurrency(const struct health_settings *settings) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return settings->concurrency;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  rlim_t left =
      limit.rlim_cur > 2 * DESCRIPTORS_KEPT ? limit.rlim_cur - DESCRIPTORS_KEPT : DESCRIPTORS_KEPT;
  if (left / 2 >= settings->concurrency) /* a probe may need two: a pipe, a second address */
    return settings->concurrency;
  log_warning("the limit on open files allows only %lu probes at a time, not %u",
              (unsigned long)left / 2, settings->concurrency);
  return (uint32_t)(left / 2);
}

static bool open_parts(struct engine *engine, char *why) {
  const struct health_settings *settings = engine->settings;
  const struct probe_options probes = {.resolver = settings->resolver,
                                       .programs = settings->programs,
                                       .program_count = settings->program_count,
                                       .run_as = settings->run_as};
  const struct alerts_options alerts = {.spool = settings->spool,
                                        .secrets = settings->secrets,
                                        .allow = settings->webhook_allow,
                                        .group_ms = settings->alert_window,
                                        .quiet_ms = settings->alert_quiet};
  engine->schedule = schedule_open(settings->rate, concurrency(settings), &engine->rng);
  if (engine->schedule == NULL) {
    snprintf(why, ENGINE_WHY, "out of memory");
    return false;
  }
  engine->probes = probe_set_open(engine->loop, &probes, why);
  if (engine->probes == NULL)
    return false;
  engine->alerts = alerts_open(engine->loop, &alerts, why);
  return engine->alerts != NULL;
}

/* The first load is waited for, so that a bad list ends the start; a missing build does not. */
static bool load_first(struct engine *engine, char *why) {
  load_work(&engine->load);
  engine->last_seen = clock_ms(CLOCK_MONOTONIC); /* a long list is no stall */
  bool ok = engine->load_missing || take_loaded(engine);
  engine->last_seen = clock_ms(CLOCK_MONOTONIC);
  if (ok)
    return true;
  snprintf(why, ENGINE_WHY, "%s", engine->load_why);
  return false;
}

struct engine *engine_open(uv_loop_t *loop, const struct health_settings *settings, char *why) {
  struct engine *engine = calloc(1, sizeof *engine);
  if (engine == NULL) {
    snprintf(why, ENGINE_WHY, "out of memory");
    return NULL;
  }
  engine->loop = loop;
  engine->settings = settings;
  engine->load.data = engine;
  rng_seed_kernel(&engine->rng);
  uv_timer_init(loop, &engine->pump);
  uv_timer_init(loop, &engine->tick);
  engine->pump.data = engine->tick.data = engine;
  engine->open_handles = 2;
  engine->last_seen = clock_ms(CLOCK_MONOTONIC);
  engine->last_asleep = asleep_ms();
  uv_timer_start(&engine->tick, on_tick, TICK_MS, TICK_MS);
  if (open_parts(engine, why) && load_first(engine, why))
    return engine;
  engine_close(engine);
  return NULL;
}

static void free_engine(struct engine *engine) {
  schedule_close(engine->schedule);
  if (engine->alerts_list != engine->list)
    list_free(engine->alerts_list);
  list_free(engine->list);
  free(engine->slots);
  free(engine->told);
  free(engine->entries);
  free(engine);
}

static void on_closed(uv_handle_t *handle) {
  struct engine *engine = handle->data;
  if (--engine->open_handles > 0)
    return;
  free_engine(engine);
}

void engine_close(struct engine *engine) {
  char why[STATE_FILE_WHY];
  if (engine == NULL || engine->closing)
    return;
  engine->closing = true;
  while (engine->loading || engine->save_busy)
    uv_run(engine->loop, UV_RUN_ONCE);
  tell_waiters(engine->next, "the checker is stopping");
  engine->next = NULL;
  while (engine->tests != NULL)
    engine_test_cancel(engine->tests);
  /* One that did not get its feed has found another checker at work, whose file this may be. */
  if (engine->feed != NULL && !engine_save_now(engine, why))
    log_error("the state of checks cannot be saved: %s", why);
  for (uint32_t i = 0; engine->list != NULL && i < engine->list->probe_count; i++)
    slot_close(engine->slots[i]);
  if (engine->feed != NULL)
    feed_close(engine->feed);
  alerts_close(engine->alerts);
  if (engine->probes != NULL)
    probe_set_close(engine->probes);
  uv_close((uv_handle_t *)&engine->pump, on_closed);
  uv_close((uv_handle_t *)&engine->tick, on_closed);
}
