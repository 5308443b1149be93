/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of which facts, and when.  Named after the reports that the cases come from. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alerts_fixture.h"

/* Text of domains, with ' for ". */
#define ALL "'alerts':{'on':['endpoint','failover','all-down','recovered'],"
#define TO(page, routes) "'page':" page ",'to':[" routes "]}"
#define HEAD(name) "{'owner':'" name "','ttl':30,'answers':1,'draw_per':'query',"
#define ENDPOINT(name, address) "{'name':'" name "','enabled':true,'addresses':[" address "]}"
#define GLOBAL(levels) "'regions':[{'name':'global','atoms':['global'],'levels':[" levels "]}]"
#define E1 ENDPOINT("e1", "'192.0.2.1'")
#define E2 ENDPOINT("e2", "'192.0.2.2'")
#define E3 ENDPOINT("e3", "'192.0.2.3'")

/* Two levels, p1 and p2. */
#define P1 ENDPOINT("p1", "'192.0.2.1'")
#define P2 ENDPOINT("p2", "'192.0.2.2'")
#define P1_THEN_P2 GLOBAL("[['p1',1]],[['p2',1]]")
#define TWO(name, alerts)                                                                          \
  HEAD(name) "'types':['A'],'endpoints':[" P1 "," P2 "]," P1_THEN_P2 "," alerts "}"

/* One domain, a.example.com. */
static void configure_one(const char *types, const char *endpoints, const char *regions,
                          const char *on, const char *to) {
  char text[4096];
  int length = snprintf(text, sizeof text,
                        "[" HEAD("a.example.com.") "'types':[%s],'endpoints':[%s],%s,"
                                                   "'alerts':{'on':[%s],'page':true,'to':[%s]}}]",
                        types, endpoints, regions, on, to);
  cr_assert(length > 0 && (size_t)length < sizeof text);
  fixture_configure(text);
}

#define EVERYTHING "'endpoint','failover','all-down','recovered'"

TestSuite(alerts, .init = fixture_open, .fini = fixture_close);

/* One line for each message: what was told to a route since the last time. */
static void expect(const char *route, const char *const *lines, size_t count) {
  json_t *told = fixture_told(route);
  for (size_t i = 0; i < count; i++)
    cr_expect_str_eq(fixture_line(told, i), lines[i]);
  cr_expect_eq(json_array_size(told), count, "%zu messages to %s, not %zu: %s",
               json_array_size(told), route, count, json_dumps(told, JSON_INDENT(1)));
  json_decref(told);
}

