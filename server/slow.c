/* SPDX-License-Identifier: Apache-2.0 */
#include "server/slow.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "server/answer.h"
#include "server/notify_in.h"
#include "server/transfer_policy.h"
#include "server/wire.h"

enum { MESSAGE_MAX = 65535, RR_FIXED = 10, SOA_NUMBERS = 20 };

/* A response of the question (and OPT) with an RCODE. */
static size_t answer_error(struct query *q, const struct view *view, struct query_worker *worker,
                           uint16_t rcode) {
  q->verdict = VERDICT_ERROR;
  q->rcode = rcode;
  return query_answer(q, view, worker);
}

/* ---- signatures -------------------------------------------------------------------------------
 */

/* Octets that the client takes. */
static size_t client_limit(const struct query *q, const struct query_config *config) {
  if (q->transport != TRANSPORT_UDP)
    return MESSAGE_MAX;
  size_t limit = q->edns.present ? q->edns.payload : EDNS_MIN_PAYLOAD;
  return limit < config->udp_max ? limit : config->udp_max;
}

/* Answers as the fast path would, but leaves room for the signature. */
static size_t answer_in_room(struct query *q, const struct view *view, struct query_worker *worker,
                             size_t room) {
  size_t capacity = q->capacity;
  size_t limit = client_limit(q, worker->config);
  if (limit > capacity)
    limit = capacity;
  q->capacity = limit > room ? limit - room : 0;
  query_locate(q);
  size_t length = query_answer(q, view, worker);
  q->capacity = capacity;
  return length;
}

static size_t sign(struct query *q, struct tsig_session *session, size_t length, uint64_t now) {
  if (length == 0 || session->result == TSIG_FAILED)
    return length; /* no signature can be made: SERVFAIL goes without */
  size_t capacity = q->capacity < MESSAGE_MAX ? q->capacity : MESSAGE_MAX;
  return tsig_sign_response(session, q->packet, length, capacity, now);
}

/* ---- transfers --------------------------------------------------------------------------------
 */

/* Offset behind the name at `at`; query_parse() has walked over it. */
static size_t skip_name(const uint8_t *packet, size_t at) {
  for (;;) {
    if (packet[at] == 0)
      return at + 1;
    if (packet[at] >= 0xc0)
      return at + 2;
    at += packet[at] + 1u;
  }
}

/* RFC 1995 section 3: the client's SOA in the authority section.  False if it is not there. */
static bool read_serial(const struct query *q, uint32_t *serial) {
  const uint8_t *p = q->packet;
  if (wire_u16(p + WIRE_ANCOUNT) != 0 || wire_u16(p + WIRE_NSCOUNT) == 0)
    return false;
  size_t at = skip_name(p, q->question_end);
  uint16_t type = wire_u16(p + at);
  uint16_t rdlen = wire_u16(p + at + 8);
  if (type != TYPE_SOA || rdlen < 2 + SOA_NUMBERS)
    return false;
  /* The names may be compressed; what counts stands at the end. */
  *serial = wire_u32(p + at + RR_FIXED + rdlen - SOA_NUMBERS);
  return true;
}

static void log_refusal(const struct query *q, const struct tsig_key *key) {
  static struct log_limit limit;
  char zone[NAME_MAX_TEXT], client[INET6_ADDRSTRLEN] = "", name[NAME_MAX_TEXT] = "no key";
  inet_ntop(q->source.family == 4 ? AF_INET : AF_INET6, q->source.octets, client, sizeof client);
  if (key != NULL)
    name_to_text(name, tsig_key_name(key));
  log_limited(&limit, LOG_LEVEL_NOTICE, "zone %s: transfer refused to %s (%s)",
              name_to_text(zone, q->packet + WIRE_QUESTION), client, name);
}

static const struct view_transfer *find_transfer(const struct query *q, const struct view *view) {
  if (q->zone == NULL || view->transfers == NULL)
    return NULL;
  return &view->transfers[q->zone - view->zones];
}

/* Copies what outlives the request; false without memory. */
static bool fill_transfer(struct slow_transfer *transfer, const struct query *q,
                          const struct view_transfer *source, struct query_worker *worker) {
  transfer->path = strdup(source->records);
  if (transfer->path == NULL)
    return false;
  transfer->wish.path = transfer->path;
  transfer->wish.serial = q->zone->image->header->serial;
  transfer->wish.incremental = q->qtype == TYPE_IXFR;
  transfer->head = (struct transfer_head){
      .id = wire_u16(q->packet + WIRE_ID),
      .rd = (q->flags & WIRE_RD) != 0,
      .edns = q->edns.present,
      .payload = worker->config->udp_max,
      .question_len = (uint16_t)(q->question_end - WIRE_QUESTION),
  };
  memcpy(transfer->head.question, q->packet + WIRE_QUESTION, transfer->head.question_len);
  return true;
}

/*
 * Decides about a transfer: 0 with transfer->wanted set, or the length of a response that is not
 * signed yet.
 */
