/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses of a host name are probed. */
#include <arpa/inet.h>
#include <criterion/criterion.h>

#include "healthcheck/resolve_address.h"

static struct resolve_address address(const char *text) {
  struct resolve_address a = {.family = 4};
  if (inet_pton(AF_INET, text, a.bytes) == 1)
    return a;
  a.family = 6;
  cr_assert_eq(inet_pton(AF_INET6, text, a.bytes), 1, "%s", text);
  return a;
}

Test(resolve_address, usable) {
  static const char *const good[] = {"127.0.0.1",  "10.0.0.1",    "192.168.1.1", "169.253.0.1",
                                     "8.8.8.8",    "223.255.0.1", "::1",         "fd00::1",
                                     "2001:db8::", "::2:0:0",     "64:ff9b::1"};
  static const char *const bad[] = {
      "0.0.0.0", "0.1.2.3", "169.254.169.254", "224.0.0.1", "255.255.255.255", "240.0.0.1",
      "::",      "fe80::1", "febf::1",         "ff02::1",   "::ffff:127.0.0.1"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    struct resolve_address a = address(good[i]);
    cr_assert(resolve_address_usable(&a), "%s", good[i]);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct resolve_address a = address(bad[i]);
    cr_assert_not(resolve_address_usable(&a), "%s", bad[i]);
  }
}

static void check_mix(size_t count4, size_t count6, const char *families) {
  struct resolve_address v4[RESOLVE_ADDRESSES], v6[RESOLVE_ADDRESSES], out[RESOLVE_ADDRESSES];
  for (size_t i = 0; i < RESOLVE_ADDRESSES; i++) {
    v4[i] = (struct resolve_address){.family = 4, .bytes = {(uint8_t)i}};
    v6[i] = (struct resolve_address){.family = 6, .bytes = {(uint8_t)i}};
  }
  size_t count = resolve_address_mix(v4, count4, v6, count6, out);
  cr_assert_eq(count, strlen(families));
  uint8_t next[2] = {0};
  for (size_t i = 0; i < count; i++) {
    cr_assert_eq(out[i].family, families[i] - '0');
    cr_assert_eq(out[i].bytes[0], next[out[i].family == 6]++, "in their order");
  }
}

Test(resolve_address, both_families_by_turns) {
  check_mix(0, 0, "");
  check_mix(8, 0, "44444444");
  check_mix(0, 2, "66");
  check_mix(8, 8, "46464646");
  check_mix(8, 1, "46444444");
  check_mix(1, 3, "4666");
}

Test(resolve_address, servers) {
  struct resolve_address a;
  uint16_t port;
  cr_assert(resolve_address_read("192.0.2.53", &a, &port) && a.family == 4 && port == 53);
  cr_assert(resolve_address_read("2001:db8::53@5353", &a, &port) && a.family == 6 && port == 5353);
  static const char *const bad[] = {"",       "x",         "192.0.2.53@",      "192.0.2.53@0",
                                    "@53",    "::1%1",     "192.0.2.53@65536", "192.0.2.53@05",
                                    "[::1]",  "1.2.3",     "192.0.2.53@53x",   "192.0.2.53:53",
                                    "::1@@1", "0x7f000001"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    cr_assert_not(resolve_address_read(bad[i], &a, &port), "%s", bad[i]);
}
