/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <urcu-qsbr.h>

#include "base/log.h"
#include "base/supervisor.h"
#include "base/utf8.h"
#include "server/control.h"
#include "server/health_feed.h"
#include "server/notify_send.h"
#include "server/overrides.h"
#include "server/privileges.h"
#include "server/secondary.h"
#include "server/secondary_store.h"
#include "server/server_exposure.h"
#include "server/tcp.h"
#include "server/worker.h"

enum {
  SAVE_MS = 1000,
  TCP_CONNECTIONS = 4096,
  TCP_LEAST = 8,
  TCP_IDLE = 10,         /* seconds */
  DESCRIPTORS_KEPT = 32, /* for all that is neither a connection nor a worker's socket */
};

struct reload_waiter {
  struct reload_waiter *next;
  server_reload_fn *done;
  void *arg;
};

/* ---- freeing what readers may still use -------------------------------------------------------
 */

struct retired {
  uv_work_t work;
  struct served *served;
};

/* In a thread of the pool, because unmapping and freeing a large view takes its time. */
static void retire_work(uv_work_t *work) {
  struct retired *retired = work->data;
  synchronize_rcu();
  load_free(retired->served);
}

static void retire_done(uv_work_t *work, int status) {
  (void)status;
  free(work->data);
}

_Static_assert((int)SERVER_WHY == (int)SETTINGS_WHY && (int)LOAD_WHY == (int)SETTINGS_WHY &&
                   (int)PROTECT_WHY == (int)SETTINGS_WHY,
               "settings_blame() puts more into each of them");

static void retire(struct server *server, struct served *served) {
  struct retired *retired = calloc(1, sizeof *retired);
  if (retired != NULL) {
    retired->work.data = retired;
    retired->served = served;
    if (uv_queue_work(server->loop, &retired->work, retire_work, retire_done) == 0)
      return;
    free(retired);
  }
  synchronize_rcu();
  load_free(served);
}

/* ---- loading ----------------------------------------------------------------------------------
 */

static void make_request(struct server *server, bool keep_build) {
  struct load_request *request = &server->request;
  *request = (struct load_request){.data_dir = server->settings->data,
                                   .geo_path = server->settings->geo,
                                   .asn_path = server->settings->asn,
                                   .previous = server->served,
                                   .keep_build = keep_build,
                                   .transfer = server->settings->transfer.policy,
                                   .bad_places = &server->bad_places,
                                   .cancel = &server->cancel};
  server->bad_places = false;
  request->secondary = secondary_wanted(server->secondary, &request->secondary_count);
}

/* Puts the place in the settings before a reason that is about the location files: it names one. */
static void blame_places(const struct server *server, char *why) {
  const struct settings *s = server->settings;
  bool is_geo = s->geo != NULL && strstr(why, s->geo) != NULL;
  bool is_asn = s->asn != NULL && strstr(why, s->asn) != NULL;
  if (is_geo && is_asn) /* one path is in the other */
    is_geo = strlen(s->geo) > strlen(s->asn);
  if (is_geo || is_asn)
    settings_blame(s, is_geo ? "geo" : "asn", why);
}

static void load_work(uv_work_t *work) {
  struct server *server = work->data;
  server->loaded = load_run(&server->request, server->load_warning, server->load_why);
  if (server->bad_places && server->load_warning[0] != '\0')
    blame_places(server, server->load_warning);
  if (server->request.keep_build)
    return;
  char warning[SECONDARY_WHY];
  server_tls_reload(&server->tls, server->load_tls_warning);
  secondary_reload_tls(server->secondary, warning);
  if (server->load_tls_warning[0] == '\0') /* else the log has the other one */
    memcpy(server->load_tls_warning, warning, sizeof server->load_tls_warning);
}

static void tell_waiters(struct reload_waiter *waiter, const char *why, const char *warning) {
  while (waiter != NULL) {
    struct reload_waiter *next = waiter->next;
    if (waiter->done != NULL)
      waiter->done(waiter->arg, why, warning);
    free(waiter);
    waiter = next;
  }
}

