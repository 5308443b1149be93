/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/syncd/engine_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/fs.h"
#include "base/log.h"

enum {
  TICK_MS = 100,
  LOOK_MS = 1000,        /* between two looks at the server */
  LOOK_SHARE = 9,        /* and so many times the last one's length, */
  LOOK_MOST_MS = 10000,  /* up to this: many domains are not to keep the server busy */
  LOOK_FAILED_MS = 3000, /* after one that failed */
  BATCH = 256,           /* domains in one round */
  FIRST_MS = 1000,       /* the first retry */
  ATTEMPTS_MOST = 1000,  /* that are counted */
  SLOW_MS = 30000,       /* where a retry alone helps nothing: rights, refusals */
};

static int64_t wall_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

double engine_random(void) {
  uint32_t value = 0;
  if (getrandom(&value, sizeof value, 0) != (ssize_t)sizeof value)
    return 0;
  return value / 4294967296.0;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static struct provider *find_provider(const struct engine *engine, const char *name) {
  for (struct provider *p = engine->providers; p != NULL; p = p->next)
    if (strcmp(p->queue.name, name) == 0)
      return p;
  return NULL;
}

static struct provider *add_provider(struct engine *engine, const char *name) {
  char why[QUEUE_WHY];
  bool damaged;
  struct provider *p = find_provider(engine, name);
  if (p != NULL)
    return p;
  p = calloc(1, sizeof *p);
  if (p == NULL)
    return NULL;
  p->holds = json_object();
  p->waiting = json_object();
  if (p->holds == NULL || p->waiting == NULL ||
      !queue_open(&p->queue, engine->settings->state, name, &damaged, why)) {
    log_error("%s", why);
    queue_close(&p->queue);
    json_decref(p->holds);
    json_decref(p->waiting);
    free(p);
    return NULL;
  }
  if (damaged)
    log_warning("the queue of %s was damaged and is set aside; all of it is looked at again", name);
  p->engine = engine;
  p->next = engine->providers;
  engine->providers = p;
  return p;
}

void engine_save(struct engine *engine) {
  char why[QUEUE_WHY];
  bool failed = false;
  for (struct provider *p = engine->providers; p != NULL; p = p->next)
    if (!queue_save(&p->queue, why)) {
      if (!engine->save_failed)
        log_error("the queue of %s cannot be saved: %s", p->queue.name, why);
      failed = true;
    }
  engine->save_failed = failed;
}

/* The domain is to be brought level at once. */
void engine_demand(struct provider *p, const char *domain, const char *want, bool again) {
  json_t *job = queue_add(&p->queue, domain, wall_ms() / 1000);
  if (job == NULL)
    return;
  json_object_set_new(job, "want", json_string(want));
  json_object_set_new(job, "attempts", json_integer(0));
  json_object_set_new(job, "next", json_integer(0));
  if (p->working && again)
    json_object_set_new(job, "again", json_integer((json_int_t)p->round));
  p->queue.dirty = true;
}

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

/* What is in force against what the provider was brought level with. */
static void compare(struct provider *p) {
  const char *domain;
  json_t *mark;
  void *next;
  json_object_foreach(p->places, domain, mark) {
    const json_t *job = json_object_get(p->queue.jobs, domain);
    const char *want = json_string_value(mark);
    if (job ? strcmp(text_of(job, "want"), want) != 0
            : strcmp(text_of(p->queue.level, domain), want) != 0)
      engine_demand(p, domain, want, false);
  }
  json_t *lists[] = {p->queue.jobs, p->queue.level, p->holds, p->waiting};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    json_object_foreach_safe(lists[i], next, domain, mark) {
      if (json_object_get(p->places, domain) != NULL)
        continue;
      json_object_del(lists[i], domain);
      p->queue.dirty = true;
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void wait_end(struct engine_wait *wait) {
  *wait->at = wait->next;
  if (wait->next != NULL)
    wait->next->at = wait->at;
  json_decref(wait->pending);
  free(wait->domain);
  free(wait);
}

void engine_wait_cancel(struct engine_wait *wait) {
  wait_end(wait);
}

static void wait_done(struct engine_wait *wait) {
  void (*done)(void *arg, json_t *reply) = wait->done;
  void *arg = wait->arg;
  json_t *reply = engine_domain_status(wait->engine, wait->domain);
  wait_end(wait);
  done(arg, reply);
}

static void tell_waits(struct provider *p) {
  struct engine_wait *next;
  for (struct engine_wait *wait = p->engine->waits; wait != NULL; wait = next) {
    next = wait->next;
    bool mine = false;
    for (size_t i = 0; p->round > wait->after && i < p->count && !mine; i++)
      mine = strcmp(p->domains[i], wait->domain) == 0;
    if (mine && json_object_del(wait->pending, p->queue.name) == 0 &&
        json_object_size(wait->pending) == 0)
      wait_done(wait);
  }
}

struct engine_wait *engine_sync(struct engine *engine, const char *domain, uint64_t wait_ms,
                                void (*done)(void *arg, json_t *reply), void *arg) {
  struct engine_wait *wait = calloc(1, sizeof *wait);
  json_t *pending = json_object();
  for (struct provider *p = engine->providers; pending != NULL && p != NULL; p = p->next) {
    const char *mark = json_string_value(json_object_get(p->places, domain));
    if (mark == NULL)
      continue;
    engine_demand(p, domain, mark, true);
    json_object_set_new(pending, p->queue.name, json_true());
  }
  engine_save(engine);
  if (wait == NULL || json_object_size(pending) == 0 || wait_ms == 0) {
    free(wait);
    json_decref(pending);
    done(arg, engine_domain_status(engine, domain));
    return NULL;
  }
  *wait = (struct engine_wait){.engine = engine,
                               .next = engine->waits,
                               .at = &engine->waits,
                               .domain = strdup(domain),
                               .pending = pending,
                               .after = engine->rounds,
                               .until_ms = uv_now(engine->loop) + wait_ms,
                               .done = done,
                               .arg = arg};
  if (wait->next != NULL)
    wait->next->at = &wait->next;
  engine->waits = wait;
  return wait;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void on_round(uv_work_t *work) {
  struct provider *p = work->data;
  round_run(p->engine->settings, p->queue.name, p->domains, p->count, p->results);
}

static void free_round(struct provider *p) {
  for (size_t i = 0; i < p->count; i++) {
    free((char *)(uintptr_t)p->domains[i]);
    free(p->marks[i]);
  }
  free(p->domains);
  free(p->marks);
  round_results_close(p->results, p->count);
  p->domains = NULL;
  p->marks = NULL;
  p->results = NULL;
  p->count = 0;
}

static bool helps_to_repeat(enum provider_failure failure) {
  return failure != PROVIDER_DENIED && failure != PROVIDER_REFUSED && failure != PROVIDER_GONE;
}

static void take_failure(struct provider *p, json_t *job, const struct round_result *result) {
  json_int_t attempts = json_integer_value(json_object_get(job, "attempts"));
  attempts += attempts < ATTEMPTS_MOST;
  int64_t first = helps_to_repeat(result->failure) ? FIRST_MS : SLOW_MS;
  json_object_set_new(job, "attempts", json_integer(attempts));
  json_object_set_new(
      job, "next",
      json_integer((json_int_t)(wall_ms() + queue_backoff(first, attempts, engine_random()))));
  json_object_set_new(job, "error", json_string(result->error));
  /* What a provider refuses may be one domain's fault, and is not to hold up the others. */
  if (result->failure == PROVIDER_REFUSED || result->failure == PROVIDER_GARBAGE)
    json_object_set_new(job, "alone", json_true());
  if (strcmp(p->error, result->error) != 0)
    log_warning("%s is behind: %s", p->queue.name, result->error);
  snprintf(p->error, sizeof p->error, "%s", result->error);
}

static void take_result(struct provider *p, size_t i) {
  const char *domain = p->domains[i];
  struct round_result *result = &p->results[i];
  json_t *job = json_object_get(p->queue.jobs, domain);
  if (result->holds != NULL)
    json_object_set(p->holds, domain, result->holds);
  if (job == NULL) /* the domain is gone */
    return;
  bool again = json_integer_value(json_object_get(job, "again")) == (json_int_t)p->round;
  bool other = strcmp(text_of(job, "want"), p->marks[i]) != 0; /* seen since the round began, */
  bool done = !again && (!other || strcmp(text_of(job, "want"), result->mark) == 0); /* or by it */
  json_object_del(job, "again");
  p->queue.dirty = true;
  if (!result->level) {
    take_failure(p, job, result);
    if (again || other)
      json_object_set_new(job, "next", json_integer(0));
    return;
  }
  /* What the last look has seen may be older: its mark would hide that this is to be taken back. */
  json_object_set_new(p->queue.level, domain,
                      json_string(*result->mark ? result->mark : p->marks[i]));
  if (round_is_zone(domain))
    json_object_set_new(p->waiting, domain, json_integer((json_int_t)result->held));
  if (done)
    json_object_del(p->queue.jobs, domain);
}

static void on_round_done(uv_work_t *work, int status) {
  struct provider *p = work->data;
  (void)status;
  p->working = false;
  for (size_t i = 0; i < p->count; i++)
    take_result(p, i);
  if (json_object_size(p->queue.jobs) == 0 && p->error[0] != '\0') {
    log_notice("%s is level again", p->queue.name);
    p->error[0] = '\0';
  }
  engine_save(p->engine);
  tell_waits(p);
  free_round(p);
  engine_start_round(p);
}

static bool pick(struct provider *p, const char *domain, const json_t *job) {
  p->domains[p->count] = strdup(domain);
  p->marks[p->count] = strdup(text_of(job, "want"));
  if (p->domains[p->count] == NULL || p->marks[p->count] == NULL)
    return false;
  p->count++;
  return true;
}

/* What is due: many together, or one that is better alone; domains first, since somebody may wait
 * for one, and never with zones. */
static bool pick_all(struct provider *p) {
  int64_t now = wall_ms();
  const char *domain;
  json_t *job;
  for (int turn = 0; turn < 4 && p->count == 0; turn++)
    json_object_foreach(p->queue.jobs, domain, job) {
      bool alone = turn % 2 == 1;
      int64_t next = json_integer_value(json_object_get(job, "next"));
      bool due = next <= now || next > now + QUEUE_BACKOFF_MAX; /* the clock was set back */
      bool mine = json_is_true(json_object_get(job, "alone")) == alone &&
                  round_is_zone(domain) == (turn >= 2);
      if (!due || !mine || p->count == (alone ? 1 : BATCH))
        continue;
      if (json_object_get(p->places, domain) != NULL && !pick(p, domain, job))
        return false;
    }
  return p->count > 0;
}

void engine_start_round(struct provider *p) {
  if (p->working || p->places == NULL || json_object_size(p->queue.jobs) == 0)
    return;
  p->domains = calloc(BATCH + 1, sizeof *p->domains);
  p->marks = calloc(BATCH + 1, sizeof *p->marks);
  bool ok = p->domains != NULL && p->marks != NULL && pick_all(p);
  p->results = ok ? calloc(p->count, sizeof *p->results) : NULL;
  p->work.data = p;
  if (p->results == NULL ||
      uv_queue_work(p->engine->loop, &p->work, on_round, on_round_done) != 0) {
    free_round(p);
    return;
  }
  p->round = ++p->engine->rounds;
  p->working = true;
}

/* ---- the server ------------------------------------------------------------------------------ */

static void on_look(uv_work_t *work) {
  struct engine *engine = work->data;
  engine->places = watch_look(engine->watch, engine->why);
}

static void take_places(struct engine *engine) {
  const char *name;
  json_t *places;
  for (struct provider *p = engine->providers; p != NULL; p = p->next) {
    json_decref(p->places);
    p->places = NULL;
  }
  json_object_foreach(engine->places, name, places) {
    struct provider *p = add_provider(engine, name);
    if (p == NULL)
      continue;
    p->places = json_incref(places);
    compare(p);
  }
  engine_save(engine);
}

static void on_look_done(uv_work_t *work, int status) {
  struct engine *engine = work->data;
  (void)status;
  engine->looking = false;
  engine->known = engine->places != NULL;
  uint64_t now = uv_now(engine->loop);
  uint64_t pause = LOOK_MS + LOOK_SHARE * (now - engine->look_at);
  if (!engine->known)
    pause = LOOK_FAILED_MS;
  engine->look_at = now + (pause < LOOK_MOST_MS ? pause : LOOK_MOST_MS);
  if (engine->known) {
    take_places(engine);
    engine->ever = true;
    engine->said[0] = '\0';
  } else if (strcmp(engine->said, engine->why) != 0) {
    log_warning("%s", engine->why);
    memcpy(engine->said, engine->why, sizeof engine->said);
  }
  json_decref(engine->places);
  engine->places = NULL;
}

static void on_tick(uv_timer_t *timer) {
  struct engine *engine = timer->data;
  uint64_t now = uv_now(engine->loop);
  struct engine_wait *next;
  if (!engine->looking && now >= engine->look_at) {
    engine->look.data = engine;
    engine->look_at = now;
    engine->looking = uv_queue_work(engine->loop, &engine->look, on_look, on_look_done) == 0;
  }
  for (struct provider *p = engine->providers; p != NULL; p = p->next) {
    engine_start_round(p);
    engine_start_check(p);
  }
  for (struct engine_wait *wait = engine->waits; wait != NULL; wait = next) {
    next = wait->next;
    if (now >= wait->until_ms)
      wait_done(wait);
  }
}

/* ---- opening and closing --------------------------------------------------------------------- */

struct engine *engine_open(uv_loop_t *loop, const struct syncd_settings *settings, char *why) {
  struct engine *engine = calloc(1, sizeof *engine);
  snprintf(why, ENGINE_WHY, "out of memory");
  if (engine == NULL || !fs_make_dirs(settings->state, why)) {
    free(engine);
    return NULL;
  }
  engine->watch = watch_open(settings);
  if (engine->watch == NULL) {
    free(engine);
    return NULL;
  }
  engine->loop = loop;
  engine->settings = settings;
  engine->look_at = uv_now(loop);
  uv_timer_init(loop, &engine->tick);
  engine->tick.data = engine;
  uv_timer_start(&engine->tick, on_tick, 0, TICK_MS);
  return engine;
}

bool engine_is_busy(const struct engine *engine) {
  for (const struct provider *p = engine->providers; p != NULL; p = p->next)
    if (p->working || p->checking)
      return true;
  return engine->looking;
}

static void on_tick_closed(uv_handle_t *handle) {
  struct engine *engine = handle->data;
  while (engine->providers != NULL) {
    struct provider *p = engine->providers;
    engine->providers = p->next;
    queue_close(&p->queue);
    json_decref(p->places);
    json_decref(p->holds);
    json_decref(p->waiting);
    free(p);
  }
  watch_close(engine->watch);
  free(engine);
}

void engine_close(struct engine *engine) {
  if (engine != NULL)
    uv_close((uv_handle_t *)&engine->tick, on_tick_closed);
}
