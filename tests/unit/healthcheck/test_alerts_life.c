/* SPDX-License-Identifier: Apache-2.0 */
/* Incidents from their begin to their end: over restarts, new lists and changes of mind. */
#include <criterion/criterion.h>
#include <string.h>

#include "alerts_domains.h"
#include "alerts_fixture.h"

TestSuite(alerts_life, .init = fixture_open, .fini = fixture_close);

Test(alerts_life, B33_keys_match_across_restarts) {
  fixture_configure(DOMAINS);
  fixture_health(0, "p1", "d", NULL);
  fixture_health(1, "p1", "d", NULL); /* the same address in two domains */
  fixture_pass(FIXTURE_WINDOW);
  fixture_health(0, "p2", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "trigger endpoint warning sluice|endpoint|a.example.com|p1",
         "trigger endpoint warning sluice|endpoint|b.example.com|p1",
         "trigger endpoint warning sluice|endpoint|a.example.com|p2");
  fixture_restart();
  fixture_configure(DOMAINS);
  fixture_quiet(0, "p1", "d", NULL);
  fixture_quiet(0, "p2", "d", NULL);
  fixture_quiet(1, "p1", "?", NULL); /* not decided yet */
  fixture_pass(60000);
  NOTHING("pager");
  fixture_health(1, "p1", "u", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "resolve endpoint warning sluice|endpoint|b.example.com|p1");
  fixture_health(0, "p1", "u", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "resolve endpoint warning sluice|endpoint|a.example.com|p1");
  fixture_health(0, "p2", "u", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "resolve endpoint warning sluice|endpoint|a.example.com|p2");
  /* Much later a new outage, under the same key. */
  fixture_pass(4 * FIXTURE_QUIET);
  fixture_health(0, "p1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "trigger endpoint warning sluice|endpoint|a.example.com|p1");
}

/* It recovered while the checker was away. */
Test(alerts_life, B33_recovered_during_a_restart) {
  fixture_configure(DOMAINS);
  fixture_health(0, "p1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "trigger endpoint warning sluice|endpoint|a.example.com|p1");
  fixture_restart();
  fixture_configure(DOMAINS);
  fixture_quiet(0, "p1", "u", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "resolve endpoint warning sluice|endpoint|a.example.com|p1");
}

/* It was noticed, and the checker was killed before it was told. */
Test(alerts_life, B33_killed_before_it_was_told) {
  fixture_configure(DOMAINS);
  fixture_health(0, "p1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW / 2);
  fixture_restart();
  fixture_configure(DOMAINS);
  fixture_quiet(0, "p1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "trigger endpoint warning sluice|endpoint|a.example.com|p1");
}

/* What is not known again in time has ended. */
Test(alerts_life, restored_and_never_known_again) {
  fixture_configure(DOMAINS);
  fixture_health(0, "p1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  json_decref(fixture_told("pager"));
  fixture_restart();
  fixture_configure(DOMAINS);
  fixture_pass(JUDGE_SETTLE_MS - 1000);
  NOTHING("pager");
  fixture_pass(1000 + FIXTURE_WINDOW);
  fixture_expect_summary("pager", "a.example.com: endpoint p1 is no longer checked");
}

Test(alerts_life, known_as_down_from_before_is_no_news) {
  fixture_configure(DOMAINS);
  fixture_quiet(0, "p2", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  NOTHING(NULL);
  fixture_quiet(0, "p2", "d", NULL); /* a new list */
  fixture_health(0, "p1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "trigger endpoint warning sluice|endpoint|a.example.com|p1");
  fixture_health(0, "p2", "u", NULL);
  fixture_pass(FIXTURE_WINDOW);
  NOTHING(NULL);
  fixture_health(0, "p2", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "trigger endpoint warning sluice|endpoint|a.example.com|p2");
}

/* Changes that come just before a new list are not lost in it. */
Test(alerts_life, a_new_list_at_once_after_a_change) {
  fixture_configure(DOMAINS);
  fixture_health(0, "p1", "d", NULL);
  fixture_configure(DOMAINS);
  fixture_quiet(0, "p1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "trigger endpoint warning sluice|endpoint|a.example.com|p1");
}

Test(alerts_life, ends_before_it_is_told) {
  fixture_configure(DOMAINS);
  fixture_health(0, "p1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW - 1);
  fixture_health(0, "p1", "u", NULL);
  fixture_pass(60000);
  NOTHING(NULL);
  /* And an end that is not one. */
  fixture_health(0, "p1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  json_decref(fixture_told(NULL));
  fixture_health(0, "p1", "u", NULL);
  fixture_pass(FIXTURE_WINDOW - 1);
  fixture_health(0, "p1", "d", NULL);
  fixture_pass(60000);
  NOTHING(NULL);
}

Test(alerts_life, removed_from_the_configuration) {
  fixture_configure(DOMAINS);
  fixture_health(0, "p1", "d", NULL);
  fixture_health(1, "p1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  json_decref(fixture_told(NULL));
  fixture_configure("[" HEAD("b.example.com.") "'types':['A'],'endpoints':[" P2 "]," GLOBAL(
      "[['p2',1]]") "," ALL TO("false", "'pager'") "}]");
  fixture_pass(FIXTURE_WINDOW);
  json_t *told = fixture_told("pager");
  cr_assert_eq(json_array_size(told), 2);
  for (size_t i = 0; i < 2; i++) {
    cr_expect_str_eq(fixture_text(told, i, "action"), "resolve");
    cr_expect(strstr(fixture_text(told, i, "summary"), "removed from the configuration") != NULL,
              "%s", fixture_text(told, i, "summary"));
  }
  json_decref(told);
}

/* It was cut off, ended, and is not cut off when it starts again. */
Test(alerts_life, isolated_before_a_restart) {
  fixture_configure(DOMAINS);
  fixture_isolated(true);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "trigger isolated error sluice|isolated||checker.test");
  fixture_restart();
  fixture_configure(DOMAINS);
  fixture_pass(JUDGE_SETTLE_MS + FIXTURE_WINDOW);
  EXPECT("pager", "resolve isolated error sluice|isolated||checker.test");
}
