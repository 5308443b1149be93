/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the store: the file, its schema, and whether it can be trusted. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/store_private.h"

enum {
  SCHEMA_VERSION = 1,
  APPLICATION_ID = 0x736c7563, /* "sluc" */
  BUSY_MS = 1000,              /* how long another writer is waited for */
  FILE_MODE = 0600,
  CHECK_BYTES = 256 << 20, /* a larger file is not read as a whole at each start */
};

/* `region` compares without case, as regions do everywhere. */
static const char schema[] =
    "CREATE TABLE overrides(domain TEXT NOT NULL, kind INTEGER NOT NULL CHECK(kind BETWEEN 0 AND "
    "2), region TEXT NOT NULL COLLATE NOCASE, level INTEGER NOT NULL, endpoint TEXT NOT NULL,"
    " family INTEGER NOT NULL, value INTEGER NOT NULL, set_at INTEGER NOT NULL,"
    " expires_at INTEGER NOT NULL, who TEXT NOT NULL, origin TEXT, reason TEXT, cause TEXT,"
    " before TEXT, PRIMARY KEY(domain, kind, region, level, endpoint, family))"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE domains(domain TEXT NOT NULL PRIMARY KEY, revision INTEGER NOT NULL)"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE commits(revision INTEGER PRIMARY KEY, at INTEGER NOT NULL, request TEXT UNIQUE)"
    " STRICT;"
    "CREATE TABLE audit(id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL,"
    " revision INTEGER NOT NULL, who TEXT NOT NULL, origin TEXT, command TEXT NOT NULL,"
    " domain TEXT NOT NULL, what TEXT NOT NULL, reason TEXT, result TEXT) STRICT;"
    "CREATE INDEX audit_domain ON audit(domain, id);"
    "CREATE INDEX audit_revision ON audit(revision);";

/* ---- messages ---------------------------------------------------------------------------------
 */

static const char *advice(int code) {
  switch (code & 0xff) {
  case SQLITE_FULL:
    return "the disk is full; make room and try again";
  case SQLITE_READONLY:
  case SQLITE_PERM:
    return "it cannot be written; give it to the user of the server, on a disk that is writable";
  case SQLITE_CANTOPEN:
    return "it and its folder must be there and writable for the user of the server";
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return "another program holds its lock; try again";
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
    return "it is damaged; put back a copy, or move it and its -wal file away to start with an "
           "empty one";
  default:
    return NULL;
  }
}

bool store_fail(const struct store *store, int code, const char *doing, char *why) {
  const char *path = store != NULL && store->path != NULL ? store->path : "in memory";
  const char *what = advice(code);
  const char *said = sqlite3_errstr(code);
  int error = store != NULL && store->db != NULL ? sqlite3_system_errno(store->db) : 0;
  if ((code & 0xff) == SQLITE_IOERR && (error == ENOSPC || error == EDQUOT))
    what = advice(SQLITE_FULL);
  if (what != NULL)
    snprintf(why, STORE_WHY, "the state store %.300s cannot be %s: %s", path, doing, what);
  else if ((code & 0xff) == SQLITE_IOERR && error != 0)
    snprintf(why, STORE_WHY, "the state store %.300s cannot be %s: %s (%s)", path, doing, said,
             strerror(error));
  else
    snprintf(why, STORE_WHY, "the state store %.300s cannot be %s: %s", path, doing, said);
  return false;
}

/* ---- small questions --------------------------------------------------------------------------
 */

/* The first value that a statement gives; the result code in *code. */
static int64_t ask(sqlite3 *db, const char *sql, int *code) {
  sqlite3_stmt *statement = NULL;
  int64_t value = 0;
  *code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  if (*code == SQLITE_OK) {
    *code = sqlite3_step(statement);
    if (*code == SQLITE_ROW) {
      value = sqlite3_column_int64(statement, 0);
      *code = SQLITE_OK;
    } else if (*code == SQLITE_DONE) {
      *code = SQLITE_OK;
    }
  }
  sqlite3_finalize(statement);
  return value;
}

