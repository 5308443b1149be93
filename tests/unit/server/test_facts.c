/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "data_fixture.h"
#include "server/facts.h"

#define SOA(apex)                                                                                  \
  apex " 3600 IN SOA ns1.example.net. h.example.net. 1 2 3 4 60\n" apex                            \
       " 60 IN NS ns1.example.net.\n"

static const uint16_t weights[] = {100, 0, 5};
static char *data;
static char *state;
static struct facts *facts;
static struct served *served;
static char why[512], warning[512];

/* A build of one zone with the first `count` of these domains. */
static void build(const char *id, size_t count) {
  static const char *const names[] = {"a.example.com.", "b.example.com.", "*.w.example.com."};
  struct steer_domain *domains[3];
  for (size_t i = 0; i < count; i++)
    domains[i] = zone_fixture_domain(names[i], 3, weights, NULL);
  struct zone_fixture_zone zone = {.apex = "example.com.",
                                   .text = SOA("example.com."),
                                   .domains = domains,
                                   .domain_count = count};
  data_fixture_build(data, id, &zone, 1);
}

static struct served *load(const struct served *previous) {
  struct load_request request = {.data_dir = data, .previous = previous};
  struct served *loaded = load_run(&request, warning, why);
  cr_assert_not_null(loaded, "%s", why);
  return loaded;
}

static void init(void) {
  log_setup("test", LOG_FORMAT_TEXT, LOG_LEVEL_ERROR);
  data = data_fixture_new();
  state = fs_join(data, "state");
  build("one", 3);
  served = load(NULL);
  facts = facts_open(state, why);
  cr_assert_not_null(facts, "%s", why);
  cr_assert(facts_attach(facts, served));
}

static void fini(void) {
  load_free(served);
  facts_close(facts);
  free(state);
  data_fixture_free(data);
}

TestSuite(facts, .init = init, .fini = fini);

static long find(const struct served *in, const char *text) {
  uint8_t name[NAME_BUF], owner[NAME_BUF];
  const char *reason;
  cr_assert(name_from_text(name, text, strlen(text), NULL, &reason));
  name_copy_lower(owner, name);
  return load_find_domain(in, owner);
}

/* Endpoints that can be drawn for A, as digits. */
static const char *drawn(const struct served *in, const char *name) {
  static char out[16];
  const struct view_draws *draws = atomic_load(&in->domains[find(in, name)].draws);
  const struct draw_table *table = draws->tables[STEER_A];
  size_t n = 0;
  for (size_t i = 0; i < table->count; i++)
    out[n++] = (char)('0' + table->items[i].endpoint);
  out[n] = '\0';
  return out;
}

static bool change(const char *name, uint16_t endpoint, uint8_t field, uint8_t value) {
  struct fact_change one = {
      .domain = (uint32_t)find(served, name), .endpoint = endpoint, .field = field, .value = value};
  return facts_apply(facts, served, &one, 1, NULL, why);
}

static struct fact_change weight(const char *name, uint32_t entry, int32_t value) {
  return (struct fact_change){
      .domain = (uint32_t)find(served, name), .field = FACT_WEIGHT, .entry = entry, .value = value};
}

/* Ends and starts again with what is on disk. */
static void restart(void) {
  cr_assert(facts_flush(facts, why));
  load_free(served);
  facts_close(facts);
  served = load(NULL);
  facts = facts_open(state, why);
  cr_assert_not_null(facts, "%s", why);
  cr_assert(facts_attach(facts, served));
}

Test(facts, domains_are_found) {
  cr_assert_geq(find(served, "A.example.com."), 0);
  cr_assert_geq(find(served, "*.w.example.com."), 0);
  cr_assert_lt(find(served, "c.example.com."), 0);
  cr_assert_lt(find(served, "."), 0);
}

Test(facts, manual_status) {
  cr_assert_str_eq(drawn(served, "a.example.com."), "02");
  cr_assert(change("a.example.com.", 0, FACT_MANUAL, MANUAL_DISABLED));
  cr_assert_str_eq(drawn(served, "a.example.com."), "2");
  cr_assert_str_eq(drawn(served, "b.example.com."), "02");
  cr_assert(change("a.example.com.", 0, FACT_MANUAL, MANUAL_NONE));
  cr_assert_str_eq(drawn(served, "a.example.com."), "02");
}

