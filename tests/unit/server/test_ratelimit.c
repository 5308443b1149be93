/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/rng.h"
#include "server/ratelimit.h"

static const uint8_t SEED[16] = "seed of the test";
static const uint8_t CLIENT[4] = {192, 0, 2, 1};
static const uint64_t NAME = 0x1234567890abcdef;

static struct ratelimit_config config_of(enum ratelimit_category category, uint32_t per_second) {
  struct ratelimit_config config;
  ratelimit_defaults(&config);
  config.rate[category] = per_second * 1000;
  return config;
}

static struct ratelimit *open_of(const struct ratelimit_config *config) {
  char why[RATELIMIT_WHY];
  struct ratelimit *limit = ratelimit_open(config, SEED, why);
  cr_assert_not_null(limit, "%s", why);
  return limit;
}

/* Responses that pass of `n` at one time. */
static unsigned passes(struct ratelimit *limit, const uint8_t *client, uint64_t name, unsigned n,
                       uint64_t now) {
  unsigned passed = 0;
  while (n-- > 0)
    passed += ratelimit_check(limit, 4, client, RATELIMIT_ANSWER, name, now) == RATELIMIT_PASS;
  return passed;
}

Test(ratelimit, no_rate_means_no_limit) {
  struct ratelimit_config config;
  ratelimit_defaults(&config);
  struct ratelimit *limit = open_of(&config);
  cr_assert_eq(passes(limit, CLIENT, NAME, 100000, 0), 100000);
  cr_assert_eq(ratelimit_count(limit, RATELIMIT_COUNT_PASSED), 100000);
  ratelimit_close(limit);
}

Test(ratelimit, burst_then_rate) {
  struct ratelimit_config config = config_of(RATELIMIT_ANSWER, 10);
  struct ratelimit *limit = open_of(&config);
  cr_assert_eq(passes(limit, CLIENT, NAME, 50, 1000), 10, "a second's worth is saved");
  cr_assert_eq(passes(limit, CLIENT, NAME, 50, 1099), 0);
  cr_assert_eq(passes(limit, CLIENT, NAME, 50, 1100), 1, "one token every 100 ms");
  cr_assert_eq(passes(limit, CLIENT, NAME, 50, 1450), 3);
  cr_assert_eq(passes(limit, CLIENT, NAME, 50, 1500), 1, "and the rest of the time counts");
  cr_assert_eq(passes(limit, CLIENT, NAME, 50, 100000), 10, "never more than the burst");
  ratelimit_close(limit);
}

/* Over a long flood, exactly the rate passes, also where it is no whole number. */
Test(ratelimit, long_run_rate) {
  static const uint32_t rates[] = {1, 625, 1000, 7777, 250000, 1000000};
  for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
    struct ratelimit_config config = config_of(RATELIMIT_ANSWER, 0);
    config.rate[RATELIMIT_ANSWER] = rates[i];
    config.burst_ms = 0;
    struct ratelimit *limit = open_of(&config);
    uint64_t passed = 0;
    for (uint64_t now = 0; now < 100000; now++)
      passed += passes(limit, CLIENT, NAME, 2, now);
    uint64_t want = (uint64_t)rates[i] * 100 / 1000 + (rates[i] < 10 ? 1 : 0);
    cr_assert_leq(passed, want + 1);
    /* Without burst, a token that is complete between two milliseconds waits for the second one. */
    cr_assert_geq(passed + 1 + want / 5, want);
    ratelimit_close(limit);
  }
}

Test(ratelimit, at_least_one_response_can_be_saved) {
  struct ratelimit_config config = config_of(RATELIMIT_ANSWER, 0);
  config.rate[RATELIMIT_ANSWER] = 100; /* one in 10 s */
  config.burst_ms = 0;
  struct ratelimit *limit = open_of(&config);
  cr_assert_eq(passes(limit, CLIENT, NAME, 5, 0), 1);
  cr_assert_eq(passes(limit, CLIENT, NAME, 5, 9999), 0);
  cr_assert_eq(passes(limit, CLIENT, NAME, 5, 10000), 1);
  ratelimit_close(limit);
}

