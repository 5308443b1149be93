/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of dns checks, and whose answers count. */
#include <criterion/criterion.h>
#include <string.h>

#include "healthcheck/probes/dns_message.h"

static struct dns_question question;

static void ask(void) {
  const char *why;
  cr_assert(dns_question_make(&question, "wWw.example.com", 1, 0xabcd, &why));
}

/* The question as a reply, at `out`; its length. */
static size_t echo(uint8_t *out) {
  memcpy(out, question.wire + DNS_PREFIX, question.len);
  out[2] |= 0x80;
  return question.len;
}

Test(dns_message, a_question) {
  static const uint8_t expected[] = "\xab\xcd\1\0\0\1\0\0\0\0\0\0\3wWw\7example\3com\0\0\1\0";
  ask();
  cr_assert_eq(question.len, sizeof expected);
  cr_assert_arr_eq(question.wire + DNS_PREFIX, expected, sizeof expected - 1);
  cr_assert_eq(question.wire[DNS_PREFIX + question.len - 1], 1);
  cr_assert_eq((size_t)(question.wire[0] << 8 | question.wire[1]), question.len);
}

Test(dns_message, names_that_are_none) {
  static const char *const names[] = {"", "a..b", ".a", "\\300.example"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *why = NULL;
    cr_assert_not(dns_question_make(&question, names[i], 1, 1, &why), "%s", names[i]);
    cr_assert_not_null(why);
  }
  const char *why;
  cr_assert(dns_question_make(&question, ".", 2, 1, &why));
}

Test(dns_message, what_matches) {
  uint8_t wire[DNS_QUERY_MAX];
  ask();
  size_t len = echo(wire);
  cr_assert_eq(dns_match(&question, wire, len), DNS_ANSWER);
  memcpy(wire + 13, "WwW", 3); /* servers may change the case */
  cr_assert_eq(dns_match(&question, wire, len), DNS_ANSWER);
  wire[2] |= 0x02;
  cr_assert_eq(dns_match(&question, wire, len), DNS_TRUNCATED);
}

/* Each octet that says whose answer it is counts. */
Test(dns_message, what_does_not_match) {
  uint8_t wire[DNS_QUERY_MAX];
  ask();
  size_t len = echo(wire);
  for (size_t short_len = 0; short_len < len; short_len++)
    cr_assert_eq(dns_match(&question, wire, short_len), DNS_FOREIGN);
  static const size_t places[] = {0, 1, 4, 5};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    echo(wire);
    wire[places[i]] ^= 0x04;
    cr_assert_eq(dns_match(&question, wire, len), DNS_FOREIGN, "octet %zu", places[i]);
  }
  for (size_t i = 12; i < len; i++) {
    echo(wire);
    wire[i] ^= 0x01;
    cr_assert_eq(dns_match(&question, wire, len), DNS_FOREIGN, "octet %zu", i);
  }
  for (unsigned bit = 0x80; bit >= 0x08; bit >>= 1) { /* QR and opcode */
    echo(wire);
    wire[2] ^= (uint8_t)bit;
    cr_assert_eq(dns_match(&question, wire, len), DNS_FOREIGN, "bit %x", bit);
  }
}

Test(dns_message, errors_need_no_question) {
  uint8_t wire[12] = {0xab, 0xcd, 0x80, 0x01};
  ask();
  cr_assert_eq(dns_match(&question, wire, sizeof wire), DNS_ANSWER);
  wire[3] = 0;
  cr_assert_eq(dns_match(&question, wire, sizeof wire), DNS_FOREIGN);
}

Test(dns_message, a_loop_of_pointers_is_malformed) {
  uint8_t wire[DNS_QUERY_MAX + 64];
  char why[DNS_WHY];
  ask();
  size_t len = echo(wire);
  wire[7] = 1; /* ANCOUNT */
  wire[len] = 0xc0;
  wire[len + 1] = (uint8_t)len;
  memcpy(wire + len + 2, "\0\1\0\1\0\0\0\0\0\4\177\0\0\1", 14);
  cr_assert_not(dns_judge(&question, 0, NULL, wire, len + 16, why));
  cr_assert_str_eq(why, "malformed answer");
}

Test(dns_message, counts_that_promise_more) {
  uint8_t wire[DNS_QUERY_MAX];
  char why[DNS_WHY];
  ask();
  size_t len = echo(wire);
  wire[6] = wire[7] = 0xff;
  cr_assert_not(dns_judge(&question, 0, NULL, wire, len, why));
  cr_assert_str_eq(why, "malformed answer");
}

Test(dns_message, rcodes_without_a_name) {
  uint8_t wire[DNS_QUERY_MAX];
  char why[DNS_WHY];
  ask();
  size_t len = echo(wire);
  wire[3] = 0x0e;
  cr_assert_not(dns_judge(&question, 0, NULL, wire, len, why));
  cr_assert_str_eq(why, "rcode 14, expected NOERROR");
}
