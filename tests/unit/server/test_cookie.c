/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "server/cookie.h"

enum { NOW = 1559731985 };

static const uint8_t CLIENT_ADDRESS[4] = {198, 51, 100, 100};

static size_t from_hex(uint8_t *out, const char *hex) {
  size_t n = 0;
  for (; hex[0] != '\0'; hex += 2) {
    unsigned octet = 0;
    cr_assert_eq(sscanf(hex, "%2x", &octet), 1);
    out[n++] = (uint8_t)octet;
  }
  return n;
}

static struct cookie_secrets secrets_of(const char *text) {
  struct cookie_secrets secrets;
  char why[COOKIE_WHY];
  cr_assert(cookie_secrets_parse(text, strlen(text), &secrets, why), "%s", why);
  return secrets;
}

static void expect_octets(const uint8_t *got, const char *hex) {
  uint8_t want[64];
  size_t n = from_hex(want, hex);
  cr_assert_arr_eq(got, want, n);
}

/* Checks the option in `hex`; the response's option goes to `out`. */
static enum cookie_status respond(const struct cookie_secrets *secrets, const char *hex,
                                  const uint8_t *address, size_t address_len, uint32_t now,
                                  uint8_t out[COOKIE_SIZE]) {
  uint8_t data[64];
  struct cookie_option option;
  cr_assert(cookie_parse(data, from_hex(data, hex), &option));
  return cookie_respond(secrets, &option, address, address_len, now, out);
}

static enum cookie_status check_made(const struct cookie_secrets *secrets, uint32_t made,
                                     uint32_t now) {
  const uint8_t client[8] = "12345678";
  uint8_t cookie[COOKIE_SIZE];
  struct cookie_option option;
  cookie_make(secrets, client, CLIENT_ADDRESS, 4, made, cookie);
  cr_assert(cookie_parse(cookie, sizeof cookie, &option));
  return cookie_check(secrets, &option, CLIENT_ADDRESS, 4, now);
}

static const char SECRET[] = "e5e973e5a6b2a43f48e7dc849e37bfcf\n";

/* The vectors of the paper's reference implementation: key 00..0f, input 00, 01, ... */
Test(cookie, siphash_reference_vectors) {
  uint8_t key[16], data[64];
  for (unsigned i = 0; i < 64; i++)
    data[i] = (uint8_t)i;
  memcpy(key, data, sizeof key);
  cr_assert_eq(cookie_siphash(key, data, 0), UINT64_C(0x726fdb47dd0e0e31));
  cr_assert_eq(cookie_siphash(key, data, 1), UINT64_C(0x74f839c593dc67fd));
  cr_assert_eq(cookie_siphash(key, data, 8), UINT64_C(0x93f5f5799a932462));
  cr_assert_eq(cookie_siphash(key, data, 15), UINT64_C(0xa129ca6149be45e5));
  cr_assert_eq(cookie_siphash(key, data, 63), UINT64_C(0x958a324ceb064572));
}

Test(cookie, rfc9018_a1_first_cookie) {
  struct cookie_secrets secrets = secrets_of(SECRET);
  uint8_t out[COOKIE_SIZE];
  cr_assert_eq(respond(&secrets, "2464c4abcf10c957", CLIENT_ADDRESS, 4, 1559731985, out),
               COOKIE_NONE);
  expect_octets(out, "2464c4abcf10c957010000005cf79f111f8130c3eee29480");
}

Test(cookie, rfc9018_a2_renewed_after_40_minutes) {
  struct cookie_secrets secrets = secrets_of(SECRET);
  uint8_t out[COOKIE_SIZE];
  cr_assert_eq(respond(&secrets, "2464c4abcf10c957010000005cf79f111f8130c3eee29480", CLIENT_ADDRESS,
                       4, 1559734385, out),
               COOKIE_RENEW);
  expect_octets(out, "2464c4abcf10c957010000005cf7a871d4a564a1442aca77");
}

/* The reserved octets of this client's cookie are not zero; they are hashed as they are. */
Test(cookie, rfc9018_a3_reserved_octets) {
  struct cookie_secrets secrets = secrets_of(SECRET);
  const char *old = "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5";
  const uint8_t address[4] = {203, 0, 113, 203};
  uint8_t out[COOKIE_SIZE];
  cr_assert_eq(respond(&secrets, old, address, 4, 0x5cf78f71, out), COOKIE_VALID);
  expect_octets(out, old);
  cr_assert_eq(respond(&secrets, old, address, 4, 1559734700, out), COOKIE_BAD);
  expect_octets(out, "fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e");
}

Test(cookie, rfc9018_a4_ipv6_and_rollover) {
  struct cookie_secrets secrets =
      secrets_of("445536bcd2513298075a5d379663c962\ndd3bdf9344b678b185a6f5cb60fca715\n");
  uint8_t address[16], out[COOKIE_SIZE];
  from_hex(address, "20010db80220000159ded0f4876982b8");
  cr_assert_eq(respond(&secrets, "22681ab97d52c298010000005cf7c57926556bd0934c72f8", address, 16,
                       1559741961, out),
               COOKIE_RENEW);
  expect_octets(out, "22681ab97d52c298010000005cf7c609a6bb79d16625507a");
}

