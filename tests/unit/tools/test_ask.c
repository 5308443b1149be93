/* SPDX-License-Identifier: Apache-2.0 */
/* Questions as octets, and what counts as an answer to them. */
#include "tools/sync/ask_private.h"

#include <criterion/criterion.h>
#include <string.h>

#include "zones/record.h"

enum { ID = 0x1234 };

static const struct ask_question plain = {"www.Example.", RECORD_A, AF_UNSPEC, {0}, 0};

/* "www.example. A" as it stands in a message. */
#define QUESTION "\3wwW\7example\0\0\1\0\1"
#define RECORD "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\1"

static enum ask_heard read_octets(const char *octets, size_t len, struct ask_answer *out) {
  return ask_read(&plain, ID, (const uint8_t *)octets, len, out);
}

#define READ(text, out) read_octets(text, sizeof(text) - 1, out)

Test(ask, a_question_has_no_recursion_and_edns) {
  uint8_t message[ASK_QUERY];
  const char *why;
  size_t len = ask_make(&plain, ID, message, &why);
  static const char wanted[] = "\x12\x34\0\0\0\1\0\0\0\0\0\1\3www\7Example\0\0\1\0\1"
                               "\0\0\x29\x04\xd0\0\0\0\0\0\0";
  cr_assert_eq(len, sizeof wanted - 1);
  cr_assert_arr_eq(message, wanted, len);
}

static void subnet(int family, uint8_t bits, const char *option, size_t option_len) {
  struct ask_question q = plain;
  uint8_t message[ASK_QUERY];
  const char *why;
  q.family = family;
  q.bits = bits;
  memset(q.subnet, 0xff, sizeof q.subnet);
  size_t len = ask_make(&q, ID, message, &why);
  cr_assert_gt(len, option_len);
  cr_assert_arr_eq(message + len - option_len, option, option_len);
}

Test(ask, the_client_subnet_is_cut) {
  subnet(AF_INET, 24, "\0\x0b\0\x08\0\7\0\1\x18\0\xff\xff\xff", 13);
  subnet(AF_INET, 25, "\0\x0c\0\x08\0\x08\0\1\x19\0\xff\xff\xff\x80", 14);
  subnet(AF_INET, 200, "\0\x08\0\x08\0\1\x20\0\xff\xff\xff\xff", 12);
  subnet(AF_INET, 0, "\0\x08\0\x08\0\4\0\1\0\0", 10);
  subnet(AF_INET6, 44, "\0\x08\0\x0a\0\2\x2c\0\xff\xff\xff\xff\xff\xf0", 14);
}

Test(ask, what_is_no_name_is_not_asked) {
  struct ask_question q = plain;
  uint8_t message[ASK_QUERY];
  const char *why = NULL;
  q.name = "a..b.";
  cr_assert_eq(ask_make(&q, ID, message, &why), 0);
  cr_assert(why);
}

Test(ask, an_answer) {
  struct ask_answer a;
  cr_assert_eq(READ("\x12\x34\x84\0\0\1\0\1\0\0\0\0" QUESTION RECORD, &a), ASK_GOOD);
  cr_assert(a.answered && a.authoritative && !a.referral && !a.subnet);
  cr_assert_eq(a.rcode, 0);
  json_t *wanted = json_pack("[{s:s, s:s, s:i, s:s}]", "name", "www.example.", "type", "A", "ttl",
                             60, "value", "192.0.2.1");
  cr_assert(json_equal(a.records, wanted));
  json_decref(wanted);
  ask_answer_close(&a);
}

Test(ask, rcodes_and_the_client_subnet) {
  struct ask_answer a;
  cr_assert_eq(READ("\x12\x34\x84\x05\0\1\0\0\0\0\0\1" QUESTION
                    "\0\0\x29\x04\xd0\0\0\0\0\0\x0b\0\x08\0\7\0\1\x18\x14\1\2\3",
                    &a),
               ASK_GOOD);
  cr_assert(a.rcode == 5 && a.subnet && a.scope == 0x14);
  ask_answer_close(&a);
  cr_assert_eq(READ("\x12\x34\x80\x00\0\1\0\0\0\0\0\1" QUESTION "\0\0\x29\x04\xd0\1\0\0\0\0\0", &a),
               ASK_GOOD);
  cr_assert_eq(a.rcode, 16); /* BADVERS */
  ask_answer_close(&a);
  cr_assert_eq(READ("\x12\x34\x80\x05\0\0\0\0\0\0\0\0", &a),
               ASK_GOOD); /* no question beside an error */
  ask_answer_close(&a);
}

