/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/store.h"

enum { NOBODY = 65534, NOW = 1800000000 };

static char folder[64];
static char path[128];
static char why[STORE_WHY];
static struct store *store;

static void reopen(void) {
  store_close(store);
  store = store_open(path, why);
  cr_assert_not_null(store, "%s", why);
}

static void init(void) {
  strcpy(folder, "/tmp/sluice-store-XXXXXX");
  cr_assert(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/store.db", folder);
  reopen();
}

static void fini(void) {
  store_close(store);
  cr_assert(fs_remove_tree(folder, why), "%s", why);
}

TestSuite(store, .init = init, .fini = fini);

/* ---- helpers ----------------------------------------------------------------------------------
 */

static struct store_change weight(const char *domain, const char *endpoint, int32_t value) {
  return (struct store_change){.override = {.key = {.kind = STORE_WEIGHT,
                                                    .domain = domain,
                                                    .endpoint = endpoint,
                                                    .region = "global",
                                                    .level = 1},
                                            .value = value,
                                            .set_at = NOW,
                                            .who = "kim"}};
}

static struct store_audit row(const char *domain, const char *command) {
  return (struct store_audit){
      .who = "kim", .command = command, .domain = domain, .what = "{}", .reason = "drill"};
}

/* One change with its audit row. */
static enum store_result commit(const char *domain, const char *endpoint, int32_t value,
                                const char *request, uint64_t *revision) {
  struct store_change change = weight(domain, endpoint, value);
  struct store_audit audit = row(domain, "set");
  struct store_batch batch = {.request = request,
                              .at = NOW,
                              .changes = &change,
                              .change_count = 1,
                              .audits = &audit,
                              .audit_count = 1};
  return store_commit(store, &batch, revision, NULL, NULL, why);
}

/* All overrides as "domain/kind/region/level/endpoint/family=value " each. */
static char listed[65536];

static bool list_one(void *arg, const struct store_override *o) {
  size_t *n = arg;
  *n += (size_t)snprintf(listed + *n, sizeof listed - *n, "%s/%d/%s/%u/%s/%u=%d ", o->key.domain,
                         (int)o->key.kind, o->key.region, o->key.level, o->key.endpoint,
                         o->key.family, o->value);
  return true;
}

static const char *list(const char *domain) {
  size_t n = 0;
  listed[0] = '\0';
  cr_assert(store_load(store, domain, list_one, &n, why), "%s", why);
  return listed;
}

struct rows {
  size_t count;
  int64_t first_id;
  uint64_t first_revision;
  char domain[64], request[64], result[64];
};

static bool count_row(void *arg, const struct store_audit *audit) {
  struct rows *rows = arg;
  if (rows->count++ > 0)
    return true;
  rows->first_id = audit->id;
  rows->first_revision = audit->revision;
  snprintf(rows->domain, sizeof rows->domain, "%s", audit->domain);
  snprintf(rows->request, sizeof rows->request, "%s", audit->request ? audit->request : "-");
  snprintf(rows->result, sizeof rows->result, "%s", audit->result ? audit->result : "-");
  return true;
}

static struct rows history(const char *domain, size_t limit) {
  struct rows rows = {.count = 0};
  cr_assert(store_history(store, domain, limit, count_row, &rows, why), "%s", why);
  return rows;
}

static uint64_t revision_of(const char *domain) {
  uint64_t revision = 99;
  cr_assert(store_revision(store, domain, &revision, why), "%s", why);
  return revision;
}

/* ---- commits ----------------------------------------------------------------------------------
 */

Test(store, keeps_what_was_committed) {
  uint64_t revision;
  cr_assert_eq(revision_of(NULL), 0);
  cr_assert_eq(commit("a.test.", "one", 0, NULL, &revision), STORE_DONE);
  cr_assert_eq(revision, 1);
  cr_assert_eq(commit("b.test.", "two", 65535, NULL, &revision), STORE_DONE);
  cr_assert_eq(commit("a.test.", "one", 7, NULL, &revision), STORE_DONE);
  reopen();
  cr_assert_str_eq(list(NULL), "a.test./0/global/1/one/0=7 b.test./0/global/1/two/0=65535 ");
  cr_assert_str_eq(list("b.test."), "b.test./0/global/1/two/0=65535 ");
  cr_assert_eq(revision_of("a.test."), 3);
  cr_assert_eq(revision_of("b.test."), 2);
  cr_assert_eq(revision_of("c.test."), 0);
  cr_assert_eq(revision_of(NULL), 3);
  cr_assert_eq(history(NULL, 10).count, 3);
  cr_assert_eq(history("a.test.", 10).count, 2);
  cr_assert_eq(history(NULL, 2).count, 2);
  cr_assert_eq(history(NULL, 2).first_revision, 3);
}

Test(store, keeps_all_fields) {
  uint64_t revision;
  struct store_change change = {.override = {.key = {.kind = STORE_HEALTH,
                                                     .domain = "a.test.",
                                                     .endpoint = "one",
                                                     .region = "",
                                                     .family = 6},
                                             .value = 2,
                                             .set_at = NOW,
                                             .expires_at = NOW + 60,
                                             .who = "kim",
                                             .origin = "chat",
                                             .reason = "it's a \"drill\" \xc3\xa9",
                                             .cause = "drain:one*",
                                             .before = ""}};
  struct store_batch batch = {.at = NOW, .changes = &change, .change_count = 1};
  cr_assert_eq(store_commit(store, &batch, &revision, NULL, NULL, why), STORE_DONE, "%s", why);
  reopen();
  cr_assert_str_eq(list(NULL), "a.test./2//0/one/6=2 ");
}

Test(store, regions_differ_without_case) {
  uint64_t revision;
  struct store_change change = weight("a.test.", "one", 5);
  struct store_batch batch = {.at = NOW, .changes = &change, .change_count = 1};
  cr_assert_eq(store_commit(store, &batch, &revision, NULL, NULL, why), STORE_DONE);
  change.override.key.region = "GLOBAL";
  change.override.value = 6;
  cr_assert_eq(store_commit(store, &batch, &revision, NULL, NULL, why), STORE_DONE);
  cr_assert_str_eq(list(NULL), "a.test./0/GLOBAL/1/one/0=6 ");
  change.override.key.region = "gloBAL";
  change.drop = true;
  cr_assert_eq(store_commit(store, &batch, &revision, NULL, NULL, why), STORE_DONE);
  cr_assert_str_eq(list(NULL), "");
}

Test(store, B49_of_two_writers_the_second_is_told) {
  uint64_t revision;
  struct store_change change = weight("a.test.", "one", 5);
  struct store_expect expect[] = {{"a.test.", 0}, {"b.test.", 0}};
  struct store_batch batch = {
      .at = NOW, .expect = expect, .expect_count = 2, .changes = &change, .change_count = 1};
  cr_assert_eq(store_commit(store, &batch, &revision, NULL, NULL, why), STORE_DONE);
  change.override.value = 6;
  cr_assert_eq(store_commit(store, &batch, &revision, NULL, NULL, why), STORE_CONFLICT);
  cr_assert_neq(strstr(why, "a.test."), NULL, "%s", why);
  cr_assert_str_eq(list(NULL), "a.test./0/global/1/one/0=5 ");
  expect[0].revision = 1;
  cr_assert_eq(store_commit(store, &batch, &revision, NULL, NULL, why), STORE_DONE);
  cr_assert_eq(revision, 2);
}

Test(store, a_repeated_request_is_done_once) {
  uint64_t revision = 0;
  int64_t first[2], again[2];
  bool repeated = true;
  struct store_change change = weight("a.test.", "one", 5);
  struct store_audit rows[] = {row("a.test.", "set"), row("b.test.", "set")};
  struct store_batch batch = {.request = "r1",
                              .at = NOW,
                              .changes = &change,
                              .change_count = 1,
                              .audits = rows,
                              .audit_count = 2};
  cr_assert_eq(store_commit(store, &batch, &revision, first, &repeated, why), STORE_DONE);
  cr_assert_not(repeated);
  cr_assert_eq(commit("a.test.", "one", 6, "r2", &revision), STORE_DONE);
  cr_assert_eq(store_commit(store, &batch, &revision, again, &repeated, why), STORE_DONE);
  cr_assert(repeated);
  cr_assert_eq(revision, 1);
  cr_assert_arr_eq(first, again, sizeof first);
  cr_assert_str_eq(list(NULL), "a.test./0/global/1/one/0=6 ");
  cr_assert_eq(history(NULL, 10).count, 3);
  cr_assert_str_eq(history(NULL, 1).request, "r2");
}

Test(store, results_come_later) {
  uint64_t revision;
  cr_assert_eq(commit("a.test.", "one", 5, NULL, &revision), STORE_DONE);
  struct rows rows = history(NULL, 1);
  cr_assert_str_eq(rows.result, "-");
  cr_assert(store_audit_result(store, rows.first_id, "{\"x\":1}", why));
  cr_assert_str_eq(history(NULL, 1).result, "{\"x\":1}");
  cr_assert_not(store_audit_result(store, rows.first_id + 1, "{}", why));
}

Test(store, the_trail_is_bounded) {
  enum { BATCH = 5000 };
  uint64_t revision;
  static struct store_audit rows[BATCH];
  for (size_t i = 0; i < BATCH; i++)
    rows[i] = row("a.test.", "set");
  struct store_batch batch = {.at = NOW, .audits = rows, .audit_count = BATCH};
  for (size_t i = 0; i < STORE_AUDIT_ROWS / BATCH + 2; i++)
    cr_assert_eq(store_commit(store, &batch, &revision, NULL, NULL, why), STORE_DONE, "%s", why);
  cr_assert_eq(history(NULL, STORE_AUDIT_ROWS * 2).count, STORE_AUDIT_ROWS);
  cr_assert_eq(revision_of(NULL), STORE_AUDIT_ROWS / BATCH + 2);
}

Test(store, others_are_noticed) {
  uint64_t revision;
  struct store *other = store_open(path, why);
  cr_assert_not_null(other);
  cr_assert_not(store_changed(other));
  cr_assert_eq(commit("a.test.", "one", 5, NULL, &revision), STORE_DONE);
  cr_assert_not(store_changed(store)); /* its own */
  cr_assert(store_changed(other));
  cr_assert_not(store_changed(other));
  store_close(other);
}

Test(store, in_memory) {
  uint64_t revision;
  store_close(store);
  store = store_open(NULL, why);
  cr_assert_not_null(store, "%s", why);
  cr_assert_eq(commit("a.test.", "one", 5, "r", &revision), STORE_DONE, "%s", why);
  cr_assert_str_eq(list(NULL), "a.test./0/global/1/one/0=5 ");
}

Test(store, is_for_its_owner_only) {
  struct stat st;
  cr_assert_eq(stat(path, &st), 0);
  cr_assert_eq(st.st_mode & 0777, 0600);
}

/* ---- files that are not as they should be -----------------------------------------------------
 */

static void expect_refused(const char *words) {
  struct store *bad = store_open(path, why);
  cr_assert_null(bad);
  cr_assert_neq(strstr(why, words), NULL, "%s", why);
  cr_assert_neq(strstr(why, "store.db"), NULL, "%s", why);
  cr_assert_eq(strchr(why, '\n'), NULL);
}

static void execute(const char *sql) {
  sqlite3 *db;
  cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
  cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
  sqlite3_close(db);
}

Test(store, damage_is_told_and_left_alone) {
  uint64_t revision;
  uint8_t *before, *after;
  size_t size, size_after;
  for (int i = 0; i < 200; i++)
    cr_assert_eq(commit("a.test.", "one", i, NULL, &revision), STORE_DONE);
  store_close(store);
  store = NULL;
  cr_assert(fs_read(path, 1 << 24, &before, &size, why));
  for (size_t at = 100; at < size; at += 1500) {
    uint8_t *copy = malloc(size);
    memcpy(copy, before, size);
    memset(copy + at, 0xa5, size - at < 1000 ? size - at : 1000);
    cr_assert(fs_write_atomic(path, copy, size, 0600, why), "%s", why);
    store = store_open(path, why);
    if (store != NULL) { /* perhaps nothing that counts was hit: reading then works or tells */
      size_t n = 0;
      if (!store_load(store, NULL, list_one, &n, why))
        cr_expect_neq(strstr(why, "damaged"), NULL, "%s", why);
    } else {
      cr_expect(strstr(why, "damaged") || strstr(why, "something else"), "%s", why);
    }
    store_close(store);
    store = NULL;
    cr_assert(fs_read(path, 1 << 24, &after, &size_after, why));
    cr_expect_eq(size, size_after);
    free(after);
    free(copy);
  }
  free(before);
}

Test(store, what_is_no_database) {
  store_close(store);
  store = NULL;
  cr_assert(fs_write_atomic(path, "not a database, but long enough to look like a file of one", 58,
                            0600, why));
  expect_refused("damaged");
  cr_assert_eq(unlink(path), 0);
  cr_assert_eq(mkdir(path, 0700), 0);
  expect_refused("no regular file");
}

Test(store, a_database_of_something_else) {
  store_close(store);
  store = NULL;
  cr_assert_eq(unlink(path), 0);
  execute("CREATE TABLE t(x); PRAGMA user_version=1;");
  expect_refused("something else");
}

Test(store, of_a_newer_version) {
  execute("PRAGMA user_version=2;");
  store_close(store);
  store = NULL;
  expect_refused("newer program");
}

Test(store, rows_that_no_commit_wrote) {
  static const char *const rows[] = {
      "1, '', 0, 'one', 0, 3",           /* a status that is none */
      "0, 'global', 1, 'one', 0, 70000", /* a weight that is too large */
      "0, 'global', 0, 'one', 0, 7",     /* no level */
      "2, '', 0, 'one', 5, 1",           /* no family */
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char sql[512];
    size_t n = 0;
    snprintf(sql, sizeof sql,
             "DELETE FROM overrides; INSERT INTO overrides(domain, kind, region, level, endpoint,"
             " family, value, set_at, expires_at, who) VALUES('a.test.', %s, 0, 0, 'x')",
             rows[i]);
    execute(sql);
    cr_assert_not(store_load(store, NULL, list_one, &n, why), "%s", rows[i]);
    cr_assert_neq(strstr(why, "damaged"), NULL, "%s", why);
  }
}

Test(store, a_failing_commit_leaves_nothing) {
  uint64_t revision = 7;
  cr_assert_eq(commit("a.test.", "one", 5, NULL, &revision), STORE_DONE);
  execute("CREATE TRIGGER t BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no'); END");
  cr_assert_eq(commit("a.test.", "one", 6, "r", &revision), STORE_FAILED);
  execute("DROP TRIGGER t");
  cr_assert_str_eq(list(NULL), "a.test./0/global/1/one/0=5 ");
  cr_assert_eq(revision_of(NULL), 1);
  cr_assert_eq(commit("a.test.", "one", 6, "r", &revision), STORE_DONE, "%s", why);
}

Test(store, a_locked_store_is_waited_for_and_told) {
  uint64_t revision;
  sqlite3 *db;
  cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
  cr_assert_eq(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  cr_assert_eq(commit("a.test.", "one", 5, NULL, &revision), STORE_FAILED);
  cr_assert_neq(strstr(why, "lock"), NULL, "%s", why);
  cr_assert_str_eq(list(NULL), ""); /* reading goes on */
  sqlite3_close(db);
  cr_assert_eq(commit("a.test.", "one", 5, NULL, &revision), STORE_DONE, "%s", why);
}

/* As a user who may read, but not write; in a process of its own. */
static int try_read_only(void) {
  uint64_t revision;
  if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
    return 2;
  store = store_open(path, why);
  if (store == NULL || !store_read_only(store))
    return 3;
  if (commit("a.test.", "one", 6, NULL, &revision) != STORE_FAILED || !strstr(why, "written"))
    return 4;
  size_t n = 0;
  if (!store_load(store, NULL, list_one, &n, why) ||
      strcmp(listed, "a.test./0/global/1/one/0=5 ") != 0)
    return 5;
  store_close(store);
  return 0;
}

Test(store, read_only) {
  uint64_t revision;
  int status;
  cr_assert_eq(commit("a.test.", "one", 5, NULL, &revision), STORE_DONE);
  store_close(store);
  store = NULL;
  cr_assert_eq(chmod(path, 0444), 0);
  cr_assert_eq(chmod(folder, 0555), 0);
  pid_t child = fork();
  if (child == 0)
    _exit(try_read_only());
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_assert_eq(chmod(folder, 0755), 0);
  cr_assert(WIFEXITED(status));
  cr_assert_eq(WEXITSTATUS(status), 0);
}

/* ---- kill -9 ----------------------------------------------------------------------------------
 */

/* Commits without end: of commit n, three weights are n; tells each number once it is done. */
static void write_on(int fd) {
  uint64_t revision;
  struct store *mine = store_open(path, why);
  if (mine == NULL || !store_revision(mine, NULL, &revision, why))
    _exit(1);
  for (;;) {
    int32_t n = (int32_t)revision + 1;
    struct store_change changes[] = {weight("a.test.", "one", n), weight("a.test.", "two", n),
                                     weight("b.test.", "one", n)};
    struct store_audit rows[] = {row("a.test.", "set"), row("b.test.", "set")};
    struct store_batch batch = {
        .at = NOW, .changes = changes, .change_count = 3, .audits = rows, .audit_count = 2};
    if (store_commit(mine, &batch, &revision, NULL, NULL, why) != STORE_DONE)
      _exit(1);
    if (write(fd, &n, sizeof n) != sizeof n)
      _exit(1);
  }
}

Test(store, B49_kill_9_loses_nothing_that_was_confirmed) {
  int32_t confirmed = 0;
  uint32_t random = 1;
  store_close(store);
  store = NULL;
  for (int round = 0; round < 40; round++) {
    int pipes[2], status;
    cr_assert_eq(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
      close(pipes[0]);
      write_on(pipes[1]);
    }
    close(pipes[1]);
    random = random * 1103515245 + 12345;
    int wanted = (int)(random >> 16) % 12;
    for (int i = 0; i <= wanted; i++)
      cr_assert_eq(read(pipes[0], &confirmed, sizeof confirmed), sizeof confirmed);
    for (volatile uint32_t spin = (random >> 8) % 300000; spin > 0; spin--)
      ; /* not always at the same point of the next commit */
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status), "the writer failed");
    int32_t late;
    while (read(pipes[0], &late, sizeof late) == sizeof late)
      confirmed = late;
    close(pipes[0]);
    reopen();
    int32_t n = (int32_t)revision_of(NULL);
    cr_assert(n == confirmed || n == confirmed + 1, "%d of %d", n, confirmed);
    char expected[256];
    snprintf(expected, sizeof expected,
             "a.test./0/global/1/one/0=%d a.test./0/global/1/two/0=%d b.test./0/global/1/one/0=%d ",
             n, n, n);
    cr_assert_str_eq(list(NULL), expected);
    cr_assert_eq(history(NULL, 100000).count, (size_t)n * 2);
    store_close(store);
    store = NULL;
  }
}
