/* SPDX-License-Identifier: Apache-2.0 */
/* NOTIFY with a clock of the test's own. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <ldns/ldns.h>
#include <stdio.h>
#include <string.h>

#include "server/notify_out.h"
#include "server/wire.h"

enum { START = 100000, UNIX = 1700000000 };

static const uint8_t apex[NAME_BUF] = "\7example\3com";
/* The SOA as an image has it: owner and names point to the question. */
static const uint8_t soa[] = {0xc0, 12, 0,    6,   0, 1, 0,  0,   0, 60, 0,  24,
                              0xc0, 12, 0xc0, 12,  0, 0, 0,  9,   0, 0,  28, 32,
                              0,    0,  3,    132, 0, 1, 81, 128, 0, 0,  0,  60};

static struct address make_target(const char *text) {
  struct address target;
  const char *why = "";
  cr_assert(address_parse(text, &target, &why), "%s", why);
  return target;
}

static struct notify_out *make(void) {
  struct notify_out *n = notify_out_new(1);
  cr_assert(n != NULL);
  return n;
}

static void add(struct notify_out *n, const char *target, const struct tsig_key *key,
                uint64_t now) {
  struct address address = make_target(target);
  cr_assert(notify_out_add(n, apex, soa, sizeof soa, &address, key, now));
}

static struct notify_out_message message;
static struct notify_out_end end;

static enum notify_out_event next(struct notify_out *n, uint64_t now) {
  return notify_out_next(n, now, UNIX, &message, &end);
}

/* Turns the message that was sent into its answer. */
static void make_answer(unsigned rcode) {
  wire_put16(message.octets + WIRE_FLAGS,
             (uint16_t)(WIRE_QR | OPCODE_NOTIFY << WIRE_OPCODE_SHIFT | WIRE_AA | rcode));
}

static bool answer(struct notify_out *n, const char *from) {
  struct address address = make_target(from);
  return notify_out_reply(n, &address.socket, message.octets, message.length, UNIX, &end);
}

Test(notify_out, message) {
  struct notify_out *n = make();
  cr_expect_eq(notify_out_wait(n, START), UINT64_MAX);
  cr_expect_eq(next(n, START), NOTIFY_OUT_NOTHING);
  add(n, "192.0.2.1@5353", NULL, START);
  cr_expect_eq(notify_out_wait(n, START), 0);
  cr_assert_eq(next(n, START), NOTIFY_OUT_SEND);
  cr_expect_str_eq(message.target->text, "192.0.2.1@5353");
  ldns_pkt *packet = NULL;
  cr_assert_eq(ldns_wire2pkt(&packet, message.octets, message.length), LDNS_STATUS_OK);
  cr_expect_eq(ldns_pkt_get_opcode(packet), LDNS_PACKET_NOTIFY);
  cr_expect(ldns_pkt_aa(packet) && !ldns_pkt_qr(packet));
  char *question = ldns_rr2str(ldns_rr_list_rr(ldns_pkt_question(packet), 0));
  cr_expect(strncmp(question, "example.com.\tIN\tSOA", 19) == 0, "%s", question);
  char *hint = ldns_rr2str(ldns_rr_list_rr(ldns_pkt_answer(packet), 0));
  cr_expect_str_eq(hint,
                   "example.com.\t60\tIN\tSOA\texample.com. example.com. 9 7200 900 86400 60\n");
  free(question);
  free(hint);
  ldns_pkt_free(packet);
  make_answer(RCODE_NOERROR);
  cr_expect(answer(n, "192.0.2.1@5353"));
  cr_expect(end.reason == NULL);
  cr_expect_str_eq(end.zone, "example.com.");
  cr_expect_eq(notify_out_wait(n, START), UINT64_MAX);
  cr_expect_eq(notify_out_get_counters(n)->sent, 1);
  cr_expect_eq(notify_out_get_counters(n)->acked, 1);
  notify_out_free(n);
}

