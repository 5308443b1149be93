/* SPDX-License-Identifier: Apache-2.0 */
/* Which answers are expected of a steered name, and what is made of those that come. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sync/verify_private.h"
#include "zones/domain_json.h"

static struct steer_domain *domain;
static struct verify_cells cells;
static struct verify_observed seen;
static const struct provider_fidelity exact;

static void start(void) {
  verify_observed_open(&seen);
}

static void end(void) {
  verify_cells_close(&cells);
  verify_observed_close(&seen);
  steer_domain_free(domain);
  domain = NULL;
}

TestSuite(verify, .init = start, .fini = end);

/* Endpoints one (two addresses), two, three and a twin of two; `level` as JSON with ' for ". */
static void model(const char *level, int answers) {
  char text[1024];
  char why[DOMAIN_JSON_WHY];
  snprintf(text, sizeof text,
           "{'owner': 'c.e.', 'ttl': 30, 'answers': %d, 'draw_per': 'query', 'types': ['A'], "
           "'endpoints': [{'name': 'one', 'enabled': true, 'addresses': ['192.0.2.1', "
           "'192.0.2.11']}, {'name': 'two', 'enabled': true, 'addresses': ['192.0.2.2']}, {'name': "
           "'three', 'enabled': true, 'addresses': ['192.0.2.3']}, {'name': 'twin', 'enabled': "
           "true, 'addresses': ['192.0.2.2']}], 'regions': [{'name': 'global', 'atoms': "
           "['global'], 'levels': [%s]}]}",
           answers, level);
  for (char *c = text; *c; c++)
    *c = *c == '\'' ? '"' : *c;
  json_t *json = json_loads(text, 0, NULL);
  domain = domain_json_decode(json, why);
  cr_assert(domain, "%s", why);
  json_decref(json);
}

static void expect(const struct provider_fidelity *fidelity) {
  cr_assert(verify_cells_make(domain, 0, STEER_A, NULL, fidelity, &cells));
}

static double share_of(const char *cell) {
  for (size_t i = 0; i < cells.count; i++)
    if (strcmp(cells.texts[i], cell) == 0)
      return cells.shares[i];
  return -1;
}

/* `times` answers with these addresses. */
static void answer(int times, const char *a, const char *b) {
  struct ask_answer reply = {.answered = true, .authoritative = true};
  reply.records = json_array();
  for (const char *value = a; value; value = value == a ? b : NULL)
    json_array_append_new(reply.records, json_pack("{s:s, s:s, s:i, s:s}", "name", "c.e.", "type",
                                                   "A", "ttl", 30, "value", value));
  for (int i = 0; i < times; i++)
    cr_assert(verify_observed_add(&seen, &reply, "c.e.", "A"));
  json_decref(reply.records);
}

Test(verify, shares_of_sets) {
  model("[['one', 2], ['two', 1], ['twin', 1], ['three', 0]]", 1);
  expect(&exact);
  cr_assert_eq(cells.count, 2); /* equal addresses are one answer */
  cr_assert_eq(share_of("192.0.2.1 192.0.2.11"), .5);
  cr_assert_eq(share_of("192.0.2.2"), .5);
  answer(520, "192.0.2.11", "192.0.2.1"); /* in any order */
  answer(480, "192.0.2.2", NULL);
  cr_assert_gt(verify_chance(&cells, &seen), .1);
  answer(1, "192.0.2.1", NULL); /* a part is none of the answers */
  cr_assert_eq(verify_chance(&cells, &seen), 0);
}

Test(verify, other_shares_and_values) {
  model("[['one', 3], ['two', 1]]", 1);
  expect(&exact);
  answer(1000, "192.0.2.1", "192.0.2.11");
  answer(1000, "192.0.2.2", NULL);
  cr_assert_lt(verify_chance(&cells, &seen), 1e-12);
  answer(2, "198.51.100.1", NULL);
  json_t *shares = verify_shares_observed(&cells, &seen);
  cr_assert_eq(json_object_size(shares), 3);
  cr_assert_float_eq(json_real_value(json_object_get(shares, "198.51.100.1")), 2 / 2002.0, 1e-12);
  json_decref(shares);
}