/* Puts a loaded view in the place of the one that is served. */
static bool publish(struct server *server, struct served *served, char *why) {
  if (!overrides_attach(server->overrides, served) || !facts_attach(server->facts, served)) {
    snprintf(why, SERVER_WHY, "out of memory");
    load_free(served);
    return false;
  }
  health_feed_attach(server->health, served);
  server_exposure_publish(server, served);
  struct served *old = server->served;
  server->served = served;
  atomic_store_explicit(&server->view, &served->view, memory_order_release);
  if (server->notify != NULL)
    notify_send_changes(server->notify, served, old);
  if (old != NULL)
    retire(server, old);
  overrides_published(server->overrides, served);
  secondary_published(server->secondary, served);
  return true;
}

static void log_geo_age(const struct served *served) {
  const struct geo_db *db = load_geo_db(served);
  if (db != NULL && !geo_db_has_ipv6(db))
    log_warning("%s has no IPv6 data: IPv6 clients are placed by `net:` atoms and `global` only",
                load_geo_path(served));
}

static void note_reload(struct server *server, bool ok) {
  struct server_reloaded *reloaded = &server->reloaded;
  reloaded->at = (int64_t)time(NULL);
  reloaded->ok = ok;
  snprintf(reloaded->error, sizeof reloaded->error, "%s", ok ? "" : server->load_why);
  snprintf(reloaded->warning, sizeof reloaded->warning, "%s", ok ? server->load_warning : "");
  utf8_repair(reloaded->error); /* long paths are cut; JSON must hold them */
  utf8_repair(reloaded->warning);
}

static void start_load(struct server *server);

static void load_done(uv_work_t *work, int status) {
  (void)status;
  struct server *server = work->data;
  struct reload_waiter *waiting = server->waiting;
  server->waiting = NULL;
  server->loading = false;
  if (server->stopping) {
    load_free(server->loaded);
    tell_waiters(waiting, "the server is stopping", "");
    return;
  }
  char protect_why[PROTECT_WHY];
  if (!server->request.keep_build && !protect_reload(&server->protect, protect_why)) {
    settings_blame(server->settings, "cookie-secrets", protect_why);
    log_warning("the old cookie secrets stay in use: %s", protect_why);
  }
  bool ok = server->loaded != NULL && publish(server, server->loaded, server->load_why);
  server->loaded = NULL;
  memcpy(server->tls.warning, server->load_tls_warning, sizeof server->tls.warning);
  utf8_repair(server->tls.warning);
  utf8_repair(server->load_warning);
  if (ok && server->load_warning[0] != '\0')
    log_warning("the old location data stay in use: %s", server->load_warning);
  if (ok && !server->request.keep_build)
    log_info("reloaded: build %s, %u zones, %u of them changed", server->served->build_id,
             server->served->view.zone_count, server->served->changed);
  else if (!ok)
    log_error("reload failed, the old data stay in use: %s", server->load_why);
  if (!server->request.keep_build) {
    note_reload(server, ok);
    supervisor_ready("serving");
  }
  tell_waiters(waiting, ok ? NULL : server->load_why, server->load_warning);
  if ((server->next != NULL || server->secondary_changed) && !server->loading)
    start_load(server);
}

static void start_load(struct server *server) {
  server->waiting = server->next;
  server->next = NULL;
  server->secondary_changed = false;
  server->loading = true;
  server->work.data = server;
  make_request(server, server->waiting == NULL);
  if (!server->request.keep_build)
    supervisor_reloading();
  if (uv_queue_work(server->loop, &server->work, load_work, load_done) == 0)
    return;
  snprintf(server->load_why, sizeof server->load_why, "out of memory");
  server->loaded = NULL;
  load_done(&server->work, 0);
}

void server_reload(struct server *server, server_reload_fn *done, void *arg) {
  struct reload_waiter *waiter = calloc(1, sizeof *waiter);
  if (waiter == NULL) {
    if (done != NULL)
      done(arg, "out of memory", "");
    return;
  }
  waiter->done = done;
  waiter->arg = arg;
  struct reload_waiter **end = &server->next;
  while (*end != NULL)
    end = &(*end)->next;
  *end = waiter;
  if (!server->loading && !server->stopping)
    start_load(server);
}

