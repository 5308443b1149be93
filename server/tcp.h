/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS over TCP (RFC 7766) or TLS (RFC 7858): one thread with an event loop.
 *
 * All queries of one read are answered with one write.  A connection that finishes no query for
 * `idle_ms`, or does not take its answers within that time, is closed; so slow writers, slow
 * readers and idlers are all bounded by one rule.  When the server or one client has too many
 * connections, the one that is idle for longest makes room.
 *
 * A zone transfer goes out in pieces as the client takes them, so it holds up no other connection;
 * what the client asks behind it is answered after it, in order.
 *
 * TLS has an instance of its own, so that its handshakes hold up no plain TCP.  A handshake has to
 * be done within `idle_ms`.
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
  _Atomic uint64_t tls_established;   /* handshakes that were done */
  _Atomic uint64_t tls_failed;        /* connections that spoke no TLS, or one that we do not */
  struct transfer_counters transfers; /* that went out */
};

struct tcp;
struct tls_server;

/* Binds all addresses and listens; connections wait in the backlog until tcp_start().  NULL with a
 * one-line reason in `why` (512 bytes). */
struct tcp *tcp_open(const struct address *addresses, size_t count, char *why);

/* Makes it speak TLS; before tcp_start().  `server` is used until tcp_stop().  False without
 * memory. */
bool tcp_use_tls(struct tcp *tcp, struct tls_server *server);

/* Starts the thread; `view` and `config` as in worker_start().  False with a reason. */
bool tcp_start(struct tcp *tcp, const struct view *_Atomic *view, const struct query_config *config,
               const struct tcp_limits *limits, char *why);

/* Answers what has arrived, ends the thread, closes everything; NULL is allowed. */
void tcp_stop(struct tcp *tcp);

const struct tcp_counters *tcp_get_counters(const struct tcp *tcp);
/* The samples of its thread, once it was started. */
struct exposure_ring *tcp_exposure(const struct tcp *tcp);

void tcp_add_counters(const struct tcp *tcp, uint64_t totals[QUERY_COUNTERS]);

#endif
