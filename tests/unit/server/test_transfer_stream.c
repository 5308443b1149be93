/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of transfers, read back with another library. */
#include <criterion/criterion.h>
#include <ldns/ldns.h>
#include <stdlib.h>
#include <string.h>

#include "records_fixture.h"
#include "server/transfer_stream.h"
#include "server/wire.h"

enum { ROOM = 200, MAX_MESSAGES = 4096, MESSAGE_MAX = 65535 };

#define HEAD(serial)                                                                               \
  "$TTL 300\n@ SOA ns.example.com. Host.example.com. " serial " 7200 900 86400 60\n"

static const char old_zone[] = HEAD("7") "@ NS ns\n@ MX 10 Mail\nns A 192.0.2.1\nkeep TXT x\n"
                                         "gone A 192.0.2.3\nttl 60 A 192.0.2.4\n";
static const char new_zone[] = HEAD("9") "@ NS ns\n@ MX 10 Mail\nns A 192.0.2.1\nkeep TXT x\n"
                                         "ttl 61 A 192.0.2.4\nz SRV 1 2 3 ns\n";

/* What a client gets. */
struct got {
  size_t messages;
  size_t octets;
  ldns_rr_list *rrs;
  ldns_pkt *packets[MAX_MESSAGES];
};

static struct transfer_head make_head(void) {
  struct transfer_head head = {.id = 0x1234, .rd = true};
  static const uint8_t question[] = "\7example\3com\0\0\374\0\1";
  head.question_len = sizeof question - 1;
  memcpy(head.question, question, head.question_len);
  return head;
}

static void receive(struct transfer_stream *stream, size_t room, struct got *got) {
  uint8_t *message = malloc(MESSAGE_MAX);
  memset(got, 0, sizeof *got);
  got->rrs = ldns_rr_list_new();
  transfer_stream_start(stream);
  while (!transfer_stream_is_done(stream)) {
    size_t length = transfer_stream_next(stream, message, room);
    cr_assert_gt(length, WIRE_QUESTION);
    cr_assert_leq(length, MESSAGE_MAX - room);
    ldns_pkt *packet = NULL;
    cr_assert_eq(ldns_wire2pkt(&packet, message, length), LDNS_STATUS_OK);
    cr_assert_lt(got->messages, MAX_MESSAGES);
    got->packets[got->messages++] = packet;
    got->octets += length;
    ldns_rr_list_cat(got->rrs, ldns_pkt_answer(packet));
  }
  cr_expect_eq(transfer_stream_next(stream, message, room), 0);
  free(message);
}

static void drop(struct got *got) {
  for (size_t i = 0; i < got->messages; i++)
    ldns_pkt_free(got->packets[i]);
  ldns_rr_list_free(got->rrs);
}

/* Compares all records with "name TTL type data" lines. */
static void expect_records(const struct got *got, const char *const *lines, size_t count) {
  cr_assert_eq(ldns_rr_list_rr_count(got->rrs), count, "%zu records, not %zu",
               ldns_rr_list_rr_count(got->rrs), count);
  for (size_t i = 0; i < count; i++) {
    char *text = ldns_rr2str(ldns_rr_list_rr(got->rrs, i));
    for (char *p = text; *p != '\0'; p++)
      if (*p == '\t' || *p == '\n')
        *p = *p == '\t' ? ' ' : '\0';
    cr_expect_str_eq(text, lines[i]);
    free(text);
  }
}

#define SOA(serial)                                                                                \
  "example.com. 300 IN SOA ns.example.com. Host.example.com. " serial " 7200 900 86400 60"

Test(transfer_stream, whole_zone) {
  struct records_fixture *f = records_fixture_new("example.com", old_zone);
  struct transfer_stream stream = {.kind = TRANSFER_ALL, .now = &f->records, .head = make_head()};
  struct got got;
  static const char *const lines[] = {
      SOA("7"),
      "example.com. 300 IN NS ns.example.com.",
      "example.com. 300 IN MX 10 Mail.example.com.",
      "gone.example.com. 300 IN A 192.0.2.3",
      "keep.example.com. 300 IN TXT \"x\"",
      "ns.example.com. 300 IN A 192.0.2.1",
      "ttl.example.com. 60 IN A 192.0.2.4",
      SOA("7"),
  };
  receive(&stream, ROOM, &got);
  cr_expect_eq(got.messages, 1);
  expect_records(&got, lines, sizeof lines / sizeof *lines);
  const ldns_pkt *p = got.packets[0];
  cr_expect_eq(ldns_pkt_id(p), 0x1234);
  cr_expect(ldns_pkt_qr(p) && ldns_pkt_aa(p) && ldns_pkt_rd(p) && !ldns_pkt_ra(p));
  cr_expect_eq(ldns_pkt_qdcount(p), 1);
  cr_expect_eq(ldns_pkt_arcount(p), 0);
  cr_expect(!ldns_pkt_edns(p));
  drop(&got);
  records_fixture_free(f);
}

