/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of which facts.  Named after the reports that the cases come from. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "alerts_domains.h"
#include "alerts_fixture.h"

TestSuite(alerts, .init = fixture_open, .fini = fixture_close);

Test(alerts, B113_failover_is_reported_once_with_all_of_it) {
  fixture_configure("[" TWO("cdn.example.com.", ALL TO("true", "'audit'")) "]");
  fixture_quiet(0, "p1", "u", NULL);
  fixture_quiet(0, "p2", "u", NULL);
  fixture_pass(60000);
  NOTHING("audit");
  fixture_health(0, "p1", "d", "connect refused");
  fixture_pass(FIXTURE_WINDOW);
  json_t *told = fixture_told("audit");
  cr_assert_eq(json_array_size(told), 2);
  cr_expect_str_eq(fixture_line(told, 0),
                   "trigger endpoint warning sluice|endpoint|cdn.example.com|p1");
  cr_expect_str_eq(fixture_text(told, 0, "summary"),
                   "cdn.example.com: endpoint p1 is down (connect refused)");
  cr_expect_str_eq(fixture_line(told, 1),
                   "trigger failover error sluice|failover|cdn.example.com|global|A");
  cr_expect_str_eq(fixture_text(told, 1, "summary"),
                   "cdn.example.com: region global failed over from level 1 to level 2 (A); now "
                   "serving p2; down: p1 (connect refused)");
  cr_expect_str_eq(fixture_text(told, 1, "since"), "2026-09-21T14:14:20Z");
  cr_expect_str_eq(fixture_text(told, 1, "time"), "2026-09-21T14:14:23Z");
  cr_expect_str_eq(fixture_text(told, 1, "cause"), "health");
  const json_t *event = json_array_get(told, 1);
  cr_expect_eq(json_integer_value(json_object_get(event, "from")), 1);
  cr_expect_eq(json_integer_value(json_object_get(event, "to")), 2);
  json_decref(told);

  fixture_health(0, "p1", "d", "timeout in connect"); /* no news */
  fixture_pass(60000);
  NOTHING("audit");

  fixture_health(0, "p1", "u", "status 200");
  fixture_pass(FIXTURE_WINDOW);
  told = fixture_told("audit");
  cr_assert_eq(json_array_size(told), 2);
  cr_expect_str_eq(fixture_line(told, 0),
                   "resolve endpoint warning sluice|endpoint|cdn.example.com|p1");
  cr_expect_str_eq(fixture_text(told, 0, "summary"),
                   "cdn.example.com: endpoint p1 is up again (status 200)");
  cr_expect_str_eq(fixture_line(told, 1),
                   "resolve failover error sluice|failover|cdn.example.com|global|A");
  cr_expect_str_eq(fixture_text(told, 1, "summary"),
                   "cdn.example.com: region global is back on level 1 (A); now serving p1 of level "
                   "1");
  json_decref(told);
}

Test(alerts, B113_unused_endpoint_is_less_severe) {
  fixture_configure("[" TWO("cdn.example.com.", ALL TO("true", "'audit'")) "]");
  fixture_health(0, "p1", "u", NULL);
  fixture_health(0, "p2", "d", "status 503");
  fixture_pass(FIXTURE_WINDOW);
  json_t *told = fixture_told("audit");
  cr_assert_eq(json_array_size(told), 1);
  cr_expect_str_eq(fixture_line(told, 0),
                   "trigger endpoint info sluice|endpoint|cdn.example.com|p2");
  cr_expect_str_eq(fixture_text(told, 0, "summary"),
                   "cdn.example.com: endpoint p2 is down (status 503); it is not in use at the "
                   "moment");
  json_decref(told);
}

