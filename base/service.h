/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that works on one loop until it is told to end: its signals, and what the service
 * manager is told (base/supervisor.h).  SIGTERM and SIGINT end it, SIGHUP makes it reload.
 *
 * Belongs to the loop's thread; one in a process.
 */
#ifndef SLUICE_BASE_SERVICE_H
#define SLUICE_BASE_SERVICE_H

#include <stdbool.h>
#include <uv.h>

struct service {
  uv_loop_t loop;
  uv_signal_t terminate, interrupt, hangup;
  uv_timer_t watchdog;
  void (*reload)(void *arg);
  void *arg;
};

/* `reload` is called for SIGHUP; NULL: that signal ends the process.  False without memory or
 * descriptors: the process should end then. */
bool service_open(struct service *service, void (*reload)(void *arg), void *arg);

/* Tells that the service is ready, with a line of what it does; returns when it is to end, after
 * that was told as well. */
void service_run(struct service *service, const char *status);

/* From the loop: service_run() returns soon.  What is left to do is done outside of the loop's
 * callbacks. */
void service_stop(struct service *service);

/* Runs the loop until all handles are closed: those of others must be closing. */
void service_close(struct service *service);

#endif
