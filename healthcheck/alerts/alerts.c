/* SPDX-License-Identifier: Apache-2.0 */
/* The parts put together on the loop: facts -> judge -> book -> queue -> sender, with the spool
 * beside them. */
#include "healthcheck/alerts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/secret.h"
#include "healthcheck/alerts/alerts_private.h"

enum {
  AT_ONCE = 200,     /* domains that are evaluated before others have their turn */
  RECORD_SIZE = 800, /* octets, about */
  CLOSE_MS = 2000,
};

static struct moment moment_now(const struct alerts *alerts) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  uv_update_time(alerts->loop);
  return (struct moment){uv_now(alerts->loop) + 1, /* never 0 */
                         (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000};
}

/* ---- the tick ---------------------------------------------------------------------------------
 */

static void on_tick(uv_timer_t *timer);

static void wake_in(struct alerts *alerts, uint64_t ms) {
  /* 1 ms at least: with 0, the loop would come back before it has looked at its sockets. */
  uv_timer_start(&alerts->timer, on_tick, ms == 0 ? 1 : ms, 0);
}

static uint64_t least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static void rewrite_spool(struct alerts *alerts) {
  spool_rewrite_begin(alerts->spool);
  spool_add(alerts->spool, alerts_head_record(alerts));
  book_dump(alerts->book, alerts_record, alerts);
  for (struct queue_message *m = NULL; (m = queue_each(alerts->queue, m)) != NULL;)
    spool_add(alerts->spool, alerts_message_record(m));
  spool_rewrite_end(alerts->spool);
}

void alerts_save(struct alerts *alerts) {
  if (alerts->spool == NULL)
    return;
  size_t needed = (book_count(alerts->book) + queue_count(alerts->queue)) * RECORD_SIZE;
  if (spool_is_long(alerts->spool, needed))
    rewrite_spool(alerts);
  spool_flush(alerts->spool);
}

static void on_tick(uv_timer_t *timer) {
  struct alerts *alerts = timer->data;
  struct moment now = moment_now(alerts);
  uint64_t wait = 0;
  if (alerts->configured) {
    bool more = judge_run(alerts->judge, AT_ONCE, &now);
    /* While many are being looked at, no window may end between them. */
    if (!more)
      book_tick(alerts->book, &now);
    alerts_save(alerts);
    alerts_send(alerts, &now);
    wait = more ? 1
                : least(least(judge_wait(alerts->judge, &now), book_wait(alerts->book, &now)),
                        queue_wait(alerts->queue, now.mono));
  } else {
    wait = UINT64_MAX;
  }
  if (wait != UINT64_MAX)
    wake_in(alerts, wait);
}

void alerts_wake(struct alerts *alerts) {
  bool soon =
      uv_is_active((const uv_handle_t *)&alerts->timer) && uv_timer_get_due_in(&alerts->timer) <= 1;
  if (!alerts->closing && !soon) /* not put off by each fact of many */
    wake_in(alerts, 1);
}

/* ---- sinks ------------------------------------------------------------------------------------
 */

void alerts_record(void *arg, json_t *record) {
  struct alerts *alerts = arg;
  if (alerts->spool != NULL)
    spool_add(alerts->spool, record);
  else
    json_decref(record);
}

