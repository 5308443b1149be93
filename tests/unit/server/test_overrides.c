/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/log.h"
#include "data_fixture.h"
#include "server/overrides.h"

#define SOA(apex)                                                                                  \
  apex " 3600 IN SOA ns1.example.net. h.example.net. 1 2 3 4 60\n" apex                            \
       " 60 IN NS ns1.example.net.\n"

enum { NOW = 1800000000 };

static const uint16_t weights[] = {100, 0, 5};
static char *data, *state;
static struct facts *facts;
static struct overrides *overrides;
static struct served *served;
static int64_t now_ms;
static int told; /* how often changed() was called */
static char why[STORE_WHY], warning[512];

static int64_t test_clock(void) {
  return now_ms;
}

static void on_changed(void *arg) {
  (void)arg;
  told++;
}

/* A build of one zone with the first `count` of these domains. */
static void build(const char *id, size_t count) {
  static const char *const names[] = {"a.example.com.", "b.example.com.", "c.example.com."};
  struct steer_domain *domains[3];
  for (size_t i = 0; i < count; i++)
    domains[i] = zone_fixture_domain(names[i], 3, weights, NULL);
  struct zone_fixture_zone zone = {.apex = "example.com.",
                                   .text = SOA("example.com."),
                                   .domains = domains,
                                   .domain_count = count};
  data_fixture_build(data, id, &zone, 1);
}

/* Loads the build and puts it into force, as the server does. */
static void publish(void) {
  struct load_request request = {.data_dir = data, .previous = served};
  struct served *loaded = load_run(&request, warning, why);
  cr_assert_not_null(loaded, "%s", why);
  cr_assert(overrides_attach(overrides, loaded));
  cr_assert(facts_attach(facts, loaded));
  load_free(served);
  served = loaded;
  overrides_published(overrides, served);
}

static bool try_open(void) {
  facts = facts_open(state, why);
  cr_assert_not_null(facts, "%s", why);
  const struct overrides_options options = {
      .state = state, .facts = facts, .now_ms = test_clock, .changed = on_changed};
  overrides = overrides_open(&options, why);
  return overrides != NULL;
}

static void open_all(void) {
  cr_assert(try_open(), "%s", why);
  publish();
}

static void close_all(void) {
  overrides_close(overrides);
  load_free(served);
  served = NULL;
  facts_close(facts);
}

static void restart(void) {
  close_all();
  open_all();
}

static void init(void) {
  log_setup("test", LOG_FORMAT_TEXT, LOG_LEVEL_ERROR);
  now_ms = (int64_t)NOW * 1000;
  data = data_fixture_new();
  state = fs_join(data, "state");
  build("one", 3);
  open_all();
}

static void fini(void) {
  close_all();
  free(state);
  data_fixture_free(data);
}

TestSuite(overrides, .init = init, .fini = fini);

/* ---- helpers ----------------------------------------------------------------------------------
 */

/* Endpoints that can be drawn for A, as digits. */
static const char *drawn(const char *text) {
  static char out[16];
  uint8_t name[NAME_BUF];
  const char *reason;
  cr_assert(name_from_text(name, text, strlen(text), NULL, &reason));
  long at = load_find_domain(served, name);
  cr_assert_geq(at, 0);
  const struct view_draws *draws = atomic_load(&served->domains[at].draws);
  const struct draw_table *table = draws->tables[STEER_A];
  size_t n = 0;
  for (size_t i = 0; i < table->count; i++)
    out[n++] = (char)('0' + table->items[i].endpoint);
  out[n] = '\0';
  return out;
}

static struct store_change weight(const char *domain, const char *endpoint, int32_t value) {
  return (struct store_change){.override = {.key = {.kind = STORE_WEIGHT,
                                                    .domain = domain,
                                                    .endpoint = endpoint,
                                                    .region = "Global",
                                                    .level = 1},
                                            .value = value,
                                            .set_at = now_ms / 1000,
                                            .who = "kim"}};
}

static struct store_change status(const char *domain, const char *endpoint, int32_t value) {
  return (struct store_change){
      .override = {
          .key = {.kind = STORE_STATUS, .domain = domain, .endpoint = endpoint, .region = ""},
          .value = value,
          .set_at = now_ms / 1000,
          .who = "kim"}};
}