Test(transfer_stream, difference) {
  struct records_fixture *from = records_fixture_new("example.com", old_zone);
  struct records_fixture *to = records_fixture_new("example.com", new_zone);
  struct transfer_diff diff;
  cr_assert_eq(transfer_diff_make(&diff, &from->records, &to->records, 100000), TRANSFER_DIFF_OK);
  struct transfer_stream stream = {.kind = TRANSFER_DIFF,
                                   .now = &to->records,
                                   .old = &from->records,
                                   .diff = &diff,
                                   .head = make_head()};
  struct got got;
  static const char *const lines[] = {
      SOA("9"),
      SOA("7"),
      "gone.example.com. 300 IN A 192.0.2.3",
      "ttl.example.com. 60 IN A 192.0.2.4",
      SOA("9"),
      "ttl.example.com. 61 IN A 192.0.2.4",
      "z.example.com. 300 IN SRV 1 2 3 ns.example.com.",
      SOA("9"),
  };
  receive(&stream, ROOM, &got);
  expect_records(&got, lines, sizeof lines / sizeof *lines);
  drop(&got);
  transfer_diff_close(&diff);

  /* Nothing but the serial: RFC 1995 leaves four SOA records then. */
  struct records_fixture *same = records_fixture_new(
      "example.com", HEAD("8") "@ NS ns\n@ MX 10 Mail\n"
                               "ns A 192.0.2.1\nkeep TXT x\nttl 61 A 192.0.2.4\nz SRV 1 2 3 ns\n");
  static const char *const soas[] = {SOA("9"), SOA("8"), SOA("9"), SOA("9")};
  cr_assert_eq(transfer_diff_make(&diff, &same->records, &to->records, 0), TRANSFER_DIFF_OK);
  stream.old = &same->records;
  receive(&stream, ROOM, &got);
  expect_records(&got, soas, sizeof soas / sizeof *soas);
  drop(&got);
  transfer_diff_close(&diff);
  records_fixture_free(same);
  records_fixture_free(from);
  records_fixture_free(to);
}

Test(transfer_stream, difference_is_bounded) {
  struct records_fixture *from = records_fixture_new("example.com", old_zone);
  struct records_fixture *to = records_fixture_new("example.com", new_zone);
  struct transfer_diff diff;
  cr_expect_eq(transfer_diff_make(&diff, &from->records, &to->records, 40),
               TRANSFER_DIFF_TOO_LARGE);
  records_fixture_free(from);
  records_fixture_free(to);
}

Test(transfer_stream, single_soa_and_edns) {
  struct records_fixture *f = records_fixture_new("example.com", old_zone);
  struct transfer_stream stream = {.kind = TRANSFER_SOA, .now = &f->records, .head = make_head()};
  stream.head.edns = true;
  stream.head.payload = 1232;
  stream.head.rd = false;
  struct got got;
  static const char *const lines[] = {SOA("7")};
  receive(&stream, ROOM, &got);
  expect_records(&got, lines, 1);
  cr_expect(ldns_pkt_edns(got.packets[0]));
  cr_expect_eq(ldns_pkt_edns_udp_size(got.packets[0]), 1232);
  cr_expect(!ldns_pkt_rd(got.packets[0]));
  drop(&got);
  records_fixture_free(f);
}

/* Many messages: all of it arrives, only the first has the question, and compression pays. */
Test(transfer_stream, many_messages) {
  enum { NAMES = 20000 };
  struct buf text;
  buf_init(&text);
  buf_add_str(&text, HEAD("1") "@ NS ns\nns A 192.0.2.1\n");
  for (unsigned i = 0; i < NAMES; i++)
    buf_printf(&text,
               "host-%05u.some.department A 192.0.2.%u\nhost-%05u.some.department MX 5 "
               "mail.some.department\n",
               i, i % 256, i);
  struct records_fixture *f = records_fixture_new("example.com", buf_text(&text));
  struct transfer_stream stream = {.kind = TRANSFER_ALL, .now = &f->records, .head = make_head()};
  static struct got got;
  receive(&stream, 0, &got);
  cr_expect_eq(ldns_rr_list_rr_count(got.rrs), 2 * NAMES + 4);
  cr_expect_gt(got.messages, 10);
  for (size_t i = 1; i < got.messages; i++)
    cr_expect_eq(ldns_pkt_qdcount(got.packets[i]), 0);
  cr_expect_lt(got.octets, f->bytes.len * 55 / 100, "%zu of %zu octets", got.octets, f->bytes.len);
  /* Every name, in order. */
  for (unsigned i = 0; i < NAMES; i++) {
    char want[64];
    snprintf(want, sizeof want, "host-%05u.some.department.example.com.", i);
    char *name = ldns_rdf2str(ldns_rr_owner(ldns_rr_list_rr(got.rrs, 3 + 2 * (size_t)i - 1)));
    char *target = ldns_rdf2str(ldns_rr_rdf(ldns_rr_list_rr(got.rrs, 3 + 2 * (size_t)i), 1));
    cr_assert_str_eq(name, want);
    cr_assert_str_eq(target, "mail.some.department.example.com.");
    free(name);
    free(target);
  }
  drop(&got);
  records_fixture_free(f);
  buf_close(&text);
}

