/* SPDX-License-Identifier: Apache-2.0 */
/* Location files: what they say, whichever way they are made. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "geo_points.h"
#include "helper.h"
#include "steering/atom.h"

static void lower(char *out, const char *prefix, const char *text) {
  out += sprintf(out, "%s", prefix);
  for (; text && *text; text++)
    *out++ = (char)tolower((unsigned char)*text);
  *out = '\0';
}

static const char *member(const json_t *item, const char *key) {
  return json_string_value(json_object_get(item, key));
}

/* What a record of the list must become. */
static void expected_place(const json_t *item, bool flat, struct geo_location *want) {
  char prefix[8];
  *want = (struct geo_location){.asn = 0};
  if (!item)
    return;
  const char *country = member(item, "country");
  if (!country && !flat)
    country = member(item, "registered_country");
  lower(want->country, "", country);
  if (!flat)
    lower(want->continent, "", member(item, "continent"));
  if (!want->continent[0] && country)
    strcpy(want->continent, steer_country_continent(want->country));
  snprintf(prefix, sizeof prefix, "%s-", want->country);
  const char *keys[] = {"subdivision", "subdivision2"};
  for (unsigned i = 0; i < (flat ? 1 : 2); i++)
    if (country && member(item, keys[i]))
      lower(want->subdivisions[want->subdivision_count++], prefix, member(item, keys[i]));
}

static void check_places(const struct geo_db *db, const char *name, bool flat, unsigned bits) {
  static const struct steer_domain no_regions;
  json_t *list = json_load_file(helper_path("geo/locations.json"), 0, NULL);
  struct points points;
  points_open(&points, bits, &no_regions);
  for (size_t i = 0; i < points.count; i++) {
    struct geo_address address;
    struct geo_location got, want;
    points_address(&points, points.items[i], &address);
    const json_t *item = points_place(list, &address);
    if (bits == 128 && !item)
      continue; /* aliases have a test of their own */
    expected_place(item, flat, &want);
    geo_db_locate(db, &address, &got);
    cr_expect_str_eq(got.continent, want.continent, "%s: %s", name, member(item, "net"));
    cr_expect_str_eq(got.country, want.country, "%s: %s", name, member(item, "net"));
    cr_expect_eq(got.subdivision_count, want.subdivision_count, "%s", name);
    cr_expect_str_eq(got.subdivisions[0], want.subdivisions[0], "%s", name);
    cr_expect_str_eq(got.subdivisions[1], want.subdivisions[1], "%s", name);
  }
  points_close(&points);
  json_decref(list);
}

Test(geo, both_schemas_as_given) {
  struct geo_db *city = helper_db("geo/test-city.mmdb", NULL);
  struct geo_db *flat = helper_db("geo/test-flat.mmdb", NULL);
  check_places(city, "city", false, 32);
  check_places(city, "city", false, 128);
  check_places(flat, "flat", true, 32);
  check_places(flat, "flat", true, 128);
  cr_expect(geo_db_has_ipv6(city) && geo_db_has_ipv6(flat));
  cr_expect_gt(geo_db_build_epoch(city), 1000000000);
  geo_db_free(city);
  geo_db_free(flat);
}

static struct geo_db *made(const char *name) {
  struct geo_db *db;
  char path[1024], why[512] = "";
  const char *root = getenv("SLUICE_TESTS_MADE");
  cr_assert(root, "SLUICE_TESTS_MADE is not set");
  snprintf(path, sizeof path, "%s/%s", root, name);
  cr_assert(geo_db_load(path, NULL, &db, why), "%s", why);
  return db;
}

Test(geo, record_sizes_and_versions) {
  static const char *const names[] = {"city6-24.mmdb", "city6-28.mmdb", "city6-32.mmdb",
                                      "city4-24.mmdb", "city4-28.mmdb", "city4-32.mmdb"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct geo_db *db = made(names[i]);
    bool six = strncmp(names[i], "city6", 5) == 0;
    check_places(db, names[i], false, 32);
    if (six)
      check_places(db, names[i], false, 128);
    cr_expect_eq(geo_db_has_ipv6(db), six);
    cr_expect_eq(geo_db_build_epoch(db), 1700000000);
    geo_db_free(db);
  }
}

static const char *country_at(const struct geo_db *db, const char *text) {
  static struct geo_location at;
  struct geo_address address;
  helper_address(&address, text);
  geo_db_locate(db, &address, &at);
  return at.country;
}

Test(geo, ipv4_inside_ipv6) {
  struct geo_db *db = made("city6-24.mmdb");
  cr_expect_str_eq(country_at(db, "203.0.113.5"), "no");
  cr_expect_str_eq(country_at(db, "::ffff:203.0.113.5"), "no");
  cr_expect_str_eq(country_at(db, "::203.0.113.5"), "no");
  cr_expect_str_eq(country_at(db, "2002:cb00:7105::1"), "no");
  cr_expect_str_eq(country_at(db, "2002:cb00:7125:ffff::1"), "na");
  cr_expect_str_eq(country_at(db, "2001:0:cb00:7105::1"), "no");
  cr_expect_str_eq(country_at(db, "64:ff9b::203.0.113.5"), "");
  cr_expect_str_eq(country_at(db, "2003:cb00:7105::1"), "");
  geo_db_free(db);
  /* Without aliases in the file the same addresses are nowhere. */
  db = made("city4-24.mmdb");
  cr_expect_str_eq(country_at(db, "::ffff:203.0.113.5"), "no");
  cr_expect_str_eq(country_at(db, "2002:cb00:7105::1"), "");
  cr_expect_str_eq(country_at(db, "2001:db8:105::1"), "");
  geo_db_free(db);
}

Test(geo, no_database) {
  struct geo_location at;
  struct geo_address address;
  helper_address(&address, "192.0.2.1");
  memset(&at, 1, sizeof at);
  geo_db_locate(NULL, &address, &at);
  cr_expect(!at.continent[0] && !at.country[0] && !at.subdivision_count && !at.asn);
  struct geo_db *db = helper_db(NULL, NULL);
  cr_expect_str_eq(country_at(db, "203.0.113.5"), "");
  cr_expect_eq(geo_db_build_epoch(db), 0);
  cr_expect_not(geo_db_has_ipv6(db));
  geo_db_free(db);
}

Test(geo, as_numbers) {
  struct geo_db *db;
  char path[1024], why[512] = "";
  snprintf(path, sizeof path, "%s/asn6.mmdb", getenv("SLUICE_TESTS_MADE"));
  cr_assert(geo_db_load(NULL, path, &db, why), "%s", why);
  static const struct {
    const char *address;
    uint32_t asn;
  } cases[] = {{"198.51.100.1", 64500},     {"198.51.100.64", 64501},   {"198.51.100.96", 0},
               {"100.127.0.1", 4200000000}, {"2001:db8:101::1", 64500}, {"2001:db8:102::1", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct geo_address address;
    struct geo_location at;
    helper_address(&address, cases[i].address);
    geo_db_locate(db, &address, &at);
    cr_expect_eq(at.asn, cases[i].asn, "%s: %u", cases[i].address, at.asn);
  }
  geo_db_free(db);
}