Test(cookie, lengths_of_the_option) {
  uint8_t data[64] = {0};
  struct cookie_option option;
  cr_assert_not(cookie_parse(NULL, 0, &option));
  for (size_t len = 1; len <= sizeof data; len++) {
    bool want = len == 8 || (len >= 16 && len <= 40);
    cr_assert_eq(cookie_parse(data, len, &option), want, "length %zu", len);
    if (want)
      cr_assert_eq(option.server_len, len - 8);
  }
}

/* Server parts of other lengths are well-formed but cannot be ours; each gets a fresh cookie. */
Test(cookie, foreign_server_parts_are_bad) {
  struct cookie_secrets secrets = secrets_of(SECRET);
  const uint8_t client[8] = "abcdefgh";
  uint8_t data[40], out[COOKIE_SIZE], fresh[COOKIE_SIZE];
  memset(data, 1, sizeof data);
  cookie_make(&secrets, client, CLIENT_ADDRESS, 4, NOW, data);
  for (size_t len = 16; len <= 40; len++) {
    struct cookie_option option;
    cr_assert(cookie_parse(data, len, &option));
    enum cookie_status want = len == COOKIE_SIZE ? COOKIE_VALID : COOKIE_BAD;
    cr_assert_eq(cookie_respond(&secrets, &option, CLIENT_ADDRESS, 4, NOW, out), want);
    cookie_make(&secrets, client, CLIENT_ADDRESS, 4, NOW, fresh);
    cr_assert_arr_eq(out, fresh, sizeof fresh);
  }
}

Test(cookie, every_changed_bit_is_bad) {
  struct cookie_secrets secrets = secrets_of(SECRET);
  const uint8_t client[8] = "abcdefgh";
  uint8_t data[COOKIE_SIZE];
  cookie_make(&secrets, client, CLIENT_ADDRESS, 4, NOW, data);
  for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
    struct cookie_option option;
    data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    cr_assert(cookie_parse(data, sizeof data, &option));
    cr_assert_eq(cookie_check(&secrets, &option, CLIENT_ADDRESS, 4, NOW), COOKIE_BAD, "bit %zu",
                 bit);
    data[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
}

Test(cookie, another_address_or_secret_is_bad) {
  struct cookie_secrets secrets = secrets_of(SECRET);
  struct cookie_secrets other = secrets_of("00000000000000000000000000000001");
  const uint8_t client[8] = "abcdefgh", address[4] = {198, 51, 100, 101};
  uint8_t data[COOKIE_SIZE], mapped[16] = {0};
  struct cookie_option option;
  cookie_make(&secrets, client, CLIENT_ADDRESS, 4, NOW, data);
  cr_assert(cookie_parse(data, sizeof data, &option));
  memcpy(mapped, CLIENT_ADDRESS, 4);
  cr_assert_eq(cookie_check(&secrets, &option, address, 4, NOW), COOKIE_BAD);
  cr_assert_eq(cookie_check(&secrets, &option, mapped, 16, NOW), COOKIE_BAD);
  cr_assert_eq(cookie_check(&other, &option, CLIENT_ADDRESS, 4, NOW), COOKIE_BAD);
}

/* RFC 9018 section 4.3: an hour back, five minutes ahead, fresh again after half an hour. */
Test(cookie, age_limits) {
  struct cookie_secrets secrets = secrets_of(SECRET);
  static const struct {
    int32_t age;
    enum cookie_status want;
  } cases[] = {
      {0, COOKIE_VALID},       {1800, COOKIE_VALID},    {1801, COOKIE_RENEW}, {3600, COOKIE_RENEW},
      {3601, COOKIE_BAD},      {-1, COOKIE_VALID},      {-300, COOKIE_VALID}, {-301, COOKIE_BAD},
      {INT32_MAX, COOKIE_BAD}, {INT32_MIN, COOKIE_BAD},
  };
  /* The last two clocks stand just before and after the wrap of 2106. */
  static const uint32_t clocks[] = {NOW, 0x80000000, UINT32_MAX - 1, 1};
  for (size_t c = 0; c < sizeof clocks / sizeof clocks[0]; c++) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
      uint32_t made = clocks[c] - (uint32_t)cases[i].age;
      cr_assert_eq(check_made(&secrets, made, clocks[c]), cases[i].want, "clock %u, age %d",
                   clocks[c], cases[i].age);
    }
  }
}

Test(cookie, respond_in_place) {
  struct cookie_secrets secrets = secrets_of(SECRET);
  uint8_t data[COOKIE_SIZE];
  struct cookie_option option;
  from_hex(data, "2464c4abcf10c957");
  cr_assert(cookie_parse(data, 8, &option));
  cookie_respond(&secrets, &option, CLIENT_ADDRESS, 4, 1559731985, data);
  expect_octets(data, "2464c4abcf10c957010000005cf79f111f8130c3eee29480");
}

