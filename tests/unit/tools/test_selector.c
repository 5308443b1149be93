/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "tools/endpoints/selector.h"

static const char *const regions[] = {"global",  "eu",      "eu-west", "neu",
                                      "US-east", "us-west", "NA",      "192.0.2.0/24"};
enum { REGIONS = 8 };

/* The picked regions as "a b c", or the message. */
static const char *pick(const char *text) {
  static char out[SELECTOR_WHY];
  struct selector selector;
  bool picked[REGIONS];
  char why[SELECTOR_WHY];
  cr_assert(selector_read(&selector, text));
  *out = 0;
  if (selector_match(&selector, regions, REGIONS, picked, why)) {
    for (size_t i = 0; i < REGIONS; i++)
      if (picked[i])
        strcat(strcat(out, *out ? " " : ""), regions[i]);
  } else {
    strcpy(out, why);
  }
  selector_close(&selector);
  return out;
}

static void domain_is(const char *text, const char *domain, size_t patterns) {
  struct selector selector;
  cr_assert(selector_read(&selector, text));
  cr_assert_str_eq(selector.domain, domain);
  cr_assert_eq(selector.count, patterns);
  selector_close(&selector);
}

Test(selector, domains) {
  domain_is("cdn", "cdn", 0);
  domain_is("cdn.example.com.[eu]", "cdn.example.com.", 1);
  domain_is("*.x[us-*,na]", "*.x", 2);
  domain_is("a\\[b[eu]", "a\\[b", 1);
  domain_is("", "", 0);
  domain_is("[eu]", "", 1);
}

Test(selector, all_without_brackets) {
  cr_assert_str_eq(pick("cdn"), "global eu eu-west neu US-east us-west NA 192.0.2.0/24");
}

Test(selector, b16_patterns) {
  cr_assert_str_eq(pick("cdn[eu]"), "eu");
  cr_assert_str_eq(pick("cdn[us-*,na]"), "US-east us-west NA");
  cr_assert_str_eq(pick("cdn[EU-*]"), "eu-west");
  cr_assert_str_eq(pick("cdn[*]"), "global eu eu-west neu US-east us-west NA 192.0.2.0/24");
  cr_assert_str_eq(pick("cdn[192.*]"), "192.0.2.0/24");
  cr_assert_str_eq(pick("cdn[?eu]"), "neu");
  cr_assert_str_eq(pick("cdn[[en]u]"), "eu");
  cr_assert_str_eq(pick("cdn[[!u,]*-*]"), "eu-west");
  cr_assert_str_eq(pick("cdn[[[:alpha:]]u]"), "eu");
  cr_assert_str_eq(pick("cdn[\\e\\u]"), "eu");
}

static void refused(const char *text, const char *part) {
  const char *why = pick(text);
  cr_assert(strstr(why, part), "%s: %s", text, why);
  cr_assert(strstr(why, "the regions are: global, eu, eu-west"), "%s: %s", text, why);
}

Test(selector, b16_refused) {
  refused("cdn[]", "a pattern is empty");
  refused("cdn[eu,]", "a pattern is empty");
  refused("cdn[,eu]", "a pattern is empty");
  refused("cdn[eu,,na]", "a pattern is empty");
  refused("cdn[xx-*]", "no region matches `xx-*`");
  refused("cdn[eu-*,tyop]", "no region matches `tyop`");
  refused("cdn[[a]", "a bracket is not closed");
  refused("cdn[[a", "a bracket is not closed");
  refused("cdn[[a,eu]", "a bracket is not closed");
  refused("cdn[eu", "a bracket is not closed");
  refused("cdn[eu]x", "something follows");
  refused("cdn[eu]]", "something follows");
  refused("cdn[eu\\", "backslash");
  refused("cdn[[[:alpha]", "a bracket is not closed");
}

Test(selector, single_patterns) {
  cr_assert_null(selector_pattern_wrong("central-*"));
  cr_assert_null(selector_pattern_wrong("a]b,c"));
  cr_assert_null(selector_pattern_wrong("[ab]*"));
  cr_assert_not_null(selector_pattern_wrong(""));
  cr_assert_not_null(selector_pattern_wrong("[ab"));
  cr_assert_not_null(selector_pattern_wrong("ab\\"));
}

Test(selector, many_patterns) {
  static char text[8000] = "cdn[";
  for (int i = 0; i < 1001; i++)
    strcat(text, "eu,");
  text[strlen(text) - 1] = ']';
  refused(text, "more than 1000");
}