static int run(sqlite3 *db, const char *sql) {
  return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* ---- the schema -------------------------------------------------------------------------------
 */

static int make_schema(struct store *store) {
  char ids[128];
  snprintf(ids, sizeof ids, "PRAGMA application_id=%d; PRAGMA user_version=%d;", APPLICATION_ID,
           SCHEMA_VERSION);
  int code = run(store->db, "BEGIN IMMEDIATE");
  if (code != SQLITE_OK)
    return code;
  int64_t version = ask(store->db, "PRAGMA user_version", &code); /* another one may be first */
  if (code == SQLITE_OK && version == 0)
    code = run(store->db, schema);
  if (code == SQLITE_OK && version == 0)
    code = run(store->db, ids);
  if (code == SQLITE_OK)
    code = run(store->db, "COMMIT");
  if (code != SQLITE_OK)
    run(store->db, "ROLLBACK");
  return code;
}

static bool check_schema(struct store *store, char *why) {
  int code;
  const char *path = store->path != NULL ? store->path : "in memory";
  int64_t version = ask(store->db, "PRAGMA user_version", &code);
  int64_t id = code == SQLITE_OK ? ask(store->db, "PRAGMA application_id", &code) : 0;
  int64_t tables =
      code == SQLITE_OK ? ask(store->db, "SELECT count(*) FROM sqlite_schema", &code) : 0;
  if (code == SQLITE_OK && version == 0 && id == 0 && tables == 0) {
    code = make_schema(store);
    if (code == SQLITE_OK)
      version = ask(store->db, "PRAGMA user_version", &code);
    id = APPLICATION_ID;
  }
  if (code != SQLITE_OK)
    return store_fail(store, code, "opened", why);
  if (id != APPLICATION_ID) {
    snprintf(why, STORE_WHY, "%.300s is a database of something else, not a state store", path);
    return false;
  }
  if (version == SCHEMA_VERSION)
    return true;
  snprintf(why, STORE_WHY, "the state store %.300s has version %lld, this program knows %d: %s",
           path, (long long)version, SCHEMA_VERSION,
           version > SCHEMA_VERSION ? "install the newer program that made it" : "it is damaged");
  return false;
}

/* Reads the whole file once, unless it is so large that starting would take long. */
static bool check_pages(struct store *store, char *why) {
  struct stat st;
  sqlite3_stmt *statement = NULL;
  if (store->path == NULL || stat(store->path, &st) != 0 || st.st_size > CHECK_BYTES)
    return true;
  int code = sqlite3_prepare_v2(store->db, "PRAGMA quick_check(1)", -1, &statement, NULL);
  if (code == SQLITE_OK)
    code = sqlite3_step(statement);
  const char *said = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
  bool fine = said != NULL && strcmp(said, "ok") == 0;
  sqlite3_finalize(statement);
  if (fine)
    return true;
  return store_fail(store, code == SQLITE_ROW ? SQLITE_CORRUPT : code, "used", why);
}

/* ---- the file ---------------------------------------------------------------------------------
 */

/* SQLite makes files as the umask says; ours is for its owner only. */
static void make_file(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
  if (fd >= 0)
    close(fd);
}

static bool is_regular(const char *path, char *why) {
  struct stat st;
  if (stat(path, &st) != 0 || S_ISREG(st.st_mode))
    return true;
  snprintf(why, STORE_WHY, "the state store %.300s is no regular file", path);
  return false;
}

/* An URI with all that is special escaped; NULL without memory. */
static char *make_uri(const char *path, const char *query) {
  static const char digits[] = "0123456789abcdef";
  char *uri = malloc(strlen(path) * 3 + strlen(query) + sizeof "file:");
  if (uri == NULL)
    return NULL;
  char *to = uri + sprintf(uri, "file:");
  for (const unsigned char *c = (const unsigned char *)path; *c != 0; c++) {
    if (*c == '%' || *c == '?' || *c == '#') {
      *to++ = '%';
      *to++ = digits[*c >> 4];
      *to++ = digits[*c & 15];
    } else {
      *to++ = (char)*c;
    }
  }
  strcpy(to, query);
  return uri;
}

/* True if nothing is in the write-ahead log: what the main file holds is all. */
static bool is_log_empty(const char *path) {
  char log[4096];
  struct stat st;
  snprintf(log, sizeof log, "%s-wal", path);
  return stat(log, &st) != 0 || st.st_size == 0;
}

static int open_uri(struct store *store, const char *query, int flags) {
  char *uri = make_uri(store->path, query);
  if (uri == NULL)
    return SQLITE_NOMEM;
  sqlite3_close(store->db);
  store->db = NULL;
  int code = sqlite3_open_v2(uri, &store->db, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
  free(uri);
  if (code == SQLITE_OK) {
    sqlite3_extended_result_codes(store->db, 1);
    sqlite3_busy_timeout(store->db, BUSY_MS);
    ask(store->db, "SELECT count(*) FROM sqlite_schema", &code); /* opens the file in earnest */
  }
  return code;
}

/* For reading: with the log if there is one that can be read, else as a file that never changes. */
static int open_to_read(struct store *store) {
  store->read_only = true;
  int code = open_uri(store, "?mode=ro", SQLITE_OPEN_READONLY);
  if (code != SQLITE_OK && is_log_empty(store->path))
    code = open_uri(store, "?immutable=1", SQLITE_OPEN_READONLY);
  return code;
}

static bool is_for_reading_only(int code) {
  int basic = code & 0xff;
  return basic == SQLITE_READONLY || basic == SQLITE_CANTOPEN || basic == SQLITE_PERM;
}

static int open_to_write(struct store *store) {
  make_file(store->path);
  int code = open_uri(store, "", SQLITE_OPEN_READWRITE);
  if (code == SQLITE_OK && sqlite3_db_readonly(store->db, "main") == 1)
    return SQLITE_READONLY;
  if (code == SQLITE_OK)
    code = run(store->db, "PRAGMA journal_mode=WAL");
  return code;
}

static bool open_file(struct store *store, char *why) {
  if (!is_regular(store->path, why))
    return false;
  int code = open_to_write(store);
  if (is_for_reading_only(code) && access(store->path, R_OK) == 0) {
    int reading = open_to_read(store);
    code = reading == SQLITE_OK ? SQLITE_OK : code;
  }
  return code == SQLITE_OK || store_fail(store, code, "opened", why);
}

static bool set_up(struct store *store, char *why) {
  sqlite3 *db = store->db;
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
  int code = run(db, "PRAGMA synchronous=FULL; PRAGMA cell_size_check=ON;"
                     "PRAGMA journal_size_limit=16777216; PRAGMA temp_store=MEMORY;");
  return code == SQLITE_OK || store_fail(store, code, "opened", why);
}

struct store *store_open(const char *path, char *why) {
  struct store *store = calloc(1, sizeof *store);
  if (store == NULL || (path != NULL && (store->path = strdup(path)) == NULL)) {
    snprintf(why, STORE_WHY, "out of memory");
    store_close(store);
    return NULL;
  }
  bool ok;
  if (path != NULL) {
    ok = open_file(store, why);
  } else {
    int code =
        sqlite3_open_v2(":memory:", &store->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    ok = code == SQLITE_OK || store_fail(store, code, "opened", why);
  }
  if (ok && set_up(store, why) && check_pages(store, why) && check_schema(store, why)) {
    store_changed(store);
    return store;
  }
  store_close(store);
  return NULL;
}

void store_close(struct store *store) {
  if (store == NULL)
    return;
  for (size_t i = 0; i < STORE_STATEMENTS; i++)
    sqlite3_finalize(store->statements[i]);
  sqlite3_close(store->db);
  free(store->path);
  free(store);
}

bool store_read_only(const struct store *store) {
  return store->read_only;
}
