/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Response rate limiting: how many like responses in a second one client network may get over UDP.
 *
 * Sources of UDP queries are forged to aim our responses at somebody.  What the victim would get
 * are many like responses in one network, so each (client prefix, kind of response, what it is
 * about) has a token bucket of its own.  Responses over the limit are dropped, but every slip-th
 * one goes out empty with TC set, so that a genuine client in that network can come back over TCP.
 *
 * In the query path, once a UDP response is made and before it is sent:
 *   - a client that showed a valid cookie, or came over TCP or TLS, is not asked about: its address
 *     is proven;
 *   - otherwise ratelimit_check() says whether to send, to truncate, or to stay silent.
 *
 * One instance for each worker thread, without locks; only its thread calls ratelimit_check(), any
 * thread may read the counters.  The caller divides the rates by the number of workers, therefore
 * they count in thousandths.
 *
 * Cost: one cache line for each category that has a limit (the response's and RATELIMIT_ALL),
 * whatever the size of the table.  Memory is set at open and never grows.  A bucket has
 * RATELIMIT_WAYS places; when all are taken, a new client gets the place of the one whose tokens
 * are complete or will be soonest, which is the one that has been quiet for longest; those over
 * their limit stay.  It starts with full tokens of its own: it never pays for the one that it
 * replaces.  Entries are told apart by 64 bits of a hash with a secret seed, so that nobody can
 * choose names that collide with another's.
 */
#ifndef SLUICE_SERVER_RATELIMIT_H
#define SLUICE_SERVER_RATELIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  RATELIMIT_WAYS = 4,              /* entries of a bucket of 64 octets */
  RATELIMIT_BUCKETS_MAX = 1 << 24, /* 1 GiB */
  RATELIMIT_RATE_MAX = 1000000000, /* a million a second, in thousandths */
  RATELIMIT_BURST_MAX = 60000,     /* ms */
  RATELIMIT_EXEMPT_MAX = 4096,     /* prefixes */
  RATELIMIT_WHY = 160,             /* room for a message */
};

/*
 * Kinds of response, and what the caller gives as `about`:
 *
 * - ANSWER: data, CNAME, referral.  Hash of the lower-case name that the answer comes from, which
 * is the wildcard's name for a synthesized answer and the cut's name for a referral (made-up names
 *   below them must not each get tokens of their own).
 * - NODATA, NXDOMAIN: hash of the zone's apex.
 * - ERROR: FORMERR, REFUSED, NOTIMP, BADVERS, ...  Ignored.
 * - ALL: every response of the prefix counts here too; never given to ratelimit_check().
 */
enum ratelimit_category {
  RATELIMIT_ANSWER,
  RATELIMIT_NODATA,
  RATELIMIT_NXDOMAIN,
  RATELIMIT_ERROR,
  RATELIMIT_ALL,
  RATELIMIT_CATEGORIES
};

/* A prefix of addresses; octets past `length` bits are zero. */
struct ratelimit_prefix {
  uint8_t family; /* 4 or 6 */
  uint8_t length; /* bits: 0..32 or 0..128 */
  uint8_t octets[16];
};

struct ratelimit_config {
  uint32_t rate[RATELIMIT_CATEGORIES]; /* of this worker: thousandths of a response in a second;
                                          0: no limit.  At most RATELIMIT_RATE_MAX */
  uint32_t burst_ms; /* tokens that can be saved, as the time they take to come back: a client that
                        was quiet may get rate * burst at once, but always one response.
                        0..RATELIMIT_BURST_MAX */
  uint32_t buckets;  /* a power of two, 1..RATELIMIT_BUCKETS_MAX */
  uint8_t slip;      /* every slip-th response over the limit is truncated: 1 all, 0 none (drop) */
  uint8_t prefix_v4; /* bits of an IPv4 client address that make a client network, 0..32 */
  uint8_t prefix_v6; /* the same for IPv6, 0..128 */
  const struct ratelimit_prefix *exempt; /* never limited; copied by ratelimit_open() */
  size_t exempt_count;                   /* at most RATELIMIT_EXEMPT_MAX */
};

enum ratelimit_verdict {
  RATELIMIT_PASS,
  RATELIMIT_DROP,
  RATELIMIT_TRUNCATE, /* send header and question with TC set, and OPT; no records */
};

enum ratelimit_counter {
  RATELIMIT_COUNT_PASSED,
  RATELIMIT_COUNT_DROPPED,
  RATELIMIT_COUNT_TRUNCATED,
  RATELIMIT_COUNT_EXEMPTED, /* over the limit, but of an exempt prefix; not in PASSED */
  RATELIMIT_COUNT_REPLACED, /* entries replaced before their tokens were complete: growing fast
                               means that the table is too small for the attack */
  RATELIMIT_COUNT_LIMITED,  /* and on, one for each category: which limit was hit (dropped,
                               truncated) */
  RATELIMIT_COUNTERS = RATELIMIT_COUNT_LIMITED + RATELIMIT_CATEGORIES
};

struct ratelimit;

/* No limit at all, slip 2, prefixes /24 and /56, 1000 ms of burst, 16384 buckets (1 MiB). */
void ratelimit_defaults(struct ratelimit_config *config);

/*
 * Makes an instance.  `seed` is 16 octets of the kernel's randomness.  NULL with one line in `why`
 * (RATELIMIT_WHY bytes) when a setting is out of range or memory is short.
 */
struct ratelimit *ratelimit_open(const struct ratelimit_config *config, const uint8_t seed[16],
                                 char *why);
void ratelimit_close(struct ratelimit *limit); /* NULL is allowed */

/*
 * Counts one response and says what to do with it.  `family` is 4 or 6, `address` its 4 or 16
 * octets; IPv4-mapped addresses are given as IPv4.  `now_ms` is a clock that does not go back
 * (CLOCK_MONOTONIC or its coarse sister); one reading for a whole batch is fine.  No allocation, no
 * system call.
 */
enum ratelimit_verdict ratelimit_check(struct ratelimit *limit, uint8_t family,
                                       const uint8_t *address, enum ratelimit_category category,
                                       uint64_t about, uint64_t now_ms);

/* A counter since open; from any thread. `which` below RATELIMIT_COUNTERS; LIMITED + a category. */
uint64_t ratelimit_count(const struct ratelimit *limit, unsigned which);

/*
 * Reads "192.0.2.0/24", "2001:db8::/32", or an address alone (a host).  False with one line in
 * `why` (RATELIMIT_WHY bytes): no address, length out of range, or bits set past the length.
 */
bool ratelimit_prefix_parse(const char *text, struct ratelimit_prefix *prefix, char *why);

#endif