#define EXPECT(route, ...)                                                                         \
  expect(route, (const char *const[]){__VA_ARGS__},                                                \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
#define NOTHING(route) expect(route, NULL, 0)

/* The summary of the only message since the last time. */
static void expect_summary(const char *route, const char *summary) {
  json_t *told = fixture_told(route);
  cr_expect_eq(json_array_size(told), 1);
  cr_expect_str_eq(fixture_text(told, 0, "summary"), summary);
  json_decref(told);
}

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
  configure_one("'A'", E1 "," E2 "," E3, GLOBAL("[['e1',1]],[['e2',1]],[['e3',1]]"), EVERYTHING,
                "'pager'");
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
  configure_one("'A'",
                E1 "," E2 "," ENDPOINT("u1", "'192.0.2.3'") "," ENDPOINT("g1", "'192.0.2.4'"),
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
  expect_summary("audit",
                 "a.example.com: what was set by hand leaves nothing up in region global (A); now "
                 "serving p1; p1 disabled by hand, p2 disabled by hand");
}

#define ENDPOINTS_ONLY "'alerts':{'on':['endpoint','recovered']," TO("false", "'pager'")
#define DOMAINS                                                                                    \
  "[" TWO("a.example.com.", ENDPOINTS_ONLY) "," TWO("b.example.com.", ENDPOINTS_ONLY) "]"

Test(alerts, B33_keys_match_across_restarts) {
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
Test(alerts, B33_recovered_during_a_restart) {
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
Test(alerts, B33_killed_before_it_was_told) {
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
Test(alerts, restored_and_never_known_again) {
  fixture_configure(DOMAINS);
  fixture_health(0, "p1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  json_decref(fixture_told("pager"));
  fixture_restart();
  fixture_configure(DOMAINS);
  fixture_pass(JUDGE_SETTLE_MS - 1000);
  NOTHING("pager");
  fixture_pass(1000 + FIXTURE_WINDOW);
  expect_summary("pager", "a.example.com: endpoint p1 is no longer checked");
}

Test(alerts, known_as_down_from_before_is_no_news) {
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
Test(alerts, a_new_list_at_once_after_a_change) {
  fixture_configure(DOMAINS);
  fixture_health(0, "p1", "d", NULL);
  fixture_configure(DOMAINS);
  fixture_quiet(0, "p1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "trigger endpoint warning sluice|endpoint|a.example.com|p1");
}

Test(alerts, ends_before_it_is_told) {
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

Test(alerts, removed_from_the_configuration) {
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

/* ---- many at once, again and again ------------------------------------------------------------
 */

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

Test(alerts, B83_a_burst_is_one_message) {
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
Test(alerts, B83_a_burst_by_kind) {
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

Test(alerts, B83_flapping_is_bounded_and_marked) {
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

Test(alerts, B83_isolated_checker) {
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

/* It was cut off, ended, and is not cut off when it starts again. */
Test(alerts, isolated_before_a_restart) {
  fixture_configure(DOMAINS);
  fixture_isolated(true);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("pager", "trigger isolated error sluice|isolated||checker.test");
  fixture_restart();
  fixture_configure(DOMAINS);
  fixture_pass(JUDGE_SETTLE_MS + FIXTURE_WINDOW);
  EXPECT("pager", "resolve isolated error sluice|isolated||checker.test");
}

/* ---- keys, routes, room -----------------------------------------------------------------------
 */

Test(alerts, B33_long_names) {
  char label[60];
  char region[400] = "";
  char key[INCIDENT_KEY], other[INCIDENT_KEY];
  memset(label, 'x', sizeof label - 1);
  label[sizeof label - 1] = '\0';
  for (int i = 0; i < 5; i++)
    strcat(region, label);
  struct incident_name name = {INCIDENT_FAILOVER, "cdn.example.com", region, "A", NULL};
  incident_key(&name, key);
  cr_expect_lt(strlen(key), 256);
  cr_expect(strncmp(key, "sluice|failover|sha256:", 23) == 0, "%s", key);
  region[290] = 'y';
  incident_key(&name, other);
  cr_expect_str_neq(key, other);
  name = (struct incident_name){INCIDENT_ENDPOINT, "cdn.example.com", NULL, NULL, region};
  incident_key(&name, other);
  cr_expect_lt(strlen(other), 256);
}

Test(alerts, keys_differ) {
  static const struct incident_name names[] = {
      {INCIDENT_ENDPOINT, "a", NULL, NULL, "b"},   {INCIDENT_FAILOVER, "a", "b", "A", NULL},
      {INCIDENT_FAILOVER, "a", "b", "AAAA", NULL}, {INCIDENT_BY_HAND, "a", "b", "A", NULL},
      {INCIDENT_ALL_DOWN, "a", "b", "A", NULL},    {INCIDENT_ISOLATED, NULL, "a", NULL, NULL},
      {INCIDENT_FAILOVER, "a", "A", "A", NULL},    {INCIDENT_ENDPOINT, "a", NULL, NULL, "c"},
  };
  enum { COUNT = sizeof names / sizeof *names };
  char keys[COUNT][INCIDENT_KEY];
  for (size_t i = 0; i < COUNT; i++) {
    incident_key(&names[i], keys[i]);
    for (size_t k = 0; k < i; k++)
      cr_expect_str_neq(keys[i], keys[k]);
  }
}

/* Nothing is lost when there is no room for messages. */
Test(alerts, no_room_for_messages) {
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

/* Families of an endpoint are one incident, and the second one is an update. */
Test(alerts, families_of_an_endpoint) {
  configure_one("'A','AAAA'", ENDPOINT("e", "'192.0.2.1','2001:db8::1'"), GLOBAL("[['e',1]]"),
                "'endpoint','recovered'", "'audit'");
  fixture_health(0, "e", "ud", "timeout in connect");
  fixture_pass(FIXTURE_WINDOW);
  expect_summary("audit", "a.example.com: endpoint e is down over IPv6 (timeout in connect)");
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
  configure_one(
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
  configure_one("'CNAME'",
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
  configure_one("'A'", E1 "," E2 "," E3, GLOBAL("[['e1',1]],[['e2',1]],[['e3',1]]"),
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
  expect_summary("audit", "a.example.com: region global is back on level 1 (A); now serving e1 of "
                          "level 1");
}

/* A weight of 0 in the configuration itself is neither health nor by hand. */
Test(alerts, as_configured_is_no_incident) {
  configure_one("'A'", E1 "," E2, GLOBAL("[['e1',0]],[['e2',1]]"), EVERYTHING, "'audit'");
  fixture_health(0, "e1", "u", NULL);
  fixture_pass(FIXTURE_WINDOW);
  NOTHING(NULL);
  fixture_health(0, "e1", "d", NULL);
  fixture_pass(FIXTURE_WINDOW);
  EXPECT("audit", "trigger endpoint info sluice|endpoint|a.example.com|e1");
}

/* Many regions of one domain are one message about that domain. */
Test(alerts, regions_of_one_domain_together) {
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
  configure_one("'A'", E1 "," E2, regions, "'failover','recovered'", "'audit'");
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
  configure_one("'A'", E1 "," E2, regions, "'failover','recovered'", "'audit'");
  fixture_quiet(0, "e1", "u", NULL);
  fixture_pass(FIXTURE_WINDOW);
  told = fixture_told("audit");
  cr_assert_eq(json_array_size(told), 1);
  cr_expect_str_eq(fixture_text(told, 0, "action"), "resolve");
  cr_expect_str_eq(fixture_text(told, 0, "domain"), "a.example.com");
  json_decref(told);
}
