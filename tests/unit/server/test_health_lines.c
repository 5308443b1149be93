/* SPDX-License-Identifier: Apache-2.0 */
/* The health feed as the server reads it, up to draw tables; without sockets. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "data_fixture.h"
#include "server/health_lines.h"

#define SOA                                                                                        \
  "example.com. 3600 IN SOA ns1.example.net. h.example.net. 1 2 3 4 60\n"                          \
  "example.com. 60 IN NS ns1.example.net.\n"

enum { MANY = 40 }; /* endpoints of a domain, so many that they are indexed */

static char *data;
static struct facts *facts;
static struct served *served;
static struct health_lines *lines;
static char why[FACTS_WHY];

static void build(const char *id, bool with_late) {
  static uint16_t weights[MANY];
  for (size_t i = 0; i < MANY; i++)
    weights[i] = 1;
  struct steer_domain *domains[] = {zone_fixture_domain("a.example.com.", 3, weights, NULL),
                                    zone_fixture_domain("b.example.com.", MANY, weights, NULL),
                                    zone_fixture_domain("host.example.com.", 2, weights, "h."),
                                    NULL};
  if (with_late)
    domains[3] = zone_fixture_domain("late.example.com.", 3, weights, NULL);
  struct zone_fixture_zone zone = {
      .apex = "example.com.", .text = SOA, .domains = domains, .domain_count = with_late ? 4 : 3};
  data_fixture_build(data, id, &zone, 1);
}

static struct served *load(const struct served *previous) {
  char warning[LOAD_WHY];
  struct load_request request = {.data_dir = data, .previous = previous};
  struct served *loaded = load_run(&request, warning, why);
  cr_assert_not_null(loaded, "%s", why);
  cr_assert(facts_attach(facts, loaded));
  return loaded;
}

static void init(void) {
  log_setup("test", LOG_FORMAT_TEXT, LOG_LEVEL_ERROR);
  data = data_fixture_new();
  build("one", false);
  facts = facts_open(NULL, why);
  served = load(NULL);
  lines = health_lines_new();
}

static void fini(void) {
  health_lines_free(lines);
  load_free(served);
  facts_close(facts);
  data_fixture_free(data);
}

TestSuite(health_lines, .init = init, .fini = fini);

/* One line with ' for ". */
static enum health_line read_line(const char *text, struct health_line_change *change) {
  char copy[4096];
  snprintf(copy, sizeof copy, "%s", text);
  for (char *c = copy; *c; c++)
    if (*c == '\'')
      *c = '"';
  why[0] = '\0';
  enum health_line result = health_lines_read(lines, copy, strlen(copy), change, why);
  cr_assert((result == HEALTH_LINE_BAD) == (why[0] != '\0'), "%s: %s", text, why);
  return result;
}

/* Reads lines until one is bad; puts in force what they say.  False if one was. */
static bool feed(const char *const *texts, size_t count) {
  struct health_changes changes = {.items = NULL};
  bool good = true;
  for (size_t i = 0; good && i < count; i++) {
    struct health_line_change change;
    enum health_line result = read_line(texts[i], &change);
    struct health_map *map = health_lines_map(lines);
    if (result == HEALTH_LINE_SNAPSHOT)
      cr_assert(health_map_resolve(map, served) && health_map_apply_all(map, served, &changes));
    if (result == HEALTH_LINE_CHANGE)
      cr_assert(health_map_apply(map, change.subject, change.families, &changes));
    good = result != HEALTH_LINE_BAD;
  }
  cr_assert(facts_apply(facts, served, changes.items, changes.count, NULL, why));
  health_changes_close(&changes);
  return good;
}