Test(cookie, rotation_keeps_the_last_secret_only) {
  struct cookie_secrets secrets;
  uint8_t first[16] = "first secret...", second[16] = "second secret..", third[16] = "third.";
  const uint8_t client[8] = "abcdefgh";
  uint8_t data[COOKIE_SIZE];
  struct cookie_option option;
  cookie_secrets_generate(&secrets, first);
  cookie_make(&secrets, client, CLIENT_ADDRESS, 4, NOW, data);
  cr_assert(cookie_parse(data, sizeof data, &option));
  cr_assert_eq(cookie_check(&secrets, &option, CLIENT_ADDRESS, 4, NOW), COOKIE_VALID);
  cookie_secrets_rotate(&secrets, second);
  cr_assert_eq(cookie_check(&secrets, &option, CLIENT_ADDRESS, 4, NOW), COOKIE_RENEW);
  cookie_secrets_rotate(&secrets, third);
  cr_assert_eq(secrets.count, 2);
  cr_assert_eq(cookie_check(&secrets, &option, CLIENT_ADDRESS, 4, NOW), COOKIE_BAD);
}

/* RFC 9018 section 5: at every stage, all servers accept what any of them signs. */
Test(cookie, staged_rollover_between_servers) {
  const char *a = "11111111111111111111111111111111", *b = "22222222222222222222222222222222";
  char text[3][80];
  snprintf(text[0], sizeof text[0], "%s\n%s\n", a, b);
  snprintf(text[1], sizeof text[1], "%s\n%s\n", b, a);
  snprintf(text[2], sizeof text[2], "%s\n", b);
  for (unsigned stage = 0; stage < 2; stage++) {
    struct cookie_secrets ahead = secrets_of(text[stage + 1]), behind = secrets_of(text[stage]);
    const uint8_t client[8] = "abcdefgh";
    uint8_t data[COOKIE_SIZE];
    struct cookie_option option;
    cookie_make(&ahead, client, CLIENT_ADDRESS, 4, NOW, data);
    cr_assert(cookie_parse(data, sizeof data, &option));
    cr_assert_neq(cookie_check(&behind, &option, CLIENT_ADDRESS, 4, NOW), COOKIE_BAD);
  }
}

Test(cookie, secrets_file) {
  struct cookie_secrets secrets = secrets_of("# shared by ns1 and ns2\r\n"
                                             "\r\n"
                                             "  E5E973E5A6B2A43F48E7DC849E37BFCF \r\n"
                                             "\t445536bcd2513298075a5d379663c962\n"
                                             "dd3bdf9344b678b185a6f5cb60fca715");
  cr_assert_eq(secrets.count, 3);
  expect_octets(secrets.octets[0], "e5e973e5a6b2a43f48e7dc849e37bfcf");
  expect_octets(secrets.octets[1], "445536bcd2513298075a5d379663c962");
  expect_octets(secrets.octets[2], "dd3bdf9344b678b185a6f5cb60fca715");
}

#define ONE "11111111111111111111111111111111\n"
#define TWO "22222222222222222222222222222222\n"

Test(cookie, secrets_file_errors) {
  static const struct {
    const char *text, *why;
  } cases[] = {
      {"", "no secret found; give one to three lines of 32 hex digits"},
      {"# nothing\n\n", "no secret found; give one to three lines of 32 hex digits"},
      {"#\n1234\n", "line 2: too short; a secret is 32 hex digits"},
      {"111111111111111111111111111111111", "line 1: too long; a secret is 32 hex digits"},
      {ONE "g1111111111111111111111111111111",
       "line 2: a character that is no hex digit; a secret is 32 hex digits"},
      {"1111111111111111 1111111111111111",
       "line 1: a character that is no hex digit; a secret is 32 hex digits"},
      {"00000000000000000000000000000000", "line 1: all zeros; a secret must be random"},
      {ONE TWO ONE, "line 3: the same secret twice; each must be given once"},
      {ONE TWO "33333333333333333333333333333333\n44444444444444444444444444444444\n",
       "line 4: a fourth secret; at most three are accepted at once"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct cookie_secrets secrets = secrets_of(SECRET), before = secrets;
    char why[COOKIE_WHY] = "";
    cr_assert_not(cookie_secrets_parse(cases[i].text, strlen(cases[i].text), &secrets, why));
    cr_assert_str_eq(why, cases[i].why);
    cr_assert_arr_eq((uint8_t *)&secrets, (uint8_t *)&before, sizeof secrets);
  }
}

Test(cookie, wipe) {
  struct cookie_secrets secrets = secrets_of(SECRET), zero;
  memset(&zero, 0, sizeof zero);
  cookie_secrets_wipe(&secrets);
  cr_assert_arr_eq((uint8_t *)&secrets, (uint8_t *)&zero, sizeof zero);
}
