/* SPDX-License-Identifier: Apache-2.0 */
/* NOTIFY: who is believed, and what is answered. */
#include <criterion/criterion.h>

#include "server/notify_in.h"
#include "server/notify_word.h"
#include "transfer_helper.h"
#include "tsig_vectors.h"

static struct {
  unsigned calls;
  size_t zone;
  unsigned primary;
  bool has_serial;
  uint32_t serial;
} told;

static void tell(void *arg, size_t zone, unsigned primary, bool has_serial, uint32_t serial) {
  (void)arg;
  told.calls++;
  told.zone = zone;
  told.primary = primary;
  told.has_serial = has_serial;
  told.serial = serial;
}

static const struct geo_address primary4 = {.family = 4, .octets = {192, 0, 2, 1}};
static const struct geo_address stranger = {.family = 4, .octets = {192, 0, 2, 66}};

/* Two zones; "example." has two primaries, of which the second has a key. */
static struct notify_gate *gate(void) {
  static struct notify_primary primaries[2];
  static struct notify_zone zones[2];
  static struct notify_gate g;
  char why[TSIG_WHY];
  static const struct tsig_policy policy;
  static struct tsig_keys *keys; /* of one test: each has a process of its own */
  if (keys == NULL) {
    keys = tsig_keys_new(&policy);
    cr_assert(tsig_keys_add(keys, "transfer.example.", "hmac-sha256", VECTOR_SECRET, why));
  }
  primaries[0].address = primary4;
  primaries[1].address.family = 6;
  primaries[1].address.octets[15] = 9;
  primaries[1].has_key = true;
  wire_name(primaries[1].key, "transfer.example.");
  wire_name(zones[0].apex, "example.");
  wire_name(zones[1].apex, "zzz.");
  for (size_t i = 0; i < 2; i++) {
    zones[i].primaries = primaries;
    zones[i].primary_count = 2;
  }
  g = (struct notify_gate){
      .zones = zones, .zone_count = 2, .keys = keys, .udp_payload = 1232, .notify = tell};
  memset(&told, 0, sizeof told);
  return &g;
}

static void notify(struct message *m, const char *apex, const char *records) {
  begin(m, apex, TYPE_SOA);
  wire_put16(m->octets + WIRE_FLAGS, OPCODE_NOTIFY << WIRE_OPCODE_SHIFT | WIRE_AA);
  add_rrs(m, records);
}

static void deliver(struct message *m, const struct geo_address *from, uint64_t now) {
  m->len = notify_in_answer(gate(), m->octets, m->len, sizeof m->octets, from, now);
}

static unsigned rcode(const struct message *m) {
  unsigned flags = wire_u16(m->octets + WIRE_FLAGS);
  cr_assert(flags & WIRE_QR);
  cr_assert_eq((flags & WIRE_OPCODE) >> WIRE_OPCODE_SHIFT, OPCODE_NOTIFY);
  cr_assert_eq(wire_u16(m->octets), QUERY_ID);
  return flags & WIRE_RCODE;
}

static struct message m;

Test(notify_in, from_a_primary) {
  notify(&m, "Example.", SOA(12));
  deliver(&m, &primary4, 0);
  cr_assert_eq(rcode(&m), RCODE_NOERROR);
  cr_assert_eq(m.len, WIRE_QUESTION + 9u + 4u);
  cr_assert_eq(told.calls, 1u);
  cr_assert_eq(told.zone, 0u);
  cr_assert_eq(told.primary, 0u);
  cr_assert(told.has_serial);
  cr_assert_eq(told.serial, 12u);
}

Test(notify_in, without_a_soa) {
  notify(&m, "zzz.", "");
  deliver(&m, &primary4, 0);
  cr_assert_eq(rcode(&m), RCODE_NOERROR);
  cr_assert_eq(told.zone, 1u);
  cr_assert(!told.has_serial);
}

Test(notify_in, strangers_and_other_zones) {
  notify(&m, "example.", SOA(12));
  deliver(&m, &stranger, 0);
  cr_assert_eq(rcode(&m), RCODE_REFUSED);
  cr_assert_eq(told.calls, 0u);
  notify(&m, "www.example.", "");
  deliver(&m, &primary4, 0);
  cr_assert_eq(rcode(&m), RCODE_NOTAUTH);
  cr_assert_eq(told.calls, 0u);
}

