/* SPDX-License-Identifier: Apache-2.0 */
#include "server/query.h"

#include <string.h>

#include "server/answer.h"
#include "server/ratelimit.h"
#include "server/wire.h"

enum {
  QUESTION_TAIL = 4,
  RR_FIXED = 10,             /* type, class, TTL, rdata length */
  MAX_RECORDS_IN_QUERY = 16, /* OPT, TSIG, an IXFR's SOA; nobody sends more */
};

void query_count(struct query_worker *worker, enum query_counter counter) {
  /* Only this thread writes: a load and a store, no locked instruction. */
  uint64_t n = atomic_load_explicit(&worker->counters[counter], memory_order_relaxed);
  atomic_store_explicit(&worker->counters[counter], n + 1, memory_order_relaxed);
}

static void set_verdict(struct query *q, enum query_verdict verdict, uint16_t rcode) {
  q->verdict = verdict;
  q->rcode = rcode;
}

/* ---- records behind the question ---------------------------------------------------------------
 */

/* Offset behind the name at `at`, which may end in a pointer; 0 if it runs out of the packet. */
static size_t skip_name(const uint8_t *packet, size_t length, size_t at) {
  while (at < length) {
    uint8_t n = packet[at];
    if (n == 0)
      return at + 1;
    if (n >= 0xc0)
      return at + 2 <= length ? at + 2 : 0;
    if (n > NAME_MAX_LABEL)
      return 0;
    at += n + 1u;
  }
  return 0;
}

/* Reads one record at *at and moves behind it.  False if it is malformed or not allowed in a query.
 */
static bool read_record(struct query *q, size_t *at, bool additional) {
  const uint8_t *p = q->packet;
  size_t end = skip_name(p, q->length, *at);
  if (end == 0 || q->length - end < RR_FIXED)
    return false;
  uint16_t type = wire_u16(p + end);
  size_t rdlen = wire_u16(p + end + 8);
  const uint8_t *rdata = p + end + RR_FIXED;
  if (rdlen > q->length - end - RR_FIXED)
    return false;
  bool root_owner = p[*at] == 0;
  *at = end + RR_FIXED + rdlen;
  if (type == TYPE_TSIG)
    q->verdict = VERDICT_SIGNED; /* where it may stand is checked with the signature */
  if (type != TYPE_OPT)
    return true;
  /* RFC 6891 section 6.1.1: at most one, in the additional section; 6.1.2: owned by the root. */
  if (!additional || !root_owner || q->edns.present)
    return false;
  return edns_read(&q->edns, wire_u16(p + end + 2), wire_u32(p + end + 4), rdata, rdlen);
}

static bool read_records(struct query *q, size_t at) {
  unsigned before = wire_u16(q->packet + WIRE_ANCOUNT) + wire_u16(q->packet + WIRE_NSCOUNT);
  unsigned total = before + wire_u16(q->packet + WIRE_ARCOUNT);
  /* Only IXFR carries a record ahead of the additional section (RFC 1995 section 3). */
  if (total > MAX_RECORDS_IN_QUERY || (before > 0 && q->qtype != TYPE_IXFR))
    return false;
  for (unsigned i = 0; i < total; i++)
    if (!read_record(q, &at, i >= before))
      return false;
  return at == q->length;
}

/* ---- step one ----------------------------------------------------------------------------------
 */

/* False when the packet deserves silence. */
static bool read_header(struct query *q, struct query_worker *worker) {
  if (q->length < WIRE_QUESTION) {
    query_count(worker, COUNT_DROPPED_SHORT);
    return false;
  }
  q->flags = wire_u16(q->packet + WIRE_FLAGS);
  if (q->flags & WIRE_QR) { /* answering a response could loop */
    query_count(worker, COUNT_DROPPED_RESPONSE);
    return false;
  }
  return true;
}

static void check_opcode(struct query *q) {
  unsigned opcode = (unsigned)(q->flags & WIRE_OPCODE) >> WIRE_OPCODE_SHIFT;
  if (opcode == OPCODE_NOTIFY)
    set_verdict(q, VERDICT_NOTIFY, RCODE_REFUSED);
  else if (opcode == OPCODE_UPDATE)
    set_verdict(q, VERDICT_HEADER, RCODE_REFUSED);
  else if (opcode != OPCODE_QUERY)
    set_verdict(q, VERDICT_HEADER, RCODE_NOTIMP); /* RFC 1035 section 4.1.1 */
}

