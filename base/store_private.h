/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SQLite store between its files: store_open.c opens and checks it, store_sqlite.c reads and
 * writes.
 */
#ifndef SLUICE_BASE_STORE_PRIVATE_H
#define SLUICE_BASE_STORE_PRIVATE_H

#include <sqlite3.h>

#include "base/store.h"

enum store_statement {
  STORE_BEGIN,
  STORE_END,
  STORE_UNDO,
  STORE_FIND_REQUEST,
  STORE_ADD_COMMIT,
  STORE_LAST_REVISION,
  STORE_DOMAIN_REVISION,
  STORE_ALL_REVISIONS,
  STORE_TOUCH_DOMAIN,
  STORE_PUT,
  STORE_DROP,
  STORE_ADD_AUDIT,
  STORE_FIND_AUDITS,
  STORE_SET_RESULT,
  STORE_PRUNE_AUDITS,
  STORE_PRUNE_COMMITS,
  STORE_LOAD_ALL,
  STORE_LOAD_DOMAIN,
  STORE_HISTORY_ALL,
  STORE_HISTORY_DOMAIN,
  STORE_DATA_VERSION,
  STORE_STATEMENTS,
};

struct store {
  sqlite3 *db;
  char *path; /* or NULL: in memory */
  bool read_only;
  int64_t data_version; /* as of the last store_changed() */
  sqlite3_stmt *statements[STORE_STATEMENTS];
};

/* One line about what SQLite said last, with what to do; returns false. */
bool store_fail(const struct store *store, int code, const char *doing, char *why);

#endif