Test(ratelimit, slip) {
  static const char *const want[] = {"dddddddddddd", "tttttttttttt", "dtdtdtdtdtdt",
                                     "ddtddtddtddt"};
  for (uint8_t slip = 0; slip < 4; slip++) {
    struct ratelimit_config config = config_of(RATELIMIT_ANSWER, 1);
    config.slip = slip;
    struct ratelimit *limit = open_of(&config);
    cr_assert_eq(passes(limit, CLIENT, NAME, 1, 0), 1);
    char got[13] = "";
    for (unsigned i = 0; i < 12; i++) {
      enum ratelimit_verdict v = ratelimit_check(limit, 4, CLIENT, RATELIMIT_ANSWER, NAME, 0);
      got[i] = "pdt"[v];
    }
    cr_assert_str_eq(got, want[slip]);
    uint64_t truncated = ratelimit_count(limit, RATELIMIT_COUNT_TRUNCATED);
    cr_assert_eq(truncated, slip == 0 ? 0 : 12u / slip);
    cr_assert_eq(ratelimit_count(limit, RATELIMIT_COUNT_DROPPED), 12 - truncated);
    cr_assert_eq(ratelimit_count(limit, RATELIMIT_COUNT_LIMITED + RATELIMIT_ANSWER), 12);
    ratelimit_close(limit);
  }
}

Test(ratelimit, slip_of_255_does_not_spoil_the_tokens) {
  struct ratelimit_config config = config_of(RATELIMIT_ANSWER, 1);
  config.slip = 255;
  struct ratelimit *limit = open_of(&config);
  cr_assert_eq(passes(limit, CLIENT, NAME, 2551, 0), 1);
  cr_assert_eq(ratelimit_count(limit, RATELIMIT_COUNT_TRUNCATED), 10);
  cr_assert_eq(passes(limit, CLIENT, NAME, 1, 999), 0);
  cr_assert_eq(passes(limit, CLIENT, NAME, 1, 1000), 1);
  ratelimit_close(limit);
}

