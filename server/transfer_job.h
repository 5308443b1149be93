/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One zone transfer on a TCP connection: opens its files in a thread of the pool, then gives its
 * messages one at a time, framed and signed, as fast as the connection takes them.
 *
 * The files stay in memory until the job is dropped, so a reload in between changes nothing for it.
 * All functions belong to the thread of the loop.
 */
#ifndef SLUICE_SERVER_TRANSFER_JOB_H
#define SLUICE_SERVER_TRANSFER_JOB_H

#include <stdatomic.h>
#include <uv.h>

#include "server/slow.h"

enum { TRANSFER_JOB_FRAME = 2 + 65535 /* most octets that transfer_job_next() writes */ };

/* Written by the loop's thread, read by others. */
struct transfer_counters {
  _Atomic uint64_t whole;       /* AXFR, or IXFR answered with the whole zone */
  _Atomic uint64_t differences; /* IXFR answered with differences */
  _Atomic uint64_t current;     /* IXFR of a client that had the newest serial */
  _Atomic uint64_t failed; /* files or signatures that could not be used, and too many at once */
  _Atomic uint64_t octets; /* of messages */
};

struct transfer_job;

/*
 * Starts to open the files; takes `transfer` over, which is empty afterwards.  `ready` is called
 * from the loop once the first message can be made, unless the job was dropped before.  With
 * `refuse` nothing is opened: the one message is SERVFAIL.  NULL without memory, and `transfer` is
 * closed then too.
 */
struct transfer_job *transfer_job_start(uv_loop_t *loop, struct slow_transfer *transfer,
                                        bool refuse, struct transfer_counters *counters,
                                        void (*ready)(void *arg), void *arg);

bool transfer_job_is_ready(const struct transfer_job *job);

/* Writes the next message with its length in front to `out` (TRANSFER_JOB_FRAME octets).  Returns
 * the octets, 0 at the end.  `now` is in Unix seconds. */
size_t transfer_job_next(struct transfer_job *job, uint8_t *out, uint64_t now);

/* True if it ended before its time: the client can only learn it from the end of the connection. */
bool transfer_job_is_broken(const struct transfer_job *job);

/* Forgets the job, at whatever stage; NULL is allowed. */
void transfer_job_drop(struct transfer_job *job);

#endif
