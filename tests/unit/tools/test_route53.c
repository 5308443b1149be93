/* SPDX-License-Identifier: Apache-2.0 */
/* Route 53: scaled weights, names and escapes, XML that is refused, batches. */
#include <criterion/criterion.h>
#include <math.h>
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
