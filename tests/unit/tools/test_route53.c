/* SPDX-License-Identifier: Apache-2.0 */
/* Route 53: scaled weights, names and escapes, XML that is refused, batches. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tools/providers/route53_private.h"

TestSuite(route53);

/* ---- weights -------------------------------------------------------------------------------- */

static void check_scaled(const uint32_t *weights, size_t count) {
  uint32_t out[ROUTE53_GROUP_MAX];
  double error = route53_scale(weights, count, out);
  double before = 0;
  double after = 0;
  for (size_t i = 0; i < count; i++) {
    cr_assert_leq(out[i], ROUTE53_WEIGHT_MAX);
    cr_assert_eq(out[i] == 0, weights[i] == 0);
    before += weights[i];
    after += out[i];
  }
  for (size_t i = 0; i < count && before > 0; i++)
    cr_assert_leq(fabs(weights[i] / before - out[i] / after), error + 1e-9);
}

Test(route53, weights_in_range_stay) {
  const uint32_t weights[] = {0, 1, 254, 255};
  uint32_t out[4];
  cr_assert_eq(route53_scale(weights, 4, out), 0);
  cr_assert_arr_eq(out, weights, sizeof weights);
}

Test(route53, random_weights_are_scaled_within_the_error_told) {
  struct rng rng;
  rng_seed(&rng, 53);
  for (int round = 0; round < 300; round++) {
    uint32_t weights[ROUTE53_GROUP_MAX];
    size_t count = 1 + rng_below(&rng, round % 10 == 0 ? ROUTE53_GROUP_MAX : 9);
    for (size_t i = 0; i < count; i++)
      weights[i] = rng_below(&rng, 4) == 0 ? 0 : rng_below(&rng, 1U << (1 + rng_below(&rng, 16)));
    check_scaled(weights, count);
  }
}

/* ---- texts ---------------------------------------------------------------------------------- */

Test(route53, names) {
  char out[NAME_MAX_TEXT];
  cr_assert(route53_name("\\052.E.Test", out));
  cr_assert_str_eq(out, "*.e.test.");
  cr_assert(!route53_name("a..b", out));
  cr_assert(!route53_name("", out) || strcmp(out, ".") == 0);
  char *octal = route53_octal_name("a\\@b\\200.e.test.");
  cr_assert_str_eq(octal, "a\\100b\\310.e.test.");
  free(octal);
  char *decimal = route53_decimal("\"\\310\\\"x\"");
  cr_assert_str_eq(decimal, "\"\\200\\\"x\"");
  free(decimal);
}

Test(route53, helper_names_lead_back) {
  char a[NAME_MAX_TEXT];
  char b[NAME_MAX_TEXT];
  char domain[NAME_MAX_TEXT];
  char kind;
  unsigned level;
  cr_assert(route53_helper("cdn.e.test.", "eu-west", 'p', 12, a));
  cr_assert_str_eq(a, "_st-eu-west-p12.cdn.e.test.");
  cr_assert(route53_helper_domain(a, domain, &kind, &level));
  cr_assert_str_eq(domain, "cdn.e.test.");
  cr_assert(kind == 'p' && level == 12);
  cr_assert(route53_helper("*.e.test.", "eu", 'f', 1, a));
  cr_assert(route53_helper_domain(a, domain, &kind, &level));
  cr_assert_str_eq(domain, "*.e.test.");
  /* Names that look alike in a label stay apart. */
  cr_assert(route53_helper("e.test.", "a.b", 'p', 1, a) &&
            route53_helper("e.test.", "a_b", 'p', 1, b));
  cr_assert_str_neq(a, b);
  cr_assert(!route53_helper_domain("_st-p.e.test.", domain, &kind, &level));
  cr_assert(!route53_helper_domain("_st-a-x1.e.test.", domain, &kind, &level));
  cr_assert(!route53_helper_domain("www.e.test.", domain, &kind, &level));
}

/* ---- XML ------------------------------------------------------------------------------------ */