Test(verify, several_in_an_answer) {
  model("[['one', 4], ['two', 2], ['three', 1]]", 2);
  expect(&exact);
  cr_assert(cells.several && cells.count == 4);
  double one = 4 / 7.0 + 2 / 7.0 * 4 / 5 + 1 / 7.0 * 4 / 6;
  cr_assert_float_eq(share_of("192.0.2.1"), one, 1e-9);
  struct ask_answer reply = {.answered = true, .authoritative = true};
  static const char *const pairs[][3] = {{"192.0.2.1", "192.0.2.11", "192.0.2.2"},
                                         {"192.0.2.1", "192.0.2.11", "192.0.2.3"},
                                         {"192.0.2.2", "192.0.2.3", NULL}};
  /* 4/7*2/3 + 2/7*4/5, 4/7*1/3 + 1/7*4/6, the rest */
  const double chances[] = {8 / 21.0 + 8 / 35.0, 4 / 21.0 + 4 / 42.0, 2 / 35.0 + 2 / 42.0};
  for (size_t i = 0; i < 3; i++) {
    reply.records = json_array();
    for (size_t k = 0; k < 3 && pairs[i][k]; k++)
      json_array_append_new(reply.records, json_pack("{s:s, s:s, s:i, s:s}", "name", "c.e.", "type",
                                                     "A", "ttl", 30, "value", pairs[i][k]));
    for (int n = 0; n < (int)(2000 * chances[i]); n++)
      cr_assert(verify_observed_add(&seen, &reply, "c.e.", "A"));
    json_decref(reply.records);
  }
  cr_assert_gt(verify_chance(&cells, &seen), .5);
  answer(1, "192.0.2.2", NULL); /* too few */
  cr_assert_eq(verify_chance(&cells, &seen), 0);
}

Test(verify, a_lost_weight_layer_leaves_one_endpoint_in_an_answer) {
  struct provider_fidelity lost = {.grade = {[LAYER_WEIGHT] = FIDELITY_LOST}};
  model("[['one', 1], ['two', 1]]", 2);
  expect(&lost);
  cr_assert(!cells.several);
  cr_assert_eq(share_of("192.0.2.1 192.0.2.11"), .5);
}

Test(verify, scaled_weights_may_be_off_as_declared) {
  struct provider_fidelity scaled = {.grade = {[LAYER_WEIGHT] = FIDELITY_APPROX},
                                     .error = {[LAYER_WEIGHT] = .02}};
  model("[['one', 500], ['two', 500]]", 1);
  expect(&scaled);
  answer(10300, "192.0.2.1", "192.0.2.11");
  answer(9700, "192.0.2.2", NULL);
  cr_assert_gt(verify_chance(&cells, &seen), .5); /* 51.5 %: within */
  answer(2000, "192.0.2.1", "192.0.2.11");        /* 55.9 % */
  cr_assert_lt(verify_chance(&cells, &seen), 1e-9);
}

Test(verify, where_an_answer_is_one_address_the_endpoints_shares_stay) {
  struct provider_fidelity one_address = {.grade = {[LAYER_WEIGHT] = FIDELITY_APPROX}};
  model("[['one', 3], ['two', 1]]", 1);
  expect(&one_address);
  answer(740, "192.0.2.1", NULL);
  answer(760, "192.0.2.11", NULL);
  answer(500, "192.0.2.2", NULL);
  cr_assert_gt(verify_chance(&cells, &seen), .5);
  answer(500, "192.0.2.2", NULL);
  cr_assert_lt(verify_chance(&cells, &seen), 1e-9);
}

Test(verify, one_set_and_none) {
  json_t *values = json_pack("[s, s]", "192.0.2.2", "192.0.2.1");
  cr_assert(verify_cells_set(values, &cells));
  json_decref(values);
  answer(3, "192.0.2.1", "192.0.2.2");
  cr_assert_eq(verify_chance(&cells, &seen), 1);
  verify_cells_close(&cells);
  cr_assert(verify_cells_set(NULL, &cells));
  cr_assert_eq(verify_chance(&cells, &seen), 0);
  verify_observed_close(&seen);
  verify_observed_open(&seen);
  answer(2, NULL, NULL);
  cr_assert_eq(verify_chance(&cells, &seen), 1);
}

Test(verify, what_is_no_answer) {
  struct ask_answer reply = {.answered = true, .authoritative = true, .rcode = 5};
  cr_assert(verify_observed_add(&seen, &reply, "c.e.", "A"));
  cr_assert_str_eq(seen.why, "it answers REFUSED");
  reply.rcode = 77;
  cr_assert(verify_observed_add(&seen, &reply, "c.e.", "A"));
  cr_assert_str_eq(seen.why, "it answers RCODE 77");
  reply.rcode = 0;
  reply.authoritative = false;
  cr_assert(verify_observed_add(&seen, &reply, "c.e.", "A"));
  cr_assert(seen.silent == 3 && seen.answers == 0);
  reply.authoritative = true;
  reply.rcode = 3;
  cr_assert(verify_observed_add(&seen, &reply, "c.e.", "A"));
  cr_assert(seen.answers == 1 && json_object_get(seen.sets, "NXDOMAIN"));
}