Test(ask, a_referral) {
  struct ask_answer a;
  cr_assert_eq(READ("\x12\x34\x80\0\0\1\0\0\0\1\0\0" QUESTION
                    "\xc0\x10\0\2\0\1\0\0\0\x3c\0\5\2ns\xc0\x10",
                    &a),
               ASK_GOOD);
  cr_assert(a.referral);
  cr_assert_str_eq(json_string_value(json_object_get(json_array_get(a.records, 0), "value")),
                   "ns.example.");
  ask_answer_close(&a);
}

Test(ask, what_does_not_fit_is_not_heard) {
  struct ask_answer a;
  static const struct {
    const char *what, *octets;
    size_t len;
  } rows[] = {
#define ROW(what, octets) {what, octets, sizeof(octets) - 1}
      ROW("another ID", "\x12\x35\x84\0\0\1\0\1\0\0\0\0" QUESTION RECORD),
      ROW("a question", "\x12\x34\x04\0\0\1\0\0\0\0\0\0" QUESTION),
      ROW("another opcode", "\x12\x34\xa4\0\0\1\0\1\0\0\0\0" QUESTION RECORD),
      ROW("another name", "\x12\x34\x84\0\0\1\0\0\0\0\0\0\3ww2\7example\0\0\1\0\1"),
      ROW("another type", "\x12\x34\x84\0\0\1\0\0\0\0\0\0\3www\7example\0\0\2\0\1"),
      ROW("another class", "\x12\x34\x84\0\0\1\0\0\0\0\0\0\3www\7example\0\0\1\0\3"),
      ROW("no question", "\x12\x34\x84\0\0\0\0\0\0\0\0\0"),
      ROW("two questions", "\x12\x34\x84\0\0\2\0\0\0\0\0\0" QUESTION QUESTION),
      ROW("half a header", "\x12\x34\x84\0\0"),
      ROW("nothing", ""),
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    cr_expect_eq(read_octets(rows[i].octets, rows[i].len, &a), ASK_STRAY, "%s", rows[i].what);
    ask_answer_close(&a);
  }
}

Test(ask, what_is_no_message_is_no_answer) {
  struct ask_answer a;
  cr_assert_eq(
      READ("\x12\x34\x84\0\0\1\0\1\0\0\0\0" QUESTION "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0", &a),
      ASK_BROKEN);
  cr_assert(!a.answered && strstr(a.why, "no DNS message"));
  cr_assert_eq(READ("\x12\x34\x84\0\0\1\0\1\0\0\0\0" QUESTION
                    "\xc0\x1d\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\1",
                    &a),
               ASK_BROKEN); /* a name that points at itself */
  ask_answer_close(&a);
}

Test(ask, truncated) {
  struct ask_answer a;
  cr_assert_eq(READ("\x12\x34\x86\0\0\1\0\0\0\0\0\0" QUESTION, &a), ASK_TRUNCATED);
  cr_assert_eq(READ("\x12\x34\x86\0\0\1\0\1\0\0\0\0" QUESTION "\xc0\x0c\0", &a), ASK_TRUNCATED);
}

Test(ask, name_servers) {
  struct ask_server *servers;
  size_t count;
  char why[ASK_TEXT] = "";
  cr_assert(ask_resolve("192.0.2.53", &servers, &count, why), "%s", why);
  cr_assert_eq(count, 1);
  cr_assert_str_eq(servers[0].text, "192.0.2.53");
  free(servers);
  cr_assert(ask_resolve("2001:db8::53@5300", &servers, &count, why), "%s", why);
  cr_assert_eq(servers[0].address.ss_family, AF_INET6);
  free(servers);
  static const char *const bad[] = {
      "", "@53", "192.0.2.53@", "192.0.2.53@0", "192.0.2.53@65536", "192.0.2.53@5x"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    why[0] = '\0';
    cr_expect_not(ask_resolve(bad[i], &servers, &count, why), "%s", bad[i]);
    cr_expect(why[0] != '\0' && count == 0 && !servers);
  }
}