Test(notify_out, tries_and_waits) {
  struct notify_out *n = make();
  static const uint64_t at[] = {0, 1000, 3000, 7000, 15000};
  add(n, "192.0.2.1", NULL, START);
  uint16_t id = 0;
  for (size_t i = 0; i < NOTIFY_OUT_TRIES; i++) {
    if (i > 0) {
      cr_expect_eq(notify_out_wait(n, START + at[i] - 1), 1);
      cr_expect_eq(next(n, START + at[i] - 1), NOTIFY_OUT_NOTHING);
    }
    cr_assert_eq(next(n, START + at[i]), NOTIFY_OUT_SEND, "try %zu", i);
    if (i > 0)
      cr_expect_eq(wire_u16(message.octets), id, "a late answer to an earlier try counts");
    id = wire_u16(message.octets);
    cr_expect_eq(next(n, START + at[i]), NOTIFY_OUT_NOTHING);
  }
  cr_expect_eq(next(n, START + 30999), NOTIFY_OUT_NOTHING);
  cr_assert_eq(next(n, START + 31000), NOTIFY_OUT_GIVE_UP);
  cr_expect_str_eq(end.reason, "no answer");
  cr_expect_str_eq(end.target, "192.0.2.1@53");
  cr_expect_eq(notify_out_get_counters(n)->failed, 1);
  make_answer(RCODE_NOERROR);
  cr_expect(!answer(n, "192.0.2.1"), "too late");
  notify_out_free(n);
}

Test(notify_out, only_its_answer_counts) {
  struct notify_out *n = make();
  add(n, "192.0.2.1", NULL, START);
  cr_assert_eq(next(n, START), NOTIFY_OUT_SEND);
  cr_expect(!answer(n, "192.0.2.1"), "not a response");
  make_answer(RCODE_NOERROR);
  cr_expect(!answer(n, "192.0.2.2"), "another address");
  cr_expect(!answer(n, "192.0.2.1@5353"), "another port");
  struct notify_out_message good = message;
  message.octets[WIRE_ID] ^= 1;
  cr_expect(!answer(n, "192.0.2.1"), "another ID");
  message = good;
  message.octets[WIRE_QUESTION + 1] = 'x';
  cr_expect(!answer(n, "192.0.2.1"), "another zone");
  message = good;
  message.octets[WIRE_FLAGS] = 0x84; /* QUERY */
  cr_expect(!answer(n, "192.0.2.1"), "another opcode");
  message = good;
  for (size_t length = 0; length < 12 + 13 + 4; length++) {
    message.length = length;
    cr_expect(!answer(n, "192.0.2.1"), "cut to %zu", length);
  }
  message = good;
  message.octets[WIRE_QUESTION + 1] = 'E';
  cr_expect(answer(n, "192.0.2.1"), "case of the name does not count");
  cr_expect(end.reason == NULL);
  cr_expect(!answer(n, "192.0.2.1"), "answered already");
  notify_out_free(n);
}

Test(notify_out, error_answers) {
  struct notify_out *n = make();
  add(n, "2001:db8::1", NULL, START);
  cr_assert_eq(next(n, START), NOTIFY_OUT_SEND);
  make_answer(RCODE_NOTIMP);
  memset(message.octets + WIRE_QDCOUNT, 0, 8); /* header only */
  message.length = WIRE_QUESTION;
  cr_expect(answer(n, "2001:db8::1"));
  cr_expect_str_eq(end.reason, "NOTIMP");
  cr_expect_eq(notify_out_get_counters(n)->failed, 1);
  cr_expect_eq(notify_out_wait(n, START), UINT64_MAX);
  notify_out_free(n);
}

/* A second change replaces the first; other targets and zones stay. */
Test(notify_out, replaces) {
  struct notify_out *n = make();
  add(n, "192.0.2.1", NULL, START);
  add(n, "192.0.2.2", NULL, START);
  cr_assert_eq(next(n, START), NOTIFY_OUT_SEND);
  cr_assert_eq(next(n, START), NOTIFY_OUT_SEND);
  add(n, "192.0.2.1", NULL, START + 10);
  cr_assert_eq(next(n, START + 10), NOTIFY_OUT_SEND);
  cr_expect_str_eq(message.target->text, "192.0.2.1@53");
  cr_expect_eq(next(n, START + 10), NOTIFY_OUT_NOTHING);
  notify_out_forget(n, apex);
  cr_expect_eq(notify_out_wait(n, START + 10), UINT64_MAX);
  notify_out_free(n);
}

