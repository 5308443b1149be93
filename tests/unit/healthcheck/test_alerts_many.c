/* SPDX-License-Identifier: Apache-2.0 */
/* Much at once, again and again: bursts, flapping, a checker that is cut off, no room. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alerts_domains.h"
#include "alerts_fixture.h"

TestSuite(alerts_many, .init = fixture_open, .fini = fixture_close);

enum { MANY = 200 };

/* MANY domains of two levels. */
static char *many_domains(const char *alerts) {
  size_t room = MANY * 700;
  char *text = malloc(room);
  size_t used = 0;
  for (int i = 0; i < MANY; i++)
    used += (size_t)snprintf(text + used, room - used,
                             "%s" HEAD("d%03d.example.com.") "'types':['A'],'endpoints':[" P1 "," P2
                                                             "]," P1_THEN_P2 ",%s}",
                             i == 0 ? "[" : ",", i, alerts);
  snprintf(text + used, room - used, "]");
  return text;
}

static void set_many(int from, int to, const char *state) {
  for (int i = from; i < to; i++)
    fixture_health((unsigned)i, "p1", state, "connect refused");
}

Test(alerts_many, B83_a_burst_is_one_message) {
  char *domains =
      many_domains("'alerts':{'on':['endpoint','recovered']," TO("false", "'pager','audit'"));
  fixture_configure(domains);
  for (int part = 0; part < 5; part++) { /* within 5 s */
    set_many(part * MANY / 5, (part + 1) * MANY / 5, "d");
    fixture_pass(1000);
  }
  fixture_pass(FIXTURE_WINDOW);
  json_t *told = fixture_told("pager");
  cr_assert_eq(json_array_size(told), 1);
  cr_expect_str_eq(fixture_text(told, 0, "kind"), "endpoint");
  cr_expect_eq(json_integer_value(json_object_get(json_array_get(told, 0), "count")), MANY);
  cr_expect(strncmp(fixture_text(told, 0, "summary"), "200 endpoints down: d", 21) == 0, "%s",
            fixture_text(told, 0, "summary"));
  char key[300];
  snprintf(key, sizeof key, "%s", fixture_text(told, 0, "key"));
  json_decref(told);

  /* It goes on when most of them are back, also over a restart. */
  set_many(0, MANY - 1, "u");
  fixture_pass(FIXTURE_WINDOW);
  NOTHING("pager");
  fixture_restart();
  fixture_configure(domains);
  set_many(0, MANY - 1, "u");
  fixture_quiet(MANY - 1, "p1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  NOTHING("pager");
  fixture_health(MANY - 1, "p1", "u", NULL);
  fixture_pass(FIXTURE_WINDOW);
  told = fixture_told("pager");
  cr_assert_eq(json_array_size(told), 1);
  cr_expect_str_eq(fixture_text(told, 0, "action"), "resolve");
  cr_expect_str_eq(fixture_text(told, 0, "key"), key);
  cr_expect(strncmp(fixture_text(told, 0, "summary"), "recovered: all of 200 endpoints", 31) == 0,
            "%s", fixture_text(told, 0, "summary"));
  json_decref(told);
  free(domains);
}

/* As many messages as there are kinds. */
Test(alerts_many, B83_a_burst_by_kind) {
  char *domains = many_domains(ALL TO("true", "'audit'"));
  fixture_configure(domains);
  set_many(0, MANY, "d");
  fixture_pass(5 * FIXTURE_WINDOW);
  json_t *told = fixture_told("audit");
  cr_assert_eq(json_array_size(told), 2);
  cr_expect_str_eq(fixture_text(told, 0, "kind"), "endpoint");
  cr_expect_str_eq(fixture_text(told, 1, "kind"), "failover");
  json_decref(told);
  free(domains);
}

Test(alerts_many, B83_flapping_is_bounded_and_marked) {
  fixture_configure(DOMAINS);
  for (int minute = 0; minute < 30; minute++) {
    fixture_health(0, "p1", "d", NULL);
    fixture_pass(30000);
    fixture_health(0, "p1", "u", NULL);
    fixture_pass(30000);
  }
  json_t *told = fixture_told("pager");
  cr_assert_eq(json_array_size(told), 3);
  cr_expect_str_eq(fixture_text(told, 2, "action"), "trigger");
  cr_expect(json_is_true(json_object_get(json_array_get(told, 2), "flapping")));
  cr_expect(strncmp(fixture_text(told, 2, "summary"), "flapping: ", 10) == 0);
  cr_expect(json_is_false(json_object_get(json_array_get(told, 0), "flapping")));
  json_decref(told);
  fixture_pass(FIXTURE_QUIET);
  EXPECT("pager", "resolve endpoint warning sluice|endpoint|a.example.com|p1");
}

Test(alerts_many, B83_isolated_checker) {
  char *domains = many_domains(ALL TO("true", "'pager','chat'"));
  fixture_configure(domains);
  set_many(0, MANY, "d");
  fixture_pass(1000);
  fixture_isolated(true);
  fixture_pass(60000);
  EXPECT("pager", "trigger isolated error sluice|isolated||checker.test");
  EXPECT("chat", "trigger isolated error sluice|isolated||checker.test");
  set_many(1, MANY, "u");
  fixture_isolated(false);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "resolve isolated error sluice|isolated||checker.test",
         "trigger endpoint warning sluice|endpoint|d000.example.com|p1",
         "trigger failover error sluice|failover|d000.example.com|global|A");
  free(domains);
}

