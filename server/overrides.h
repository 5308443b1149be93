/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operators have set at run time: the server's side of the state store (base/store.h).
 *
 * The server owns the store while it runs.  A commit is checked against what is served, prepared
 * (new draw tables and all memory), written durably, and then published, which cannot fail; so what
 * was confirmed is both on disk and in answers, and what was not is in neither.
 *
 * Overrides survive reloads and restarts.  One that has expired, or whose target the configuration
 * does not have any more, is out of force at once; it is taken out of the store with a row in the
 * audit trail, later if the disk does not let us now.
 *
 * All functions belong to the main thread.
 */
#ifndef SLUICE_SERVER_OVERRIDES_H
#define SLUICE_SERVER_OVERRIDES_H

#include <jansson.h>

#include "base/store.h"
#include "server/facts.h"

struct overrides;

struct overrides_options {
  const char *state;       /* folder of store.db and, from earlier versions, status.json; or NULL */
  struct facts *facts;     /* opened, not attached yet */
  int64_t (*now_ms)(void); /* Unix time in milliseconds */
  void (*changed)(void *arg); /* after what is in force has changed; or NULL */
  void *arg;
};

/* NULL with one line in `why` (STORE_WHY octets). */
struct overrides *overrides_open(const struct overrides_options *options, char *why);
void overrides_close(struct overrides *overrides);

/* Puts the weights in force into a view before facts_attach(); false without memory. */
bool overrides_attach(struct overrides *overrides, struct served *served);

/* After a view was published: drops what has no target in it. */
void overrides_published(struct overrides *overrides, struct served *served);

/*
 * Commits a batch whose overrides are complete (who, set_at).  Regions are put into the spelling of
 * the configuration.  STORE_FAILED with what does not exist, or what the store said.  See
 * store_commit() for the rest.
 */
enum store_result overrides_commit(struct overrides *overrides, struct served *served,
                                   struct store_batch *batch, struct store_change *changes,
                                   uint64_t *revision, int64_t *ids, char *why);

/*
 * Takes out of force what has expired, takes over what another program has written, and cleans up.
 * Returns the milliseconds after which to call again: at most a second, so that a clock that jumps
 * does no harm.
 */
unsigned overrides_tick(struct overrides *overrides, struct served *served);

/* Takes over what another program has written, if it has; false with a reason. */
bool overrides_refresh(struct overrides *overrides, struct served *served, char *why);

/* What is in force of a domain (absolute, lower case, final dot), as `domain` replies it; NULL
 * without memory. */
json_t *overrides_of_domain(const struct overrides *overrides, const char *domain);

/* What is in force at all, at most `most` (0: all) of it, each with its "domain". */
json_t *overrides_list(const struct overrides *overrides, size_t most);
size_t overrides_count(const struct overrides *overrides);

/* The store, for its revisions and history. */
struct store *overrides_store(struct overrides *overrides);

#endif
