/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server as the main thread sees it: what is served, who serves it, and how that changes.
 *
 * Everything here belongs to the main thread and its loop, but what is marked otherwise.
 */
#ifndef SLUICE_SERVER_SERVER_H
#define SLUICE_SERVER_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "server/facts.h"
#include "server/load.h"
#include "server/protect.h"
#include "server/query.h"
#include "server/server_tls.h"
#include "server/settings.h"

enum { SERVER_WHY = 512 };

/* The result of a reload; `why` is NULL on success.  Not called any more once the server stops. */
typedef void server_reload_fn(void *arg, const char *why, const char *warning);

struct exposure;
struct reload_waiter;
struct control_socket;
struct health_feed;
struct secondary;
struct worker_pool;
struct notify_send;
struct overrides;
struct tcp;

/* How the last reload that somebody asked for ended; none yet while `at` is 0. */
struct server_reloaded {
  int64_t at; /* Unix seconds */
  bool ok;
  char error[LOAD_WHY];   /* why it failed, or empty */
  char warning[LOAD_WHY]; /* why the location data are still the old ones, or empty */
};

struct server {
  const struct settings *settings;
  uv_loop_t *loop;
  const struct view *_Atomic view; /* what readers use, by RCU */
  struct served *served;           /* its owner: the same view */
  struct facts *facts;
  struct overrides *overrides;
  struct query_config query;
  struct protect protect;
  struct worker_pool *workers;
  struct tcp *tcp;
  struct server_tls tls;
  struct control_socket *control;
  struct health_feed *health; /* the checker's feed, or NULL */
  struct notify_send *notify;
  struct secondary *secondary; /* the zones from other primaries */
  uint64_t started_at;         /* uv_hrtime() */

  /* reload */
  uv_work_t work;
  bool loading;
  bool stopping;
  atomic_bool cancel; /* read by the loading thread */
  struct served *loaded;
  char load_warning[LOAD_WHY];
  char load_why[LOAD_WHY];
  char load_tls_warning[TLS_WHY];
  struct reload_waiter *waiting; /* for the load that is running */
  struct reload_waiter *next;    /* for one that starts after it */
  struct load_request request;   /* of the load that is running */
  bool bad_places;               /* its reason or warning is about the location files */
  bool secondary_changed;        /* a load is wanted that keeps the build */
  struct server_reloaded reloaded;
  uint32_t generation;       /* of the view */
  struct exposure *exposure; /* what was answered lately; NULL: not counted */
  uv_timer_t exposure_timer;
  uv_timer_t save_timer;
  uv_work_t save_work;
  struct facts_save *saving; /* under way, or NULL */
  bool saved;
  char save_why[FACTS_WHY];
  uv_timer_t state_timer; /* for what expires, and for other writers of the store */
  uv_timer_t watchdog_timer;
};

/* Binds, gives up privileges, loads and starts to answer.  False with a one-line reason in `why`
 * (SERVER_WHY octets); call server_close() in both cases. */
bool server_open(struct server *server, const struct settings *settings, uv_loop_t *loop,
                 char *why);

/*
 * Loads the build and the location files in the background and publishes them; requests that come
 * while one is running share the next.  `done` may be NULL.
 */
void server_reload(struct server *server, server_reload_fn *done, void *arg);

/* Answers what has arrived, then closes all handles of the loop, which so comes to its end. */
void server_stop(struct server *server);

/* After the loop has ended. */
void server_close(struct server *server);

#endif