/* What somebody does by hand moves traffic, but is no failure. */
Test(alerts, B113_by_hand) {
  static const char *const acts[][2] = {
      {"[{\"kind\":\"weight\",\"domain\":\"cdn.example.com.\",\"endpoint\":\"p1\",\"region\":"
       "\"global\",\"level\":1,\"family\":0,\"value\":0}]",
       "weight set by hand"},
      {"[{\"kind\":\"status\",\"domain\":\"cdn.example.com.\",\"endpoint\":\"p1\",\"region\":\"\","
       "\"level\":0,\"family\":0,\"value\":2}]",
       "disabled by hand"},
      {"[{\"kind\":\"health\",\"domain\":\"cdn.example.com.\",\"endpoint\":\"p1\",\"region\":\"\","
       "\"level\":0,\"family\":4,\"value\":2}]",
       "forced down by hand"},
  };
  fixture_configure("[" TWO("cdn.example.com.", ALL TO("true", "'audit','pager'")) "]");
  fixture_health(0, "p1", "u", NULL);
  fixture_health(0, "p2", "u", NULL);
  for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
    char text[300];
    fixture_overrides(acts[i][0]);
    fixture_pass(FIXTURE_WINDOW);
    json_t *told = fixture_told("audit");
    cr_assert_eq(json_array_size(told), 1);
    cr_expect_str_eq(fixture_line(told, 0),
                     "trigger failover info sluice|failover-by-hand|cdn.example.com|global|A");
    snprintf(text, sizeof text,
             "cdn.example.com: region global was moved by hand from level 1 to level 2 (A); now "
             "serving p2; p1 %s",
             acts[i][1]);
    cr_expect_str_eq(fixture_text(told, 0, "summary"), text);
    cr_expect_str_eq(fixture_text(told, 0, "cause"), "manual");
    json_decref(told);
    fixture_overrides("[]");
    fixture_pass(FIXTURE_WINDOW);
    EXPECT("audit", "resolve failover info sluice|failover-by-hand|cdn.example.com|global|A");
    fixture_pass(4 * FIXTURE_QUIET);
  }
  NOTHING("pager");
}

/* Moved by hand to level 2, and then that one fails: the failover is one by health, from there. */
Test(alerts, failover_after_a_move_by_hand) {
  fixture_configure_one("'A'", E1 "," E2 "," E3, GLOBAL("[['e1',1]],[['e2',1]],[['e3',1]]"),
                        EVERYTHING, "'pager'");
  fixture_overrides("[{\"kind\":\"status\",\"domain\":\"a.example.com.\",\"endpoint\":\"e1\","
                    "\"value\":2}]");
  fixture_pass(FIXTURE_WINDOW);
  NOTHING("pager");
  fixture_health(0, "e2", "d", "status 500");
  fixture_pass(FIXTURE_WINDOW);
  json_t *told = fixture_told("pager");
  cr_assert_eq(json_array_size(told), 2);
  cr_expect_str_eq(fixture_text(told, 1, "summary"),
                   "a.example.com: region global failed over from level 2 to level 3 (A); now "
                   "serving e3; down: e2 (status 500)");
  json_decref(told);
}

