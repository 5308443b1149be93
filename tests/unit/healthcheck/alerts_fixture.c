/* SPDX-License-Identifier: Apache-2.0 */
#include "alerts_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alerts_domains.h"
#include "healthcheck/alerts/format.h"
#include "zones/domain_json.h"

enum { DOMAINS_MAX = 512, START_UNIX = 1790000000 };

static struct book *book;
static struct judge *judge;
static struct moment now;
static json_t *told;    /* not fetched yet */
static json_t *records; /* all of the spool */
static bool full;
static struct steer_domain *steers[DOMAINS_MAX];
static size_t steer_count;
static char routes_text[] = "{\"pager\":{\"format\":\"pagerduty\",\"secret\":\"s\"},"
                            "\"chat\":{\"format\":\"slack\",\"secret\":\"s\"},\"audit\":{"
                            "\"format\":\"json\",\"url\":\"u\"}}";

static bool on_tell(void *arg, const char *route, const char *key, json_t *event) {
  (void)arg;
  cr_assert(event != NULL);
  cr_expect_str_eq(json_string_value(json_object_get(event, "key")), key);
  json_object_set_new(event, "route", json_string(route));
  if (full) {
    json_decref(event);
    return false;
  }
  json_array_append_new(told, event);
  return true;
}

static void on_record(void *arg, json_t *record) {
  (void)arg;
  cr_assert(record != NULL);
  json_array_append_new(records, record);
}

static void on_forget(void *arg, struct incident *incident) {
  (void)arg;
  judge_forget(judge, incident);
}

static void open_parts(void) {
  const struct book_options options = {FIXTURE_WINDOW, FIXTURE_QUIET, "checker.test"};
  const struct book_sink sink = {NULL, on_tell, on_record, on_forget};
  book = book_open(&options, &sink);
  judge = judge_open(book, "checker.test");
  cr_assert(book != NULL && judge != NULL);
}

static void close_parts(void) {
  judge_close(judge);
  book_close(book);
  for (size_t i = 0; i < steer_count; i++)
    steer_domain_free(steers[i]);
  steer_count = 0;
}

void fixture_open(void) {
  now = (struct moment){1000, (int64_t)START_UNIX * 1000};
  told = json_array();
  records = json_array();
  full = false;
  open_parts();
}

void fixture_close(void) {
  close_parts();
  json_decref(told);
  json_decref(records);
}

void fixture_restart(void) {
  size_t i;
  json_t *record;
  json_t *before = records;
  close_parts();
  records = json_array();
  now.mono = 1000; /* another boot */
  open_parts();
  json_array_foreach(before, i, record) {
    cr_expect(book_restore(book, record));
  }
  book_restored(book);
  json_array_extend(before, records);
  json_decref(records);
  records = before;
}

void fixture_configure(const char *text) {
  struct alerts_domain domains[DOMAINS_MAX];
  struct steer_domain *made[DOMAINS_MAX];
  char why[JUDGE_WHY];
  json_error_t error;
  char *quoted = strdup(text);
  for (char *c = quoted; *c != '\0'; c++)
    *c = *c == '\'' ? '"' : *c;
  json_t *list = json_loads(quoted, 0, &error);
  free(quoted);
  json_t *routes = json_loads(routes_text, 0, NULL);
  cr_assert(list != NULL, "%s at %d", error.text, error.position);
  size_t count = json_array_size(list);
  for (size_t i = 0; i < count; i++) {
    const json_t *json = json_array_get(list, i);
    made[i] = domain_json_decode(json, why);
    cr_assert(made[i] != NULL, "%s", why);
    domains[i] = (struct alerts_domain){made[i], json_string_value(json_object_get(json, "team")),
                                        json_object_get(json, "alerts")};
  }
  cr_assert(judge_configure(judge, routes, domains, count, &now, why), "%s", why);
  for (size_t i = 0; i < steer_count; i++)
    steer_domain_free(steers[i]);
  memcpy(steers, made, count * sizeof *made);
  steer_count = count;
  json_decref(list);
  json_decref(routes);
}

