/* SPDX-License-Identifier: Apache-2.0 */
#include "server/transfer_stream.h"

#include <string.h>

#include "server/wire.h"

enum { MESSAGE_MAX = 65535 };

/* The parts of a transfer; each kind is a row of them. */
enum part {
  PART_END,
  PART_SOA_NOW,
  PART_SOA_OLD,
  PART_ALL, /* of the zone but its SOA */
  PART_DELETED,
  PART_ADDED,
};

static const uint8_t plans[][8] = {
    [TRANSFER_ALL] = {PART_SOA_NOW, PART_ALL, PART_SOA_NOW, PART_END},
    [TRANSFER_DIFF] = {PART_SOA_NOW, PART_SOA_OLD, PART_DELETED, PART_SOA_NOW, PART_ADDED,
                       PART_SOA_NOW, PART_END},
    [TRANSFER_SOA] = {PART_SOA_NOW, PART_END},
};

static enum part part_of(const struct transfer_stream *s) {
  return (enum part)plans[s->kind][s->step];
}

static void enter(struct transfer_stream *s, unsigned step) {
  struct records_rr soa;
  s->step = step;
  s->index = 0;
  s->at = records_read(s->now, records_first(), &soa); /* behind the SOA, for PART_ALL */
}

static bool part_is_over(const struct transfer_stream *s) {
  switch (part_of(s)) {
  case PART_SOA_NOW:
  case PART_SOA_OLD:
    return s->index > 0;
  case PART_ALL:
    return s->at >= s->now->size;
  case PART_DELETED:
    return s->index >= s->diff->deleted.count;
  case PART_ADDED:
    return s->index >= s->diff->added.count;
  case PART_END:
    break;
  }
  return false;
}

static void skip_empty(struct transfer_stream *s) {
  while (part_is_over(s))
    enter(s, s->step + 1);
}

/* The next record; returns where the one after it is, for PART_ALL. */
static size_t look(const struct transfer_stream *s, struct records_rr *rr) {
  switch (part_of(s)) {
  case PART_SOA_OLD:
    return records_read(s->old, records_first(), rr);
  case PART_ALL:
    return records_read(s->now, s->at, rr);
  case PART_DELETED:
    return records_read(s->old, s->diff->deleted.offsets[s->index], rr);
  case PART_ADDED:
    return records_read(s->now, s->diff->added.offsets[s->index], rr);
  case PART_SOA_NOW:
  case PART_END:
    break;
  }
  return records_read(s->now, records_first(), rr);
}

void transfer_stream_start(struct transfer_stream *s) {
  s->started = false;
  enter(s, 0);
}

bool transfer_stream_is_done(const struct transfer_stream *s) {
  return part_of(s) == PART_END;
}

/* RFC 5936 section 2.2.1: the question stands in the first message; later ones need none. */
static void put_head(struct transfer_stream *s, uint8_t *out) {
  const struct transfer_head *head = &s->head;
  size_t at = WIRE_QUESTION;
  memset(out, 0, WIRE_QUESTION);
  wire_put16(out + WIRE_ID, head->id);
  wire_put16(out + WIRE_FLAGS, (uint16_t)(WIRE_QR | WIRE_AA | (head->rd ? WIRE_RD : 0)));
  if (!s->started) {
    wire_put16(out + WIRE_QDCOUNT, 1);
    memcpy(out + at, head->question, head->question_len);
    at += head->question_len;
  }
  transfer_pack_begin(&s->pack, out, at);
  if (!s->started)
    transfer_pack_note(&s->pack, WIRE_QUESTION);
}

/* RFC 5936 section 2.2.5: the OPT record is in the first message. */
static void put_opt(struct transfer_stream *s, uint8_t *out) {
  uint8_t *opt = out + s->pack.at;
  memset(opt, 0, TRANSFER_OPT_MAX);
  wire_put16(opt + 1, TYPE_OPT);
  wire_put16(opt + 3, s->head.payload);
  wire_put16(out + WIRE_ARCOUNT, 1);
  s->pack.at += TRANSFER_OPT_MAX;
}

size_t transfer_stream_next(struct transfer_stream *s, uint8_t *out, size_t room) {
  if (transfer_stream_is_done(s))
    return 0;
  bool opt = !s->started && s->head.edns;
  size_t most = MESSAGE_MAX - room - (opt ? TRANSFER_OPT_MAX : 0);
  unsigned count = 0;
  put_head(s, out);
  s->started = true;
  while (!transfer_stream_is_done(s)) {
    struct records_rr rr;
    size_t next = look(s, &rr);
    /* One record larger than the usual message gets a larger message. */
    if (!transfer_pack_rr(&s->pack, &rr, count > 0 ? TRANSFER_MESSAGE : most))
      break;
    s->index++;
    s->at = part_of(s) == PART_ALL ? next : s->at;
    count++;
    skip_empty(s);
  }
  wire_put16(out + WIRE_ANCOUNT, (uint16_t)count);
  if (opt)
    put_opt(s, out);
  return s->pack.at;
}
