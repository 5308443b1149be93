/* SPDX-License-Identifier: Apache-2.0 */
#include "server/notify_in.h"

#include "server/transfer_rr.h"
#include "server/wire.h"

enum {
  QUESTION_TAIL = 4,
  OPT_LEN = 11,
  MAX_RECORDS = 8, /* a SOA, OPT and TSIG are all that anybody sends */
};

/* A NOTIFY as it was read. */
struct notification {
  uint8_t apex[NAME_BUF]; /* lower case */
  size_t question_end;
  bool has_opt;
  bool has_serial;
  uint32_t serial;
};

/* ---- reading ----------------------------------------------------------------------------------
 */

static bool read_question(const uint8_t *packet, size_t length, struct notification *n) {
  if (wire_u16(packet + WIRE_QDCOUNT) != 1)
    return false;
  size_t len = name_wire_len(packet + WIRE_QUESTION, length - WIRE_QUESTION);
  if (len == 0 || length - WIRE_QUESTION - len < QUESTION_TAIL)
    return false;
  const uint8_t *tail = packet + WIRE_QUESTION + len;
  name_copy_lower(n->apex, packet + WIRE_QUESTION);
  n->question_end = WIRE_QUESTION + len + QUESTION_TAIL;
  /* RFC 1996 defines just the SOA of class IN. */
  return wire_u16(tail) == TYPE_SOA && wire_u16(tail + 2) == CLASS_IN;
}

static bool read_records(const uint8_t *packet, size_t length, struct notification *n) {
  unsigned answers = wire_u16(packet + WIRE_ANCOUNT);
  unsigned count = answers + wire_u16(packet + WIRE_NSCOUNT) + wire_u16(packet + WIRE_ARCOUNT);
  size_t at = n->question_end;
  struct transfer_rr rr;
  if (count > MAX_RECORDS)
    return false;
  for (unsigned i = 0; i < count; i++) {
    if (transfer_rr_read(packet, length, &at, &rr) != NULL)
      return false;
    if (rr.type == TYPE_OPT) {
      if (n->has_opt) /* RFC 6891 section 6.1.1 */
        return false;
      n->has_opt = true;
    }
    if (i < answers && rr.type == TYPE_SOA && name_equal(rr.owner, n->apex)) {
      n->has_serial = true;
      n->serial = transfer_soa_read(rr.rdata, rr.rdata_len).serial;
    }
  }
  return at == length;
}

/* ---- deciding ---------------------------------------------------------------------------------
 */

static const struct notify_zone *find_zone(const struct notify_gate *gate, const uint8_t *apex) {
  size_t low = 0;
  size_t high = gate->zone_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int d = name_compare(gate->zones[middle].apex, apex);
    if (d == 0)
      return &gate->zones[middle];
    if (d < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

static bool same_address(const struct geo_address *a, const struct geo_address *b) {
  return a->family == b->family && memcmp(a->octets, b->octets, a->family == 4 ? 4 : 16) == 0;
}

/* Index of the primary that this comes from, by its address or by the key it signed with; -1 if it
 * is nobody's. */
static int find_primary(const struct notify_zone *zone, const struct geo_address *source,
                        const struct tsig_key *key) {
  for (unsigned i = 0; i < zone->primary_count; i++)
    if (same_address(&zone->primaries[i].address, source))
      return (int)i;
  for (unsigned i = 0; key != NULL && i < zone->primary_count; i++)
    if (zone->primaries[i].has_key && name_equal(zone->primaries[i].key, tsig_key_name(key)))
      return (int)i;
  return -1;
}

static uint8_t decide(const struct notify_gate *gate, const struct notification *n,
                      const struct geo_address *source, const struct tsig_session *session) {
  if (session->result != TSIG_ABSENT && session->result != TSIG_OK)
    return tsig_rcode(session->result);
  const struct notify_zone *zone = find_zone(gate, n->apex);
  if (zone == NULL)
    return RCODE_NOTAUTH; /* RFC 1996 section 3.10 leaves the choice to us */
  int primary = find_primary(zone, source, session->key);
  if (primary < 0)
    return RCODE_REFUSED;
  gate->notify(gate->arg, (size_t)(zone - gate->zones), (unsigned)primary, n->has_serial,
               n->serial);
  return RCODE_NOERROR;
}

/* ---- the response -----------------------------------------------------------------------------
 */

static size_t put_opt(uint8_t *packet, size_t at, uint16_t payload) {
  memset(packet + at, 0, OPT_LEN);
  wire_put16(packet + at + 1, TYPE_OPT);
  wire_put16(packet + at + 3, payload);
  return at + OPT_LEN;
}

/* The header, and the question if it was read (`end` is not 0). */
static size_t put_header(uint8_t *packet, size_t end, uint8_t rcode) {
  unsigned flags = WIRE_QR | (OPCODE_NOTIFY << WIRE_OPCODE_SHIFT) | rcode;
  if (rcode == RCODE_NOERROR)
    flags |= WIRE_AA;
  wire_put16(packet + WIRE_FLAGS, (uint16_t)flags);
  memset(packet + WIRE_QDCOUNT, 0, WIRE_QUESTION - WIRE_QDCOUNT);
  wire_put16(packet + WIRE_QDCOUNT, end != 0);
  return end != 0 ? end : WIRE_QUESTION;
}

size_t notify_in_answer(const struct notify_gate *gate, uint8_t *packet, size_t length,
                        size_t capacity, const struct geo_address *source, uint64_t now) {
  struct notification n = {.question_end = 0};
  if (!read_question(packet, length, &n))
    return put_header(packet, n.question_end, RCODE_FORMERR);
  if (!read_records(packet, length, &n))
    return put_header(packet, n.question_end, RCODE_FORMERR);
  struct tsig_session session = {0};
  tsig_verify_request(&session, gate->keys, packet, length, now);
  uint8_t rcode = decide(gate, &n, source, &session);
  size_t end = put_header(packet, n.question_end, rcode);
  if (n.has_opt) {
    wire_put16(packet + WIRE_ARCOUNT, 1);
    end = put_opt(packet, end, gate->udp_payload);
  }
  end = tsig_sign_response(&session, packet, end, capacity, now);
  tsig_close(&session);
  return end;
}