/* Finds the end of the question; false if it is not one whole question (RFC 9619: QDCOUNT is 1). */
static bool read_question(struct query *q) {
  const uint8_t *p = q->packet;
  if (wire_u16(p + WIRE_QDCOUNT) != 1)
    return false;
  size_t len = qname_read(&q->name, p + WIRE_QUESTION, q->length - WIRE_QUESTION);
  if (len == 0 || q->length - WIRE_QUESTION - len < QUESTION_TAIL)
    return false;
  q->question_end = (uint16_t)(WIRE_QUESTION + len + QUESTION_TAIL);
  q->qtype = wire_u16(p + WIRE_QUESTION + len);
  q->qclass = wire_u16(p + WIRE_QUESTION + len + 2);
  return true;
}

/* A query without a question that has a COOKIE option, RFC 7873 section 5.4. */
static bool asks_for_cookie(struct query *q) {
  if (wire_u16(q->packet + WIRE_QDCOUNT) != 0)
    return false;
  q->qtype = 0;
  q->qclass = CLASS_IN;
  q->question_end = WIRE_QUESTION;
  return read_records(q, WIRE_QUESTION) && q->edns.cookie_present;
}

static void check_question(struct query *q) {
  if (q->qclass == CLASS_CH)
    set_verdict(q, VERDICT_CHAOS, RCODE_REFUSED);
  else if (q->qclass != CLASS_IN)
    set_verdict(q, VERDICT_ERROR, RCODE_REFUSED);
  else if (q->qtype == TYPE_AXFR || q->qtype == TYPE_IXFR)
    set_verdict(q, VERDICT_TRANSFER, RCODE_REFUSED);
}

/* True if the question's name is needed. */
static bool needs_name(const struct query *q) {
  return q->verdict == VERDICT_LOOK_UP || q->verdict == VERDICT_CHAOS ||
         q->verdict == VERDICT_TRANSFER;
}

static void reset(struct query *q) {
  q->verdict = VERDICT_LOOK_UP;
  q->rcode = RCODE_NOERROR;
  q->question_end = 0;
  q->proven = false;
  q->zone = NULL;
  q->origin = NULL;
  q->hint = NULL;
  q->ahead.domain = NULL;
  q->ahead.drawn = false;
  memset(&q->edns, 0, sizeof q->edns);
}

/* All behind the header. */
static inline void parse_message(struct query *q, const struct view *view) {
  check_opcode(q);
  if (q->verdict != VERDICT_LOOK_UP)
    return;
  if (!read_question(q)) {
    set_verdict(q, asks_for_cookie(q) ? VERDICT_COOKIE : VERDICT_HEADER, RCODE_FORMERR);
    return;
  }
  if (!read_records(q, q->question_end)) {
    set_verdict(q, VERDICT_ERROR, RCODE_FORMERR);
    return;
  }
  if (q->verdict == VERDICT_SIGNED) {
    q->rcode = RCODE_REFUSED;
    return;
  }
  if (q->edns.present && q->edns.version != 0) {
    set_verdict(q, VERDICT_ERROR, RCODE_BADVERS); /* RFC 6891 section 6.1.3 */
    return;
  }
  check_question(q);
  if (!needs_name(q))
    return;
  qname_hash(&q->name, q->packet + WIRE_QUESTION);
  if (q->verdict == VERDICT_CHAOS)
    return;
  q->zone = qname_zone(&q->name, view, false);
  if (!q->zone)
    return;
  const struct image *image = q->zone->image;
  __builtin_prefetch(&image->slots[image_slot_index(image->header, q->name.hash[0])]);
}

void query_parse(struct query *q, const struct view *view, struct query_worker *worker) {
  reset(q);
  if (!read_header(q, worker)) {
    q->verdict = VERDICT_DROP;
    return;
  }
  query_count(worker, COUNT_QUERIES);
  parse_message(q, view);
}

void query_parse_again(struct query *q, const struct view *view) {
  reset(q);
  parse_message(q, view);
}