static enum store_result commit(struct store_change *changes, size_t count) {
  uint64_t revision;
  struct store_audit row = {
      .who = "kim", .command = "set", .domain = changes[0].override.key.domain, .what = "{}"};
  struct store_batch batch = {.at = now_ms / 1000,
                              .changes = changes,
                              .change_count = count,
                              .audits = &row,
                              .audit_count = 1};
  return overrides_commit(overrides, served, &batch, changes, &revision, NULL, why);
}

static enum store_result commit_one(struct store_change change) {
  return commit(&change, 1);
}

static void execute(const char *sql) {
  sqlite3 *db;
  char *path = fs_join(state, "store.db");
  cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
  cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
  sqlite3_close(db);
  free(path);
}

static char last_command[32];

static bool keep_command(void *arg, const struct store_audit *audit) {
  snprintf(last_command, sizeof last_command, "%s", audit->command);
  return arg != NULL;
}

/* The latest command of the audit trail. */
static const char *latest(void) {
  last_command[0] = '\0';
  cr_assert(store_history(overrides_store(overrides), NULL, 1, keep_command, NULL, why), "%s", why);
  return last_command;
}

static bool count_one(void *arg, const struct store_override *override) {
  (void) override;
  ++*(size_t *)arg;
  return true;
}

static size_t stored(void) {
  size_t count = 0;
  cr_assert(store_load(overrides_store(overrides), NULL, count_one, &count, why), "%s", why);
  return count;
}

/* ---- commits ----------------------------------------------------------------------------------
 */

Test(overrides, weights_and_status_are_in_force_and_stay) {
  struct store_change changes[] = {weight("a.example.com.", "e0", 0),
                                   weight("a.example.com.", "e1", 9),
                                   status("b.example.com.", "e0", 2)};
  cr_assert_str_eq(drawn("a.example.com."), "02");
  cr_assert_eq(commit(changes, 3), STORE_DONE, "%s", why);
  cr_assert_eq(told, 1);
  for (int i = 0; i < 2; i++) {
    cr_assert_str_eq(drawn("a.example.com."), "12");
    cr_assert_str_eq(drawn("b.example.com."), "2");
    cr_assert_str_eq(drawn("c.example.com."), "02");
    cr_assert_eq(overrides_count(overrides), 3);
    restart();
  }
  build("two", 3);
  publish();
  cr_assert_str_eq(drawn("a.example.com."), "12");
  cr_assert_str_eq(drawn("b.example.com."), "2");
  struct store_change back = weight("a.example.com.", "e0", 0);
  back.drop = true;
  cr_assert_eq(commit_one(back), STORE_DONE, "%s", why);
  cr_assert_str_eq(drawn("a.example.com."), "012");
}

Test(overrides, B40_zero_is_not_the_same_as_not_set) {
  cr_assert_eq(commit_one(weight("a.example.com.", "e2", 0)), STORE_DONE);
  cr_assert_str_eq(drawn("a.example.com."), "0");
  restart();
  cr_assert_str_eq(drawn("a.example.com."), "0");
  struct store_change back = weight("a.example.com.", "e2", 0);
  back.drop = true;
  cr_assert_eq(commit_one(back), STORE_DONE);
  cr_assert_str_eq(drawn("a.example.com."), "02");
}

/* A text of the first override of a domain, or "". */
static const char *first(const char *domain, const char *key) {
  static char out[128];
  json_t *list = overrides_of_domain(overrides, domain);
  const char *text = json_string_value(json_object_get(json_array_get(list, 0), key));
  snprintf(out, sizeof out, "%s", text != NULL ? text : "");
  json_decref(list);
  return out;
}

Test(overrides, regions_get_the_spelling_of_the_configuration) {
  cr_assert_eq(commit_one(weight("a.example.com.", "e0", 3)), STORE_DONE);
  cr_assert_str_eq(first("a.example.com.", "region"), "global");
}

