/* SPDX-License-Identifier: Apache-2.0 */
/* Layers 1 to 3 in plain form. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "helper.h"

static const char *region_of(const struct steer_domain *d, const struct geo_location *at,
                             const char *client) {
  struct geo_address address;
  helper_address(&address, client);
  return d->regions[fence_match(d, at, &address)].name;
}

Test(fence, the_most_specific_atom_wins) {
  struct steer_domain *d = helper_domain_text(
      "{'endpoints': {'a': ['192.0.2.1']}, 'regions': {"
      "'global': {'a': 1}, 'na': {'a': 1}, 'ca': {'a': 1}, 'ca-qc': {'a': 1}, 'gb-eng': {'a': 1},"
      "'gb-wbk': {'a': 1}, 'asn:64500': {'a': 1}, '10.0.0.0/8': {'a': 1}, '10.1.0.0/16': {'a': 1},"
      "'2001:db8::/32': {'a': 1}, 'us-ca': {'a': 1}}}");
  struct geo_location at = {.continent = "na"};
  cr_expect_str_eq(region_of(d, &at, "192.0.2.1"), "na");
  strcpy(at.country, "ca");
  cr_expect_str_eq(region_of(d, &at, "192.0.2.1"), "ca");
  at.subdivision_count = 1;
  strcpy(at.subdivisions[0], "ca-on");
  cr_expect_str_eq(region_of(d, &at, "192.0.2.1"), "ca");
  strcpy(at.subdivisions[0], "ca-qc");
  cr_expect_str_eq(region_of(d, &at, "192.0.2.1"), "ca-qc");
  at.asn = 64500;
  cr_expect_str_eq(region_of(d, &at, "192.0.2.1"), "asn:64500");
  cr_expect_str_eq(region_of(d, &at, "10.2.0.1"), "10.0.0.0/8");
  cr_expect_str_eq(region_of(d, &at, "10.1.0.1"), "10.1.0.0/16");
  cr_expect_str_eq(region_of(d, &at, "::ffff:10.1.0.1"), "10.1.0.0/16");
  cr_expect_str_eq(region_of(d, &at, "2001:db8::1"), "2001:db8::/32");
  cr_expect_str_eq(region_of(d, &at, "2001:db9::1"), "asn:64500");
  struct geo_location wokingham = {
      .country = "gb", .subdivisions = {"gb-eng", "gb-wbk"}, .subdivision_count = 2};
  cr_expect_str_eq(region_of(d, &wokingham, "192.0.2.1"), "gb-wbk");
  struct geo_location unknown = {.asn = 0};
  cr_expect_str_eq(region_of(d, &unknown, "192.0.2.1"), "global");
  struct geo_location california = {
      .continent = "na", .country = "us", .subdivisions = {"us-ca"}, .subdivision_count = 1};
  cr_expect_str_eq(region_of(d, &california, "192.0.2.1"), "us-ca");
  steer_domain_free(d);
}

/* Five endpoints, three levels; b and d are drained in theirs, e stands in the last level with 0.
 */
static const char levels_text[] =
    "{'endpoints': {'a': ['192.0.2.1', '2001:db8::1'], 'b': ['192.0.2.2'], 'c': ['192.0.2.3'],"
    "'d': ['192.0.2.4'], 'e': ['192.0.2.5', '2001:db8::5'],"
    "'off': {'addresses': ['192.0.2.6'], 'enabled': false}}, 'types': ['A'],"
    "'regions': {'global': [{'a': 10, 'b': 0}, {'c': 5, 'd': 0, 'off': 3}, {'e': 0, 'b': 7}]}}";

/* What is drawn from in global, as text: "level[!]: names". */
static const char *drawn(const struct steer_domain *d, const struct steer_facts *facts) {
  static char text[128];
  struct draw_table *t = draw_table_build(d, 0, STEER_A, facts);
  cr_assert(t);
  int n = sprintf(text, "%d%s:", t->level, t->fallback ? "!" : "");
  for (size_t i = 0; i < t->count; i++)
    n += sprintf(text + n, " %s=%d", d->endpoints[t->items[i].endpoint].name, t->items[i].weight);
  free(t);
  return text;
}

Test(status, levels_and_drained_endpoints) {
  struct steer_domain *d = helper_domain_text(levels_text);
  struct steer_status status[6] = {{0}};
  struct steer_facts facts = {.status = status};
  cr_expect_str_eq(drawn(d, NULL), "1: a=10");
  cr_expect_str_eq(drawn(d, &facts), "1: a=10");
  status[0].health6 = HEALTH_DOWN; /* says nothing about A */
  cr_expect_str_eq(drawn(d, &facts), "1: a=10");
  status[0].health4 = HEALTH_DOWN; /* b is not taken: weight 0 counts as down */
  cr_expect_str_eq(drawn(d, &facts), "2: c=5");
  status[2].health4 = HEALTH_DOWN; /* d is drained, off disabled; e is dropped for its weight */
  cr_expect_str_eq(drawn(d, &facts), "3: b=7");
  status[1].health4 = HEALTH_DOWN; /* in the last level weight 0 is up */
  cr_expect_str_eq(drawn(d, &facts), "3: e=1");
  status[4].health4 = HEALTH_DOWN; /* all down: as if all were healthy */
  cr_expect_str_eq(drawn(d, &facts), "1!: a=10");
  steer_domain_free(d);
}

