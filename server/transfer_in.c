/* SPDX-License-Identifier: Apache-2.0 */
#include "server/transfer_in.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/wire.h"
#include "zones/record.h"

enum {
  QUESTION_TAIL = 4,
  TYPE_META_FIRST = 128, /* RFC 6895 section 3.1 */
  TYPE_META_LAST = 255,
  SOA_MAX = 2 * NAME_MAX_WIRE + 20,
};

enum state {
  FIRST_SOA, /* nothing yet */
  SECOND,    /* IXFR: the second record tells what it is (RFC 1995 section 4) */
  FULL,      /* records of the whole zone */
  REMOVALS,  /* behind the old SOA of a step */
  ADDITIONS, /* behind its new SOA */
  COMPLETE,
};

void transfer_in_init(struct transfer_in *t, const uint8_t *apex, uint16_t qtype, uint16_t id,
                      uint32_t have, const struct transfer_in_limits *limits) {
  memset(t, 0, sizeof *t);
  arena_init(&t->memory);
  name_copy_lower(t->apex, apex);
  t->qtype = qtype;
  t->id = id;
  t->have = have;
  t->limits = *limits;
  t->state = FIRST_SOA;
}

void transfer_in_close(struct transfer_in *t) {
  free(t->changes);
  t->changes = NULL;
  t->count = t->cap = 0;
  arena_close(&t->memory);
}

