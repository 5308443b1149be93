/* SPDX-License-Identifier: Apache-2.0 */
/* Echo requests, replies and what errors quote. */
#include <criterion/criterion.h>
#include <string.h>

#include "healthcheck/probes/icmp_message.h"

static const struct icmp_echo sent = {
    .id = 0x1234, .sequence = 0xfffe, .whole = true, .token = "0123456789abcde"};

static void make(uint8_t family, uint8_t *out, uint8_t type) {
  icmp_request(family, &sent, out);
  out[0] = type;
}

Test(icmp_message, a_request) {
  uint8_t out[ECHO_SIZE];
  icmp_request(4, &sent, out);
  cr_assert_arr_eq(out, "\10\0", 2);
  cr_assert_arr_eq(out + 4, "\x12\x34\xff\xfe", 4);
  uint32_t sum = 0;
  for (size_t i = 0; i < sizeof out; i += 2)
    sum += (uint32_t)(out[i] << 8 | out[i + 1]);
  while (sum > 0xffff)
    sum = (sum & 0xffff) + (sum >> 16);
  cr_assert_eq(sum, 0xffff, "the checksum is right");
  icmp_request(6, &sent, out);
  cr_assert_arr_eq(out, "\200\0\0\0", 4, "the kernel's checksum");
}

Test(icmp_message, a_reply_comes_back_as_it_was_sent) {
  uint8_t wire[20 + ECHO_SIZE] = {0x45};
  struct icmp_echo echo;
  make(4, wire + 20, 0);
  cr_assert(icmp_reply(4, true, wire, sizeof wire, &echo));
  cr_assert(echo.whole && echo.id == sent.id && echo.sequence == sent.sequence);
  cr_assert_arr_eq(echo.token, sent.token, ECHO_TOKEN);
  cr_assert(icmp_reply(4, false, wire + 20, ECHO_SIZE, &echo));
  make(6, wire, 129);
  cr_assert(icmp_reply(6, false, wire, ECHO_SIZE, &echo));
  cr_assert(icmp_reply(6, true, wire, ECHO_SIZE, &echo), "IPv6 sockets give no header");
}

Test(icmp_message, a_header_with_options) {
  uint8_t wire[60 + ECHO_SIZE] = {0x4f};
  struct icmp_echo echo;
  make(4, wire + 60, 0);
  cr_assert(icmp_reply(4, true, wire, sizeof wire, &echo));
  for (size_t len = 0; len < sizeof wire; len++)
    cr_assert_not(icmp_reply(4, true, wire, len, &echo));
  wire[0] = 0x44; /* shorter than a header can be */
  cr_assert_not(icmp_reply(4, true, wire, sizeof wire, &echo));
  wire[0] = 0x6f;
  cr_assert_not(icmp_reply(4, true, wire, sizeof wire, &echo));
}

Test(icmp_message, what_is_no_reply) {
  uint8_t wire[ECHO_SIZE + 1] = {0};
  struct icmp_echo echo;
  make(4, wire, 0);
  cr_assert_not(icmp_reply(4, false, wire, ECHO_SIZE - 1, &echo));
  cr_assert_not(icmp_reply(4, false, wire, ECHO_SIZE + 1, &echo));
  cr_assert_not(icmp_reply(6, false, wire, ECHO_SIZE, &echo));
  make(4, wire, 8); /* one's own request, as 127.0.0.1 would show it */
  cr_assert_not(icmp_reply(4, false, wire, ECHO_SIZE, &echo));
  make(4, wire, 0);
  wire[1] = 1;
  cr_assert_not(icmp_reply(4, false, wire, ECHO_SIZE, &echo));
}

Test(icmp_message, quoted_whole_or_cut) {
  uint8_t wire[ECHO_SIZE];
  struct icmp_echo echo;
  make(4, wire, 8);
  cr_assert(icmp_quoted(4, wire, sizeof wire, &echo) && echo.whole);
  for (size_t len = ECHO_HEADER; len < sizeof wire; len++)
    cr_assert(icmp_quoted(4, wire, len, &echo) && !echo.whole && echo.sequence == sent.sequence);
  for (size_t len = 0; len < ECHO_HEADER; len++)
    cr_assert_not(icmp_quoted(4, wire, len, &echo));
  cr_assert_not(icmp_quoted(6, wire, sizeof wire, &echo));
}

Test(icmp_message, reasons) {
  char out[ICMP_REASON];
  cr_assert_str_eq(icmp_reason(4, 3, 1, out), "host unreachable");
  cr_assert_str_eq(icmp_reason(6, 1, 0, out), "network unreachable");
  for (unsigned type = 0; type < 256; type++) {
    for (unsigned code = 0; code < 256; code++) {
      const char *a = icmp_reason(4, (uint8_t)type, (uint8_t)code, out);
      cr_assert(strlen(a) < ICMP_REASON);
      a = icmp_reason(6, (uint8_t)type, (uint8_t)code, out);
      cr_assert(strlen(a) < ICMP_REASON);
    }
  }
}
