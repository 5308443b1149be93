/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checker at work: probes what the build's list says when the schedule says so, judges the
 * results, and tells servers (healthcheck/feed.h), alerts (healthcheck/alerts.h) and the state file
 * what came of it.
 *
 * Everything here belongs to the loop's thread; lists are read, and the state file is written, in
 * the loop's pool.  A list that cannot be read changes nothing.
 */
#ifndef SLUICE_HEALTHCHECK_ENGINE_H
#define SLUICE_HEALTHCHECK_ENGINE_H

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "healthcheck/settings.h"

enum { ENGINE_WHY = 512 };

struct engine;

/* Starts.  Without a build it waits for one, and tells nobody anything until then.  NULL with one
 * line in `why` (ENGINE_WHY octets).  `settings` outlive the engine. */
struct engine *engine_open(uv_loop_t *loop, const struct health_settings *settings, char *why);

/* Says in the log that checks run, or that it waits for a build (and then that they run once there
 * is one). */
void engine_say_ready(const struct engine *engine);

/* Ends all probes, writes the state file and closes; handles are closed in the loop, which must run
 * until it is empty. */
void engine_close(struct engine *engine);

/* Loads the current build's list again; `done` (or NULL) gets NULL, or why it failed. */
typedef void engine_reload_fn(void *arg, const char *why);
void engine_reload(struct engine *engine, engine_reload_fn *done, void *arg);

/* Replies of the control socket (healthcheck/control.h) without "ok"; NULL without memory, and for
 * checks also with a reason in `why` (ENGINE_WHY octets).  `domain` and `endpoint` (both or the
 * latter may be NULL) say whose checks, `from` where to go on: a part at a time, for the loop must
 * not stand still. */
json_t *engine_status(struct engine *engine);
json_t *engine_checks(struct engine *engine, const char *domain, const char *endpoint,
                      json_int_t from, char *why);

/*
 * Probes what a domain (or one endpoint of it) is checked by, now, beside the schedule and without
 * an effect on any state.  NULL with a reason, or the test: `done` is called once, with the results
 * (borrowed), unless it is cancelled.
 */
struct engine_test;
typedef void engine_test_fn(void *arg, const json_t *results);
struct engine_test *engine_test(struct engine *engine, const char *domain, const char *endpoint,
                                engine_test_fn *done, void *arg, char *why);
void engine_test_cancel(struct engine_test *test);

#endif
