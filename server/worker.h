/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker threads that answer packets: each owns one packet source and waits for nothing but it.
 */
#ifndef SLUICE_SERVER_WORKER_H
#define SLUICE_SERVER_WORKER_H

#include <stdint.h>

#include "server/packet.h"
#include "server/query.h"
#include "server/ratelimit.h"

struct worker_pool;

/*
 * Opens `per_address` sources for each of the addresses, without starting a thread yet: packets
 * that come in are queued.  NULL with a one-line reason in `why` (512 bytes).
 */
struct worker_pool *worker_open(const struct packet_ops *ops, const struct address *addresses,
                                size_t address_count, unsigned per_address, char *why);

/*
 * Starts the threads.  `view` is the place of the published pointer, which must already be set and
 * is read by RCU (QSBR); `config` must stay valid.
 * `limit` holds the rates of the whole server, which the workers share out, or is NULL.  False with
 * a reason in `why`.
 */
bool worker_start(struct worker_pool *pool, const struct view *_Atomic *view,
                  const struct query_config *config, const struct ratelimit_config *limit,
                  char *why);

/* Answers what is queued, ends the threads and closes the sources; NULL is allowed. */
void worker_stop(struct worker_pool *pool);

unsigned worker_count(const struct worker_pool *pool);

/* The samples of one worker, once it was started. */
struct exposure_ring *worker_exposure(const struct worker_pool *pool, unsigned worker);

/* Adds the counters of all workers to `totals`; returns the packets that could not be sent. */
uint64_t worker_add_counters(const struct worker_pool *pool, uint64_t totals[QUERY_COUNTERS]);

#endif
