/* SPDX-License-Identifier: Apache-2.0 */
/* A domain that broke an invariant must not pass for a valid one. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "helper.h"

static const char text[] =
    "{'endpoints': {'a': ['192.0.2.1', '2001:db8::1'], 'b': ['192.0.2.2']}, 'types': ['A'],"
    "'regions': {'global': [{'a': 1, 'b': 2}, {'b': 3}], 'Ca': {'a': 1}, '10.0.0.0/8': {'b': 1},"
    "'ca-qc': {'a': 1}, 'asn:64500': {'a': 1}}}";

static void no_owner(struct steer_domain *d) {
  free(d->owner);
  d->owner = NULL;
}
static void big_ttl(struct steer_domain *d) {
  d->ttl = 0x80000000U;
}
static void zero_answers(struct steer_domain *d) {
  d->answers = 0;
}
static void many_answers(struct steer_domain *d) {
  d->answers = 17;
}
static void odd_draw_per(struct steer_domain *d) {
  d->draw_per = (enum steer_draw_per)7;
}
static void no_type(struct steer_domain *d) {
  d->offers[STEER_A] = false;
}
static void cname_of_addresses(struct steer_domain *d) {
  d->offers[STEER_CNAME] = true;
}
static void type_not_in_each_level(struct steer_domain *d) {
  d->offers[STEER_AAAA] = true;
}
static void mixed_kinds(struct steer_domain *d) {
  d->endpoints[1].addr4_count = 0;
  d->endpoints[1].host = calloc(1, 16);
}
static void empty_endpoint(struct steer_domain *d) {
  d->endpoints[1].addr4_count = 0;
}
static void unnamed_endpoint(struct steer_domain *d) {
  d->endpoints[1].name[0] = '\0';
}
static void missing_addresses(struct steer_domain *d) {
  d->endpoints[0].addr6_count = 1;
  free(d->endpoints[0].addr6);
  d->endpoints[0].addr6 = NULL;
}
static void unnamed_region(struct steer_domain *d) {
  d->regions[1].name[0] = '\0';
}
static void no_global(struct steer_domain *d) {
  d->regions[0].atoms[0] = d->regions[1].atoms[0];
  d->regions[0].atoms[0].code[0] = 'u';
}
static void same_atom_twice(struct steer_domain *d) {
  d->regions[2].atoms[0] = d->regions[1].atoms[0];
}
static void no_atoms(struct steer_domain *d) {
  d->regions[1].atom_count = 0;
}
static void odd_kind(struct steer_domain *d) {
  d->regions[1].atoms[0].kind = (enum steer_atom_kind)77;
}
static void endless_code(struct steer_domain *d) {
  memset(d->regions[1].atoms[0].code, 'x', 8);
}
static void endless_subdivision(struct steer_domain *d) {
  memset(d->regions[3].atoms[0].code + 2, '-', 6);
}
static void zero_asn(struct steer_domain *d) {
  d->regions[4].atoms[0].asn = 0;
}
static void long_net(struct steer_domain *d) {
  d->regions[2].atoms[0].net_bits = 33;
}
static void host_bits(struct steer_domain *d) {
  d->regions[2].atoms[0].net[3] = 1;
}
static void no_family(struct steer_domain *d) {
  d->regions[2].atoms[0].net_family = 5;
}
static void no_levels(struct steer_domain *d) {
  free(d->regions[4].levels[0].entries);
  d->regions[4].level_count = 0;
}
static void empty_level(struct steer_domain *d) {
  d->regions[1].levels[0].entry_count = 0;
}
static void endpoint_out_of_range(struct steer_domain *d) {
  d->regions[1].levels[0].entries[0].endpoint = 2;
}
static void endpoint_twice(struct steer_domain *d) {
  d->regions[0].levels[0].entries[1].endpoint = 0;
}
static void wrong_count(struct steer_domain *d) {
  d->entry_count++;
}

struct mutation {
  void (*apply)(struct steer_domain *);
  const char *why;
};

static const struct mutation mutations[] = {
    {no_owner, "owner"},
    {big_ttl, "TTL"},
    {zero_answers, "answers"},
    {many_answers, "answers"},
    {odd_draw_per, "draw_per"},
    {no_type, "no type"},
    {cname_of_addresses, "no endpoint has"},
    {type_not_in_each_level, "a level has no endpoint"},
    {mixed_kinds, "all addresses or all host names"},
    {empty_endpoint, "either addresses or a host name"},
    {unnamed_endpoint, "no name"},
    {missing_addresses, "missing"},
    {unnamed_region, "region has no name"},
    {no_global, "no global"},
    {same_atom_twice, "two regions"},
    {no_atoms, "no atoms"},
    {odd_kind, "unknown kind"},
    {endless_code, "two letters"},
    {endless_subdivision, "malformed"},
    {zero_asn, "AS number"},
    {long_net, "too long"},
    {host_bits, "host bits"},
    {no_family, "family"},
    {no_levels, "levels"},
    {empty_level, "empty"},
    {endpoint_out_of_range, "does not exist"},
    {endpoint_twice, "twice"},
    {wrong_count, "count of entries"},
};

Test(model, validate) {
  for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++) {
    struct steer_domain *d = helper_domain_text(text);
    const char *why = NULL;
    mutations[i].apply(d);
    cr_expect_not(steer_domain_validate(d, &why), "no complaint about %s", mutations[i].why);
    cr_expect(why && strstr(why, mutations[i].why), "%s, not %s", why ? why : "-",
              mutations[i].why);
    steer_domain_free(d);
  }
}

Test(model, find) {
  struct steer_domain *d = helper_domain_text(text);
  cr_expect_eq(steer_endpoint_find(d, "b"), 1);
  cr_expect_eq(steer_endpoint_find(d, "B"),
               -1); /* endpoints with regard to case, regions without */
  cr_expect_eq(steer_region_find(d, "cA"), 1);
  cr_expect_eq(steer_region_find(d, "us"), -1);
  steer_domain_free(d);
  steer_domain_free(NULL);
}

/* A builder that failed half-way frees what there is. */
Test(model, free_of_a_half_made_domain) {
  struct steer_domain *d = calloc(1, sizeof *d);
  d->endpoint_count = 3;
  d->region_count = 2;
  d->regions = calloc(2, sizeof *d->regions);
  d->regions[0].level_count = 4;
  steer_domain_free(d);
}
