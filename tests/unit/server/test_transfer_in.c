/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of a transfer: what is taken, what is refused. */
#include "transfer_helper.h"

static const struct transfer_in_limits no_limits = {.records = 0};

/* One message with `records`, and a question unless `qtype` is 0. */
static enum transfer_result give(struct transfer_in *t, unsigned qtype, const char *records,
                                 char *why) {
  static struct message m;
  begin(&m, "example.", qtype);
  add_rrs(&m, records);
  return transfer_in_message(t, m.octets, m.len, why);
}

/* A transfer of one message that must fail, with a word of the reason. */
static void refuse(uint16_t qtype, const char *records, const char *word) {
  struct transfer_in t;
  char why[TRANSFER_IN_WHY] = "";
  start_transfer(&t, "example.", qtype, 5, no_limits);
  cr_assert_eq(give(&t, qtype, records, why), TRANSFER_FAILED, "%s", records);
  cr_assert_not_null(strstr(why, word), "`%s` is not in: %s", word, why);
  transfer_in_close(&t);
}

static const char *change_text(const struct transfer_in *t, size_t i) {
  static char text[NAME_MAX_TEXT + 32];
  char name[NAME_MAX_TEXT];
  const struct transfer_change *c = &t->changes[i];
  uint32_t serial =
      c->rr.type == TYPE_SOA ? transfer_soa_read(c->rr.rdata, c->rr.rdata_len).serial : 0;
  snprintf(text, sizeof text, "%c %s %u %u", c->op == TRANSFER_ADD ? '+' : '-',
           name_to_text(name, c->rr.owner), c->rr.type, serial);
  return text;
}

static void expect_changes(const struct transfer_in *t, const char *const *want, size_t count) {
  cr_assert_eq(t->count, count);
  for (size_t i = 0; i < count; i++)
    cr_assert_str_eq(change_text(t, i), want[i]);
}
#define EXPECT(t, ...)                                                                             \
  do {                                                                                             \
    static const char *const want[] = {__VA_ARGS__};                                               \
    expect_changes(t, want, sizeof want / sizeof *want);                                           \
  } while (0)

#define BODY "example. 3600 IN NS ns.example.\nns.example. 60 IN A 192.0.2.1\n"

/* ---- serials ----------------------------------------------------------------------------------
 */

Test(transfer_in, only_newer) {
  static const struct {
    uint16_t qtype;
    const char *records;
    enum transfer_result want;
  } cases[] = {
      {TYPE_AXFR, SOA(6) BODY SOA(6), TRANSFER_DONE},
      {TYPE_AXFR, SOA(5) BODY SOA(5), TRANSFER_UP_TO_DATE},
      {TYPE_AXFR, SOA(4), TRANSFER_UP_TO_DATE}, /* no more of it is wanted */
      {TYPE_AXFR, SOA(2147483653) BODY SOA(2147483653), TRANSFER_UP_TO_DATE},
      {TYPE_AXFR, SOA(2147483652) BODY SOA(2147483652), TRANSFER_DONE},
      {TYPE_IXFR, SOA(6) BODY SOA(6), TRANSFER_DONE},
      {TYPE_IXFR, SOA(5) BODY SOA(5), TRANSFER_UP_TO_DATE},
      {TYPE_IXFR, SOA(4) BODY SOA(4), TRANSFER_UP_TO_DATE},
      {TYPE_IXFR, SOA(4) SOA(4), TRANSFER_UP_TO_DATE},
      {TYPE_IXFR, SOA(4), TRANSFER_UP_TO_DATE},
      {TYPE_IXFR, SOA(4) SOA(5) SOA(4) SOA(4), TRANSFER_FAILED}, /* changes that lead back */
  };
  const struct transfer_in_limits limits = {.only_newer = true};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct transfer_in t;
    char why[TRANSFER_IN_WHY] = "";
    start_transfer(&t, "example.", cases[i].qtype, 5, limits);
    cr_expect_eq(give(&t, cases[i].qtype, cases[i].records, why), cases[i].want, "%zu: %s", i, why);
    transfer_in_close(&t);
  }
}

