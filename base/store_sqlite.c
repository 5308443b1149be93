/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing the store.  A commit is one transaction: begin, look, change, end. */
#include <stdio.h>
#include <string.h>

#include "base/store_private.h"

#define COLUMNS                                                                                    \
  "domain, kind, region, level, endpoint, family, value, set_at, expires_at, who, origin, reason," \
  " cause, before"
#define AUDIT                                                                                      \
  "audit.id, audit.at, audit.revision, commits.request, who, origin, command, domain, what,"       \
  " reason, result FROM audit LEFT JOIN commits ON commits.revision = audit.revision"

static const char *const texts[STORE_STATEMENTS] = {
    [STORE_BEGIN] = "BEGIN IMMEDIATE",
    [STORE_END] = "COMMIT",
    [STORE_UNDO] = "ROLLBACK",
    [STORE_FIND_REQUEST] = "SELECT revision FROM commits WHERE request = ?",
    [STORE_ADD_COMMIT] = "INSERT INTO commits(revision, at, request) VALUES(?, ?, ?)",
    [STORE_LAST_REVISION] = "SELECT coalesce(max(revision), 0) FROM commits",
    [STORE_DOMAIN_REVISION] = "SELECT revision FROM domains WHERE domain = ?",
    [STORE_ALL_REVISIONS] = "SELECT domain, revision FROM domains ORDER BY domain",
    [STORE_TOUCH_DOMAIN] = "INSERT INTO domains(domain, revision) VALUES(?, ?)"
                           " ON CONFLICT(domain) DO UPDATE SET revision = excluded.revision",
    [STORE_PUT] = "INSERT OR REPLACE INTO overrides(" COLUMNS ")"
                  " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [STORE_DROP] = "DELETE FROM overrides WHERE domain = ? AND kind = ? AND region = ?"
                   " AND level = ? AND endpoint = ? AND family = ?",
    [STORE_ADD_AUDIT] = "INSERT INTO audit(at, revision, who, origin, command, domain, what,"
                        " reason, result) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [STORE_FIND_AUDITS] = "SELECT id FROM audit WHERE revision = ? ORDER BY id",
    [STORE_SET_RESULT] = "UPDATE audit SET result = ? WHERE id = ?",
    [STORE_PRUNE_AUDITS] = "DELETE FROM audit WHERE id <= (SELECT max(id) FROM audit) - ?",
    [STORE_PRUNE_COMMITS] = "DELETE FROM commits WHERE revision <"
                            " (SELECT revision FROM audit ORDER BY id LIMIT 1)",
    [STORE_LOAD_ALL] = "SELECT " COLUMNS " FROM overrides"
                       " ORDER BY domain, kind, region, level, endpoint, family",
    [STORE_LOAD_DOMAIN] = "SELECT " COLUMNS " FROM overrides WHERE domain = ?"
                          " ORDER BY domain, kind, region, level, endpoint, family",
    [STORE_HISTORY_ALL] = "SELECT " AUDIT " ORDER BY audit.id DESC LIMIT ?",
    [STORE_HISTORY_DOMAIN] = "SELECT " AUDIT " WHERE domain = ?2 ORDER BY audit.id DESC LIMIT ?1",
    [STORE_DATA_VERSION] = "PRAGMA data_version",
};

/* ---- statements -------------------------------------------------------------------------------
 */