Test(status, fallback_leaves_out_what_is_disabled_as_long_as_it_can) {
  struct steer_domain *d = helper_domain_text(levels_text);
  struct steer_status status[6] = {{0}};
  struct steer_facts facts = {.status = status};
  for (int i = 0; i < 6; i++)
    status[i].health4 = HEALTH_DOWN;
  status[0].manual = MANUAL_DISABLED;
  cr_expect_str_eq(drawn(d, &facts), "2!: c=5");
  status[5].manual = MANUAL_ENABLED; /* over the configuration */
  cr_expect_str_eq(drawn(d, &facts), "2!: c=5 off=3");
  status[5].manual = MANUAL_NONE;
  status[2].manual = MANUAL_DISABLED;
  cr_expect_str_eq(drawn(d, &facts), "3!: b=7");
  status[1].manual = MANUAL_DISABLED; /* e has weight 0 but stands last: it would be up */
  cr_expect_str_eq(drawn(d, &facts), "3!: e=1");
  status[4].manual = MANUAL_DISABLED; /* only d, drained but not disabled, is left */
  cr_expect_str_eq(drawn(d, &facts), "2!: d=1");
  status[3].manual = MANUAL_DISABLED; /* none is left: all */
  cr_expect_str_eq(drawn(d, &facts), "1!: a=10");
  steer_domain_free(d);
}

Test(status, weights_in_force) {
  struct steer_domain *d = helper_domain_text(levels_text);
  int32_t weights[7] = {-1, -1, -1, -1, -1, -1, -1};
  struct steer_facts facts = {.weights = weights};
  cr_expect_eq(d->entry_count, 7);
  weights[1] = 30;
  cr_expect_str_eq(drawn(d, &facts), "1: a=10 b=30");
  weights[0] = 0;
  cr_expect_str_eq(drawn(d, &facts), "1: b=30");
  weights[1] = 0; /* the level is drained: the next one */
  cr_expect_str_eq(drawn(d, &facts), "2: c=5");
  weights[1] = 65535;
  cr_expect_str_eq(drawn(d, &facts), "1: b=65535");
  steer_domain_free(d);
}

Test(status, types_and_host_names) {
  struct steer_domain *d =
      helper_domain_text("{'endpoints': {'four': ['192.0.2.1'], 'six': ['2001:db8::1'],"
                         "'both': ['192.0.2.2', '2001:db8::2']},"
                         "'regions': {'global': [{'four': 1, 'six': 2, 'both': 3}]}}");
  struct draw_table *t = draw_table_build(d, 0, STEER_AAAA, NULL);
  cr_expect(t->count == 2 && t->total == 5 && t->items[0].endpoint == 1);
  free(t);
  cr_expect_null(draw_table_build(d, 0, STEER_CNAME, NULL));
  steer_domain_free(d);
  d = helper_domain_text("{'endpoints': {'h': 'a.example.', 'i': 'b.example.'},"
                         "'regions': {'global': [{'h': 1, 'i': 0}, {'i': 1}]}}");
  struct steer_status status[2] = {{.health4 = HEALTH_DOWN, .health6 = HEALTH_UP}};
  struct steer_facts facts = {.status = status};
  t = draw_table_build(d, 0, STEER_CNAME, &facts);
  cr_expect(t->level == 1 && t->items[0].endpoint == 0);
  free(t);
  status[0].health6 = HEALTH_DOWN;
  t = draw_table_build(d, 0, STEER_CNAME, &facts);
  cr_expect(t->level == 2 && t->items[0].endpoint == 1);
  free(t);
  cr_expect_null(draw_table_build(d, 0, STEER_A, &facts));
  steer_domain_free(d);
}

Test(priority, keeps_the_best_level_that_is_present) {
  struct layer_entry entries[] = {
      {0, 1, 5, false}, {1, 2, 5, true}, {2, 2, 5, false}, {3, 3, 5, true}, {4, 2, 5, true}};
  cr_expect_eq(priority_filter(entries, 5), 2);
  static const bool expected[] = {false, true, false, false, true};
  for (size_t i = 0; i < 5; i++)
    cr_expect_eq(entries[i].present, expected[i], "entry %zu", i);
}