/* ---- step two ----------------------------------------------------------------------------------
 */

void query_locate(struct query *q) {
  if (q->verdict != VERDICT_LOOK_UP || !q->zone)
    return;
  const struct image *image = q->zone->image;
  q->hint = qname_probe(image, q->name.hash[0]);
  if (q->hint)
    qname_prefetch_node(q->hint);
  else if (q->name.labels > image->header->apex_labels + 1)
    qname_prefetch_slot(image, q->name.hash[1]); /* of the name above, for query_look_ahead() */
}

/* ---- step three --------------------------------------------------------------------------------
 */

/* A response of the header alone: the question could not be read, or the opcode has none to repeat.
 */
static size_t header_only(struct query *q) {
  wire_put16(q->packet + WIRE_FLAGS, (uint16_t)(WIRE_QR | (q->flags & WIRE_OPCODE) | q->rcode));
  memset(q->packet + WIRE_QDCOUNT, 0, WIRE_QUESTION - WIRE_QDCOUNT);
  return WIRE_QUESTION;
}

static void count_rcode(struct query_worker *worker, unsigned rcode) {
  switch (rcode) {
  case RCODE_FORMERR:
    query_count(worker, COUNT_FORMERR);
    break;
  case RCODE_NXDOMAIN:
    query_count(worker, COUNT_NXDOMAIN);
    break;
  case RCODE_NOTIMP:
    query_count(worker, COUNT_NOTIMP);
    break;
  case RCODE_REFUSED:
    query_count(worker, COUNT_REFUSED);
    break;
  case RCODE_BADVERS:
    query_count(worker, COUNT_BADVERS);
    break;
  default:
    break;
  }
}

/* What a response counts as for rate limiting, and what it is about: see server/ratelimit.h. */
static enum ratelimit_category rate_category(const struct query *q, uint64_t *about) {
  const uint8_t *p = q->packet;
  *about = 0;
  if (q->rcode != RCODE_NOERROR && q->rcode != RCODE_NXDOMAIN)
    return RATELIMIT_ERROR;
  if (q->zone && (q->rcode == RCODE_NXDOMAIN ||
                  (wire_u16(p + WIRE_ANCOUNT) == 0 && (wire_u16(p + WIRE_FLAGS) & WIRE_AA) != 0))) {
    *about = name_hash(q->zone->image->header->apex);
    return q->rcode == RCODE_NXDOMAIN ? RATELIMIT_NXDOMAIN : RATELIMIT_NODATA;
  }
  if (q->origin)
    *about = name_hash(image_node_name(q->origin));
  return RATELIMIT_ANSWER;
}

/* The length of the response that remains: all, an empty one with TC set, or none. */
static size_t limit_rate(struct query *q, struct query_worker *worker, size_t length) {
  uint64_t about;
  enum ratelimit_category category = rate_category(q, &about);
  switch (ratelimit_check(worker->limit, q->source.family, q->source.octets, category, about,
                          worker->now_ms)) {
  case RATELIMIT_PASS:
    return length;
  case RATELIMIT_DROP:
    query_count(worker, COUNT_RATE_DROPPED);
    return 0;
  case RATELIMIT_TRUNCATE:
    query_count(worker, COUNT_RATE_SLIPPED);
    return q->question_end > WIRE_QUESTION ? answer_slip(q, worker) : header_only(q);
  }
  return length;
}

size_t query_answer(struct query *q, const struct view *view, struct query_worker *worker) {
  if (q->verdict == VERDICT_DROP)
    return 0;
  size_t length;
  if (q->verdict == VERDICT_HEADER || q->verdict == VERDICT_NOTIFY)
    length = header_only(q);
  else
    length = answer_make(q, view, worker);
  if (q->edns.present)
    query_count(worker, COUNT_EDNS);
  count_rcode(worker, q->rcode);
  if (worker->limit && q->transport == TRANSPORT_UDP && !q->proven)
    length = limit_rate(q, worker, length);
  if (length > 0)
    query_count(worker, COUNT_RESPONSES);
  return length;
}

size_t query_respond(struct query *q, const struct view *view, struct query_worker *worker) {
  query_parse(q, view, worker);
  query_locate(q);
  return query_answer(q, view, worker);
}