/* Nothing is lost when there is no room for messages. */
Test(alerts_many, no_room_for_messages) {
  char *domains = many_domains(ALL TO("true", "'audit'"));
  fixture_configure(domains);
  fixture_full(true);
  fixture_health(0, "p1", "d", NULL);
  fixture_pass(60000);
  set_many(1, MANY, "d");
  fixture_pass(60000);
  NOTHING(NULL);
  fixture_full(false);
  fixture_pass(60000);
  json_t *told = fixture_told("audit");
  cr_expect_eq(json_array_size(told), 2);
  json_decref(told);
  fixture_full(true);
  set_many(0, MANY, "u");
  fixture_pass(60000);
  NOTHING(NULL);
  fixture_full(false);
  fixture_pass(60000);
  told = fixture_told("audit");
  cr_expect_eq(json_array_size(told), 2);
  json_decref(told);
  free(domains);
}

/* Many regions of one domain are one message about that domain. */
Test(alerts_many, regions_of_one_domain_together) {
  char regions[1500] =
      "'regions':[{'name':'global','atoms':['global'],'levels':[[['e1',1]],[['e2',1]]]}";
  static const char *const more[] = {"eu", "na", "sa", "as", "oc", "af"};
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    char one[150];
    snprintf(one, sizeof one,
             ",{'name':'%s','atoms':['continent:%s'],'levels':[[['e1',1]],[['e2',1]]]}", more[i],
             more[i]);
    strcat(regions, one);
  }
  strcat(regions, "]");
  fixture_configure_one("'A'", E1 "," E2, regions, "'failover','recovered'", "'audit'");
  fixture_health(0, "e1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  json_t *told = fixture_told("audit");
  cr_assert_eq(json_array_size(told), 1);
  cr_expect_str_eq(fixture_text(told, 0, "domain"), "a.example.com");
  cr_expect_str_eq(fixture_text(told, 0, "summary"),
                   "7 regions fail over: a.example.com global (A), a.example.com eu (A), "
                   "a.example.com na (A), a.example.com sa (A), a.example.com as (A), ...");
  json_decref(told);
  fixture_restart();
  fixture_configure_one("'A'", E1 "," E2, regions, "'failover','recovered'", "'audit'");
  fixture_quiet(0, "e1", "u", NULL);
  fixture_pass(FIXTURE_WINDOW);
  told = fixture_told("audit");
  cr_assert_eq(json_array_size(told), 1);
  cr_expect_str_eq(fixture_text(told, 0, "action"), "resolve");
  cr_expect_str_eq(fixture_text(told, 0, "domain"), "a.example.com");
  json_decref(told);
}