static size_t respond_transfer(struct query *q, const struct view *view,
                               struct query_worker *worker, const struct tsig_session *session,
                               struct slow_transfer *transfer) {
  const struct view_transfer *source = find_transfer(q, view);
  const struct tsig_key *key = session->result == TSIG_OK ? session->key : NULL;
  uint32_t have = 0;
  if (q->zone == NULL || q->zone->image->header->apex_len != q->name.len)
    return answer_error(q, view, worker, RCODE_NOTAUTH); /* RFC 5936 section 2.2.1 */
  if (source == NULL || !transfer_policy_allows(source->policy, &q->source, key)) {
    log_refusal(q, key);
    query_count(worker, COUNT_TRANSFER_REFUSED);
    return answer_error(q, view, worker, RCODE_REFUSED);
  }
  if (q->zone->state != VIEW_ZONE_SERVED)
    return answer_error(q, view, worker, RCODE_SERVFAIL);
  if (q->qtype == TYPE_IXFR && !read_serial(q, &have))
    return answer_error(q, view, worker, RCODE_FORMERR);
  if (transfer == NULL) {
    if (q->qtype == TYPE_AXFR) /* RFC 5936 section 4.2: over TCP only */
      return answer_error(q, view, worker, RCODE_REFUSED);
    /* RFC 1995 section 2: the SOA alone tells the client to come over TCP, or that it need not. */
    q->qtype = TYPE_SOA;
    q->verdict = VERDICT_LOOK_UP;
    q->rcode = RCODE_NOERROR;
    return answer_in_room(q, view, worker, tsig_room(session));
  }
  if (source->records == NULL || !fill_transfer(transfer, q, source, worker))
    return answer_error(q, view, worker, RCODE_SERVFAIL);
  transfer->wish.have = have;
  transfer->wanted = true;
  return 0;
}

size_t slow_transfer_fail(struct slow_transfer *transfer, uint16_t rcode, uint8_t *out,
                          uint64_t now) {
  const struct transfer_head *head = &transfer->head;
  memset(out, 0, WIRE_QUESTION);
  wire_put16(out + WIRE_ID, head->id);
  wire_put16(out + WIRE_FLAGS, (uint16_t)(WIRE_QR | (head->rd ? WIRE_RD : 0) | rcode));
  wire_put16(out + WIRE_QDCOUNT, 1);
  memcpy(out + WIRE_QUESTION, head->question, head->question_len);
  return tsig_sign_response(&transfer->session, out, (size_t)WIRE_QUESTION + head->question_len,
                            MESSAGE_MAX, now);
}

void slow_transfer_close(struct slow_transfer *transfer) {
  tsig_close(&transfer->session);
  free(transfer->path);
  *transfer = (struct slow_transfer){.wanted = false};
}

/* ---- both -------------------------------------------------------------------------------------
 */

static size_t respond(struct query *q, const struct view *view, struct query_worker *worker,
                      struct tsig_session *session, uint64_t now, struct slow_transfer *transfer) {
  if (q->verdict == VERDICT_TRANSFER)
    return respond_transfer(q, view, worker, session, transfer);
  if (worker->config->keys == NULL)
    return answer_error(q, view, worker, RCODE_REFUSED);
  enum tsig_result result =
      tsig_verify_request(session, worker->config->keys, q->packet, q->length, now);
  if (result == TSIG_ABSENT) /* it stands where none can be, and so cannot be verified */
    result = TSIG_FORMERR;
  if (result != TSIG_OK) {
    query_count(worker, COUNT_TSIG_BAD);
    return answer_error(q, view, worker, tsig_rcode(result));
  }
  query_count(worker, COUNT_TSIG_GOOD);
  q->length = tsig_strip(session, q->packet);
  query_parse_again(q, view);
  q->proven = true; /* nobody else has the key: no limit of the rate of forged queries */
  if (q->verdict == VERDICT_TRANSFER)
    return respond_transfer(q, view, worker, session, transfer);
  return answer_in_room(q, view, worker, tsig_room(session));
}

static size_t respond_notify(struct query *q, const struct view *view, struct query_worker *worker,
                             uint64_t now) {
  const struct notify_gate *gate = worker->config->notify;
  if (gate == NULL)
    return query_answer(q, view, worker);
  size_t length = notify_in_answer(gate, q->packet, q->length, q->capacity, &q->source, now);
  if (length > 0)
    query_count(worker, COUNT_RESPONSES);
  return length;
}

size_t slow_respond(struct query *q, const struct view *view, struct query_worker *worker,
                    uint64_t now, struct slow_transfer *transfer) {
  if (q->verdict == VERDICT_NOTIFY)
    return respond_notify(q, view, worker, now);
  struct tsig_session session = {.key = NULL};
  session.result = TSIG_ABSENT;
  size_t length = respond(q, view, worker, &session, now, transfer);
  if (transfer != NULL && transfer->wanted) {
    transfer->session = session;
    return 0;
  }
  length = sign(q, &session, length, now);
  tsig_close(&session);
  return length;
}