static enum transfer_result fail(char *why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static enum transfer_result fail(char *why, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(why, TRANSFER_IN_WHY, format, args);
  va_end(args);
  return TRANSFER_FAILED;
}

/* ---- the header and the question --------------------------------------------------------------
 */

const char *transfer_rcode_text(unsigned rcode) {
  static const char *const texts[] = {"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN",
                                      "NOTIMP",  "REFUSED", "YXDOMAIN", "YXRRSET",
                                      "NXRRSET", "NOTAUTH", "NOTZONE"};
  return rcode < sizeof texts / sizeof *texts ? texts[rcode] : "an unknown RCODE";
}

/* NULL if it is a response with this ID that says no error; sets *rcode.  Else what is wrong. */
static const char *check_header(const uint8_t *message, size_t len, uint16_t id, unsigned *rcode) {
  *rcode = RCODE_NOERROR;
  if (len < WIRE_QUESTION)
    return "a message is shorter than a header";
  unsigned flags = wire_u16(message + WIRE_FLAGS);
  if (wire_u16(message + WIRE_ID) != id)
    return "a message has the ID of another request";
  if ((flags & WIRE_QR) == 0 || (flags & WIRE_OPCODE) != 0)
    return "a message is no response to a query";
  *rcode = flags & WIRE_RCODE;
  if (*rcode != RCODE_NOERROR)
    return transfer_rcode_text(*rcode);
  if (flags & WIRE_TC)
    return "a message is truncated";
  return NULL;
}

/* Reads the question, if there is one, and moves *at behind it.  NULL, or what is wrong. */
static const char *check_question(const uint8_t *message, size_t len, const uint8_t *apex,
                                  uint16_t qtype, bool needed, size_t *at) {
  unsigned count = wire_u16(message + WIRE_QDCOUNT);
  uint8_t name[NAME_BUF];
  *at = WIRE_QUESTION;
  if (count == 0)
    return needed ? "the question is missing" : NULL;
  size_t behind = transfer_name_read(message, len, WIRE_QUESTION, name);
  if (count != 1 || behind == 0 || len - behind < QUESTION_TAIL)
    return "the question is malformed";
  if (!name_equal(name, apex) || wire_u16(message + behind) != qtype ||
      wire_u16(message + behind + 2) != CLASS_IN)
    return "the question is not the one that was asked";
  *at = behind + QUESTION_TAIL;
  return NULL;
}

/* ---- records ----------------------------------------------------------------------------------
 */

static enum transfer_result out_of_memory(char *why) {
  return fail(why, "out of memory");
}

/* The owner in the transfer's memory; records of one name mostly follow one another. */
static uint8_t *keep_owner(struct transfer_in *t) {
  if (t->count > 0 && name_equal(t->changes[t->count - 1].rr.owner, t->rr.owner))
    return t->changes[t->count - 1].rr.owner;
  return arena_copy(&t->memory, t->rr.owner, name_wire_len(t->rr.owner, NAME_MAX_WIRE), NAME_PAD);
}

static bool keep(struct transfer_in *t, enum transfer_op op) {
  if (t->count == t->cap) {
    size_t cap = t->cap == 0 ? 64 : t->cap + t->cap / 2;
    struct transfer_change *changes = realloc(t->changes, cap * sizeof *changes);
    if (changes == NULL)
      return false;
    t->changes = changes;
    t->cap = cap;
  }
  uint8_t *owner = keep_owner(t);
  uint8_t *rdata = arena_copy(&t->memory, t->rr.rdata, t->rr.rdata_len, 0);
  if (owner == NULL || rdata == NULL)
    return false;
  t->changes[t->count++] = (struct transfer_change){.rr = {.owner = owner,
                                                           .rdata = rdata,
                                                           .rdata_len = t->rr.rdata_len,
                                                           .type = t->rr.type,
                                                           .ttl = t->rr.ttl},
                                                    .op = op};
  return true;
}

/* A record that must not be in any zone, or not in this one.  NULL if it may. */
static const char *check_record(const struct transfer_in *t) {
  const struct transfer_rr *rr = &t->rr;
  if (rr->rclass != CLASS_IN)
    return "a record is not of class IN";
  if (rr->type == 0 || rr->type == TYPE_OPT ||
      (rr->type >= TYPE_META_FIRST && rr->type <= TYPE_META_LAST))
    return "a record has a type that no zone can hold";
  if (!name_is_below_or_equal(rr->owner, t->apex))
    return "a record is outside of the zone";
  if (rr->type == TYPE_SOA && !name_equal(rr->owner, t->apex))
    return "a SOA record is not at the apex";
  return NULL;
}

/* RFC 1982 and RFC 1034 section 4.3.5: a zone never goes back, whatever the primary told before. */
static bool must_not_be_taken(const struct transfer_in *t) {
  return t->limits.only_newer && !transfer_serial_newer(t->soa.serial, t->have);
}

static enum transfer_result take_first(struct transfer_in *t, char *why) {
  if (t->rr.type != TYPE_SOA)
    return fail(why, "the first record is not the SOA");
  t->soa = transfer_soa_read(t->rr.rdata, t->rr.rdata_len);
  t->first_soa = arena_copy(&t->memory, t->rr.rdata, t->rr.rdata_len, 0);
  if (t->first_soa == NULL)
    return out_of_memory(why);
  t->first_soa_len = t->rr.rdata_len;
  t->first_ttl = t->rr.ttl;
  if (t->qtype == TYPE_IXFR) {
    /* It is kept only once the second record has told that this is a whole zone. */
    t->state = SECOND;
    return TRANSFER_MORE;
  }
  if (must_not_be_taken(t))
    return TRANSFER_UP_TO_DATE;
  t->state = FULL;
  return keep(t, TRANSFER_ADD) ? TRANSFER_MORE : out_of_memory(why);
}

static bool is_first_soa(const struct transfer_in *t) {
  uint8_t first[SOA_MAX];
  uint8_t last[SOA_MAX];
  if (t->rr.rdata_len != t->first_soa_len || t->rr.rdata_len > SOA_MAX)
    return false;
  record_lower(TYPE_SOA, t->first_soa, t->first_soa_len, first);
  record_lower(TYPE_SOA, t->rr.rdata, t->rr.rdata_len, last);
  return memcmp(first, last, t->first_soa_len) == 0;
}

static enum transfer_result take_full(struct transfer_in *t, char *why) {
  if (t->rr.type != TYPE_SOA)
    return keep(t, TRANSFER_ADD) ? TRANSFER_MORE : out_of_memory(why);
  if (!is_first_soa(t)) /* RFC 5936 section 2.2 */
    return fail(why, "the last SOA is not the first one: the zone changed meanwhile");
  t->state = COMPLETE;
  return TRANSFER_MORE;
}

/* It is a whole zone after all: the first SOA, which was held back, goes in front. */
static enum transfer_result start_full(struct transfer_in *t, char *why) {
  struct transfer_change soa = {.op = TRANSFER_ADD,
                                .rr = {.rdata = t->first_soa,
                                       .rdata_len = t->first_soa_len,
                                       .type = TYPE_SOA,
                                       .ttl = t->first_ttl}};
  soa.rr.owner = arena_copy(&t->memory, t->apex, name_wire_len(t->apex, NAME_MAX_WIRE), NAME_PAD);
  t->changes = malloc(64 * sizeof *t->changes);
  if (soa.rr.owner == NULL || t->changes == NULL)
    return out_of_memory(why);
  t->cap = 64;
  t->changes[t->count++] = soa;
  t->state = FULL;
  return take_full(t, why);
}

/* A step from one serial to the next begins with its old SOA. */
static enum transfer_result start_step(struct transfer_in *t, uint32_t serial, char *why) {
  if (serial != t->step)
    return fail(why, "a step of the changes starts at serial %u, but the one before led to %u",
                serial, t->step);
  t->state = REMOVALS;
  return keep(t, TRANSFER_REMOVE) ? TRANSFER_MORE : out_of_memory(why);
}

static enum transfer_result take_second(struct transfer_in *t, char *why) {
  uint32_t serial = transfer_soa_read(t->rr.rdata, t->rr.rdata_len).serial;
  bool whole = t->rr.type != TYPE_SOA || (serial == t->soa.serial && serial != t->have);
  if (whole && must_not_be_taken(t))
    return TRANSFER_UP_TO_DATE;
  if (whole)
    return start_full(t, why);
  if (!transfer_serial_newer(t->soa.serial, t->have))
    return fail(why, "changes lead from serial %u back to %u", t->have, t->soa.serial);
  t->incremental = true;
  t->step = t->have;
  return start_step(t, serial, why);
}

static enum transfer_result take_removal(struct transfer_in *t, char *why) {
  if (t->rr.type != TYPE_SOA)
    return keep(t, TRANSFER_REMOVE) ? TRANSFER_MORE : out_of_memory(why);
  uint32_t serial = transfer_soa_read(t->rr.rdata, t->rr.rdata_len).serial;
  if (!transfer_serial_newer(serial, t->step))
    return fail(why, "a step of the changes leads from serial %u back to %u", t->step, serial);
  t->step = serial;
  t->state = ADDITIONS;
  return keep(t, TRANSFER_ADD) ? TRANSFER_MORE : out_of_memory(why);
}

static enum transfer_result take_addition(struct transfer_in *t, char *why) {
  if (t->rr.type != TYPE_SOA)
    return keep(t, TRANSFER_ADD) ? TRANSFER_MORE : out_of_memory(why);
  uint32_t serial = transfer_soa_read(t->rr.rdata, t->rr.rdata_len).serial;
  if (t->step != t->soa.serial)
    return start_step(t, serial, why);
  if (!is_first_soa(t))
    return fail(why, "the last SOA is not the first one: the zone changed meanwhile");
  t->state = COMPLETE;
  return TRANSFER_MORE;
}

static enum transfer_result take_record(struct transfer_in *t, char *why) {
  if (t->state == COMPLETE)
    return fail(why, "there are records behind the last SOA");
  const char *wrong = check_record(t);
  if (wrong != NULL)
    return fail(why, "%s", wrong);
  t->records++;
  if (t->limits.records != 0 && t->records > t->limits.records)
    return fail(why, "more than %llu records", (unsigned long long)t->limits.records);
  switch ((enum state)t->state) {
  case FIRST_SOA:
    return take_first(t, why);
  case SECOND:
    return take_second(t, why);
  case FULL:
    return take_full(t, why);
  case REMOVALS:
    return take_removal(t, why);
  case ADDITIONS:
    return take_addition(t, why);
  case COMPLETE:
    break;
  }
  return TRANSFER_FAILED;
}

/* ---- messages ---------------------------------------------------------------------------------
 */

/* A message with the lone SOA: the primary has nothing newer (RFC 1995 section 4). */
static bool says_up_to_date(const struct transfer_in *t) {
  return t->state == SECOND && !transfer_serial_newer(t->soa.serial, t->have);
}

static enum transfer_result refused(struct transfer_in *t, unsigned rcode, char *why) {
  bool fall_back = t->qtype == TYPE_IXFR && t->messages == 1 &&
                   (rcode == RCODE_FORMERR || rcode == RCODE_NOTIMP || rcode == RCODE_REFUSED ||
                    rcode == RCODE_SERVFAIL);
  fail(why, "the primary answers %s", transfer_rcode_text(rcode));
  return fall_back ? TRANSFER_FALL_BACK : TRANSFER_FAILED;
}

static enum transfer_result take_records(struct transfer_in *t, const uint8_t *message, size_t len,
                                         size_t at, char *why) {
  unsigned count = wire_u16(message + WIRE_ANCOUNT);
  if (count == 0) /* without this rule a stream could go on for ever */
    return fail(why, "a message has no records");
  for (unsigned i = 0; i < count; i++) {
    const char *wrong = transfer_rr_read(message, len, &at, &t->rr);
    if (wrong != NULL)
      return fail(why, "%s", wrong);
    enum transfer_result result = take_record(t, why);
    if (result != TRANSFER_MORE)
      return result;
  }
  if (t->state == COMPLETE)
    return TRANSFER_DONE;
  return says_up_to_date(t) ? TRANSFER_UP_TO_DATE : TRANSFER_MORE;
}

enum transfer_result transfer_in_message(struct transfer_in *t, const uint8_t *message, size_t len,
                                         char *why) {
  unsigned rcode;
  size_t at;
  t->messages++;
  t->octets += len;
  if (t->limits.octets != 0 && t->octets > t->limits.octets)
    return fail(why, "more than %llu octets", (unsigned long long)t->limits.octets);
  const char *wrong = check_header(message, len, t->id, &rcode);
  if (wrong != NULL)
    return rcode != RCODE_NOERROR ? refused(t, rcode, why) : fail(why, "%s", wrong);
  /* RFC 5936 section 2.2.1: only the first message needs to repeat the question, and some old
   * servers do not even there. */
  wrong = check_question(message, len, t->apex, t->qtype, false, &at);
  if (wrong != NULL)
    return fail(why, "%s", wrong);
  return take_records(t, message, len, at, why);
}

/* ---- SOA queries ------------------------------------------------------------------------------
 */

bool transfer_soa_answer(const uint8_t *message, size_t len, const uint8_t *apex, uint16_t id,
                         struct transfer_soa *soa, char *why) {
  unsigned rcode;
  size_t at = WIRE_QUESTION;
  const char *wrong = check_header(message, len, id, &rcode);
  if (wrong == NULL)
    wrong = check_question(message, len, apex, TYPE_SOA, true, &at);
  if (wrong == NULL && (wire_u16(message + WIRE_FLAGS) & WIRE_AA) == 0)
    wrong = "it is not authoritative"; /* the primary may have lost the zone itself */
  struct transfer_rr *rr = wrong == NULL ? malloc(sizeof *rr) : NULL;
  if (wrong == NULL && rr == NULL)
    wrong = "out of memory";
  unsigned count = wrong == NULL ? wire_u16(message + WIRE_ANCOUNT) : 0;
  bool found = false;
  for (unsigned i = 0; wrong == NULL && !found && i < count; i++) {
    wrong = transfer_rr_read(message, len, &at, rr);
    found = wrong == NULL && rr->type == TYPE_SOA && rr->rclass == CLASS_IN &&
            name_equal(rr->owner, apex);
  }
  if (found)
    *soa = transfer_soa_read(rr->rdata, rr->rdata_len);
  else if (wrong == NULL)
    wrong = "it has no SOA for the zone";
  free(rr);
  if (rcode != RCODE_NOERROR)
    fail(why, "the primary answers %s", transfer_rcode_text(rcode));
  else if (!found)
    fail(why, "answer to the SOA query: %s", wrong);
  return found;
}

static size_t put_u32(uint8_t *out, size_t at, uint32_t v) {
  wire_put32(out + at, v);
  return at + 4;
}

size_t transfer_query(uint8_t *out, const uint8_t *apex, uint16_t qtype, uint16_t id,
                      uint32_t have) {
  memset(out, 0, WIRE_QUESTION);
  wire_put16(out + WIRE_ID, id);
  wire_put16(out + WIRE_QDCOUNT, 1);
  size_t at = WIRE_QUESTION;
  size_t name_len = name_wire_len(apex, NAME_MAX_WIRE);
  memcpy(out + at, apex, name_len);
  at += name_len;
  wire_put16(out + at, qtype);
  wire_put16(out + at + 2, CLASS_IN);
  at += QUESTION_TAIL;
  if (qtype != TYPE_IXFR)
    return at;
  wire_put16(out + WIRE_NSCOUNT, 1);
  wire_put16(out + at, WIRE_POINTER | WIRE_QUESTION);
  wire_put16(out + at + 2, TYPE_SOA);
  wire_put16(out + at + 4, CLASS_IN);
  at = put_u32(out, at + 6, 0); /* TTL */
  wire_put16(out + at, 2 + 20);
  at += 2;
  out[at++] = 0; /* MNAME and RNAME: only the serial counts */
  out[at++] = 0;
  at = put_u32(out, at, have);
  for (unsigned i = 0; i < 4; i++)
    at = put_u32(out, at, 0);
  return at;
}
