/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flattened table against the plain rule, exactly: between two neighbouring points of
 * geo_points.h nothing changes, so comparing at all points of a prefix proves its region and its
 * scope.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "geo_points.h"
#include "helper.h"

static const char *const pool[] = {"na",
                                   "eu",
                                   "as",
                                   "af",
                                   "oc",
                                   "an",
                                   "sa",
                                   "ca",
                                   "us",
                                   "no",
                                   "de",
                                   "country:na",
                                   "country:as",
                                   "gb",
                                   "jp",
                                   "ca-qc",
                                   "ca-on",
                                   "us-ca",
                                   "us-ny",
                                   "gb-eng",
                                   "gb-wbk",
                                   "jp-13",
                                   "de-be",
                                   "asn:64500",
                                   "asn:64501",
                                   "asn:64502",
                                   "asn:4200000000",
                                   "asn:1",
                                   "0.0.0.0/0",
                                   "0.0.0.0/1",
                                   "128.0.0.0/1",
                                   "198.51.100.0/24",
                                   "198.51.100.64/27",
                                   "198.51.100.77/32",
                                   "192.0.2.128/25",
                                   "100.64.0.0/10",
                                   "100.69.0.0/16",
                                   "100.69.128.0/17",
                                   "255.255.255.255/32",
                                   "0.0.0.0/32",
                                   "::/0",
                                   "2001:db8::/32",
                                   "2001:db8:100::/47",
                                   "2001:db8:100:8000::/49",
                                   "2001:db8:102::1/128",
                                   "2002::/16",
                                   "2002:c633:6400::/40",
                                   "2001::/32",
                                   "::/128",
                                   "ffff::/16",
                                   "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
                                   "fc00::/7"};
enum { POOL = sizeof pool / sizeof *pool };

/* A domain of `global` and each atom of the pool with the given chance in 64. */
static struct steer_domain *random_domain(struct rng *rng, unsigned chance) {
  char text[8192];
  int n = sprintf(text, "{'endpoints': {'a': ['192.0.2.1']}, 'regions': {'global': {'a': 1}");
  for (size_t i = 0; i < POOL; i++)
    if (rng_below(rng, 64) < chance)
      n += sprintf(text + n, ", '%s': {'a': 1}", pool[i]);
  sprintf(text + n, "}}");
  return helper_domain_text(text);
}

struct check {
  const struct geo_db *db;
  const struct steer_domain *domain;
  const struct geo_table *table;
  struct points points;
  uint32_t *regions; /* of the points, by the plain rule */
};

static uint32_t plain(const struct check *c, u128 number) {
  struct geo_address address;
  struct geo_location at;
  points_address(&c->points, number, &address);
  geo_db_locate(c->db, &address, &at);
  return fence_match(c->domain, &at, &address);
}

/* True if all addresses of the prefix of `scope` bits around `number` have its region. */
static bool uniform(const struct check *c, u128 number, unsigned scope, uint32_t region) {
  u128 host = scope == 0 ? ~(u128)0 : ((u128)1 << (c->points.bits - scope)) - 1;
  if (c->points.bits == 32)
    host &= UINT32_MAX;
  u128 first = number & ~host, last = number | host;
  for (size_t i = 0; i < c->points.count; i++) {
    u128 from = c->points.items[i];
    bool open_end = i + 1 == c->points.count;
    if (from > last || (!open_end && c->points.items[i + 1] - 1 < first))
      continue;
    if (c->regions[i] != region)
      return false;
  }
  return true;
}

static void check_at(const struct check *c, u128 number) {
  struct geo_address address;
  points_address(&c->points, number, &address);
  struct geo_outcome got = geo_table_lookup(c->table, &address);
  uint32_t want = plain(c, number);
  unsigned min = c->domain->region_count > 1 ? 1 : 0;
  cr_assert_eq(got.region, want, "%u bits: region %u, not %u", c->points.bits, got.region, want);
  cr_assert(got.scope >= min && got.scope <= c->points.bits);
  cr_assert(uniform(c, number, got.scope, want), "scope %u is too coarse", got.scope);
  if (got.scope > min)
    cr_assert_not(uniform(c, number, got.scope - 1U, want), "scope %u is too fine", got.scope);
}

static u128 random_number(struct rng *rng, unsigned bits) {
  u128 number = (u128)rng_next(rng) << 64 | rng_next(rng);
  return bits == 32 ? (uint32_t)number : number;
}

static void check_family(struct check *c, unsigned bits, struct rng *rng) {
  points_open(&c->points, bits, c->domain);
  c->regions = calloc(c->points.count, sizeof *c->regions);
  for (size_t i = 0; i < c->points.count; i++)
    c->regions[i] = plain(c, c->points.items[i]);
  u128 max = bits == 32 ? UINT32_MAX : ~(u128)0;
  for (size_t i = 0; i < c->points.count; i++) {
    u128 at = c->points.items[i];
    u128 next = i + 1 < c->points.count ? c->points.items[i + 1] : max;
    check_at(c, at);
    check_at(c, at == 0 ? max : at - 1);
    check_at(c, at + random_number(rng, bits) % (next - at + 1));
    check_at(c, random_number(rng, bits));
  }
  free(c->regions);
  points_close(&c->points);
}