/* ---- AXFR -------------------------------------------------------------------------------------
 */

Test(transfer_in, axfr_in_one_message) {
  struct transfer_in t;
  char why[TRANSFER_IN_WHY] = "";
  start_transfer(&t, "EXAMPLE.", TYPE_AXFR, 0, no_limits);
  cr_assert_eq(give(&t, TYPE_AXFR, SOA(7) BODY SOA(7), why), TRANSFER_DONE, "%s", why);
  cr_assert(!t.incremental);
  cr_assert_eq(t.soa.serial, 7u);
  cr_assert_eq(t.soa.refresh, 7200u);
  cr_assert_eq(t.soa.retry, 900u);
  cr_assert_eq(t.soa.expire, 86400u);
  EXPECT(&t, "+ example. 6 7", "+ example. 2 0", "+ ns.example. 1 0");
  transfer_in_close(&t);
}

Test(transfer_in, axfr_with_one_record_in_a_message) {
  struct transfer_in t;
  char why[TRANSFER_IN_WHY] = "";
  start_transfer(&t, "example.", TYPE_AXFR, 0, no_limits);
  cr_assert_eq(give(&t, TYPE_AXFR, SOA(7), why), TRANSFER_MORE);
  cr_assert_eq(give(&t, 0, "example. 3600 IN NS ns.example.\n", why), TRANSFER_MORE);
  cr_assert_eq(give(&t, 0, "ns.example. 60 IN A 192.0.2.1\n", why), TRANSFER_MORE);
  cr_assert_eq(give(&t, 0, SOA(7), why), TRANSFER_DONE);
  EXPECT(&t, "+ example. 6 7", "+ example. 2 0", "+ ns.example. 1 0");
  transfer_in_close(&t);
}

Test(transfer_in, axfr_that_must_be_refused) {
  refuse(TYPE_AXFR, BODY SOA(7), "first record is not the SOA");
  refuse(TYPE_AXFR, SOA(7) BODY SOA(8), "the zone changed");
  refuse(TYPE_AXFR, SOA(7) BODY SOA(7) "x.example. 1 IN A 192.0.2.1\n", "behind the last SOA");
  refuse(TYPE_AXFR, SOA(7) "www.example.org. 1 IN A 192.0.2.1\n" SOA(7), "outside of the zone");
  refuse(TYPE_AXFR, SOA(7) "notexample. 1 IN A 192.0.2.1\n" SOA(7), "outside of the zone");
  refuse(TYPE_AXFR, SOA(7) "a.example. 1 CH A 192.0.2.1\n" SOA(7), "class IN");
  refuse(TYPE_AXFR, SOA(7) "sub.example. 1 IN SOA ns.example. host.example. 7 1 1 1 1\n" SOA(7),
         "not at the apex");
  refuse(TYPE_AXFR, SOA(7) "a.example. 1 IN TYPE250 \\# 0\n" SOA(7), "no zone can hold");
  refuse(TYPE_AXFR, SOA(7) "a.example. 1 IN TYPE41 \\# 0\n" SOA(7), "no zone can hold");
  refuse(TYPE_AXFR,
         "example. 3600 IN SOA ns.example. host.example. 7 7200 900 86400 60\n" BODY
         "example. 3600 IN SOA ns.example. host.example. 7 7200 900 86400 61\n",
         "the zone changed");
}