Test(facts, health_and_what_is_forced) {
  cr_assert(change("a.example.com.", 2, FACT_HEALTH4, HEALTH_DOWN));
  cr_assert_str_eq(drawn(served, "a.example.com."), "0");
  cr_assert(change("a.example.com.", 2, FACT_FORCED4, HEALTH_UP));
  cr_assert_str_eq(drawn(served, "a.example.com."), "02");
  cr_assert(change("a.example.com.", 2, FACT_FORCED4, HEALTH_UNKNOWN));
  cr_assert_str_eq(drawn(served, "a.example.com."), "0");
  cr_assert(change("a.example.com.", 0, FACT_HEALTH4, HEALTH_DOWN));
  cr_assert_str_eq(drawn(served, "a.example.com."), "1");
  cr_assert(change("a.example.com.", 1, FACT_HEALTH4, HEALTH_DOWN));
  cr_assert_str_eq(drawn(served, "a.example.com."), "02"); /* all down: as if all were up */
}

Test(facts, families_are_apart) {
  cr_assert(change("a.example.com.", 2, FACT_FORCED6, HEALTH_DOWN));
  cr_assert_str_eq(drawn(served, "a.example.com."), "02");
  const struct view_draws *draws =
      atomic_load(&served->domains[find(served, "a.example.com.")].draws);
  cr_assert_eq(draws->tables[STEER_AAAA]->count, 1);
}

Test(facts, many_at_once) {
  struct fact_change changes[6];
  for (uint16_t i = 0; i < 6; i++)
    changes[i] = (struct fact_change){.domain = i / 2,
                                      .endpoint = 2,
                                      .field = i % 2 ? FACT_HEALTH6 : FACT_HEALTH4,
                                      .value = HEALTH_DOWN};
  cr_assert(facts_apply(facts, served, changes, 6, NULL, why));
  cr_assert_str_eq(drawn(served, "a.example.com."), "0");
  cr_assert_str_eq(drawn(served, "b.example.com."), "0");
  cr_assert_str_eq(drawn(served, "*.w.example.com."), "0");
}

Test(facts, weights) {
  struct fact_change changes[] = {weight("a.example.com.", 0, 0), weight("a.example.com.", 1, 7)};
  cr_assert(facts_apply(facts, served, changes, 2, NULL, why));
  cr_assert_str_eq(drawn(served, "a.example.com."), "12");
  cr_assert_str_eq(drawn(served, "b.example.com."), "02");
  const struct view_draws *draws =
      atomic_load(&served->domains[find(served, "a.example.com.")].draws);
  cr_assert_eq(draws->tables[STEER_A]->total, 12);
  cr_assert_eq(facts_of(served, (uint32_t)find(served, "a.example.com.")).weights[0], 0);
  changes[0].value = changes[1].value = -1;
  cr_assert(facts_apply(facts, served, changes, 2, NULL, why));
  cr_assert_str_eq(drawn(served, "a.example.com."), "02");
}

static bool refuse(void *arg, char *reason) {
  ++*(int *)arg;
  snprintf(reason, FACTS_WHY, "the disk is full");
  return false;
}

static bool accept(void *arg, char *reason) {
  (void)reason;
  ++*(int *)arg;
  cr_assert_str_eq(drawn(served, "a.example.com."), "02"); /* nothing is visible yet */
  return true;
}

Test(facts, nothing_is_left_of_what_is_not_committed) {
  int calls = 0;
  const struct fact_commit no = {.run = refuse, .arg = &calls},
                           yes = {.run = accept, .arg = &calls};
  struct fact_change changes[] = {
      weight("a.example.com.", 0, 0),
      weight("a.example.com.", 0, 9),
      {.domain = (uint32_t)find(served, "a.example.com."),
       .endpoint = 2,
       .field = FACT_MANUAL,
       .value = MANUAL_DISABLED},
  };
  cr_assert_not(facts_apply(facts, served, changes, 3, &no, why));
  cr_assert_str_eq(why, "the disk is full");
  cr_assert_str_eq(drawn(served, "a.example.com."), "02");
  struct steer_facts known = facts_of(served, (uint32_t)find(served, "a.example.com."));
  cr_assert_eq(known.weights[0], -1);
  cr_assert_eq(known.status[2].manual, MANUAL_NONE);
  cr_assert(facts_apply(facts, served, changes, 3, &yes, why));
  cr_assert_str_eq(drawn(served, "a.example.com."), "0");
  cr_assert_eq(calls, 2);
}