Test(notify_out, rate_is_bounded) {
  enum { ZONES = 1000 };
  struct notify_out *n = make();
  struct address target = make_target("192.0.2.1");
  for (unsigned i = 0; i < ZONES; i++) {
    uint8_t name[NAME_BUF] = {0};
    char text[32];
    const char *why;
    snprintf(text, sizeof text, "zone%u.example.", i);
    cr_assert(name_from_text(name, text, strlen(text), NULL, &why) > 0);
    cr_assert(notify_out_add(n, name, NULL, 0, &target, NULL, START));
  }
  unsigned sent = 0;
  for (unsigned second = 0; second < 40; second++) {
    unsigned now_sent = 0;
    uint64_t now = START + second * 1000ULL;
    enum notify_out_event event;
    while ((event = next(n, now)) != NOTIFY_OUT_NOTHING)
      now_sent += event == NOTIFY_OUT_SEND;
    cr_expect_leq(now_sent, NOTIFY_OUT_PER_SECOND);
    if (sent == 0)
      cr_expect_eq(notify_out_wait(n, now), 1000);
    sent += now_sent;
  }
  cr_expect_geq(sent, ZONES);
  notify_out_free(n);
}

/* ---- signed -----------------------------------------------------------------------------------
 */

static struct tsig_keys *make_keys(void) {
  static const struct tsig_policy policy = {.allow_md5 = false};
  struct tsig_keys *keys = tsig_keys_new(&policy);
  char why[TSIG_WHY];
  cr_assert(tsig_keys_add(keys, "k", "hmac-sha512", "c2VjcmV0", why));
  return keys;
}

Test(notify_out, is_signed) {
  struct tsig_keys *keys = make_keys();
  struct notify_out *n = make();
  add(n, "192.0.2.1", tsig_keys_find(keys, (const uint8_t *)"\1k"), START);
  cr_assert_eq(next(n, START), NOTIFY_OUT_SEND);

  struct tsig_session server = {0};
  cr_assert_eq(tsig_verify_request(&server, keys, message.octets, message.length, UNIX), TSIG_OK);
  size_t length = tsig_strip(&server, message.octets);
  make_answer(RCODE_NOERROR);
  struct notify_out_message plain = message;
  plain.length = length;
  message.length = tsig_sign_response(&server, message.octets, length, sizeof message.octets, UNIX);
  struct notify_out_message good = message;
  cr_assert_gt(good.length, length);

  message = plain;
  cr_expect(!answer(n, "192.0.2.1"), "an answer without a signature");
  cr_expect_eq(notify_out_get_counters(n)->acked, 0);
  /* The next try is signed anew, and its answer counts. */
  cr_assert_eq(next(n, START + 1000), NOTIFY_OUT_SEND);
  cr_assert_eq(tsig_verify_request(&server, keys, message.octets, message.length, UNIX), TSIG_OK);
  length = tsig_strip(&server, message.octets);
  make_answer(RCODE_NOERROR);
  message.length = tsig_sign_response(&server, message.octets, length, sizeof message.octets, UNIX);
  cr_expect(answer(n, "192.0.2.1"));
  cr_expect(end.reason == NULL);
  tsig_close(&server);
  notify_out_free(n);
  tsig_keys_free(keys);
}

Test(notify_out, unsigned_answers_are_the_reason) {
  struct tsig_keys *keys = make_keys();
  struct notify_out *n = make();
  add(n, "192.0.2.1", tsig_keys_find(keys, (const uint8_t *)"\1k"), START);
  uint64_t now = START;
  for (unsigned i = 0; i < NOTIFY_OUT_TRIES; i++) {
    cr_assert_eq(next(n, now), NOTIFY_OUT_SEND);
    make_answer(RCODE_NOERROR);
    wire_put16(message.octets + WIRE_ARCOUNT, 0);
    message.length = 12 + 13 + 4 + sizeof soa;
    cr_expect(!answer(n, "192.0.2.1"));
    now += notify_out_wait(n, now);
  }
  cr_assert_eq(next(n, now), NOTIFY_OUT_GIVE_UP);
  cr_expect_str_eq(end.reason, tsig_result_text(TSIG_UNSIGNED));
  notify_out_free(n);
  tsig_keys_free(keys);
}