Test(transfer_in, limits) {
  struct transfer_in t;
  char why[TRANSFER_IN_WHY] = "";
  start_transfer(&t, "example.", TYPE_AXFR, 0, (struct transfer_in_limits){.records = 2});
  cr_assert_eq(give(&t, TYPE_AXFR, SOA(7) BODY SOA(7), why), TRANSFER_FAILED);
  cr_assert_str_eq(why, "more than 2 records");
  transfer_in_close(&t);
  start_transfer(&t, "example.", TYPE_AXFR, 0, (struct transfer_in_limits){.octets = 100});
  cr_assert_eq(give(&t, TYPE_AXFR, SOA(7), why), TRANSFER_MORE);
  cr_assert_eq(give(&t, 0, BODY, why), TRANSFER_FAILED);
  cr_assert_str_eq(why, "more than 100 octets");
  transfer_in_close(&t);
}

/* ---- IXFR -------------------------------------------------------------------------------------
 */

Test(transfer_in, ixfr_with_two_steps) {
  struct transfer_in t;
  char why[TRANSFER_IN_WHY] = "";
  start_transfer(&t, "example.", TYPE_IXFR, 5, no_limits);
  cr_assert_eq(give(&t, TYPE_IXFR,
                    SOA(7) SOA(5) "a.example. 60 IN A 192.0.2.1\n" SOA(
                        6) "b.example. 60 IN A 192.0.2.2\n" SOA(6),
                    why),
               TRANSFER_MORE, "%s", why);
  cr_assert_eq(give(&t, 0, SOA(7) "c.example. 60 IN A 192.0.2.3\n" SOA(7), why), TRANSFER_DONE,
               "%s", why);
  cr_assert(t.incremental);
  cr_assert_eq(t.soa.serial, 7u);
  EXPECT(&t, "- example. 6 5", "- a.example. 1 0", "+ example. 6 6", "+ b.example. 1 0",
         "- example. 6 6", "+ example. 6 7", "+ c.example. 1 0");
  transfer_in_close(&t);
}

Test(transfer_in, ixfr_across_the_end_of_serials) {
  struct transfer_in t;
  char why[TRANSFER_IN_WHY] = "";
  start_transfer(&t, "example.", TYPE_IXFR, 4294967295u, no_limits);
  cr_assert_eq(give(&t, TYPE_IXFR, SOA(1) SOA(4294967295) SOA(1) SOA(1), why), TRANSFER_DONE);
  cr_assert(t.incremental);
  transfer_in_close(&t);
}

Test(transfer_in, ixfr_answered_with_the_whole_zone) {
  struct transfer_in t;
  char why[TRANSFER_IN_WHY] = "";
  start_transfer(&t, "example.", TYPE_IXFR, 5, no_limits);
  cr_assert_eq(give(&t, TYPE_IXFR, SOA(7), why), TRANSFER_MORE);
  cr_assert_eq(give(&t, 0, BODY, why), TRANSFER_MORE);
  cr_assert_eq(give(&t, 0, SOA(7), why), TRANSFER_DONE);
  cr_assert(!t.incremental);
  EXPECT(&t, "+ example. 6 7", "+ example. 2 0", "+ ns.example. 1 0");
  transfer_in_close(&t);
}

Test(transfer_in, ixfr_without_news) {
  struct transfer_in t;
  char why[TRANSFER_IN_WHY] = "";
  start_transfer(&t, "example.", TYPE_IXFR, 5, no_limits);
  cr_assert_eq(give(&t, TYPE_IXFR, SOA(5), why), TRANSFER_UP_TO_DATE);
  transfer_in_close(&t);
}

Test(transfer_in, ixfr_that_must_be_refused) {
  refuse(TYPE_IXFR, SOA(7) SOA(4) SOA(7) SOA(7), "starts at serial 4");
  refuse(TYPE_IXFR, SOA(7) SOA(5) SOA(4) SOA(7), "back to 4");
  refuse(TYPE_IXFR, SOA(7) SOA(5) SOA(6) SOA(5) SOA(7), "starts at serial 5");
  refuse(TYPE_IXFR, SOA(4) SOA(5) SOA(4) SOA(4), "back to 4");
  refuse(TYPE_IXFR, SOA(7) SOA(5) SOA(7) "a.example.org. 1 IN A 192.0.2.1\n" SOA(7),
         "outside of the zone");
}