/* The statement, ready for values; NULL with *code set. */
static sqlite3_stmt *take(struct store *store, enum store_statement which, int *code) {
  sqlite3_stmt **statement = &store->statements[which];
  *code = SQLITE_OK;
  if (*statement == NULL)
    *code =
        sqlite3_prepare_v3(store->db, texts[which], -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
  return *statement;
}

/* Lets go of locks and of borrowed texts. */
static void done(sqlite3_stmt *statement) {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
}

static void bind_text(sqlite3_stmt *statement, int at, const char *text) {
  if (text != NULL)
    sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

/* Runs a statement that gives no rows. */
static int finish(sqlite3_stmt *statement) {
  int code = sqlite3_step(statement);
  done(statement);
  return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : code;
}

static int run(struct store *store, enum store_statement which) {
  int code;
  sqlite3_stmt *statement = take(store, which, &code);
  return statement != NULL ? finish(statement) : code;
}

/* The one number that a statement gives (`none` without a row). */
static int number(sqlite3_stmt *statement, int64_t none, int64_t *value) {
  int code = sqlite3_step(statement);
  *value = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : none;
  done(statement);
  return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

static const char *column(sqlite3_stmt *statement, int at) {
  return (const char *)sqlite3_column_text(statement, at);
}

/* ---- commit -----------------------------------------------------------------------------------
 */

static int domain_revision(struct store *store, const char *domain, int64_t *revision) {
  int code;
  sqlite3_stmt *statement = take(store, STORE_DOMAIN_REVISION, &code);
  if (statement == NULL)
    return code;
  bind_text(statement, 1, domain);
  return number(statement, 0, revision);
}

/* The revision of the commit with this request; 0: there is none. */
static int find_request(struct store *store, const char *request, int64_t *revision) {
  int code;
  *revision = 0;
  if (request == NULL)
    return SQLITE_OK;
  sqlite3_stmt *statement = take(store, STORE_FIND_REQUEST, &code);
  if (statement == NULL)
    return code;
  bind_text(statement, 1, request);
  return number(statement, 0, revision);
}

static int find_audits(struct store *store, int64_t revision, int64_t *ids, size_t count) {
  int code;
  if (ids == NULL)
    return SQLITE_OK;
  memset(ids, 0, count * sizeof *ids);
  sqlite3_stmt *statement = take(store, STORE_FIND_AUDITS, &code);
  if (statement == NULL)
    return code;
  sqlite3_bind_int64(statement, 1, revision);
  size_t at = 0;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW && at < count)
    ids[at++] = sqlite3_column_int64(statement, 0);
  done(statement);
  return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

static void bind_key(sqlite3_stmt *statement, const struct store_key *key) {
  bind_text(statement, 1, key->domain);
  sqlite3_bind_int(statement, 2, (int)key->kind);
  bind_text(statement, 3, key->region != NULL ? key->region : "");
  sqlite3_bind_int64(statement, 4, key->level);
  bind_text(statement, 5, key->endpoint);
  sqlite3_bind_int(statement, 6, key->family);
}

static int change(struct store *store, const struct store_change *change) {
  int code;
  const struct store_override *o = &change->override;
  sqlite3_stmt *statement = take(store, change->drop ? STORE_DROP : STORE_PUT, &code);
  if (statement == NULL)
    return code;
  bind_key(statement, &o->key);
  if (change->drop)
    return finish(statement);
  sqlite3_bind_int(statement, 7, o->value);
  sqlite3_bind_int64(statement, 8, o->set_at);
  sqlite3_bind_int64(statement, 9, o->expires_at);
  bind_text(statement, 10, o->who);
  bind_text(statement, 11, o->origin);
  bind_text(statement, 12, o->reason);
  bind_text(statement, 13, o->cause);
  bind_text(statement, 14, o->before);
  return finish(statement);
}

static int touch(struct store *store, const char *domain, int64_t revision) {
  int code;
  sqlite3_stmt *statement = take(store, STORE_TOUCH_DOMAIN, &code);
  if (statement == NULL)
    return code;
  bind_text(statement, 1, domain);
  sqlite3_bind_int64(statement, 2, revision);
  return finish(statement);
}

static int add_commit(struct store *store, const struct store_batch *batch, int64_t revision) {
  int code;
  sqlite3_stmt *statement = take(store, STORE_ADD_COMMIT, &code);
  if (statement == NULL)
    return code;
  sqlite3_bind_int64(statement, 1, revision);
  sqlite3_bind_int64(statement, 2, batch->at);
  bind_text(statement, 3, batch->request);
  return finish(statement);
}

static int add_audit(struct store *store, const struct store_audit *audit, int64_t at,
                     int64_t revision, int64_t *id) {
  int code;
  sqlite3_stmt *statement = take(store, STORE_ADD_AUDIT, &code);
  if (statement == NULL)
    return code;
  sqlite3_bind_int64(statement, 1, at);
  sqlite3_bind_int64(statement, 2, revision);
  bind_text(statement, 3, audit->who);
  bind_text(statement, 4, audit->origin);
  bind_text(statement, 5, audit->command);
  bind_text(statement, 6, audit->domain);
  bind_text(statement, 7, audit->what);
  bind_text(statement, 8, audit->reason);
  bind_text(statement, 9, audit->result);
  code = finish(statement);
  if (code == SQLITE_OK && id != NULL)
    *id = sqlite3_last_insert_rowid(store->db);
  return code;
}

static int prune(struct store *store) {
  int code;
  sqlite3_stmt *statement = take(store, STORE_PRUNE_AUDITS, &code);
  if (statement == NULL)
    return code;
  sqlite3_bind_int64(statement, 1, STORE_AUDIT_ROWS);
  code = finish(statement);
  if (code == SQLITE_OK && sqlite3_changes(store->db) > 0)
    code = run(store, STORE_PRUNE_COMMITS);
  return code;
}

/* All that a commit writes. */
static int write_batch(struct store *store, const struct store_batch *batch, int64_t revision,
                       int64_t *ids) {
  int code = add_commit(store, batch, revision);
  for (size_t i = 0; code == SQLITE_OK && i < batch->change_count; i++) {
    const char *domain = batch->changes[i].override.key.domain;
    code = change(store, &batch->changes[i]);
    if (code == SQLITE_OK &&
        (i == 0 || strcmp(domain, batch->changes[i - 1].override.key.domain) != 0))
      code = touch(store, domain, revision);
  }
  for (size_t i = 0; code == SQLITE_OK && i < batch->audit_count; i++)
    code = add_audit(store, &batch->audits[i], batch->at, revision, ids != NULL ? &ids[i] : NULL);
  if (code == SQLITE_OK && batch->audit_count > 0)
    code = prune(store);
  return code;
}

/* True if all domains are as expected; else *code is SQLITE_OK for a conflict, told in `why`. */
static bool is_expected(struct store *store, const struct store_batch *batch, int *code,
                        char *why) {
  for (size_t i = 0; i < batch->expect_count; i++) {
    int64_t revision;
    *code = domain_revision(store, batch->expect[i].domain, &revision);
    if (*code != SQLITE_OK)
      return false;
    if ((uint64_t)revision == batch->expect[i].revision)
      continue;
    snprintf(why, STORE_WHY, "%.300s was changed by someone else meanwhile (revision %lld)",
             batch->expect[i].domain, (long long)revision);
    return false;
  }
  return true;
}

static enum store_result give_up(struct store *store, int code, char *why) {
  run(store, STORE_UNDO);
  if (code == SQLITE_OK)
    return STORE_CONFLICT;
  store_fail(store, code, "written", why);
  return STORE_FAILED;
}

enum store_result store_commit(struct store *store, const struct store_batch *batch,
                               uint64_t *revision, int64_t *ids, bool *repeated, char *why) {
  int64_t number_of = 0;
  if (store->read_only) {
    store_fail(store, SQLITE_READONLY, "written", why);
    return STORE_FAILED;
  }
  int code = run(store, STORE_BEGIN);
  if (code != SQLITE_OK) {
    store_fail(store, code, "written", why);
    return STORE_FAILED;
  }
  code = find_request(store, batch->request, &number_of);
  if (repeated != NULL)
    *repeated = number_of != 0;
  if (code == SQLITE_OK && number_of != 0) {
    code = find_audits(store, number_of, ids, batch->audit_count);
    *revision = (uint64_t)number_of;
    if (code != SQLITE_OK)
      return give_up(store, code, why);
    run(store, STORE_UNDO);
    return STORE_DONE;
  }
  if (code == SQLITE_OK && !is_expected(store, batch, &code, why))
    return give_up(store, code, why);
  sqlite3_stmt *last = code == SQLITE_OK ? take(store, STORE_LAST_REVISION, &code) : NULL;
  if (last != NULL)
    code = number(last, 0, &number_of);
  if (code == SQLITE_OK)
    code = write_batch(store, batch, ++number_of, ids);
  if (code == SQLITE_OK)
    code = run(store, STORE_END);
  if (code != SQLITE_OK)
    return give_up(store, code, why);
  *revision = (uint64_t)number_of;
  return STORE_DONE;
}

bool store_find_request(struct store *store, const char *request, uint64_t *revision, int64_t *ids,
                        size_t count, char *why) {
  int64_t number_of;
  int code = find_request(store, request, &number_of);
  if (code == SQLITE_OK && number_of != 0)
    code = find_audits(store, number_of, ids, count);
  *revision = (uint64_t)number_of;
  return code == SQLITE_OK || store_fail(store, code, "read", why);
}

bool store_audit_result(struct store *store, int64_t id, const char *result, char *why) {
  int code;
  if (store->read_only)
    return store_fail(store, SQLITE_READONLY, "written", why);
  sqlite3_stmt *statement = take(store, STORE_SET_RESULT, &code);
  if (statement == NULL)
    return store_fail(store, code, "written", why);
  bind_text(statement, 1, result);
  sqlite3_bind_int64(statement, 2, id);
  code = finish(statement);
  if (code != SQLITE_OK)
    return store_fail(store, code, "written", why);
  if (sqlite3_changes(store->db) > 0)
    return true;
  snprintf(why, STORE_WHY, "there is no row %lld in the audit trail", (long long)id);
  return false;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

bool store_revision(struct store *store, const char *domain, uint64_t *revision, char *why) {
  int code;
  int64_t value = 0;
  if (domain != NULL) {
    code = domain_revision(store, domain, &value);
  } else {
    sqlite3_stmt *statement = take(store, STORE_LAST_REVISION, &code);
    if (statement != NULL)
      code = number(statement, 0, &value);
  }
  *revision = (uint64_t)value;
  return code == SQLITE_OK || store_fail(store, code, "read", why);
}

bool store_revisions(struct store *store,
                     bool (*visit)(void *arg, const char *domain, uint64_t revision), void *arg,
                     char *why) {
  int code;
  sqlite3_stmt *statement = take(store, STORE_ALL_REVISIONS, &code);
  if (statement == NULL)
    return store_fail(store, code, "read", why);
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    const char *domain = column(statement, 0);
    if (domain != NULL && !visit(arg, domain, (uint64_t)sqlite3_column_int64(statement, 1))) {
      code = SQLITE_DONE;
      break;
    }
  }
  done(statement);
  return code == SQLITE_DONE || store_fail(store, code, "read", why);
}

/* What no commit can have written is damage, whoever did it. */
static bool read_override(sqlite3_stmt *s, struct store_override *o) {
  int64_t level = sqlite3_column_int64(s, 3), family = sqlite3_column_int64(s, 5);
  int64_t value = sqlite3_column_int64(s, 6);
  *o = (struct store_override){.key = {.kind = (enum store_kind)sqlite3_column_int(s, 1),
                                       .domain = column(s, 0),
                                       .region = column(s, 2),
                                       .level = (uint32_t)level,
                                       .endpoint = column(s, 4),
                                       .family = (uint8_t)family},
                               .value = (int32_t)value,
                               .set_at = sqlite3_column_int64(s, 7),
                               .expires_at = sqlite3_column_int64(s, 8),
                               .who = column(s, 9),
                               .origin = column(s, 10),
                               .reason = column(s, 11),
                               .cause = column(s, 12),
                               .before = column(s, 13)};
  const struct store_key *key = &o->key;
  if (key->domain == NULL || key->region == NULL || key->endpoint == NULL || o->who == NULL ||
      o->expires_at < 0)
    return false;
  switch (key->kind) {
  case STORE_WEIGHT:
    return level >= 1 && level <= UINT16_MAX && family == 0 && value >= 0 && value <= UINT16_MAX;
  case STORE_STATUS:
    return level == 0 && family == 0 && (value == 1 || value == 2);
  case STORE_HEALTH:
    return level == 0 && (family == 4 || family == 6) && (value == 1 || value == 2);
  }
  return false;
}

bool store_load(struct store *store, const char *domain,
                bool (*visit)(void *arg, const struct store_override *override), void *arg,
                char *why) {
  int code;
  struct store_override override;
  sqlite3_stmt *statement = take(store, domain != NULL ? STORE_LOAD_DOMAIN : STORE_LOAD_ALL, &code);
  if (statement == NULL)
    return store_fail(store, code, "read", why);
  bind_text(statement, 1, domain);
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    if (!read_override(statement, &override)) {
      code = SQLITE_CORRUPT;
      break;
    }
    if (!visit(arg, &override)) {
      code = SQLITE_DONE;
      break;
    }
  }
  done(statement);
  return code == SQLITE_DONE || store_fail(store, code, "read", why);
}

static bool read_audit(sqlite3_stmt *s, struct store_audit *a) {
  *a = (struct store_audit){.id = sqlite3_column_int64(s, 0),
                            .at = sqlite3_column_int64(s, 1),
                            .revision = (uint64_t)sqlite3_column_int64(s, 2),
                            .request = column(s, 3),
                            .who = column(s, 4),
                            .origin = column(s, 5),
                            .command = column(s, 6),
                            .domain = column(s, 7),
                            .what = column(s, 8),
                            .reason = column(s, 9),
                            .result = column(s, 10)};
  return a->who != NULL && a->command != NULL && a->domain != NULL && a->what != NULL;
}

bool store_history(struct store *store, const char *domain, size_t limit,
                   bool (*visit)(void *arg, const struct store_audit *audit), void *arg,
                   char *why) {
  int code;
  struct store_audit audit;
  sqlite3_stmt *statement =
      take(store, domain != NULL ? STORE_HISTORY_DOMAIN : STORE_HISTORY_ALL, &code);
  if (statement == NULL)
    return store_fail(store, code, "read", why);
  sqlite3_bind_int64(statement, 1, (int64_t)limit);
  if (domain != NULL)
    bind_text(statement, 2, domain);
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    if (!read_audit(statement, &audit)) {
      code = SQLITE_CORRUPT;
      break;
    }
    if (!visit(arg, &audit)) {
      code = SQLITE_DONE;
      break;
    }
  }
  done(statement);
  return code == SQLITE_DONE || store_fail(store, code, "read", why);
}

bool store_changed(struct store *store) {
  int code;
  int64_t version = 0;
  sqlite3_stmt *statement = take(store, STORE_DATA_VERSION, &code);
  if (statement == NULL || number(statement, 0, &version) != SQLITE_OK)
    return false; /* what is wrong shows when it is read */
  bool changed = version != store->data_version;
  store->data_version = version;
  return changed;
}