/* A record larger than the usual message has a message of its own. */
Test(transfer_stream, large_record) {
  struct buf text;
  buf_init(&text);
  buf_add_str(&text, HEAD("1") "@ NS ns\nns A 192.0.2.1\n");
  for (char name = 'a'; name <= 'c'; name++) {
    buf_printf(&text, "%c TYPE65400 \\# 63000 ", name);
    for (unsigned i = 0; i < 63000; i++)
      buf_add_str(&text, "5a");
    buf_add_str(&text, "\n");
  }
  struct records_fixture *f = records_fixture_new("example.com", buf_text(&text));
  struct transfer_stream stream = {.kind = TRANSFER_ALL, .now = &f->records, .head = make_head()};
  struct got got;
  stream.head.edns = true;
  receive(&stream, 600, &got);
  cr_expect_eq(ldns_rr_list_rr_count(got.rrs), 7);
  cr_expect_geq(got.messages, 4);
  drop(&got);
  records_fixture_free(f);
  buf_close(&text);
}

/* A file's records in storage of exactly their size, where AddressSanitizer sees what is behind. */
static uint8_t *open_tight(struct records *records, const struct records_fixture *f) {
  char why[512];
  uint8_t *octets = malloc(f->records.size);
  memcpy(octets, f->records.base, f->records.size);
  cr_assert(records_open_memory(records, octets, f->records.size, why), "%s", why);
  return octets;
}

/* The SOA of a small new zone is followed by a deleted record whose owner alone is longer than the
 * new file's records. */
Test(transfer_stream, deleted_owner_longer_than_the_new_zone) {
#define LABEL "a-label-of-sixty-octets-is-followed-by-others-of-its-own-kind"
#define LONG LABEL "." LABEL "." LABEL
  struct records_fixture *f = records_fixture_new(
      "example.com", HEAD("1") "@ NS ns\nns A 192.0.2.1\n" LONG " A 192.0.2.2\n");
  struct records_fixture *g =
      records_fixture_new("example.com", HEAD("2") "@ NS ns.example.org.\n");
  struct records from, to;
  uint8_t *from_octets = open_tight(&from, f);
  uint8_t *to_octets = open_tight(&to, g);
  struct transfer_diff diff;
  cr_assert_eq(transfer_diff_make(&diff, &from, &to, 100000), TRANSFER_DIFF_OK);
  struct transfer_stream stream = {
      .kind = TRANSFER_DIFF, .now = &to, .old = &from, .diff = &diff, .head = make_head()};
  struct got got;
  static const char *const lines[] = {
      SOA("2"),
      SOA("1"),
      "example.com. 300 IN NS ns.example.com.",
      LONG ".example.com. 300 IN A 192.0.2.2",
      "ns.example.com. 300 IN A 192.0.2.1",
      SOA("2"),
      "example.com. 300 IN NS ns.example.org.",
      SOA("2"),
  };
  receive(&stream, ROOM, &got);
  expect_records(&got, lines, sizeof lines / sizeof *lines);
  drop(&got);
  transfer_diff_close(&diff);
  free(from_octets);
  free(to_octets);
  records_fixture_free(f);
  records_fixture_free(g);
#undef LONG
#undef LABEL
}

/* Names of data are only shared where their case is the same. */
Test(transfer_stream, case_survives) {
  struct records_fixture *f = records_fixture_new(
      "example.com",
      HEAD("1") "@ NS ns\n@ NS NS.example.com.\n@ NS ns.EXAMPLE.com.\n@ NS x.Example.Com.\n"
                "a CNAME b\nb CNAME A.example.COM.\n");
  (void)f;
  struct transfer_stream stream = {.kind = TRANSFER_ALL, .now = &f->records, .head = make_head()};
  struct got got;
  receive(&stream, ROOM, &got);
  static const char *const lines[] = {
      SOA("1"),
      "example.com. 300 IN NS x.Example.Com.",
      "example.com. 300 IN NS ns.example.com.",
      "a.example.com. 300 IN CNAME b.example.com.",
      "b.example.com. 300 IN CNAME A.example.COM.",
      SOA("1"),
  };
  expect_records(&got, lines, sizeof lines / sizeof *lines);
  drop(&got);
  records_fixture_free(f);
}