/* A zone came in, or expired: loads without a look at DATA/current, which may be newer than what
 * the operator has asked us to serve. */
static void on_secondary_changed(void *arg) {
  struct server *server = arg;
  server->secondary_changed = true;
  if (!server->loading && !server->stopping && server->served != NULL)
    start_load(server);
}

/* ---- start ------------------------------------------------------------------------------------
 */

static uint16_t udp_max(const struct settings *settings) {
  return settings->udp_max != 0 ? (uint16_t)settings->udp_max : QUERY_UDP_MAX;
}

static unsigned worker_threads(const struct settings *settings) {
  return settings->threads != 0 ? settings->threads : uv_available_parallelism();
}

/* So many connections that the process never runs out of descriptors. */
static unsigned connection_limit(const struct server *server) {
  const struct settings *settings = server->settings;
  unsigned wanted = settings->tcp_connections != 0 ? settings->tcp_connections : TCP_CONNECTIONS;
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return wanted;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  rlim_t used = DESCRIPTORS_KEPT + settings->listen_count + settings->tls.listen_count +
                worker_count(server->workers);
  rlim_t left = limit.rlim_cur > used + TCP_LEAST ? limit.rlim_cur - used : TCP_LEAST;
  if (settings->tls.listen_count > 0)
    left = left / 2 > TCP_LEAST ? left / 2 : TCP_LEAST; /* TCP and TLS have as many each */
  if (left >= wanted)
    return wanted;
  log_warning("the limit on open files allows only %lu TCP connections, not %u",
              (unsigned long)left, wanted);
  return (unsigned)left;
}

static bool open_sockets(struct server *server, char *why) {
  const struct settings *settings = server->settings;
  /* TCP first: its addresses are not shared, so a server that runs already is found out. */
  server->tcp = tcp_open(settings->listen, settings->listen_count, why);
  if (server->tcp == NULL || !server_tls_open(&server->tls, settings, why))
    return settings_blame_address(settings, why);
  server->workers = worker_open(&packet_udp, settings->listen, settings->listen_count,
                                worker_threads(settings), why);
  if (server->workers == NULL)
    return settings_blame_address(settings, why);
  if (settings->control == NULL)
    return true;
  gid_t gid; /* looked up here for its place in the settings */
  if (settings->group != NULL && !privileges_find_group(settings->group, &gid, why))
    return settings_blame(settings, "group", why);
  server->control = control_open(server->loop, settings->control, server, why);
  return server->control != NULL || settings_blame(settings, "control", why);
}

/* The control socket belongs to the user that the server becomes, and to the group of its users. */
static bool give_control_away(const struct settings *settings, const struct privileges *to,
                              char *why) {
  gid_t gid = (gid_t)-1;
  if (settings->control == NULL)
    return true;
  if (settings->group != NULL && !privileges_find_group(settings->group, &gid, why))
    return settings_blame(settings, "group", why);
  uid_t uid = to != NULL ? to->uid : (uid_t)-1;
  if (lchown(settings->control, uid, gid) == 0)
    return true;
  snprintf(why, SERVER_WHY, "cannot give %.200s to its user and group", settings->control);
  return false;
}

static bool drop_privileges(const struct server *server, char *why) {
  const struct settings *settings = server->settings;
  struct privileges to;
  if (settings->user != NULL && !privileges_find(settings->user, &to, why))
    return settings_blame(settings, "user", why);
  if (!give_control_away(settings, settings->user != NULL ? &to : NULL, why))
    return false;
  if (settings->user != NULL && !privileges_drop(settings->user, &to, why))
    return settings_blame(settings, "user", why);
  privileges_no_new();
  return true;
}

static bool open_secondary(struct server *server, char *why) {
  const struct settings *settings = server->settings;
  const struct secondary_options options = {.loop = server->loop,
                                            .settings = &settings->secondary,
                                            .tls = &settings->tls_peers,
                                            .state = settings->state,
                                            .keys = settings->transfer.keys,
                                            .udp_payload = udp_max(settings),
                                            .changed = on_secondary_changed,
                                            .arg = server};
  if (settings->secondary.count > 0 && settings->state != NULL &&
      !secondary_store_open(settings->state, why))
    return settings_blame(settings, "state", why);
  server->secondary = secondary_open(&options, why);
  return server->secondary != NULL;
}