static void forget(void *arg, struct incident *incident) {
  struct alerts *alerts = arg;
  judge_forget(alerts->judge, incident);
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static bool restore(void *arg, const json_t *record) {
  struct alerts *alerts = arg;
  return alerts_restore_message(alerts, record) || book_restore(alerts->book, record);
}

static bool open_parts(struct alerts *alerts, const struct alerts_options *options, char *why) {
  char host[256] = "localhost";
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  gethostname(host, sizeof host - 1);
  struct book_options book = {
      .window_ms = options->group_ms != 0 ? options->group_ms : ALERTS_GROUP_MS,
      .quiet_ms = options->quiet_ms != 0 ? options->quiet_ms : ALERTS_QUIET_MS,
      .host = host,
  };
  struct book_sink sink = {alerts, alerts_tell, alerts_record, forget};
  if (!secret_check(options->secrets, why))
    return false;
  struct allowed *allowed = allowed_read(options->allow, why);
  if (allowed == NULL)
    return false;
  alerts->sender = sender_open(alerts->loop, allowed);
  if (alerts->sender == NULL)
    allowed_free(allowed);
  alerts->secrets = options->secrets != NULL ? json_deep_copy(options->secrets) : json_object();
  alerts->book = book_open(&book, &sink);
  alerts->judge = alerts->book != NULL ? judge_open(alerts->book, host) : NULL;
  alerts->queue = queue_open((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
  /* Greater than any before, also without what the spool remembers. */
  alerts->next_id = (uint64_t)now.tv_sec * 1000000;
  snprintf(why, ALERTS_WHY, "out of memory");
  return alerts->sender != NULL && alerts->secrets != NULL && alerts->judge != NULL &&
         alerts->queue != NULL;
}

static void on_closed(uv_handle_t *handle) {
  free(handle->data);
}

void alerts_finish(struct alerts *alerts) {
  alerts_end_jobs(alerts);
  sender_close(alerts->sender);
  spool_close(alerts->spool);
  judge_close(alerts->judge);
  book_close(alerts->book);
  queue_close(alerts->queue);
  alerts_free_routes(alerts->routes);
  json_decref(alerts->secrets);
  uv_close((uv_handle_t *)&alerts->timer, on_closed);
}

static void on_close_deadline(uv_timer_t *timer) {
  alerts_finish(timer->data);
}

/* What is being sent has a little time to come through, or it would be sent again by the next run.
 */
void alerts_close(struct alerts *alerts) {
  if (alerts == NULL)
    return;
  alerts->closing = true;
  if (alerts->deliveries == NULL)
    alerts_finish(alerts);
  else
    uv_timer_start(&alerts->timer, on_close_deadline, CLOSE_MS, 0);
}

struct alerts *alerts_open(uv_loop_t *loop, const struct alerts_options *options, char *why) {
  struct alerts *alerts = calloc(1, sizeof *alerts);
  if (alerts == NULL) {
    snprintf(why, ALERTS_WHY, "out of memory");
    return NULL;
  }
  alerts->loop = loop;
  uv_timer_init(loop, &alerts->timer);
  alerts->timer.data = alerts;
  if (!open_parts(alerts, options, why))
    goto failed;
  if (options->spool != NULL) {
    alerts->spool = spool_open(loop, options->spool, restore, alerts, why);
    if (alerts->spool == NULL)
      goto failed;
    book_restored(alerts->book);
  }
  return alerts;
failed:
  alerts_close(alerts);
  return NULL;
}

/* ---- facts ------------------------------------------------------------------------------------
 */

bool alerts_configure(struct alerts *alerts, const json_t *routes,
                      const struct alerts_domain *domains, size_t count, char *why) {
  struct moment now = moment_now(alerts);
  struct alerts_route *made = NULL;
  if (!alerts_read_routes(routes, &made, why))
    return false;
  if (!judge_configure(alerts->judge, routes, domains, count, &now, why)) {
    alerts_free_routes(made);
    return false;
  }
  alerts_take_routes(alerts, made);
  alerts->configured = true;
  alerts_wake(alerts);
  return true;
}

void alerts_health(struct alerts *alerts, uint32_t domain, uint16_t endpoint,
                   enum steer_health health4, enum steer_health health6, const char *why,
                   bool quiet) {
  judge_health(alerts->judge, domain, endpoint, health4, health6, why, quiet);
  alerts_wake(alerts);
}

void alerts_overrides(struct alerts *alerts, const json_t *list) {
  judge_overrides(alerts->judge, list);
  alerts_wake(alerts);
}

void alerts_isolated(struct alerts *alerts, bool isolated) {
  struct moment now = moment_now(alerts);
  judge_isolated(alerts->judge, isolated, &now);
  alerts_wake(alerts);
}

json_t *alerts_json(const struct alerts *alerts) {
  return json_pack("{s:o, s:I, s:o}", "open", book_open_json(alerts->book), "waiting",
                   (json_int_t)queue_count(alerts->queue), "failed", alerts_failed_json(alerts));
}