static enum steer_health state_of(char c) {
  return c == 'u' ? HEALTH_UP : c == 'd' ? HEALTH_DOWN : HEALTH_UNKNOWN;
}

static void set_health(unsigned domain, const char *endpoint, const char *state, const char *why,
                       bool quiet) {
  long e = steer_endpoint_find(steers[domain], endpoint);
  cr_assert_geq(e, 0);
  judge_health(judge, domain, (uint16_t)e, state_of(state[0]),
               state_of(state[1] != '\0' ? state[1] : state[0]), why, quiet);
}

void fixture_health(unsigned domain, const char *endpoint, const char *state, const char *why) {
  set_health(domain, endpoint, state, why, false);
}

void fixture_quiet(unsigned domain, const char *endpoint, const char *state, const char *why) {
  set_health(domain, endpoint, state, why, true);
}

void fixture_overrides(const char *text) {
  json_t *list = json_loads(text, 0, NULL);
  cr_assert(list != NULL);
  judge_overrides(judge, list);
  json_decref(list);
}

void fixture_isolated(bool isolated) {
  judge_isolated(judge, isolated, &now);
}

static void step(uint64_t ms) {
  now.mono += ms;
  now.unix_ms += (int64_t)ms;
  while (judge_run(judge, 10, &now))
    continue;
  book_tick(book, &now);
}

void fixture_pass(uint64_t ms) {
  step(0);
  while (ms > 0) {
    uint64_t wait = book_wait(book, &now);
    uint64_t other = judge_wait(judge, &now);
    wait = other < wait ? other : wait;
    cr_assert_gt(wait, 0, "something is due and was not done");
    wait = wait < ms ? wait : ms;
    step(wait);
    ms -= wait;
  }
}

json_t *fixture_told(const char *route) {
  json_t *out = json_array();
  json_t *rest = json_array();
  size_t i;
  json_t *event;
  json_array_foreach(told, i, event) {
    bool wanted =
        route == NULL || strcmp(json_string_value(json_object_get(event, "route")), route) == 0;
    json_array_append(wanted ? out : rest, event);
  }
  json_decref(told);
  told = rest;
  return out;
}

void fixture_full(bool is_full) {
  full = is_full;
}

const char *fixture_text(const json_t *list, size_t i, const char *member) {
  const char *text = json_string_value(json_object_get(json_array_get(list, i), member));
  return text != NULL ? text : "";
}

const char *fixture_line(const json_t *list, size_t i) {
  static char line[600];
  if (i >= json_array_size(list))
    return "";
  snprintf(line, sizeof line, "%s %s %s %s", fixture_text(list, i, "action"),
           fixture_text(list, i, "kind"), fixture_text(list, i, "severity"),
           fixture_text(list, i, "key"));
  return line;
}

void fixture_configure_one(const char *types, const char *endpoints, const char *regions,
                           const char *on, const char *to) {
  char text[4096];
  int length = snprintf(text, sizeof text,
                        "[" HEAD("a.example.com.") "'types':[%s],'endpoints':[%s],%s,"
                                                   "'alerts':{'on':[%s],'page':true,'to':[%s]}}]",
                        types, endpoints, regions, on, to);
  cr_assert(length > 0 && (size_t)length < sizeof text);
  fixture_configure(text);
}

void fixture_expect(const char *route, const char *const *lines, size_t count) {
  json_t *messages = fixture_told(route);
  for (size_t i = 0; i < count; i++)
    cr_expect_str_eq(fixture_line(messages, i), lines[i]);
  cr_expect_eq(json_array_size(messages), count, "%zu messages to %s, not %zu: %s",
               json_array_size(messages), route, count, json_dumps(messages, JSON_INDENT(1)));
  json_decref(messages);
}

void fixture_expect_summary(const char *route, const char *summary) {
  json_t *messages = fixture_told(route);
  cr_expect_eq(json_array_size(messages), 1);
  cr_expect_str_eq(fixture_text(messages, 0, "summary"), summary);
  json_decref(messages);
}
