/* SPDX-License-Identifier: Apache-2.0 */
/* Networks of a region: layer 1 puts each address of them there. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "helper.h"
#include "steering/geo_place.h"

static struct geo_address address_of(const struct geo_place *place, bool last) {
  struct geo_address a = {.family = place->family};
  memcpy(a.octets, place->octets, sizeof a.octets);
  for (unsigned bit = place->bits; last && bit < (place->family == 4 ? 32U : 128U); bit++)
    a.octets[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
  return a;
}

static void check(const struct geo_db *db, const struct steer_domain *domain, uint32_t region,
                  const struct geo_places *places) {
  struct geo_table *table = geo_table_build(db, domain);
  for (size_t i = 0; i < places->count; i++)
    for (int last = 0; last < 2; last++) {
      struct geo_address a = address_of(&places->items[i], last);
      struct geo_outcome outcome = geo_table_lookup(table, &a);
      cr_expect_eq(outcome.region, region, "region %u, place %zu", region, i);
      cr_expect(outcome.scope <= places->items[i].bits);
    }
  geo_table_free(table);
}

/* Finds for all regions, and returns how many of them have a place. */
static size_t find(const struct geo_db *db, const struct steer_domain *domain, uint8_t family,
                   struct geo_places *out) {
  size_t known = 0;
  cr_assert(geo_places_find(db, domain, NULL, family, out));
  for (uint32_t r = 0; r < domain->region_count; r++) {
    check(db, domain, r, &out[r]);
    known += out[r].count > 0;
  }
  return known;
}

Test(place, of_all_kinds_of_regions) {
  struct geo_db *db = helper_db("geo/test-city.mmdb", NULL);
  struct steer_domain *domain = helper_domain_text(
      "{'endpoints': {'a': ['192.0.2.1']}, 'regions': {'global': [{'a': 1}], 'eu': [{'a': 1}], "
      "'no': "
      "[{'a': 1}], 'ca-qc': [{'a': 1}], 'country:na': [{'a': 1}], 'fr': [{'a': 1}]}}");
  struct geo_places four[6], six[6];
  cr_assert_eq(find(db, domain, 4, four), 6);
  cr_assert_eq(find(db, domain, 6, six), 5); /* France has no IPv6 there */
  cr_assert_eq(four[1].items[0].bits, 24);   /* a large one first */
  cr_assert_eq(four[2].items[0].bits, 27);   /* Norway is smaller than what resolvers send */
  cr_assert_eq(six[3].items[0].bits, 56);
  steer_domain_free(domain);
  geo_db_free(db);
}

Test(place, of_networks_without_any_database) {
  struct steer_domain *domain = helper_domain_text(
      "{'endpoints': {'a': ['192.0.2.1']}, 'regions': {'global': [{'a': 1}], '10.0.0.0/8': [{'a': "
      "1}], "
      "'10.0.0.0/24': [{'a': 1}], '192.0.2.9/32': [{'a': 1}], '2001:db8::/32': [{'a': 1}], 'eu': "
      "[{'a': 1}]}}");
  struct geo_places places[6];
  cr_assert_eq(find(NULL, domain, 4, places), 3); /* the first /24 of 10/8 belongs to the other */
  cr_assert_eq(places[1].count, 0);
  cr_assert_eq(places[2].items[0].bits, 24);
  cr_assert_eq(places[3].items[0].bits, 32);
  cr_assert_eq(find(NULL, domain, 6, places), 1); /* documentation is taken: no place of global */
  cr_assert_eq(places[4].items[0].bits, 56);
  steer_domain_free(domain);
}

Test(place, where_another_domain_agrees) {
  struct geo_db *db = helper_db("geo/test-city.mmdb", NULL);
  struct steer_domain *domain = helper_domain_text(
      "{'endpoints': {'a': ['192.0.2.1']}, 'regions': {'global': [{'a': 1}], 'ca': "
      "[{'a': 1}], 'ca-qc': [{'a': 1}]}}");
  struct steer_domain *less = helper_domain_text(
      "{'endpoints': {'a': ['192.0.2.1']}, 'regions': {'global': [{'a': 1}], 'ca': "
      "[{'a': 1}], 'us': [{'a': 1}]}}");
  struct geo_places places[3];
  cr_assert(geo_places_find(db, domain, less, 4, places));
  check(db, domain, 0, &places[0]);
  check(db, less, 0, &places[0]);
  check(db, domain, 1, &places[1]);
  check(db, less, 1, &places[1]);
  cr_assert(places[0].count > 0 && places[1].count > 0);
  cr_assert_eq(places[2].count, 0); /* Quebec is only `ca` there */
  steer_domain_free(domain);
  steer_domain_free(less);
  geo_db_free(db);
}
