/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When each check is probed.  Pure: time (monotonic ms) and randomness come from outside.
 *
 * Each check has a phase in its interval.  Phases follow the golden ratio, so that any number of
 * checks, added in whatever portions, is spread evenly and no probe has to move for another.  A
 * probe is due at its phase with some jitter, so that checkers do not march in step.
 *
 * A check that has no verdict yet is *hurried*: its first probe comes early enough for a verdict
 * within one interval, and the next one min(interval, 1 s) after each result.  The first probes are
 * spread too.
 *
 * At most `rate` probes start in a second (a little more after a pause), and at most `concurrency`
 * run.  What was missed while the process did not run is not made up for: schedule_skip().
 *
 * Entries are numbers that the caller chooses from 0 on, as small as possible.
 */
#ifndef SLUICE_HEALTHCHECK_SCHEDULE_H
#define SLUICE_HEALTHCHECK_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

enum { SCHEDULE_HURRY_MS = 1000 };

struct schedule;

struct schedule_timing {
  uint32_t interval; /* ms */
  uint16_t tries;    /* results that a first verdict takes at most */
  uint32_t soon;     /* ms: a hurried first probe comes within so much; 0: as above */
};

/* NULL without memory.  `rng` stays the caller's. */
struct schedule *schedule_open(uint32_t rate, uint32_t concurrency, struct rng *rng);
void schedule_close(struct schedule *schedule);

/* Puts an entry in; its first probe is due within its interval.  False without memory. */
bool schedule_add(struct schedule *schedule, uint32_t entry, struct schedule_timing timing,
                  bool hurried, uint64_t now);

/* Takes an entry out, due or running. */
void schedule_remove(struct schedule *schedule, uint32_t entry);

/* The entry that is to be probed now: it counts as running until schedule_done(), or
 * schedule_remove().  `late` gets the ms that it is behind.  False if there is none (or no more
 * may run): ask again after schedule_wait(). */
bool schedule_next(struct schedule *schedule, uint64_t now, uint32_t *entry, uint64_t *late);

/* A running entry has ended. */
void schedule_done(struct schedule *schedule, uint32_t entry, bool hurried, uint64_t now);

/* Milliseconds until schedule_next() may give something; UINT64_MAX: not before some
 * schedule_done(). */
uint64_t schedule_wait(const struct schedule *schedule, uint64_t now);

/* The process did not run until now: what is overdue is not started at once but at its next turn.
 */
void schedule_skip(struct schedule *schedule, uint64_t now);

/* When an entry is due (running: when it was); UINT64_MAX if it is not in. */
uint64_t schedule_due(const struct schedule *schedule, uint32_t entry);

uint32_t schedule_running(const struct schedule *schedule);

#endif