#define FEED(...)                                                                                  \
  feed((const char *const[]){__VA_ARGS__},                                                         \
       sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

#define HELLO "{'t':'hello','format':1,'session':'x','beat':1000}"
#define BEGIN "{'t':'begin','seq':10}"
#define END "{'t':'end','seq':10}"
#define UP "['up',7,'status 200']"
#define DOWN "['down',9,'connect refused']"
#define OPEN "['unknown',0,'']"
#define SUBJECT(id, targets, v4, v6)                                                               \
  "{'t':'subject','id':" #id ",'targets':[" targets "],'v4':" v4 ",'v6':" v6 "}"
#define CHANGE(seq, id, v4, v6) "{'t':'change','seq':" #seq ",'id':" #id ",'v4':" v4 ",'v6':" v6 "}"
#define A(endpoint) "['a.example.com.','" endpoint "']"

static uint32_t find(const char *text) {
  uint8_t name[NAME_BUF], owner[NAME_BUF];
  const char *reason;
  cr_assert(name_from_text(name, text, strlen(text), NULL, &reason));
  name_copy_lower(owner, name);
  long domain = load_find_domain(served, owner);
  cr_assert_geq(domain, 0);
  return (uint32_t)domain;
}

/* Endpoints that can be drawn, as "0,2". */
static const char *drawn(const char *name, enum steer_type type) {
  static char out[512];
  size_t n = 0;
  const struct view_draws *draws = atomic_load(&served->domains[find(name)].draws);
  const struct draw_table *table = draws->tables[type];
  out[0] = '\0';
  for (size_t i = 0; i < table->count; i++)
    n += (size_t)snprintf(out + n, sizeof out - n, i > 0 ? ",%u" : "%u", table->items[i].endpoint);
  return out;
}

static const char *drawn_a(const char *name) {
  return drawn(name, STEER_A);
}

Test(health_lines, snapshot_and_changes) {
  cr_assert(FEED(HELLO, BEGIN, SUBJECT(5, A("e0") "," A("e1"), UP, "null"),
                 SUBJECT(6, A("e2"), DOWN, "null")));
  cr_expect_str_eq(drawn_a("a.example.com."), "0,1,2"); /* not before the end */
  cr_assert(FEED(END));
  cr_expect_str_eq(drawn_a("a.example.com."), "0,1");
  cr_assert(FEED(CHANGE(11, 5, DOWN, "null"), CHANGE(12, 6, UP, "null")));
  cr_expect_str_eq(drawn_a("a.example.com."), "2");
  cr_assert(FEED("{'t':'beat','seq':12}", "{'t':'later'}", CHANGE(13, 5, UP, "null")));
  cr_expect_str_eq(drawn_a("a.example.com."), "0,1,2");
}

Test(health_lines, families_are_apart) {
  cr_assert(FEED(HELLO, BEGIN, SUBJECT(1, A("e0"), UP, DOWN), SUBJECT(2, A("e1"), DOWN, UP), END));
  cr_expect_str_eq(drawn("a.example.com.", STEER_A), "0,2");
  cr_expect_str_eq(drawn("a.example.com.", STEER_AAAA), "1,2");
  cr_assert(FEED(CHANGE(11, 1, UP, UP)));
  cr_expect_str_eq(drawn("a.example.com.", STEER_AAAA), "0,1,2");
}

/* A host name is judged as one: its verdict stands in both. */
Test(health_lines, hosts) {
  cr_assert(FEED(HELLO, BEGIN, SUBJECT(1, "['host.example.com.','e1']", DOWN, DOWN), END));
  cr_expect_str_eq(drawn("host.example.com.", STEER_CNAME), "0");
}

Test(health_lines, not_decided_keeps_what_was_known) {
  cr_assert(FEED(HELLO, BEGIN, SUBJECT(1, A("e0"), DOWN, "null"), END));
  cr_assert(FEED(CHANGE(11, 1, OPEN, "null")));
  cr_expect_str_eq(drawn_a("a.example.com."), "1,2");
  health_lines_restart(lines);
  cr_assert(FEED(HELLO, BEGIN, SUBJECT(9, A("e0"), OPEN, OPEN), END));
  cr_expect_str_eq(drawn_a("a.example.com."), "1,2");
  cr_assert(FEED(CHANGE(11, 9, UP, OPEN)));
  cr_expect_str_eq(drawn_a("a.example.com."), "0,1,2");
}

Test(health_lines, what_is_in_no_subject_is_unknown) {
  cr_assert(FEED(HELLO, BEGIN, SUBJECT(1, A("e0") "," A("e1"), DOWN, DOWN), END));
  cr_expect_str_eq(drawn_a("a.example.com."), "2");
  cr_assert(
      FEED("{'t':'begin','seq':20}", SUBJECT(1, A("e1"), DOWN, DOWN), "{'t':'end','seq':20}"));
  cr_expect_str_eq(drawn_a("a.example.com."), "0,2");
  cr_expect_eq(facts_health(served, find("a.example.com."), 0, 6).measured, HEALTH_UNKNOWN);
  cr_assert(FEED("{'t':'begin','seq':20}", "{'t':'end','seq':20}"));
  cr_expect_str_eq(drawn_a("a.example.com."), "0,1,2");
}

Test(health_lines, targets_in_pieces_and_twice) {
  cr_assert(FEED(HELLO, BEGIN, SUBJECT(1, A("e2"), DOWN, "null"), SUBJECT(2, A("e1"), UP, "null"),
                 SUBJECT(1, A("e0") "," A("e2"), DOWN, "null"), END));
  cr_expect_str_eq(drawn_a("a.example.com."), "1");
  cr_expect_eq(health_map_counts(health_lines_map(lines)).targets, 4);
  cr_expect_eq(health_map_counts(health_lines_map(lines)).served, 3);
  /* Two that claim the same: the later one has it. */
  cr_assert(FEED(BEGIN, SUBJECT(1, A("e0"), DOWN, "null"), SUBJECT(2, A("e0"), UP, "null"), END));
  cr_expect_str_eq(drawn_a("a.example.com."), "0,1,2");
  cr_assert(FEED(CHANGE(11, 1, UP, "null"), CHANGE(12, 1, DOWN, "null")));
  cr_expect_str_eq(drawn_a("a.example.com."), "0,1,2");
  cr_assert(FEED(CHANGE(13, 2, DOWN, "null")));
  cr_expect_str_eq(drawn_a("a.example.com."), "1,2");
}

Test(health_lines, targets_that_are_not_served) {
  cr_assert(FEED(
      HELLO, BEGIN,
      SUBJECT(1, "['late.example.com.','e0'],['a.example.com.','nope']," A("e0"), DOWN, "null"),
      END));
  cr_expect_str_eq(drawn_a("a.example.com."), "1,2");
  struct health_counts counts = health_map_counts(health_lines_map(lines));
  cr_expect_eq(counts.targets, 3);
  cr_expect_eq(counts.served, 1);
}

/* The server's own reload: what the checker told before holds for new domains too. */
Test(health_lines, new_view) {
  cr_assert(
      FEED(HELLO, BEGIN, SUBJECT(1, "['late.example.com.','e1']," A("e0"), DOWN, "null"), END));
  build("two", true);
  struct served *old = served;
  served = load(old);
  load_free(old);
  struct health_changes changes = {.items = NULL};
  struct health_map *map = health_lines_map(lines);
  cr_assert(health_map_resolve(map, served) && health_map_apply_all(map, served, &changes));
  cr_assert(facts_apply(facts, served, changes.items, changes.count, NULL, why));
  health_changes_close(&changes);
  cr_expect_str_eq(drawn_a("late.example.com."), "0,2");
  cr_assert(FEED(CHANGE(11, 1, UP, "null")));
  cr_expect_str_eq(drawn_a("late.example.com."), "0,1,2");
  cr_expect_str_eq(drawn_a("a.example.com."), "0,1,2");
}

Test(health_lines, many_endpoints) {
  cr_assert(FEED(HELLO, BEGIN));
  for (int i = MANY - 1; i >= 0; i -= 2) {
    char line[256];
    snprintf(line, sizeof line, SUBJECT(% d, "['B.Example.com.','e%d']", DOWN, "null"), i, i);
    cr_assert(FEED(line));
  }
  cr_assert(FEED(END));
  cr_expect_str_eq(drawn_a("b.example.com."),
                   "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38");
}

Test(health_lines, what_was_told_can_be_looked_up) {
  cr_assert(FEED(HELLO, BEGIN, SUBJECT(1, A("e1"), DOWN, "null"), END));
  const struct health_map *map = health_lines_map(lines);
  uint32_t a = find("a.example.com.");
  const struct health_verdict *verdicts = health_map_verdicts(map, a, 1);
  cr_assert_not_null(verdicts);
  cr_expect_eq(verdicts[0].state, HEALTH_STATE_DOWN);
  cr_expect_eq(verdicts[0].since, 9);
  cr_expect_str_eq(verdicts[0].why, "connect refused");
  cr_expect_eq(verdicts[1].state, HEALTH_STATE_NONE);
  cr_expect_null(health_map_verdicts(map, a, 0));
  cr_expect_null(health_map_verdicts(map, 99, 0));
}

/* All counts as healthy; nothing of it is forgotten, and what is forced holds. */
Test(health_lines, health_can_be_left_out_of_account) {
  cr_assert(FEED(HELLO, BEGIN, SUBJECT(1, A("e0") "," A("e1"), DOWN, "null"), END));
  cr_assert(facts_ignore_measured(facts, served, true));
  cr_expect_str_eq(drawn_a("a.example.com."), "0,1,2");
  struct fact_change forced = {
      .domain = find("a.example.com."), .endpoint = 2, .field = FACT_FORCED4, .value = HEALTH_DOWN};
  cr_assert(facts_apply(facts, served, &forced, 1, NULL, why));
  cr_expect_str_eq(drawn_a("a.example.com."), "0,1");
  struct served *old = served;
  served = load(old);
  load_free(old);
  cr_expect_str_eq(drawn_a("a.example.com."), "0,1");
  cr_assert(FEED(BEGIN, SUBJECT(1, A("e0"), UP, "null"), SUBJECT(2, A("e1"), DOWN, "null"), END));
  cr_expect_str_eq(drawn_a("a.example.com."), "0,1");
  cr_assert(facts_ignore_measured(facts, served, false));
  cr_expect_str_eq(drawn_a("a.example.com."), "0");
}

/* ---- what ends the connection ------------------------------------------------------------------
 */

static void expect_bad(const char *line, const char *word) {
  struct health_line_change change;
  cr_expect_eq(read_line(line, &change), HEALTH_LINE_BAD, "taken: %s", line);
  cr_expect(strstr(why, word), "%s: %s", line, why);
}

Test(health_lines, garbage) {
  static const char *const never[] = {
      "", "GET / HTTP/1.1", "[]", "{}", "null", "{'t':7}", "\x01\x02", "{'t':'begin','seq':1}x"};
  for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
    health_lines_restart(lines);
    expect_bad(never[i], "");
  }
  health_lines_restart(lines);
  expect_bad(BEGIN, "hello");
  expect_bad("{'t':'hello'}", "format");
  expect_bad("{'t':'hello','format':2}", "format 2");
  cr_assert(FEED(HELLO));
  expect_bad(HELLO, "second");
  expect_bad(CHANGE(1, 1, UP, UP), "before");
  expect_bad(SUBJECT(1, "", UP, UP), "outside");
  expect_bad(END, "begun");
  expect_bad("{'t':'begin'}", "sequence");
  expect_bad("{'t':'begin','seq':-1}", "sequence");
  cr_assert(FEED(BEGIN));
  expect_bad(BEGIN, "begins");
  expect_bad("{'t':'end','seq':11}", "sequence");
  expect_bad("{'t':'beat'}", "heartbeat");
}