static int64_t wall_clock_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void on_state_tick(uv_timer_t *timer) {
  struct server *server = timer->data;
  unsigned next = overrides_tick(server->overrides, server->served);
  uv_timer_start(timer, on_state_tick, next, 0);
}

static void on_overridden(void *arg) {
  const struct server *server = arg;
  health_feed_overrides_changed(server->health);
}

static bool open_state(struct server *server, char *why) {
  server->facts = facts_open(server->settings->state, why);
  if (server->facts == NULL)
    return false;
  const struct overrides_options options = {.state = server->settings->state,
                                            .facts = server->facts,
                                            .now_ms = wall_clock_ms,
                                            .changed = on_overridden,
                                            .arg = server};
  server->overrides = overrides_open(&options, why);
  return server->overrides != NULL;
}

static bool load_first(struct server *server, char *why) {
  if (!open_state(server, why)) {
    if (server->settings->state != NULL)
      settings_blame(server->settings, "state", why);
    return false;
  }
  if (!settings_transfer_has_key(&server->settings->transfer, why) ||
      !open_secondary(server, why) || !server_tls_load(&server->tls, why))
    return false;
  make_request(server, false);
  struct served *served = load_run(&server->request, server->load_warning, why);
  if (served == NULL && server->bad_places)
    blame_places(server, why);
  return served != NULL && publish(server, served, why);
}

static bool start_threads(struct server *server, char *why) {
  const struct settings *settings = server->settings;
  unsigned idle_ms = (settings->tcp_idle != 0 ? settings->tcp_idle : TCP_IDLE) * 1000;
  server->query = (struct query_config){
      .udp_max = udp_max(settings),
      .keys = settings->transfer.keys,
      .notify = secondary_gate(server->secondary),
      .nsid = settings->nsid,
      .nsid_len = settings->nsid != NULL ? strlen(settings->nsid) : 0,
      .tcp_idle_ms = idle_ms,
  };
  if (!protect_open(&server->protect, &settings->protect, &server->query, server->loop, why)) {
    if (settings->protect.cookie_secrets != NULL)
      settings_blame(settings, "cookie-secrets", why);
    return false;
  }
  const struct ratelimit_config *limit =
      settings->protect.limited ? &settings->protect.limit : NULL;
  unsigned connections = connection_limit(server);
  struct tcp_limits limits = {
      .connections = connections,
      .per_client = connections / 2 + 1,
      .idle_ms = idle_ms,
  };
  return worker_start(server->workers, &server->view, &server->query, limit, why) &&
         tcp_start(server->tcp, &server->view, &server->query, &limits, why) &&
         server_tls_start(&server->tls, &server->view, &server->query, &limits, why);
}

/* Health is saved in a thread of the pool: a change of many endpoints must not hold up the next. */
static void save_work(uv_work_t *work) {
  struct server *server = work->data;
  server->saved = facts_save_run(server->saving, server->save_why);
}

static void save_done(uv_work_t *work, int status) {
  static struct log_limit limit;
  struct server *server = work->data;
  bool done = status == 0 && server->saved;
  if (!done)
    log_limited(&limit, LOG_LEVEL_ERROR, "the status of endpoints cannot be saved: %s",
                status == 0 ? server->save_why : uv_strerror(status));
  facts_save_end(server->facts, server->saving, done);
  server->saving = NULL;
}

static void on_save(uv_timer_t *timer) {
  struct server *server = timer->data;
  if (server->saving != NULL)
    return;
  server->saving = facts_save_begin(server->facts);
  server->save_work.data = server;
  if (server->saving != NULL &&
      uv_queue_work(server->loop, &server->save_work, save_work, save_done) != 0)
    save_done(&server->save_work, UV_ENOMEM);
}

static void on_watchdog(uv_timer_t *timer) {
  (void)timer;
  supervisor_alive();
}