Test(alerts, page_decides_for_pagers) {
  fixture_configure("[" TWO("a.example.com.", ALL TO("false", "'pager','chat'")) "," TWO(
      "b.example.com.", "'alerts':{'on':['failover']," TO("true", "'pager','chat'")) "]");
  fixture_health(0, "p1", "d", NULL);
  fixture_health(1, "p1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  json_t *told = fixture_told("pager");
  cr_assert_eq(json_array_size(told), 2);
  cr_expect_str_eq(fixture_line(told, 0),
                   "trigger endpoint warning sluice|endpoint|a.example.com|p1");
  cr_expect_str_eq(fixture_line(told, 1),
                   "trigger failover error sluice|failover|b.example.com|global|A");
  cr_expect(json_is_true(json_object_get(json_array_get(told, 1), "page")));
  json_decref(told);
  told = fixture_told("chat");
  cr_expect_eq(json_array_size(told), 3);
  json_decref(told);
  /* `recovered` is not wanted for b. */
  fixture_health(1, "p1", "u", NULL);
  fixture_pass(FIXTURE_WINDOW);
  NOTHING("pager");
}

Test(alerts, B03_one_all_down_event_per_set) {
  fixture_configure_one(
      "'A'", E1 "," E2 "," ENDPOINT("u1", "'192.0.2.3'") "," ENDPOINT("g1", "'192.0.2.4'"),
      "'regions':[{'name':'global','atoms':['global'],'levels':[[['g1',1]]]},"
      "{'name':'eu','atoms':['continent:eu'],'levels':[[['e1',1]],[['e2',1]]]},"
      "{'name':'us','atoms':['country:us'],'levels':[[['u1',1]]]}]",
      "'failover','all-down','recovered'", "'audit'");
  /* Also when they are down from the first moment on. */
  fixture_quiet(0, "e1", "d", "connect refused");
  fixture_quiet(0, "e2", "d", "connect refused");
  fixture_quiet(0, "u1", "d", "status 500");
  fixture_quiet(0, "g1", "d", "timeout in connect");
  fixture_pass(10 * FIXTURE_WINDOW);
  json_t *told = fixture_told("audit");
  cr_assert_eq(json_array_size(told), 3);
  for (size_t i = 0; i < 3; i++) {
    cr_expect_str_eq(fixture_text(told, i, "action"), "trigger");
    cr_expect_str_eq(fixture_text(told, i, "kind"), "all-down");
    cr_expect_str_eq(fixture_text(told, i, "severity"), "critical");
    if (strcmp(fixture_text(told, i, "region"), "eu") == 0)
      cr_expect_str_eq(fixture_text(told, i, "summary"),
                       "a.example.com: nothing healthy left in region eu (A); still serving e1 "
                       "of level 1; down: e1 (connect refused), e2 (connect refused)");
  }
  json_decref(told);
  fixture_pass(FIXTURE_QUIET);
  NOTHING("audit");
  /* e2 comes back: a failover it is now. */
  fixture_health(0, "e2", "u", NULL);
  fixture_pass(FIXTURE_WINDOW);
  told = fixture_told("audit");
  cr_assert_eq(json_array_size(told), 2);
  cr_expect_str_eq(fixture_line(told, 0),
                   "resolve all-down critical sluice|all-down|a.example.com|eu|A");
  cr_expect_str_eq(fixture_text(told, 0, "summary"),
                   "a.example.com: region eu has something healthy again (A); now serving e2 of "
                   "level 2");
  cr_expect_str_eq(fixture_line(told, 1),
                   "trigger failover error sluice|failover|a.example.com|eu|A");
  json_decref(told);
}

/* A failover, then nothing is left, then the second level again: the failover goes on. */
Test(alerts, failover_lasts_through_an_all_down) {
  fixture_configure(
      "[" TWO("a.example.com.",
              "'alerts':{'on':['failover','all-down','recovered']," TO("true", "'audit'")) "]");
  fixture_health(0, "p1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("audit", "trigger failover error sluice|failover|a.example.com|global|A");
  fixture_health(0, "p2", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("audit", "trigger all-down critical sluice|all-down|a.example.com|global|A");
  fixture_health(0, "p2", "u", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("audit", "resolve all-down critical sluice|all-down|a.example.com|global|A");
  fixture_health(0, "p1", "u", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("audit", "resolve failover error sluice|failover|a.example.com|global|A");
}

/* Nothing is left by hand or by weights: that is no failure of health. */
Test(alerts, nothing_left_by_hand_is_not_all_down) {
  fixture_configure("[" TWO(
      "a.example.com.",
      "'alerts':{'on':['failover','all-down','recovered']," TO("true", "'audit','pager'")) "]");
  fixture_overrides("[{\"kind\":\"status\",\"domain\":\"a.example.com.\",\"endpoint\":\"p1\","
                    "\"value\":2},{\"kind\":\"status\",\"domain\":\"a.example.com.\",\"endpoint\":"
                    "\"p2\",\"value\":2}]");
  fixture_pass(FIXTURE_WINDOW);
  NOTHING("pager");
  fixture_expect_summary(
      "audit", "a.example.com: what was set by hand leaves nothing up in region global (A); now "
               "serving p1; p1 disabled by hand, p2 disabled by hand");
}

/* Families of an endpoint are one incident, and the second one is an update. */
Test(alerts, families_of_an_endpoint) {
  fixture_configure_one("'A','AAAA'", ENDPOINT("e", "'192.0.2.1','2001:db8::1'"),
                        GLOBAL("[['e',1]]"), "'endpoint','recovered'", "'audit'");
  fixture_health(0, "e", "ud", "timeout in connect");
  fixture_pass(FIXTURE_WINDOW);
  fixture_expect_summary("audit",
                         "a.example.com: endpoint e is down over IPv6 (timeout in connect)");
  fixture_health(0, "e", "dd", "timeout in connect");
  fixture_pass(FIXTURE_WINDOW);
  json_t *told = fixture_told("audit");
  cr_assert_eq(json_array_size(told), 1);
  cr_expect_str_eq(fixture_line(told, 0),
                   "update endpoint warning sluice|endpoint|a.example.com|e");
  json_decref(told);
  fixture_health(0, "e", "uu", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("audit", "resolve endpoint warning sluice|endpoint|a.example.com|e");
}

/* A failover is one of a type: IPv6 may be dead alone. */
Test(alerts, types_fail_over_alone) {
  fixture_configure_one(
      "'A','AAAA'",
      ENDPOINT("e1", "'192.0.2.1','2001:db8::1'") "," ENDPOINT("e2", "'192.0.2.2','2001:db8::2'"),
      GLOBAL("[['e1',1]],[['e2',1]]"), "'failover','all-down','recovered'", "'pager'");
  fixture_health(0, "e1", "ud", "timeout in connect");
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "trigger failover error sluice|failover|a.example.com|global|AAAA");
  fixture_health(0, "e1", "dd", "timeout in connect");
  fixture_health(0, "e2", "ud", "timeout in connect");
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "trigger failover error sluice|failover|a.example.com|global|A",
         "trigger all-down critical sluice|all-down|a.example.com|global|AAAA");
}

Test(alerts, host_names) {
  fixture_configure_one("'CNAME'",
                        "{'name':'e1','enabled':true,'host':'a.example.net.'},"
                        "{'name':'e2','enabled':true,'host':'b.example.net.'}",
                        GLOBAL("[['e1',1]],[['e2',1]]"), EVERYTHING, "'pager'");
  fixture_health(0, "e1", "dd", "name does not exist");
  fixture_pass(FIXTURE_WINDOW);
  json_t *told = fixture_told("pager");
  cr_assert_eq(json_array_size(told), 2);
  cr_expect_str_eq(fixture_text(told, 0, "summary"),
                   "a.example.com: endpoint e1 is down (name does not exist)");
  cr_expect_str_eq(fixture_line(told, 1),
                   "trigger failover error sluice|failover|a.example.com|global|CNAME");
  json_decref(told);
}

/* From one level to the next while it is open: an update under the same key; and then straight
 * back. */
Test(alerts, failover_goes_on) {
  fixture_configure_one("'A'", E1 "," E2 "," E3, GLOBAL("[['e1',1]],[['e2',1]],[['e3',1]]"),
                        "'failover','recovered'", "'audit'");
  fixture_health(0, "e1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("audit", "trigger failover error sluice|failover|a.example.com|global|A");
  fixture_health(0, "e2", "d", "status 500");
  fixture_pass(FIXTURE_WINDOW);
  json_t *told = fixture_told("audit");
  cr_assert_eq(json_array_size(told), 1);
  cr_expect_str_eq(fixture_line(told, 0),
                   "update failover error sluice|failover|a.example.com|global|A");
  cr_expect_str_eq(fixture_text(told, 0, "summary"),
                   "a.example.com: region global failed over from level 1 to level 3 (A); now "
                   "serving e3; down: e1, e2 (status 500)");
  json_decref(told);
  fixture_health(0, "e1", "u", NULL);
  fixture_pass(FIXTURE_WINDOW);
  fixture_expect_summary("audit",
                         "a.example.com: region global is back on level 1 (A); now serving e1 of "
                         "level 1");
}

/* A weight of 0 in the configuration itself is neither health nor by hand. */
Test(alerts, as_configured_is_no_incident) {
  fixture_configure_one("'A'", E1 "," E2, GLOBAL("[['e1',0]],[['e2',1]]"), EVERYTHING, "'audit'");
  fixture_health(0, "e1", "u", NULL);
  fixture_pass(FIXTURE_WINDOW);
  NOTHING(NULL);
  fixture_health(0, "e1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("audit", "trigger endpoint info sluice|endpoint|a.example.com|e1");
}
