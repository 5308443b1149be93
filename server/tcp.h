/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS over TCP (RFC 7766): one thread with an event loop.
 *
 * All queries of one read are answered with one write.  A connection that finishes no query for
 * `idle_ms`, or does not take its answers within that time, is closed; so slow writers, slow
 * readers and idlers are all bounded by one rule.  When the server or one client has too many
 * connections, the one that is idle for longest makes room.
 *
 * A zone transfer goes out in pieces as the client takes them, so it holds up no other connection;
 * what the client asks behind it is answered after it, in order.
 */
#ifndef SLUICE_SERVER_TCP_H
#define SLUICE_SERVER_TCP_H

#include <stdint.h>

#include "server/address.h"
#include "server/query.h"
#include "server/transfer_job.h"

struct tcp_limits {
  unsigned connections; /* in all */
  unsigned per_client;  /* of one IPv4 address or IPv6 /56 */
  unsigned idle_ms;
};

struct tcp_counters {
  _Atomic uint64_t accepted;
  _Atomic uint64_t open;    /* now */
  _Atomic uint64_t evicted; /* closed to make room */
  _Atomic uint64_t timed_out;
  struct transfer_counters transfers; /* that went out */
};

struct tcp;

/* Binds all addresses and listens; connections wait in the backlog until tcp_start().  NULL with a
 * one-line reason in `why` (512 bytes). */
struct tcp *tcp_open(const struct address *addresses, size_t count, char *why);

/* Starts the thread; `view` and `config` as in worker_start().  False with a reason. */
bool tcp_start(struct tcp *tcp, const struct view *_Atomic *view, const struct query_config *config,
               const struct tcp_limits *limits, char *why);

/* Answers what has arrived, ends the thread, closes everything; NULL is allowed. */
void tcp_stop(struct tcp *tcp);

const struct tcp_counters *tcp_get_counters(const struct tcp *tcp);
void tcp_add_counters(const struct tcp *tcp, uint64_t totals[QUERY_COUNTERS]);

#endif