static void check_domain(const struct geo_db *db, const struct steer_domain *d, struct rng *rng) {
  struct check c = {.db = db, .domain = d, .table = geo_table_build(db, d)};
  cr_assert(c.table);
  cr_expect_gt(geo_table_memory(c.table), 0);
  check_family(&c, 32, rng);
  check_family(&c, 128, rng);
  geo_table_free((struct geo_table *)c.table);
}

static struct geo_db *made(const char *geo, const char *asn) {
  char paths[2][1024], why[512] = "";
  const char *root = getenv("SLUICE_TESTS_MADE");
  struct geo_db *db;
  cr_assert(root, "SLUICE_TESTS_MADE is not set");
  snprintf(paths[0], sizeof paths[0], "%s/%s", root, geo);
  snprintf(paths[1], sizeof paths[1], "%s/%s", root, asn ? asn : "");
  cr_assert(geo_db_load(paths[0], asn ? paths[1] : NULL, &db, why), "%s", why);
  return db;
}

Test(table, decides_as_the_plain_rule) {
  static const unsigned chances[] = {0, 1, 4, 16, 40, 64};
  struct rng rng;
  rng_seed(&rng, 20);
  struct geo_db *dbs[] = {
      helper_db("geo/test-city.mmdb", NULL), helper_db("geo/test-flat.mmdb", NULL),
      made("city6-28.mmdb", "asn6.mmdb"),    made("city4-24.mmdb", "asn6.mmdb"),
      made("city6-32.mmdb", "asn4.mmdb"),    helper_db(NULL, NULL)};
  for (size_t i = 0; i < sizeof dbs / sizeof *dbs; i++) {
    for (size_t k = 0; k < 6; k++) {
      struct steer_domain *d = random_domain(&rng, chances[k]);
      check_domain(dbs[i], d, &rng);
      steer_domain_free(d);
    }
    geo_db_free(dbs[i]);
  }
}

Test(table, without_a_database_only_nets_and_global_decide) {
  struct rng rng;
  rng_seed(&rng, 21);
  struct steer_domain *d = random_domain(&rng, 64);
  check_domain(NULL, d, &rng);
  steer_domain_free(d);
}

Test(table, scopes_of_known_cases) {
  struct geo_db *db = helper_db("geo/test-city.mmdb", NULL);
  struct steer_domain *d = helper_domain_text(
      "{'endpoints': {'a': ['192.0.2.1']}, 'regions': {'global': {'a': 1}, 'ca': {'a': 1},"
      "'ca-qc': {'a': 1}}}");
  struct geo_table *t = geo_table_build(db, d);
  static const struct {
    const char *address;
    uint16_t region;
    uint8_t scope;
  } cases[] = {{"198.51.100.1", 2, 25},    {"198.51.100.200", 1, 25},
               {"1.1.1.1", 0, 1},          {"203.0.113.1", 0, 5},
               {"198.51.101.1", 0, 24},    {"2001:db8:100::1", 2, 48},
               {"2001:db8:101::1", 1, 48}, {"2001:db8:102::1", 0, 47},
               {"8000::1", 0, 1},          {"::ffff:198.51.100.1", 2, 25}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct geo_address address;
    helper_address(&address, cases[i].address);
    struct geo_outcome o = geo_table_lookup(t, &address);
    cr_expect(o.region == cases[i].region && o.scope == cases[i].scope, "%s: region %u scope %u",
              cases[i].address, o.region, o.scope);
  }
  geo_table_free(t);
  steer_domain_free(d);
  d = helper_domain_text("{'endpoints': {'a': ['192.0.2.1']}, 'regions': {'global': {'a': 1}}}");
  t = geo_table_build(db, d);
  struct geo_address address;
  helper_address(&address, "198.51.100.1");
  cr_expect_eq(geo_table_lookup(t, &address).scope, 0);
  geo_table_free(t);
  steer_domain_free(d);
  geo_db_free(db);
}

Test(table, keys) {
  struct steer_domain *a = helper_domain_text(
      "{'endpoints': {'a': ['192.0.2.1']}, 'regions': {'global': {'a': 1}, 'ca': {'a': 1}}}");
  struct steer_domain *b = helper_domain_text(
      "{'endpoints': {'x': ['192.0.2.9']}, 'regions': {'global': {'x': 7}, 'CA': {'x': 1}}}");
  struct steer_domain *c = helper_domain_text(
      "{'endpoints': {'a': ['192.0.2.1']}, 'regions': {'ca': {'a': 1}, 'global': {'a': 1}}}");
  struct steer_domain *d = helper_domain_text(
      "{'endpoints': {'a': ['192.0.2.1']}, 'regions': {'global': {'a': 1}, 'us': {'a': 1}}}");
  cr_expect(geo_table_same_key(a, b));
  cr_expect_eq(geo_table_key_hash(a), geo_table_key_hash(b));
  cr_expect_not(geo_table_same_key(a, c));
  cr_expect_not(geo_table_same_key(a, d));
  cr_expect_neq(geo_table_key_hash(a), geo_table_key_hash(d));
  steer_domain_free(a);
  steer_domain_free(b);
  steer_domain_free(c);
  steer_domain_free(d);
}
