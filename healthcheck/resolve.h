/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host names to addresses, for the probes of endpoints that are host names: c-ares on the loop.
 *
 * Each resolution has a socket, a port and message ids of its own and is asked anew: nothing is
 * cached, so a probe sees what a client would.  Names are absolute: no search list.  With the
 * system's resolver, /etc/hosts and /etc/resolv.conf are read as they are at that moment; with a
 * resolver of its own only that one is asked.  A server that answers SERVFAIL, REFUSED or NOTIMP is
 * passed over for the next one of the system's.
 *
 * Addresses at which no endpoint can be are left out: unspecified, multicast, broadcast, link-local
 * (metadata services live there), IPv4 inside of IPv6.  Loopback and private ones stay.
 *
 * Everything here belongs to the loop's thread.
 */
#ifndef SLUICE_HEALTHCHECK_RESOLVE_H
#define SLUICE_HEALTHCHECK_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum {
  RESOLVE_ADDRESSES = 8,    /* of one name; of both families the first ones, alternating */
  RESOLVE_CONCURRENT = 250, /* resolutions that have a socket; others wait their turn */
  RESOLVE_WHY = 128,
};

struct resolve_address {
  uint8_t family;    /* 4 or 6 */
  uint8_t bytes[16]; /* in network order */
};

struct resolver;
struct resolve;

/* `addresses` (count > 0, `why` NULL) or the reason in `why` (count 0), as "no such name",
 * "the name has no address", "resolver timed out", "resolver refused", "resolver failed
 * (SERVFAIL)".  `own_fault`: it is this machine that cannot ask ("resolver unreachable", no memory,
 * too many at once), which says nothing about the name.  All are borrowed.  May start and cancel
 * others. */
typedef void resolve_done_fn(void *arg, const struct resolve_address *addresses, size_t count,
                             const char *why, bool own_fault);

/* `server`: "ADDRESS[@PORT]" of a DNS server, or NULL: the system's.  NULL with one line in `why`
 * (RESOLVE_WHY octets).  A server that does not answer is no error here. */
struct resolver *resolver_open(uv_loop_t *loop, const char *server, char *why);

/* Cancels all; handles are closed in the loop. */
void resolver_close(struct resolver *resolver);

/* Starts; `done` is called once, within timeout_ms, from the loop and never from inside of here.
 * `host` (presentation form, with or without the final dot) is copied.  NULL only without memory.
 */
struct resolve *resolve_start(struct resolver *resolver, const char *host, uint64_t timeout_ms,
                              resolve_done_fn *done, void *arg);

/* `done` is not called any more; not to be used after `done`. */
void resolve_cancel(struct resolve *resolve);

#endif
