/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine between its files: engine.c looks at the server and works the queues off,
 * engine_check.c reads whole providers from time to time, engine_status.c tells.  Of the loop's
 * thread, but for what the callbacks of uv_queue_work() are given.
 */
#ifndef SLUICE_TOOLS_SYNCD_ENGINE_PRIVATE_H
#define SLUICE_TOOLS_SYNCD_ENGINE_PRIVATE_H

#include "tools/providers/provider.h"
#include "tools/syncd/engine.h"
#include "tools/syncd/queue.h"
#include "tools/syncd/round.h"

struct provider {
  struct engine *engine;
  struct provider *next;
  struct queue queue;
  json_t *places; /* DOMAIN -> mark of what is in force; NULL: none is here now */
  json_t *holds;  /* DOMAIN -> document that the provider holds, as last seen */
  char error[PROVIDER_TEXT];
  /* A round. */
  bool working;
  uv_work_t work;
  uint64_t round; /* its number */
  const char **domains;
  char **marks;
  size_t count;
  struct round_result *results;
  json_t *waiting; /* ZONE key -> how many of its changes wait for a consent */
  /* Reading all of it (engine_check.c). */
  uv_work_t check;
  bool checking;
  uint64_t check_at;    /* loop time of the next one; 0: not set yet */
  uint64_t check_round; /* `round` when it began */
  bool check_mixed;     /* a round was under way then */
  json_t *differs;      /* what it found; NULL: `check_why` */
  char check_why[PROVIDER_TEXT];
  char check_error[PROVIDER_TEXT]; /* of the last one, or "" */
  int64_t checked;                 /* Unix seconds of the last one that was read */
  int64_t drift_at;                /* likewise, that found something; 0: none did */
  size_t drift_names;              /* of that one */
  bool drift_now;                  /* that one is the last, and nothing is repaired */
  char drift_what[PROVIDER_TEXT];
};

struct engine_wait {
  struct engine *engine;
  struct engine_wait *next, **at;
  char *domain;
  json_t *pending;   /* PROVIDER -> true */
  uint64_t after;    /* only rounds with a higher number count */
  uint64_t until_ms; /* loop time */
  void (*done)(void *arg, json_t *reply);
  void *arg;
};

struct engine {
  uv_loop_t *loop;
  const struct syncd_settings *settings;
  struct provider *providers;
  struct engine_wait *waits;
  uint64_t rounds;
  uv_timer_t tick;
  bool save_failed;
  /* Looking at the server. */
  struct watch *watch;
  uv_work_t look;
  bool looking, known;
  bool ever;        /* known once */
  uint64_t look_at; /* loop time: of the next one; while looking, of its start */
  json_t *places;   /* what the last look gave */
  char why[PROVIDER_TEXT];
  char said[PROVIDER_TEXT]; /* of it, in the log */
};

/* The name is to be brought level at once; `want` is the mark of what is in force, as the last look
 * has seen it.  `again`: also if a round is under way that gets to the same, since there may be
 * something newer. */
void engine_demand(struct provider *p, const char *key, const char *want, bool again);

/* Begins a round if something is due. */
void engine_start_round(struct provider *p);

/* Begins a reading of the whole provider if it is time. */
void engine_start_check(struct provider *p);

/* From 0 to 1. */
double engine_random(void);

/* {"domain","providers": as engine_status()}. */
json_t *engine_domain_status(const struct engine *engine, const char *domain);

#endif