/* The service manager ends a server whose main loop hangs: the data plane would go on, but nothing
 * that is set, pushed or checked would reach it any more. */
static void start_watchdog(struct server *server) {
  uint64_t period = supervisor_watchdog_ms();
  uv_timer_init(server->loop, &server->watchdog_timer);
  if (period > 0)
    uv_timer_start(&server->watchdog_timer, on_watchdog, 0, period);
}

static bool start_health(struct server *server, char *why) {
  if (server->settings->health == NULL)
    return true;
  server->health = health_feed_open(server);
  if (server->health == NULL)
    snprintf(why, SERVER_WHY, "out of memory");
  return server->health != NULL;
}

/* Tells the secondaries of all zones, now that they will get answers; and later of each change. */
static void start_notify(struct server *server) {
  const struct settings *settings = server->settings;
  server->notify = notify_send_open(server->loop, settings->listen, settings->listen_count,
                                    settings->transfer.keys);
  if (server->notify != NULL)
    notify_send_changes(server->notify, server->served, NULL);
  else
    log_error("no secondary will be notified of changes: out of memory");
}

bool server_open(struct server *server, const struct settings *settings, uv_loop_t *loop,
                 char *why) {
  *server = (struct server){.settings = settings, .loop = loop, .started_at = uv_hrtime()};
  if (!open_sockets(server, why) || !drop_privileges(server, why) || !load_first(server, why) ||
      !start_threads(server, why) || !start_health(server, why))
    return false;
  uv_timer_init(loop, &server->save_timer);
  server->save_timer.data = server;
  uv_timer_start(&server->save_timer, on_save, SAVE_MS, SAVE_MS);
  server_exposure_start(server);
  uv_timer_init(loop, &server->state_timer);
  server->state_timer.data = server;
  uv_timer_start(&server->state_timer, on_state_tick, 0, 0);
  start_watchdog(server);
  log_geo_age(server->served);
  for (size_t i = 0; i < settings->listen_count; i++)
    log_info("listening on %s", settings->listen[i].text);
  log_info("ready: build %s, %u zones, %u steered names", server->served->build_id,
           server->served->view.zone_count, server->served->domain_count);
  supervisor_ready("serving");
  secondary_start(server->secondary);
  start_notify(server);
  return true;
}

/* ---- the end ----------------------------------------------------------------------------------
 */

void server_stop(struct server *server) {
  if (server->stopping)
    return;
  server->stopping = true;
  atomic_store(&server->cancel, true);
  log_info("stopping");
  supervisor_stopping();
  worker_stop(server->workers);
  tcp_stop(server->tcp);
  server_tls_stop(&server->tls);
  server->workers = NULL;
  server->tcp = NULL;
  control_socket_close(server->control);
  server->control = NULL;
  health_feed_close(server->health);
  server->health = NULL;
  protect_stop(&server->protect);
  secondary_stop(server->secondary);
  notify_send_close(server->notify);
  server->notify = NULL;
  uv_close((uv_handle_t *)&server->save_timer, NULL);
  uv_close((uv_handle_t *)&server->state_timer, NULL);
  server_exposure_stop(server);
  uv_close((uv_handle_t *)&server->watchdog_timer, NULL);
}

void server_close(struct server *server) {
  char why[FACTS_WHY];
  bool has_run = server->stopping;
  server->stopping = true; /* signals that come from here on must not stop or load what is going */
  worker_stop(server->workers);
  tcp_stop(server->tcp);
  server_tls_stop(&server->tls);
  control_socket_close(server->control);
  health_feed_close(server->health);
  protect_stop(&server->protect);
  secondary_stop(server->secondary);
  uv_run(server->loop, UV_RUN_DEFAULT);
  tell_waiters(server->next, "the server is stopping", "");
  if (server->facts != NULL && has_run && !facts_flush(server->facts, why))
    log_error("the status of endpoints cannot be saved: %s", why);
  load_free(server->served);
  secondary_close(server->secondary);
  server_tls_close(&server->tls);
  protect_close(&server->protect);
  server_exposure_close(server);
  overrides_close(server->overrides);
  facts_close(server->facts);
}
