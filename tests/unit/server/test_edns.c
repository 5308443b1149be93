/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "server/edns.h"

static bool read_options(struct edns *edns, const uint8_t *options, size_t len) {
  memset(edns, 0, sizeof *edns);
  return edns_read(edns, 1232, 0, options, len);
}

#define READ(edns, ...)                                                                            \
  read_options((edns), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

Test(edns, a_size_under_512_counts_as_512) {
  struct edns edns = {0};
  cr_assert(edns_read(&edns, 0, 0, NULL, 0));
  cr_expect_eq(edns.payload, 512);
  cr_expect(edns.present);
}

Test(edns, unknown_options_are_passed_over) {
  struct edns edns;
  cr_expect(READ(&edns, 0xff, 0xee, 0, 2, 1, 2, 0, 3, 0, 0));
  cr_expect(edns.nsid_asked);
}

Test(edns, an_option_past_the_end_is_malformed) {
  struct edns edns;
  cr_expect_not(READ(&edns, 0, 100, 0, 2, 1));
  cr_expect_not(READ(&edns, 0, 100, 0));
  cr_expect_not(READ(&edns, 0));
}

Test(edns, options_of_a_later_version_are_not_read) {
  struct edns edns = {0};
  cr_expect(edns_read(&edns, 1232, 0x00010000, (const uint8_t[]){1}, 1));
  cr_expect_eq(edns.version, 1);
}

Test(edns, subnet_well_formed) {
  struct edns edns;
  cr_assert(READ(&edns, 0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2));
  cr_expect(edns.subnet.present);
  cr_expect_eq(edns.subnet.source, 24);
  cr_expect_arr_eq(edns.subnet.address, ((uint8_t[]){192, 0, 2, 0}), 4);
  cr_expect(READ(&edns, 0, 8, 0, 6, 0, 1, 12, 0, 192, 0xf0));
  cr_expect(READ(&edns, 0, 8, 0, 4, 0, 1, 0, 0));
  cr_expect(READ(&edns, 0, 8, 0, 4, 0, 2, 0, 0));
  cr_expect(READ(&edns, 0, 8, 0, 4, 0, 0, 0, 0), "family 0 hides the client: RFC 7871 7.1.2");
}

Test(edns, subnet_malformed) {
  struct edns edns;
  cr_expect_not(READ(&edns, 0, 8, 0, 0), "empty");
  cr_expect_not(READ(&edns, 0, 8, 0, 3, 0, 1, 0), "shorter than its fixed part");
  cr_expect_not(READ(&edns, 0, 8, 0, 8, 0, 1, 24, 0, 192, 0, 2, 0), "an octet too many");
  cr_expect_not(READ(&edns, 0, 8, 0, 6, 0, 1, 24, 0, 192, 0), "an octet too few");
  cr_expect_not(READ(&edns, 0, 8, 0, 7, 0, 1, 24, 1, 192, 0, 2), "scope in a query");
  cr_expect_not(READ(&edns, 0, 8, 0, 7, 0, 1, 20, 0, 192, 0, 0x1f), "bits past the prefix");
  cr_expect_not(READ(&edns, 0, 8, 0, 9, 0, 1, 33, 0, 192, 0, 2, 0, 0), "longer than an address");
  cr_expect_not(READ(&edns, 0, 8, 0, 7, 0, 3, 24, 0, 192, 0, 2), "unknown family");
  cr_expect_not(READ(&edns, 0, 8, 0, 5, 0, 0, 8, 0, 10), "family 0 with an address");
  cr_expect_not(READ(&edns, 0, 8, 0, 4, 0, 1, 0, 0, 0, 8, 0, 4, 0, 1, 0, 0), "twice");
}

Test(edns, written_as_long_as_said) {
  struct edns edns;
  cr_assert(READ(&edns, 0, 3, 0, 0, 0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2));
  edns.dnssec_ok = true;
  edns.subnet.scope = 16;
  struct edns_reply reply = {
      .payload = 1232,
      .rcode_high = 1,
      .nsid = "ns7",
      .nsid_len = 3,
      .extended_error = EDE_NOT_AUTHORITATIVE,
      .keepalive = -1,
  };
  uint8_t out[128];
  size_t n = edns_write(&edns, &reply, out, 0, sizeof out);
  cr_expect_eq(n, edns_size(&edns, &reply));
  static const uint8_t want[] = {0, 0, 41,  0x04, 0xd0, 1,  0,  0x80, 0, 0, 24, 0,
                                 8, 0, 7,   0,    1,    24, 16, 192,  0, 2, 0,  3,
                                 0, 3, 'n', 's',  '7',  0,  15, 0,    2, 0, 20};
  cr_assert_eq(n, sizeof want);
  cr_expect_arr_eq(out, want, sizeof want);
}

Test(edns, padding_fills_up_to_the_block_or_the_limit) {
  struct edns edns;
  cr_assert(READ(&edns, 0, 12, 0, 0));
  cr_expect(edns.padding_asked);
  struct edns_reply reply = {
      .payload = 1232, .extended_error = EDE_NONE, .keepalive = -1, .padding = true};
  static uint8_t message[1024];
  cr_expect_eq(100 + edns_write(&edns, &reply, message, 100, sizeof message), EDNS_PADDING_BLOCK);
  cr_expect_eq(100 + edns_write(&edns, &reply, message, 100, 200), 200);
  cr_expect_eq(edns_write(&edns, &reply, message, 100, 111), EDNS_OPT_FIXED, "no room for it");
  cr_expect_eq(500 + edns_write(&edns, &reply, message, 500, sizeof message),
               2 * EDNS_PADDING_BLOCK);
}

Test(edns, the_first_of_two_cookies_counts) {
  struct edns edns;
  cr_assert(READ(&edns, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 10, 0, 3, 9, 9, 9));
  cr_expect_eq(edns.cookie_len, 8);
  cr_expect_eq(edns.cookie[0], 1);
}

Test(edns, keepalive_is_in_units_of_100_ms) {
  struct edns edns;
  cr_assert(READ(&edns, 0, 11, 0, 0));
  cr_expect(edns.keepalive_asked);
  struct edns_reply reply = {.payload = 1232, .extended_error = EDE_NONE, .keepalive = 100};
  uint8_t out[32];
  cr_assert_eq(edns_write(&edns, &reply, out, 0, sizeof out), 17);
  cr_expect_arr_eq(out + 11, ((uint8_t[]){0, 11, 0, 2, 0, 100}), 6);
}