Test(transfer_in, refusals_of_ixfr_fall_back) {
  static const struct {
    uint8_t rcode;
    enum transfer_result ixfr, axfr;
  } cases[] = {{RCODE_FORMERR, TRANSFER_FALL_BACK, TRANSFER_FAILED},
               {RCODE_NOTIMP, TRANSFER_FALL_BACK, TRANSFER_FAILED},
               {RCODE_REFUSED, TRANSFER_FALL_BACK, TRANSFER_FAILED},
               {RCODE_NOTAUTH, TRANSFER_FAILED, TRANSFER_FAILED}};
  static struct message m;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int ixfr = 0; ixfr < 2; ixfr++) {
      struct transfer_in t;
      char why[TRANSFER_IN_WHY] = "";
      start_transfer(&t, "example.", ixfr ? TYPE_IXFR : TYPE_AXFR, 5, no_limits);
      begin(&m, "example.", ixfr ? TYPE_IXFR : TYPE_AXFR);
      m.octets[3] |= cases[i].rcode;
      cr_assert_eq(transfer_in_message(&t, m.octets, m.len, why),
                   ixfr ? cases[i].ixfr : cases[i].axfr);
      transfer_in_close(&t);
    }
  }
}

/* ---- messages ---------------------------------------------------------------------------------
 */

typedef void damage_fn(struct message *m);

static void wrong_id(struct message *m) {
  m->octets[0] ^= 1;
}
static void no_response(struct message *m) {
  m->octets[2] &= 0x7f;
}
static void wrong_opcode(struct message *m) {
  m->octets[2] |= 0x20;
}
static void truncated_flag(struct message *m) {
  m->octets[2] |= 2;
}
static void no_records(struct message *m) {
  m->octets[WIRE_ANCOUNT + 1] = 0;
}
static void too_many_records(struct message *m) {
  m->octets[WIRE_ANCOUNT + 1]++;
}
static void cut_short(struct message *m) {
  m->len--;
}
static void header_cut(struct message *m) {
  m->len = 11;
}
static void two_questions(struct message *m) {
  m->octets[WIRE_QDCOUNT + 1] = 2;
}
static void other_question(struct message *m) {
  m->octets[WIRE_QUESTION + 1] ^= 1;
}
static void loop_pointer(struct message *m) {
  /* the owner of the first record points to itself */
  size_t at = WIRE_QUESTION + 9 + 4;
  wire_put16(m->octets + at, (uint16_t)(WIRE_POINTER | at));
}
static void forward_pointer(struct message *m) {
  size_t at = WIRE_QUESTION + 9 + 4;
  wire_put16(m->octets + at, (uint16_t)(WIRE_POINTER | (at + 9)));
}

Test(transfer_in, damaged_messages) {
  static damage_fn *const damages[] = {
      wrong_id,  no_response, wrong_opcode,  truncated_flag, no_records,   too_many_records,
      cut_short, header_cut,  two_questions, other_question, loop_pointer, forward_pointer};
  static struct message m;
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    struct transfer_in t;
    char why[TRANSFER_IN_WHY] = "";
    start_transfer(&t, "example.", TYPE_AXFR, 0, no_limits);
    begin(&m, "example.", TYPE_AXFR);
    add_rrs(&m, SOA(7) BODY SOA(7));
    damages[i](&m);
    cr_assert_eq(transfer_in_message(&t, m.octets, m.len, why), TRANSFER_FAILED, "damage %zu", i);
    cr_assert_gt(strlen(why), 0u);
    transfer_in_close(&t);
  }
}