Test(overrides, what_does_not_exist_changes_nothing) {
  struct store_change good = weight("a.example.com.", "e0", 0);
  struct store_change bad[] = {weight("aa.example.com.", "e0", 1),
                               weight("a.example.com.", "e9", 1), weight("a.example.com.", "e0", 1),
                               weight("a.example.com.", "e0", 1),
                               status("a.example.com.", "x0", 1)};
  bad[2].override.key.region = "globall";
  bad[3].override.key.level = 2;
  static const char *const words[] = {"did you mean `a.example.com.`", "did you mean `e0`",
                                      "did you mean `global`", "no level 2", "no endpoint `x0`"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct store_change changes[] = {good, bad[i]};
    cr_assert_eq(commit(changes, 2), STORE_FAILED);
    cr_expect_neq(strstr(why, words[i]), NULL, "%zu: %s", i, why);
    changes[1].drop = true;
    cr_assert_eq(commit(changes, 2), STORE_FAILED);
    cr_expect_str_eq(drawn("a.example.com."), "02");
  }
  cr_assert_eq(overrides_count(overrides), 0);
  cr_assert_eq(stored(), 0);
  cr_assert_eq(told, 0);
}

Test(overrides, a_failing_store_changes_nothing) {
  cr_assert_eq(commit_one(weight("a.example.com.", "e0", 0)), STORE_DONE);
  execute("CREATE TRIGGER t BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no'); END");
  struct store_change changes[] = {weight("a.example.com.", "e2", 0),
                                   status("b.example.com.", "e0", 2)};
  cr_assert_eq(commit(changes, 2), STORE_FAILED);
  cr_assert_str_eq(drawn("a.example.com."), "2");
  cr_assert_str_eq(drawn("b.example.com."), "02");
  cr_assert_eq(overrides_count(overrides), 1);
  execute("DROP TRIGGER t");
  cr_assert_eq(commit(changes, 2), STORE_DONE, "%s", why);
  cr_assert_str_eq(drawn("b.example.com."), "2");
}

Test(overrides, the_same_key_twice_in_one_commit) {
  struct store_change changes[] = {
      weight("a.example.com.", "e0", 0), weight("a.example.com.", "e0", 7),
      weight("b.example.com.", "e0", 0), weight("a.example.com.", "e2", 0)};
  cr_assert_eq(commit(changes, 4), STORE_DONE, "%s", why);
  cr_assert_str_eq(drawn("a.example.com."), "0");
  cr_assert_str_eq(drawn("b.example.com."), "2");
  cr_assert_eq(overrides_count(overrides), 3);
  cr_assert_eq(stored(), 3);
}

/* ---- expiry -----------------------------------------------------------------------------------
 */

static struct store_change until(struct store_change change, int64_t seconds) {
  change.override.expires_at = now_ms / 1000 + seconds;
  return change;
}

Test(overrides, expire_in_time) {
  cr_assert_eq(commit_one(until(weight("a.example.com.", "e0", 0), 2)), STORE_DONE);
  cr_assert_eq(commit_one(until(status("b.example.com.", "e0", 2), 5)), STORE_DONE);
  cr_assert_eq(overrides_tick(overrides, served), 1000);
  now_ms += 1500;
  cr_assert_eq(overrides_tick(overrides, served), 500);
  cr_assert_str_eq(drawn("a.example.com."), "2");
  now_ms += 500;
  overrides_tick(overrides, served);
  cr_assert_str_eq(drawn("a.example.com."), "02");
  cr_assert_str_eq(drawn("b.example.com."), "2");
  cr_assert_str_eq(latest(), "expire");
  cr_assert_eq(stored(), 1);
  cr_assert_eq(overrides_count(overrides), 1);
}

Test(overrides, B94_a_clock_that_jumps) {
  cr_assert_eq(commit_one(until(weight("a.example.com.", "e0", 0), 3600)), STORE_DONE);
  now_ms -= 86400000; /* back: it stays longer, and nothing else happens */
  cr_assert_leq(overrides_tick(overrides, served), 1000);
  cr_assert_str_eq(drawn("a.example.com."), "2");
  now_ms += 2 * 86400000LL;
  overrides_tick(overrides, served);
  cr_assert_str_eq(drawn("a.example.com."), "02");
}