/* A network is the configured prefix, of any length. */
Test(ratelimit, clients_of_one_prefix_share) {
  for (unsigned bits = 0; bits <= 128; bits++) {
    struct ratelimit_config config = config_of(RATELIMIT_ANSWER, 1);
    config.prefix_v4 = (uint8_t)(bits <= 32 ? bits : 24);
    config.prefix_v6 = (uint8_t)bits;
    struct ratelimit *limit = open_of(&config);
    uint8_t six[16] = {0x20, 1, 0xd, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    for (unsigned at = 0; at < 128; at++) {
      uint64_t now = 10000 * (at + 1);
      ratelimit_check(limit, 6, six, RATELIMIT_ANSWER, NAME, now);
      six[at / 8] ^= (uint8_t)(0x80 >> at % 8);
      bool shared = ratelimit_check(limit, 6, six, RATELIMIT_ANSWER, NAME, now) != RATELIMIT_PASS;
      six[at / 8] ^= (uint8_t)(0x80 >> at % 8);
      cr_assert_eq(shared, at >= bits, "IPv6 /%u, bit %u", bits, at);
    }
    for (unsigned at = 0; at < 32 && bits <= 32; at++) {
      uint64_t now = 10000 * (at + 1);
      uint8_t four[4] = {192, 0, 2, 1};
      ratelimit_check(limit, 4, four, RATELIMIT_ANSWER, NAME, now);
      four[at / 8] ^= (uint8_t)(0x80 >> at % 8);
      bool shared = ratelimit_check(limit, 4, four, RATELIMIT_ANSWER, NAME, now) != RATELIMIT_PASS;
      cr_assert_eq(shared, at >= bits, "IPv4 /%u, bit %u", bits, at);
    }
    ratelimit_close(limit);
  }
}

/* An IPv4 address and an IPv6 address that begins with the same octets are strangers. */
Test(ratelimit, families_are_apart) {
  struct ratelimit_config config = config_of(RATELIMIT_ANSWER, 1);
  struct ratelimit *limit = open_of(&config);
  const uint8_t six[16] = {192, 0, 2, 0};
  cr_assert_eq(passes(limit, CLIENT, NAME, 2, 0), 1);
  cr_assert_eq(ratelimit_check(limit, 6, six, RATELIMIT_ANSWER, NAME, 0), RATELIMIT_PASS);
  ratelimit_close(limit);
}

Test(ratelimit, categories_and_subjects_are_apart) {
  struct ratelimit_config config;
  ratelimit_defaults(&config);
  for (unsigned i = 0; i < RATELIMIT_ALL; i++)
    config.rate[i] = 1000;
  struct ratelimit *limit = open_of(&config);
  for (unsigned i = 0; i < RATELIMIT_ALL; i++) {
    enum ratelimit_category category = (enum ratelimit_category)i;
    cr_assert_eq(ratelimit_check(limit, 4, CLIENT, category, NAME, 0), RATELIMIT_PASS);
    cr_assert_neq(ratelimit_check(limit, 4, CLIENT, category, NAME, 0), RATELIMIT_PASS);
    enum ratelimit_verdict other = ratelimit_check(limit, 4, CLIENT, category, NAME + 1, 0);
    /* Errors are not about a name. */
    cr_assert_eq(other == RATELIMIT_PASS, category != RATELIMIT_ERROR);
  }
  ratelimit_close(limit);
}

Test(ratelimit, all_counts_every_category) {
  struct ratelimit_config config = config_of(RATELIMIT_ALL, 4);
  struct ratelimit *limit = open_of(&config);
  unsigned passed = 0;
  for (unsigned i = 0; i < 40; i++) {
    enum ratelimit_category category = (enum ratelimit_category)(i % RATELIMIT_ALL);
    passed += ratelimit_check(limit, 4, CLIENT, category, i, 0) == RATELIMIT_PASS;
  }
  cr_assert_eq(passed, 4);
  cr_assert_eq(ratelimit_count(limit, RATELIMIT_COUNT_LIMITED + RATELIMIT_ALL), 36);
  ratelimit_close(limit);
}

/* What the limit of a name holds back costs no token of the limit on everything. */
Test(ratelimit, held_back_responses_do_not_count_for_all) {
  struct ratelimit_config config = config_of(RATELIMIT_ALL, 3);
  config.rate[RATELIMIT_ANSWER] = 1000;
  struct ratelimit *limit = open_of(&config);
  cr_assert_eq(passes(limit, CLIENT, 1, 20, 0), 1);
  cr_assert_eq(passes(limit, CLIENT, 2, 20, 0), 1);
  cr_assert_eq(passes(limit, CLIENT, 3, 20, 0), 1);
  cr_assert_eq(passes(limit, CLIENT, 4, 20, 0), 0);
  cr_assert_eq(ratelimit_count(limit, RATELIMIT_COUNT_LIMITED + RATELIMIT_ANSWER), 38);
  cr_assert_eq(ratelimit_count(limit, RATELIMIT_COUNT_LIMITED + RATELIMIT_ALL), 39);
  ratelimit_close(limit);
}

/* One bucket: those that flood keep their places while strangers come and go, and no stranger pays
 * for the one whose place it takes. */
Test(ratelimit, floods_stay_and_strangers_start_fresh) {
  struct ratelimit_config config = config_of(RATELIMIT_ANSWER, 10);
  config.buckets = 1;
  struct ratelimit *limit = open_of(&config);
  const uint8_t flood[4] = {203, 0, 113, 1};
  unsigned passed = 0;
  for (uint64_t now = 0; now < 10000; now++) {
    uint8_t stranger[4] = {10, (uint8_t)(now >> 8), (uint8_t)now, 1};
    cr_assert_eq(passes(limit, stranger, NAME, 1, now), 1);
    passed += passes(limit, flood, NAME, 5, now);
  }
  cr_assert_leq(passed, 110);
  cr_assert_geq(passed, 100);
  cr_assert_gt(ratelimit_count(limit, RATELIMIT_COUNT_REPLACED), 9000);
  ratelimit_close(limit);
}

/* A table with room: entries spread, so that few are replaced although not complete. */
Test(ratelimit, entries_spread_over_the_table) {
  struct ratelimit_config config = config_of(RATELIMIT_ANSWER, 1);
  config.buckets = 4096;
  struct ratelimit *limit = open_of(&config);
  for (unsigned i = 0; i < 4096; i++) {
    const uint8_t client[4] = {10, (uint8_t)(i >> 8), (uint8_t)i, 1};
    cr_assert_eq(passes(limit, client, NAME, 1, 0), 1);
  }
  /* Poisson with mean 1: 0.5% of the clients are the fifth or later of a bucket, 20 of 4096. */
  cr_assert_lt(ratelimit_count(limit, RATELIMIT_COUNT_REPLACED), 60);
  unsigned again = 0;
  for (unsigned i = 0; i < 4096; i++) {
    const uint8_t client[4] = {10, (uint8_t)(i >> 8), (uint8_t)i, 1};
    again += passes(limit, client, NAME, 1, 1);
  }
  cr_assert_lt(again, 200);
  ratelimit_close(limit);
}

Test(ratelimit, seed_moves_the_entries) {
  struct ratelimit_config config = config_of(RATELIMIT_ANSWER, 1);
  config.buckets = 8;
  unsigned different = 0;
  uint64_t first = 0;
  for (unsigned s = 0; s < 20; s++) {
    char why[RATELIMIT_WHY];
    uint8_t seed[16] = {(uint8_t)s, 99};
    struct ratelimit *limit = ratelimit_open(&config, seed, why);
    for (uint64_t name = 0; name < 40; name++)
      passes(limit, CLIENT, name, 1, 0);
    uint64_t replaced = ratelimit_count(limit, RATELIMIT_COUNT_REPLACED);
    first = s == 0 ? replaced : first;
    different += replaced != first;
    ratelimit_close(limit);
  }
  cr_assert_gt(different, 0);
}

static void add_exempt(struct ratelimit_prefix *list, size_t *count, const char *text) {
  char why[RATELIMIT_WHY];
  cr_assert(ratelimit_prefix_parse(text, &list[(*count)++], why) != 0, "%s", why);
}

static bool is_limited(struct ratelimit *limit, const char *host) {
  char why[RATELIMIT_WHY];
  struct ratelimit_prefix p;
  cr_assert(ratelimit_prefix_parse(host, &p, why) != 0, "%s", why);
  bool limited = false;
  for (unsigned i = 0; i < 5; i++)
    limited |=
        ratelimit_check(limit, p.family, p.octets, RATELIMIT_ANSWER, NAME, 0) != RATELIMIT_PASS;
  return limited;
}

Test(ratelimit, exempt_prefixes) {
  struct ratelimit_prefix list[8];
  size_t n = 0;
  add_exempt(list, &n, "198.51.100.0/25");
  add_exempt(list, &n, "10.1.2.3");
  add_exempt(list, &n, "10.0.0.0/8");
  add_exempt(list, &n, "2001:db8:5::/48");
  add_exempt(list, &n, "2001:db8:5:6::/64");
  add_exempt(list, &n, "192.0.2.77/32");
  struct ratelimit_config config = config_of(RATELIMIT_ANSWER, 1);
  config.prefix_v4 = 32;
  config.prefix_v6 = 128;
  config.exempt = list;
  config.exempt_count = n;
  struct ratelimit *limit = open_of(&config);
  memset(list, 0xff, sizeof list); /* the list was copied */
  static const struct {
    const char *host;
    bool limited;
  } cases[] = {
      {"10.255.255.255", false}, {"9.255.255.255", true},   {"11.0.0.0", true},
      {"10.1.2.3", false},       {"10.1.2.4", false},       {"198.51.100.127", false},
      {"198.51.100.128", true},  {"192.0.2.77", false},     {"192.0.2.76", true},
      {"192.0.2.78", true},      {"2001:db8:5::1", false},  {"2001:db8:5:6::1", false},
      {"2001:db8:6::", true},    {"2001:db8:4::1", true},   {"::", true},
      {"0.0.0.0", true},         {"255.255.255.255", true}, {"a00::1", true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    cr_assert_eq(is_limited(limit, cases[i].host), cases[i].limited, "%s", cases[i].host);
  cr_assert_eq(ratelimit_count(limit, RATELIMIT_COUNT_EXEMPTED), 7 * 4);
  ratelimit_close(limit);
}

/* The search over the sorted list says the same as a look at every prefix. */
Test(ratelimit, exempt_search_against_a_plain_scan) {
  struct rng rng;
  rng_seed(&rng, 1);
  for (unsigned round = 0; round < 50; round++) {
    struct ratelimit_prefix list[30];
    for (size_t i = 0; i < 30; i++) {
      uint8_t length = (uint8_t)rng_below(&rng, 33);
      uint32_t value = rng_below(&rng, 256) << 24 | rng_below(&rng, 4) << 16 | rng_below(&rng, 256);
      value = length == 0 ? 0 : value & (UINT32_MAX << (32 - length));
      list[i] = (struct ratelimit_prefix){.family = 4, .length = length < 5 ? 5 : length};
      value = length < 5 ? 0 : value;
      for (unsigned b = 0; b < 4; b++)
        list[i].octets[b] = (uint8_t)(value >> (24 - 8 * b));
    }
    struct ratelimit_config config = config_of(RATELIMIT_ANSWER, 1);
    config.prefix_v4 = 32;
    config.exempt = list;
    config.exempt_count = 30;
    struct ratelimit *limit = open_of(&config);
    for (unsigned i = 0; i < 300; i++) {
      uint8_t a[4] = {(uint8_t)rng_below(&rng, 256), (uint8_t)rng_below(&rng, 4), 0,
                      (uint8_t)rng_below(&rng, 256)};
      bool exempt = false;
      for (size_t p = 0; p < 30; p++) {
        bool same = true;
        for (unsigned bit = 0; bit < list[p].length; bit++)
          same &= ((a[bit / 8] ^ list[p].octets[bit / 8]) & (0x80 >> bit % 8)) == 0;
        exempt |= same;
      }
      cr_assert_eq(passes(limit, a, i, 3, 0), exempt ? 3 : 1);
    }
    ratelimit_close(limit);
  }
}

Test(ratelimit, prefix_errors) {
  static const struct {
    const char *text, *why;
  } cases[] = {
      {"", "`` is no address prefix such as 192.0.2.0/24"},
      {"example.com", "`example.com` is no address prefix such as 192.0.2.0/24"},
      {"192.0.2/24", "`192.0.2/24` is no address prefix such as 192.0.2.0/24"},
      {"192.0.2.0/33", "the prefix length of `192.0.2.0/33` must be a number from 0 to 32"},
      {"192.0.2.0/", "the prefix length of `192.0.2.0/` must be a number from 0 to 32"},
      {"192.0.2.0/-1", "the prefix length of `192.0.2.0/-1` must be a number from 0 to 32"},
      {"::/1x", "the prefix length of `::/1x` must be a number from 0 to 128"},
      {"::/99999999999999999999",
       "the prefix length of `::/99999999999999999999` must be a number from 0 to 128"},
      {"192.0.2.1/24", "`192.0.2.1/24` has bits set past its length; write 192.0.2.0/24"},
      {"2001:db8::1/32", "`2001:db8::1/32` has bits set past its length; write 2001:db8::/32"},
      {"::ffff:192.0.2.0/120", "`::ffff:192.0.2.0/120` is an IPv4-mapped prefix; write it as IPv4"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char why[RATELIMIT_WHY] = "";
    struct ratelimit_prefix prefix = {.family = 77};
    cr_assert_not(ratelimit_prefix_parse(cases[i].text, &prefix, why));
    cr_assert_str_eq(why, cases[i].why);
    cr_assert_eq(prefix.family, 77);
  }
  char why[RATELIMIT_WHY] = "", longest[2000];
  memset(longest, 'a', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  struct ratelimit_prefix prefix;
  cr_assert_not(ratelimit_prefix_parse(longest, &prefix, why));
}

static void expect_refused(const struct ratelimit_config *config, const char *want) {
  char why[RATELIMIT_WHY] = "";
  cr_assert_null(ratelimit_open(config, SEED, why));
  cr_assert_str_eq(why, want);
}

Test(ratelimit, settings_out_of_range) {
  struct ratelimit_config good, bad;
  struct ratelimit_prefix prefix = {.family = 4, .length = 8, .octets = {10, 1}};
  ratelimit_defaults(&good);
  bad = good;
  bad.buckets = 1000;
  expect_refused(&bad,
                 "rate limit: the number of buckets is not a power of two from 1 to 16777216");
  bad.buckets = 0;
  expect_refused(&bad,
                 "rate limit: the number of buckets is not a power of two from 1 to 16777216");
  bad = good;
  bad.rate[RATELIMIT_ERROR] = RATELIMIT_RATE_MAX + 1;
  expect_refused(&bad, "rate limit: a rate is above 1000000 in a second");
  bad = good;
  bad.burst_ms = RATELIMIT_BURST_MAX + 1;
  expect_refused(&bad, "rate limit: the burst is longer than 60000 ms");
  bad = good;
  bad.prefix_v4 = 33;
  expect_refused(&bad, "rate limit: the IPv4 prefix is longer than 32 bits");
  bad = good;
  bad.prefix_v6 = 129;
  expect_refused(&bad, "rate limit: the IPv6 prefix is longer than 128 bits");
  bad = good;
  bad.exempt = &prefix;
  bad.exempt_count = 1;
  expect_refused(&bad, "rate limit: an exempt prefix is malformed or has bits set past its length");
}

/* The state holds a clock of Unix milliseconds, a highest rate and a longest burst. */
Test(ratelimit, extremes_of_the_state) {
  struct ratelimit_config config = config_of(RATELIMIT_ANSWER, 1000000);
  config.burst_ms = RATELIMIT_BURST_MAX;
  config.slip = 255;
  struct ratelimit *limit = open_of(&config);
  const uint64_t now = UINT64_C(4000000000000);
  cr_assert_eq(passes(limit, CLIENT, NAME, 1000, now), 1000);
  ratelimit_close(limit);
}