/* Every prefix of a message is read without a step outside, and none but the whole is accepted. */
Test(transfer_in, every_truncation_fails) {
  static struct message m;
  begin(&m, "example.", TYPE_AXFR);
  add_rrs(&m, SOA(7) BODY "example. 1 IN MX 10 mx.example.\nx.example. 1 IN TXT \"text\"\n" SOA(7));
  for (size_t len = 0; len < m.len; len++) {
    struct transfer_in t;
    char why[TRANSFER_IN_WHY] = "";
    uint8_t *copy = malloc(len + 1); /* so that a sanitizer sees a read behind the end */
    memcpy(copy, m.octets, len);
    start_transfer(&t, "example.", TYPE_AXFR, 0, no_limits);
    cr_assert_eq(transfer_in_message(&t, copy, len, why), TRANSFER_FAILED, "%zu octets", len);
    transfer_in_close(&t);
    free(copy);
  }
}

/* Names inside of data may be compressed for the types of RFC 1035 (RFC 3597 section 4). */
Test(transfer_in, compressed_names_are_expanded) {
  static struct message m;
  struct transfer_in t;
  char why[TRANSFER_IN_WHY] = "";
  begin(&m, "example.", TYPE_AXFR);
  add_rrs(&m, SOA(7));
  static const uint8_t mx[] = {0xc0, 12, 0, TYPE_MX, 0, CLASS_IN, 0,   0,    0, 60,
                               0,    7,  0, 10,      2, 'M',      'x', 0xc0, 12};
  add_octets(&m, mx, sizeof mx);
  count_answer(&m);
  add_rrs(&m, SOA(7));
  start_transfer(&t, "example.", TYPE_AXFR, 0, no_limits);
  cr_assert_eq(transfer_in_message(&t, m.octets, m.len, why), TRANSFER_DONE, "%s", why);
  static const uint8_t want[] = {0, 10, 2, 'M', 'x', 7, 'e', 'x', 'a', 'm', 'p', 'l', 'e', 0};
  cr_assert_eq(t.changes[1].rr.rdata_len, sizeof want);
  cr_assert_arr_eq(t.changes[1].rr.rdata, want, sizeof want);
  transfer_in_close(&t);
}

Test(transfer_in, malformed_data) {
  static const struct {
    uint8_t type;
    uint8_t len;
    uint8_t data[8];
  } cases[] = {
      {TYPE_A, 3, {192, 0, 2}},    {TYPE_A, 5, {192, 0, 2, 1, 1}},
      {TYPE_NS, 0, {0}},           {TYPE_NS, 2, {0, 0}},
      {TYPE_NS, 2, {0xc0, 0xff}},  {TYPE_MX, 1, {0}},
      {TYPE_MX, 2, {0, 10}},       {TYPE_CNAME, 4, {5, 'a', 'b', 'c'}},
      {TYPE_SOA, 4, {0, 0, 0, 0}}, {TYPE_AAAA, 4, {1, 2, 3, 4}},
      {TYPE_NS, 2, {0x40, 0}},     {35, 6, {0, 1, 0, 1, 9, 'a'}},
  };
  static struct message m;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct transfer_in t;
    char why[TRANSFER_IN_WHY] = "";
    begin(&m, "example.", TYPE_AXFR);
    add_rrs(&m, SOA(7));
    const uint8_t fixed[] = {0xc0, 12, 0, cases[i].type, 0, CLASS_IN, 0, 0, 0, 60, 0, cases[i].len};
    add_octets(&m, fixed, sizeof fixed);
    add_octets(&m, cases[i].data, cases[i].len);
    count_answer(&m);
    add_rrs(&m, SOA(7));
    start_transfer(&t, "example.", TYPE_AXFR, 0, no_limits);
    cr_assert_eq(transfer_in_message(&t, m.octets, m.len, why), TRANSFER_FAILED, "case %zu", i);
    cr_assert_str_eq(why, "the data of a record is malformed");
    transfer_in_close(&t);
  }
}