Test(overrides, a_timed_one_replaces_an_older_one) {
  cr_assert_eq(commit_one(weight("a.example.com.", "e0", 0)), STORE_DONE);
  cr_assert_eq(commit_one(until(weight("a.example.com.", "e0", 50), 1)), STORE_DONE);
  cr_assert_str_eq(drawn("a.example.com."), "02");
  now_ms += 1000;
  overrides_tick(overrides, served);
  cr_assert_str_eq(drawn("a.example.com."), "02"); /* the configuration's, not the older one */
  cr_assert_eq(stored(), 0);
}

Test(overrides, expire_while_the_server_is_down) {
  cr_assert_eq(commit_one(until(weight("a.example.com.", "e0", 0), 2)), STORE_DONE);
  now_ms += 10000;
  restart();
  cr_assert_str_eq(drawn("a.example.com."), "02");
  overrides_tick(overrides, served);
  cr_assert_eq(stored(), 0);
  cr_assert_str_eq(latest(), "expire");
}

Test(overrides, expire_though_the_store_cannot_be_written) {
  cr_assert_eq(commit_one(until(weight("a.example.com.", "e0", 0), 2)), STORE_DONE);
  execute("CREATE TRIGGER t BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no'); END");
  now_ms += 2000;
  overrides_tick(overrides, served);
  cr_assert_str_eq(drawn("a.example.com."), "02");
  cr_assert_eq(overrides_count(overrides), 0);
  cr_assert_eq(stored(), 1);
  overrides_tick(overrides, served); /* not at once again */
  cr_assert_str_eq(latest(), "set");
  execute("DROP TRIGGER t");
  now_ms += 11000;
  overrides_tick(overrides, served);
  cr_assert_str_eq(latest(), "expire");
  cr_assert_eq(stored(), 0);
}

Test(overrides, that_are_over_already_are_refused) {
  cr_assert_eq(commit_one(until(weight("a.example.com.", "e0", 0), 0)), STORE_FAILED);
  cr_assert_neq(strstr(why, "over"), NULL, "%s", why);
}

/* ---- configuration and others -----------------------------------------------------------------
 */

Test(overrides, are_dropped_with_their_target) {
  cr_assert_eq(commit_one(weight("a.example.com.", "e0", 0)), STORE_DONE);
  cr_assert_eq(commit_one(weight("c.example.com.", "e0", 0)), STORE_DONE);
  cr_assert_eq(commit_one(status("c.example.com.", "e2", 2)), STORE_DONE);
  build("two", 2);
  publish();
  cr_assert_eq(overrides_count(overrides), 1);
  cr_assert_eq(stored(), 1);
  cr_assert_str_eq(latest(), "drop");
  build("three", 3);
  publish();
  cr_assert_str_eq(drawn("a.example.com."), "2");
  cr_assert_str_eq(drawn("c.example.com."), "02");
}

Test(overrides, of_another_program_are_taken_over) {
  cr_assert_eq(commit_one(weight("a.example.com.", "e0", 0)), STORE_DONE);
  cr_assert_eq(commit_one(weight("b.example.com.", "e0", 0)), STORE_DONE);
  execute("UPDATE overrides SET value = 7 WHERE domain = 'a.example.com.';"
          "DELETE FROM overrides WHERE domain = 'b.example.com.';"
          "INSERT INTO overrides(domain, kind, region, level, endpoint, family, value, set_at,"
          " expires_at, who) VALUES('c.example.com.', 1, '', 0, 'e0', 0, 2, 0, 0, 'x'),"
          " ('gone.example.com.', 1, '', 0, 'e0', 0, 2, 0, 0, 'x')");
  told = 0;
  overrides_tick(overrides, served);
  cr_assert_str_eq(drawn("a.example.com."), "02");
  cr_assert_str_eq(drawn("b.example.com."), "02");
  cr_assert_str_eq(drawn("c.example.com."), "2");
  cr_assert_geq(told, 1);
  overrides_tick(overrides, served);
  cr_assert_eq(stored(), 2); /* what has no target is dropped */
}

