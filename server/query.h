/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The query path: bytes in, bytes out.  No sockets, no threads, no clock, no allocation, no system
 * call.
 *
 * It works in three steps, so that a worker can run each over a whole batch and hide the memory
 * latency of the lookups behind one another:
 *   query_parse()   header, question, EDNS; hashes the name and prefetches its hash slot
 *   query_locate()  finds the zone's hash slot and prefetches the node
 *   query_answer()  writes the response over the request, in the same buffer
 * query_respond() runs all three for one packet.
 */
#ifndef SLUICE_SERVER_QUERY_H
#define SLUICE_SERVER_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/rng.h"
#include "server/edns.h"
#include "server/qname.h"
#include "server/view.h"

enum {
  QUERY_UDP_MAX = 1232,  /* default largest UDP response (DNS flag day 2020) */
  QUERY_BUF = 65535 + 1, /* a buffer for any response over TCP */
};

struct exposure_ring;
struct tsig_keys;
struct cookie_secrets;
struct ratelimit;

enum query_transport { TRANSPORT_UDP, TRANSPORT_TCP, TRANSPORT_TLS };

/* Counters of one worker; only its thread writes them, with plain stores; others read them racily
 * through relaxed atomics. */
enum query_counter {
  COUNT_QUERIES,          /* packets taken as a query */
  COUNT_RESPONSES,        /* responses made */
  COUNT_DROPPED_SHORT,    /* under 12 octets */
  COUNT_DROPPED_RESPONSE, /* QR set */
  COUNT_FORMERR,
  COUNT_NOTIMP,
  COUNT_REFUSED,
  COUNT_BADVERS,
  COUNT_NXDOMAIN,
  COUNT_NODATA,
  COUNT_REFERRAL,
  COUNT_STEERED, /* answers that passed the four layers */
  COUNT_TRUNCATED,
  COUNT_ECS,
  COUNT_EDNS,
  COUNT_COOKIE_NEW,   /* client cookies alone */
  COUNT_COOKIE_VALID, /* with a server cookie of ours */
  COUNT_COOKIE_BAD,   /* with one that is not ours, or too old */
  COUNT_RATE_DROPPED, /* responses over the rate limit: not sent */
  COUNT_RATE_SLIPPED, /* sent empty with TC */
  COUNT_TSIG_GOOD,    /* signed queries whose signature is right */
  COUNT_TSIG_BAD,
  COUNT_TRANSFER_REFUSED,
  QUERY_COUNTERS
};

/* What is the same for all queries of a server; immutable while workers use it. */
struct query_config {
  uint16_t udp_max; /* QUERY_UDP_MAX unless set; 512..4096 */
  const char *nsid; /* or NULL */
  size_t nsid_len;
  const char *version;              /* answer to version.bind CH TXT, or NULL: REFUSED */
  const char *server_id;            /* answer to id.server CH TXT, or NULL: REFUSED */
  const struct tsig_keys *keys;     /* of signed queries; NULL: none is known */
  const struct notify_gate *notify; /* answers NOTIFY; NULL: refused */
  /* DNS cookies; NULL: not answered.  Replaced as a whole, by RCU. */
  _Atomic(const struct cookie_secrets *) cookies;
  unsigned tcp_idle_ms; /* said to clients that ask for keepalive (RFC 7828); 0: not said */
};

/* One per worker thread. */
struct query_worker {
  struct rng rng;
  const struct query_config *config;
  struct ratelimit *limit;        /* of this worker's responses over UDP, or NULL */
  struct exposure_ring *exposure; /* takes samples of steered answers, or NULL: none are taken */
  uint32_t exposure_left;         /* the last of so many steered answers is to be sampled */
  uint32_t now;    /* Unix time in seconds, cut to 32 bits; set by the caller for each batch */
  uint64_t now_ms; /* CLOCK_MONOTONIC in ms; likewise */
  _Atomic uint64_t counters[QUERY_COUNTERS];
};

/* Reads the clocks for a batch: coarse ones, which are pages of memory and no system calls. */
static inline void query_worker_tick(struct query_worker *worker) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME_COARSE, &t);
  worker->now = (uint32_t)t.tv_sec;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  worker->now_ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* State of one query between the steps; caller-owned, no close needed. */
struct query {
  /* set by the caller */
  uint8_t *packet; /* request; the response is written over it */
  size_t length;   /* of the request */
  size_t capacity; /* of the buffer: at least 4096 for UDP, QUERY_BUF for TCP */
  struct geo_address source;
  enum query_transport transport;

  /* private to the query path */
  enum query_verdict {
    VERDICT_LOOK_UP, /* go on with the next step */
    VERDICT_DROP,    /* silence */
    VERDICT_HEADER,  /* answer with `rcode` and the header alone */
    VERDICT_ERROR,   /* answer with `rcode`, the question and OPT */
    VERDICT_CHAOS,   /* class CH */
    VERDICT_COOKIE,  /* no question: a query for a cookie alone (RFC 7873 section 5.4) */
    /* Not for the fast path: the caller hands these to slow_respond() (server/slow.h) between
     * query_parse() and query_answer(), which would refuse them. */
    VERDICT_NOTIFY,   /* opcode NOTIFY; nothing but the header was read */
    VERDICT_SIGNED,   /* has a TSIG record */
    VERDICT_TRANSFER, /* AXFR or IXFR; the zone was looked up */
  } verdict;
  uint16_t rcode;
  uint16_t flags; /* of the request's header */
  uint16_t qtype;
  uint16_t qclass;
  uint16_t question_end; /* offset */
  bool proven;           /* the source address is the client\'s own: it showed a cookie of ours */
  const struct view_zone *zone; /* closest enclosing zone, or NULL */
  const struct image_node
      *origin; /* whose records were given: the name\'s, a wildcard\'s, a cut\'s */
  const struct image_node *hint; /* the node that very probably is the name's, or NULL */
  /* What query_look_ahead() has found for the hint's domain; used if that is the domain that
   * answers. */
  struct {
    const struct view_domain *domain; /* NULL: nothing */
    struct geo_outcome outcome;
    const struct draw_table *const *tables; /* of the outcome's region, by type */
    enum steer_type type;
    bool drawn;
    uint16_t endpoint;
  } ahead;
  struct edns edns;
  struct qname name;
};

void query_parse(struct query *q, const struct view *view, struct query_worker *worker);

/* query_parse() once more for a message that was changed since (its signature was taken off): does
 * not count it again. */
void query_parse_again(struct query *q, const struct view *view);

void query_locate(struct query *q);

/* May come next, for a whole batch: decides steered queries as far as it can, with their waits for
 * memory overlapping.  Without it the answers are the same. */
void query_look_ahead(struct query *queries, size_t count, struct query_worker *worker);

/* Returns the length of the response, 0 for silence. */
size_t query_answer(struct query *q, const struct view *view, struct query_worker *worker);

size_t query_respond(struct query *q, const struct view *view, struct query_worker *worker);

#endif