/* RFC 2181 section 8. */
Test(transfer_in, a_ttl_with_the_top_bit_is_zero) {
  static struct message m;
  struct transfer_in t;
  char why[TRANSFER_IN_WHY] = "";
  begin(&m, "example.", TYPE_AXFR);
  add_rrs(&m, SOA(7));
  static const uint8_t a[] = {0xc0, 12, 0, TYPE_A, 0, CLASS_IN, 0x80, 0, 0, 60, 0, 4, 192, 0, 2, 1};
  add_octets(&m, a, sizeof a);
  count_answer(&m);
  start_transfer(&t, "example.", TYPE_AXFR, 0, no_limits);
  cr_assert_eq(transfer_in_message(&t, m.octets, m.len, why), TRANSFER_MORE, "%s", why);
  cr_assert_eq(t.changes[1].rr.ttl, 0u);
  transfer_in_close(&t);
}

/* ---- queries and SOA answers ------------------------------------------------------------------
 */

Test(transfer_in, queries_are_well_formed) {
  uint8_t apex[NAME_BUF];
  uint8_t out[TRANSFER_QUERY];
  wire_name(apex, "example.");
  for (int ixfr = 0; ixfr < 2; ixfr++) {
    size_t len = transfer_query(out, apex, ixfr ? TYPE_IXFR : TYPE_SOA, QUERY_ID, 5);
    ldns_pkt *packet = NULL;
    cr_assert_eq(ldns_wire2pkt(&packet, out, len), LDNS_STATUS_OK);
    cr_assert_eq(ldns_pkt_id(packet), QUERY_ID);
    cr_assert(!ldns_pkt_qr(packet));
    cr_assert_eq(ldns_pkt_nscount(packet), ixfr);
    if (ixfr) {
      ldns_rr *soa = ldns_rr_list_rr(ldns_pkt_authority(packet), 0);
      cr_assert_eq(ldns_rdf2native_int32(ldns_rr_rdf(soa, 2)), 5u);
    }
    ldns_pkt_free(packet);
  }
}

Test(transfer_in, answers_to_soa_queries) {
  static struct message m;
  uint8_t apex[NAME_BUF];
  struct transfer_soa soa;
  char why[TRANSFER_IN_WHY] = "";
  wire_name(apex, "example.");
  begin(&m, "example.", TYPE_SOA);
  add_rrs(&m, SOA(4294967290));
  cr_assert(transfer_soa_answer(m.octets, m.len, apex, QUERY_ID, &soa, why), "%s", why);
  cr_assert_eq(soa.serial, 4294967290u);
  cr_assert(!transfer_soa_answer(m.octets, m.len, apex, QUERY_ID + 1, &soa, why));
  m.octets[2] &= 0xfb; /* AA */
  cr_assert(!transfer_soa_answer(m.octets, m.len, apex, QUERY_ID, &soa, why));
  cr_assert_not_null(strstr(why, "not authoritative"));
  m.octets[3] |= RCODE_REFUSED;
  cr_assert(!transfer_soa_answer(m.octets, m.len, apex, QUERY_ID, &soa, why));
  cr_assert_str_eq(why, "the primary answers REFUSED");
  begin(&m, "example.", TYPE_SOA);
  add_rrs(&m, "example.org. 1 IN SOA ns.example. host.example. 1 1 1 1 1\n");
  cr_assert(!transfer_soa_answer(m.octets, m.len, apex, QUERY_ID, &soa, why));
  begin(&m, "example.", 0);
  add_rrs(&m, SOA(1));
  cr_assert(!transfer_soa_answer(m.octets, m.len, apex, QUERY_ID, &soa, why));
}

Test(transfer_in, serials_go_round) {
  cr_assert(transfer_serial_newer(1, 0));
  cr_assert(transfer_serial_newer(0, 4294967295u));
  cr_assert(!transfer_serial_newer(4294967295u, 0));
  cr_assert(!transfer_serial_newer(7, 7));
  cr_assert(transfer_serial_newer(0x7fffffff, 0));
  cr_assert(!transfer_serial_newer(0x80000000, 0)); /* not defined (RFC 1982 section 3.2): no */
}