Test(facts, measured_health_survives_a_restart) {
  cr_assert(change("a.example.com.", 0, FACT_MANUAL, MANUAL_DISABLED));
  cr_assert(change("*.w.example.com.", 0, FACT_HEALTH4, HEALTH_DOWN));
  cr_assert(change("b.example.com.", 0, FACT_FORCED4, HEALTH_DOWN));
  restart();
  cr_assert_str_eq(drawn(served, "*.w.example.com."), "2");
  cr_assert_str_eq(drawn(served, "a.example.com."), "02"); /* belongs to the store */
  cr_assert_str_eq(drawn(served, "b.example.com."), "02");
}

Test(facts, what_is_forced_before_the_first_view_holds_in_it) {
  uint8_t name[NAME_BUF];
  const char *reason;
  cr_assert(name_from_text(name, "a.example.com.", 14, NULL, &reason));
  cr_assert(facts_force(facts, name, "e0", FACT_MANUAL, MANUAL_DISABLED));
  cr_assert(facts_force(facts, name, "nothing", FACT_FORCED4, HEALTH_DOWN));
  struct served *next = load(served);
  cr_assert(facts_set_weight(next, (uint32_t)find(next, "b.example.com."), 1, 5));
  cr_assert(facts_attach(facts, next));
  load_free(served);
  served = next;
  cr_assert_str_eq(drawn(served, "a.example.com."), "2");
  cr_assert_str_eq(drawn(served, "b.example.com."), "012");
}

Test(facts, survive_a_reload_by_name) {
  cr_assert(change("b.example.com.", 0, FACT_MANUAL, MANUAL_DISABLED));
  build("two", 2);
  struct served *next = load(served);
  cr_assert(facts_attach(facts, next));
  load_free(served);
  served = next;
  cr_assert_str_eq(drawn(served, "b.example.com."), "2");
}

Test(facts, are_dropped_with_their_target) {
  cr_assert(change("b.example.com.", 0, FACT_HEALTH4, HEALTH_DOWN));
  cr_assert(change("a.example.com.", 0, FACT_HEALTH4, HEALTH_DOWN));
  build("two", 1);
  restart();
  build("three", 3);
  restart();
  cr_assert_str_eq(drawn(served, "a.example.com."), "2");
  cr_assert_str_eq(drawn(served, "b.example.com."), "02");
}

static const char *const damaged[] = {
    "",
    "{",
    "[]",
    "{\"version\": 2, \"endpoints\": []}",
    "{\"version\": 1, \"endpoints\": {}}",
    "{\"version\": 1, \"endpoints\": [1]}",
    "{\"version\": 1, \"endpoints\": [{\"domain\": \"a..b\", \"endpoint\": \"e0\"}]}",
    "{\"version\": 1, \"endpoints\": [{\"domain\": \"a.example.com.\", \"endpoint\": 5}]}",
    "{\"version\": 1, \"endpoints\": [{\"domain\": \"a.example.com.\", \"endpoint\": \"e0\", "
    "\"health4\": \"gone\"}]}",
    "{\"version\": 1, \"endpoints\": [{\"domain\": \"a.example.com.\", \"endpoint\": \"e0\", "
    "\"health6\": 2}]}",
    "{\"version\": 1, \"endpoints\": [{\"domain\": \"a.example.com.\", \"endpoint\": \"e0\"}, "
    "{\"domain\": \"A.example.com.\", \"endpoint\": \"e0\"}]}",
};

Test(facts, a_damaged_file_is_set_aside) {
  char *aside = fs_join(state, "status.json.damaged");
  log_setup("test", LOG_FORMAT_TEXT, LOG_LEVEL_ERROR);
  for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
    facts_close(facts);
    unlink(aside);
    data_fixture_write(data, "state/status.json", damaged[i], strlen(damaged[i]));
    facts = facts_open(state, why);
    cr_assert_not_null(facts, "%s: %s", damaged[i], why);
    cr_expect_eq(access(aside, F_OK), 0, "%s", damaged[i]);
  }
  free(aside);
}