Test(notify_in, an_opt_record_is_answered) {
  static const uint8_t opt[] = {0, 0, TYPE_OPT, 16, 0, 0, 0, 0, 0, 0, 0};
  notify(&m, "example.", "");
  add_octets(&m, opt, sizeof opt);
  m.octets[WIRE_ARCOUNT + 1] = 1;
  deliver(&m, &primary4, 0);
  cr_assert_eq(rcode(&m), RCODE_NOERROR);
  cr_assert_eq(m.octets[WIRE_ARCOUNT + 1], 1);
  cr_assert_eq(m.len, WIRE_QUESTION + 9u + 4u + sizeof opt);
  cr_assert_eq(wire_u16(m.octets + m.len - 8), 1232u);
}

Test(notify_in, malformed) {
  notify(&m, "example.", SOA(12));
  m.len--;
  deliver(&m, &primary4, 0);
  cr_assert_eq(rcode(&m), RCODE_FORMERR);
  notify(&m, "example.", SOA(12));
  m.octets[WIRE_ANCOUNT] = 1; /* 257 records */
  deliver(&m, &primary4, 0);
  cr_assert_eq(rcode(&m), RCODE_FORMERR);
  notify(&m, "example.", "");
  m.octets[m.len - 3] = TYPE_A;
  deliver(&m, &primary4, 0);
  cr_assert_eq(rcode(&m), RCODE_FORMERR);
  notify(&m, "example.", "");
  m.octets[WIRE_QDCOUNT + 1] = 0;
  deliver(&m, &primary4, 0);
  cr_assert_eq(rcode(&m), RCODE_FORMERR);
  cr_assert_eq(m.len, (size_t)WIRE_QUESTION);
  m.len = WIRE_QUESTION;
  m.octets[WIRE_QDCOUNT + 1] = 1;
  deliver(&m, &primary4, 0);
  cr_assert_eq(rcode(&m), RCODE_FORMERR);
  cr_assert_eq(told.calls, 0u);
}

/* ---- signatures -------------------------------------------------------------------------------
 */

static const struct tsig_key *key(void) {
  uint8_t name[NAME_BUF];
  wire_name(name, "transfer.example.");
  return tsig_keys_find(gate()->keys, name);
}

Test(notify_in, a_signature_stands_for_an_address) {
  struct tsig_session session = {0};
  notify(&m, "example.", SOA(12));
  m.len = tsig_sign_request(&session, key(), m.octets, m.len, sizeof m.octets, 1000000);
  deliver(&m, &stranger, 1000010);
  cr_assert_eq(rcode(&m), RCODE_NOERROR);
  cr_assert_eq(told.calls, 1u);
  cr_assert_eq(told.primary, 1u);
  cr_assert_eq(tsig_verify_response(&session, m.octets, m.len, 1000010), TSIG_OK);
  tsig_close(&session);
}

Test(notify_in, a_bad_signature_counts_even_from_a_primary) {
  struct tsig_session session = {0};
  notify(&m, "example.", SOA(12));
  m.len = tsig_sign_request(&session, key(), m.octets, m.len, sizeof m.octets, 1000000);
  m.octets[m.len - 7] ^= 1; /* in the MAC */
  deliver(&m, &primary4, 1000010);
  cr_assert_eq(rcode(&m), RCODE_NOTAUTH);
  cr_assert_eq(told.calls, 0u);
  notify(&m, "example.", SOA(12));
  m.len = tsig_sign_request(&session, key(), m.octets, m.len, sizeof m.octets, 1000000);
  deliver(&m, &primary4, 2000000); /* too late */
  cr_assert_eq(rcode(&m), RCODE_NOTAUTH);
  cr_assert_eq(told.calls, 0u);
  tsig_close(&session);
}

/* Two that come before the first one was acted on. */
Test(notify_in, none_is_lost) {
  uint64_t older = notify_word(2, true, 41), newer = notify_word(3, true, 42);
  cr_expect_eq(notify_word_merge(0, older), older);
  cr_expect_eq(notify_word_merge(newer, newer), newer);
  cr_expect_eq(notify_word_merge(newer, older), notify_word(3, false, 0));
  cr_expect_eq(notify_word_merge(older, newer), notify_word(3, false, 0));
  cr_expect_eq(notify_word_merge(newer, notify_word(1, false, 0)), notify_word(1, false, 0));
  cr_expect_eq(notify_word_merge(notify_word(1, false, 0), older), notify_word(2, false, 0));
  cr_expect(
      !notify_word_has_serial(notify_word_merge(newer, notify_word(2, true, 42u + INT32_MAX))));
  cr_expect_eq(notify_word_primary(notify_word(0xffff, true, UINT32_MAX)), 0xffffu);
}