Test(overrides, damage_by_another_program_is_told_until_it_is_mended) {
  cr_assert_eq(commit_one(weight("a.example.com.", "e0", 0)), STORE_DONE);
  execute("INSERT INTO overrides(domain, kind, region, level, endpoint, family, value, set_at,"
          " expires_at, who) VALUES('b.example.com.', 0, 'global', 0, 'e0', 0, 0, 0, 0, 'x')");
  for (int i = 0; i < 2; i++) {
    overrides_tick(overrides, served);
    cr_assert_str_eq(drawn("a.example.com."), "2");
    cr_assert_eq(commit_one(weight("a.example.com.", "e0", 9)), STORE_FAILED);
    cr_assert_neq(strstr(why, "damaged"), NULL, "%s", why);
  }
  execute("DELETE FROM overrides WHERE level = 0");
  cr_assert_eq(commit_one(weight("a.example.com.", "e0", 9)), STORE_DONE, "%s", why);
  cr_assert_str_eq(drawn("a.example.com."), "02");
}

Test(overrides, a_request_that_is_repeated_late_gets_the_reply_of_then) {
  uint64_t first = 0, again = 0;
  int64_t ids[2];
  struct store_change change = until(weight("c.example.com.", "e0", 0), 2);
  struct store_audit row = {
      .who = "kim", .command = "set", .domain = "c.example.com.", .what = "{}"};
  struct store_batch batch = {.request = "r",
                              .at = NOW,
                              .changes = &change,
                              .change_count = 1,
                              .audits = &row,
                              .audit_count = 1};
  cr_assert_eq(overrides_commit(overrides, served, &batch, &change, &first, &ids[0], why),
               STORE_DONE);
  now_ms += 5000; /* its time is over, and the domain is gone */
  build("two", 2);
  publish();
  overrides_tick(overrides, served);
  change.override.key.region = "global";
  cr_assert_eq(overrides_commit(overrides, served, &batch, &change, &again, &ids[1], why),
               STORE_DONE, "%s", why);
  cr_assert_eq(first, again);
  cr_assert_eq(ids[0], ids[1]);
}

Test(overrides, without_a_folder_are_in_memory) {
  close_all();
  char *kept = state;
  state = NULL;
  open_all();
  cr_assert_eq(commit_one(weight("a.example.com.", "e0", 0)), STORE_DONE, "%s", why);
  cr_assert_str_eq(drawn("a.example.com."), "2");
  restart();
  cr_assert_str_eq(drawn("a.example.com."), "02");
  state = kept;
}

Test(overrides, of_earlier_versions_are_taken_over_once) {
  static const char text[] =
      "{\"version\": 1, \"endpoints\": [{\"domain\": \"A.example.com.\", \"endpoint\": \"e0\","
      " \"manual\": \"disabled\", \"health4\": \"up\", \"health6\": \"down\","
      " \"manual_note\": {\"who\": \"ann\", \"reason\": \"disk\", \"since\": 1700000000}},"
      " {\"domain\": \"b.example.com.\", \"endpoint\": \"e2\", \"forced4\": \"down\","
      " \"forced_note\": {\"who\": \"bob\", \"since\": 5}}]}";
  close_all();
  data_fixture_write(data, "state/status.json", text, strlen(text));
  open_all();
  for (int i = 0; i < 2; i++) { /* also when it is killed before status.json is written */
    cr_assert_str_eq(drawn("a.example.com."), "2");
    cr_assert_str_eq(drawn("b.example.com."), "0");
    cr_assert_str_eq(first("a.example.com.", "who"), "ann");
    cr_assert_str_eq(first("a.example.com.", "reason"), "disk");
    restart();
  }
  struct store_change back = status("a.example.com.", "e0", 0);
  back.drop = true;
  cr_assert_eq(commit_one(back), STORE_DONE);
  restart();
  cr_assert_str_eq(drawn("a.example.com."), "02");
  cr_assert(facts_flush(facts, why));
  uint8_t *after;
  size_t size;
  char *path = fs_join(state, "status.json");
  cr_assert(fs_read(path, 1 << 20, &after, &size, why));
  cr_assert_eq(strstr((char *)after, "manual"), NULL);
  cr_assert_eq(strstr((char *)after, "forced"), NULL);
  cr_assert_neq(strstr((char *)after, "health4"), NULL);
  free(after);
  free(path);
}