Test(health_lines, wrong_subjects) {
  static const char *const wrong[] = {
      "{'t':'subject','targets':[],'v4':null,'v6':null}",
      "{'t':'subject','id':4294967296,'targets':[],'v4':null,'v6':null}",
      "{'t':'subject','id':1,'targets':{},'v4':null,'v6':null}",
      SUBJECT(1, "7", UP, UP),
      SUBJECT(1, "['a.example.com.']", UP, UP),
      SUBJECT(1, "['a.example.com','e0']", UP, UP),
      SUBJECT(1, "['a..com.','e0']", UP, UP),
      SUBJECT(1, "['','e0']", UP, UP),
      SUBJECT(1, "['a.example.com.','']", UP, UP),
      SUBJECT(1, "['a.example.com.',7]", UP, UP),
      SUBJECT(1, "", "'up'", UP),
      SUBJECT(1, "", UP, "['up']"),
      SUBJECT(1, "", UP, "['odd',1,'']"),
      SUBJECT(1, "", UP, "['up','1','']"),
      SUBJECT(1, "", UP, "['up',1,null]"),
      "{'t':'subject','id':1,'targets':[],'v4':null}",
  };
  cr_assert(FEED(HELLO, BEGIN));
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    expect_bad(wrong[i], "");
}

Test(health_lines, gaps) {
  cr_assert(FEED(HELLO, BEGIN, SUBJECT(1, A("e0"), UP, UP), END));
  expect_bad(CHANGE(12, 1, UP, UP), "gap");
  expect_bad(CHANGE(10, 1, UP, UP), "gap");
  expect_bad("{'t':'beat','seq':11}", "gap");
  expect_bad(CHANGE(11, 2, UP, UP), "not known");
  expect_bad("{'t':'change','id':1,'v4':null,'v6':null}", "numbers");
}

/* What came before a line that is bad stays, also a snapshot that was not whole. */
Test(health_lines, bad_line_in_a_snapshot) {
  cr_assert(FEED(HELLO, BEGIN, SUBJECT(1, A("e0"), DOWN, "null"), END));
  cr_assert(!FEED(BEGIN, SUBJECT(1, A("e1"), DOWN, "null"), "{'t':'end','seq':99}"));
  cr_expect_str_eq(drawn_a("a.example.com."), "1,2");
  health_lines_restart(lines);
  cr_assert(FEED(HELLO, BEGIN, SUBJECT(1, A("e1"), DOWN, "null"), END));
  cr_expect_str_eq(drawn_a("a.example.com."), "0,2");
}