Test(route53, xml_with_a_dtd_is_refused) {
  static const char *const wrong[] = {
      "",
      "<a>",
      "<b/>",
      "<!DOCTYPE a SYSTEM 'http://127.0.0.1/x'><a/>",
      "<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>&x;</a>",
      "<a>&unknown;</a>",
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    cr_assert_null(route53_parse(wrong[i], strlen(wrong[i]), "a"), "%s", wrong[i]);
  xmlDoc *doc = route53_parse("<a><b>x</b></a>", 15, "a");
  cr_assert(doc);
  char *text = route53_text(xmlDocGetRootElement(doc), "b");
  cr_assert_str_eq(text, "x");
  free(text);
  xmlFreeDoc(doc);
}

/* ---- batches -------------------------------------------------------------------------------- */

enum { MANY = 3000 };

/* Changes of weighted or plain sets, made in memory that the test leaves to its end. */
struct list {
  struct provider_objects objects[2 * MANY];
  struct provider_change changes[2 * MANY];
  size_t count;
};

static void add(struct list *l, enum provider_op op, const char *name, const char *type,
                const char *domain, json_t *body) {
  static char identifier[24];
  struct provider_objects *one = &l->objects[l->count];
  provider_objects_init(one);
  snprintf(identifier, sizeof identifier, "sluice e%zu", l->count);
  struct provider_object *o = route53_add(one, name, type, identifier, domain, NULL, body);
  cr_assert(o);
  l->changes[l->count++] = (struct provider_change){
      .op = op, .old = op == PROVIDER_CREATE ? NULL : o, .new = op == PROVIDER_DELETE ? NULL : o};
}

static json_t *plain(void) {
  return json_pack("{s:i, s:[s]}", "ttl", 30, "values", "192.0.2.1");
}

static json_t *alias(const char *kind, const char *target) {
  return json_pack("{s:s, s:s, s:b}", kind, "global", "alias", target, "evaluate", 0);
}

static void close_list(struct list *l) {
  for (size_t i = 0; i < l->count; i++)
    provider_objects_close(&l->objects[i]);
  free(l);
}

Test(route53, batches_keep_names_whole_and_in_order) {
  struct list *l = calloc(1, sizeof *l);
  struct route53_batches batches;
  const char *too_large;
  char name[40];
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < MANY / 3; i++) {
      snprintf(name, sizeof name, "n%d.e.test.", i * 7 % (MANY / 3));
      add(l, PROVIDER_CREATE, name, round ? "A" : "AAAA", NULL, plain());
    }
  cr_assert(route53_batches_make(l->changes, l->count, &batches, &too_large));
  cr_assert_eq(batches.count, 2);
  size_t total = 0;
  for (size_t b = 0; b < batches.count; b++) {
    cr_assert(!batches.items[b].waits);
    cr_assert_leq(batches.items[b].count, ROUTE53_RECORDS_MAX);
    total += batches.items[b].count;
    for (size_t i = 0; i < batches.items[b].count; i++) {
      /* The first half of the names, by when they came, with both of their types. */
      size_t index = (size_t)(batches.items[b].changes[i] - l->changes) % (MANY / 3);
      cr_assert_eq(index < MANY / 6, b == 0);
    }
  }
  cr_assert_eq(total, l->count);
  route53_batches_close(&batches);
  close_list(l);
}

Test(route53, large_names_are_parted) {
  struct list *l = calloc(1, sizeof *l);
  struct route53_batches batches;
  const char *too_large;
  char name[60];
  add(l, PROVIDER_DELETE, "cdn.e.test.", "A", "cdn.e.test.", plain());
  add(l, PROVIDER_CREATE, "cdn.e.test.", "A", "cdn.e.test.", alias("geo", "_st-r0-p1.cdn.e.test."));
  for (int i = 0; i < 15; i++)
    for (int k = 0; k < 100; k++) {
      snprintf(name, sizeof name, "_st-r%d-p1.cdn.e.test.", i);
      add(l, i < 12 ? PROVIDER_CREATE : PROVIDER_DELETE, name, "A", "cdn.e.test.", plain());
    }
  cr_assert(route53_batches_make(l->changes, l->count, &batches, &too_large));
  cr_assert_eq(batches.count, 4); /* 1 000 and 200 that come, the name, 300 that go */
  cr_assert_eq(batches.items[0].count, 1000);
  cr_assert_eq(batches.items[1].count, 200);
  cr_assert_eq(batches.items[2].count, 2);
  cr_assert_eq(batches.items[2].changes[0]->op, PROVIDER_DELETE);
  cr_assert_eq(batches.items[3].count, 300);
  cr_assert(!batches.items[0].waits && !batches.items[1].waits && batches.items[2].waits &&
            batches.items[3].waits);
  route53_batches_close(&batches);
  /* A helper name that becomes another kind can only be changed as a whole. */
  add(l, PROVIDER_CREATE, "_st-r13-p1.cdn.e.test.", "CNAME", "cdn.e.test.", plain());
  cr_assert(!route53_batches_make(l->changes, l->count, &batches, &too_large));
  cr_assert_str_eq(too_large, "cdn.e.test.");
  route53_batches_close(&batches);
  close_list(l);
}
