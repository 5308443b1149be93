/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state store: what operators set at run time (weights, manual status, forced health), and the
 * audit trail of who did what and why.
 *
 * One interface for more than one backend: today SQLite (one machine, WAL, durable before commit
 * returns), later a distributed one.  It knows nothing of domains beyond their names; whether a
 * target exists is the caller's business.
 *
 * Revisions count commits of the whole store; each domain has the revision of the last commit that
 * touched it, and a commit may insist on it: of two writers who computed from the same state, the
 * second gets STORE_CONFLICT and computes again.  A commit is whole or absent, whatever is killed
 * when, and carries its audit row in the same transaction.
 *
 * A store belongs to one thread.  Functions that can fail give one line in `why` (STORE_WHY
 * octets).
 */
#ifndef SLUICE_BASE_STORE_H
#define SLUICE_BASE_STORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

enum { STORE_WHY = 512 };

enum store_kind {
  STORE_WEIGHT, /* of (domain, region, level, endpoint) */
  STORE_STATUS, /* of (domain, endpoint): 1 enabled, 2 disabled by hand */
  STORE_HEALTH, /* of (domain, endpoint, family): 1 up, 2 down: what the checker would say */
};

/* What is overridden.  Texts are borrowed; names of domains are absolute, in lower case, with the
 * final dot; regions are spelled as in the configuration. */
struct store_key {
  enum store_kind kind;
  const char *domain;
  const char *endpoint;
  const char *region; /* weights, else "" */
  uint32_t level;     /* weights: from 1, else 0 */
  uint8_t family;     /* health: 4 or 6, else 0 */
};

struct store_override {
  struct store_key key;
  int32_t value;
  int64_t set_at;     /* Unix seconds */
  int64_t expires_at; /* likewise; 0: it stays until it is dropped */
  const char *who;
  const char *origin; /* from where: "ssh 192.0.2.7", "chat", ...; or NULL */
  const char *reason; /* or NULL */
  const char *cause;  /* "drain:PATTERN" for what a drain has set, else NULL */
  const char *before; /* of a drain: JSON of the override that it replaced, "" if there was none;
                       * else NULL */
};

struct store_change {
  bool drop; /* only `override.key` counts then */
  struct store_override override;
};

/* One row of the audit trail. */
struct store_audit {
  int64_t id; /* given by the store; rising */
  int64_t at; /* Unix seconds */
  uint64_t revision;
  const char *request; /* chosen by the client, unique: a repeated commit is done once; or NULL */
  const char *who;
  const char *origin;  /* or NULL */
  const char *command; /* "set", "drain", "enable", "expire", ... */
  const char *domain;
  const char *what;   /* JSON: the changes with their old and new values */
  const char *reason; /* or NULL */
  const char *result; /* JSON: per provider; or NULL */
};

/* What a commit was computed from. */
struct store_expect {
  const char *domain;
  uint64_t revision; /* 0: nothing was ever committed for it */
};

enum store_result { STORE_DONE, STORE_CONFLICT, STORE_FAILED };

/*
 * Opens the store at `path` (made if missing, mode 0600), or one in memory for NULL.  NULL with a
 * reason if it cannot; a corrupted file is never repaired or replaced by itself: the message says
 * what to do.  A store that cannot be written (read-only disk, no permission) is opened for
 * reading: then each commit fails with that reason, and store_read_only() tells beforehand.
 */
struct store *store_open(const char *path, char *why);
void store_close(struct store *store);
bool store_read_only(const struct store *store);

/* Calls visit() for every override (of one domain, unless NULL) in the order of the keys; stops
 * when it returns false. */
bool store_load(struct store *store, const char *domain,
                bool (*visit)(void *arg, const struct store_override *override), void *arg,
                char *why);

/* Everything that one commit does.  The trail keeps the latest STORE_AUDIT_ROWS rows. */
struct store_batch {
  const char *request; /* chosen by the client, unique; or NULL */
  int64_t at;          /* Unix seconds: of the commit and its audit rows */
  const struct store_expect *expect;
  size_t expect_count;
  const struct store_change *changes;
  size_t change_count;
  const struct store_audit *audits; /* `id`, `at`, `revision` and `request` of them are ignored */
  size_t audit_count;
};

enum { STORE_AUDIT_ROWS = 100000 };

/*
 * Makes all changes and adds the audit rows, durably, or nothing.  `revision` gets the new one and
 * `ids` (room for audit_count, or NULL) the ids of the audit rows.  A batch without changes and
 * rows still makes a revision.  A `request` that is in the trail already makes it STORE_DONE with
 * `revision` and `ids` (0 where there are fewer) of then, and nothing is done again: *repeated
 * tells.
 */
enum store_result store_commit(struct store *store, const struct store_batch *batch,
                               uint64_t *revision, int64_t *ids, bool *repeated, char *why);

/* What the commit with this request made: its revision (0: there was none) and the ids of its audit
 * rows (room for `count`). */
bool store_find_request(struct store *store, const char *request, uint64_t *revision, int64_t *ids,
                        size_t count, char *why);

/* The revision of a domain, or of the store for NULL. */
bool store_revision(struct store *store, const char *domain, uint64_t *revision, char *why);

/* Calls visit() for every domain that a commit ever touched; stops when it returns false. */
bool store_revisions(struct store *store,
                     bool (*visit)(void *arg, const char *domain, uint64_t revision), void *arg,
                     char *why);

/* Adds what happened to a row of the trail later (the results of other providers); an id that is
 * not there is a failure. */
bool store_audit_result(struct store *store, int64_t id, const char *result, char *why);

/* Calls visit() for the latest `limit` rows (of one domain, unless NULL), latest first. */
bool store_history(struct store *store, const char *domain, size_t limit,
                   bool (*visit)(void *arg, const struct store_audit *audit), void *arg, char *why);

/* True if someone else has committed since the last call (or since the opening): load again. */
bool store_changed(struct store *store);

#endif
