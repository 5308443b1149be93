/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overrides between their files: overrides.c opens, attaches and commits; overrides_follow.c ends
 * what expires and takes over what others write.
 */
#ifndef SLUICE_SERVER_OVERRIDES_PRIVATE_H
#define SLUICE_SERVER_OVERRIDES_PRIVATE_H

#include "server/override_table.h"
#include "server/overrides.h"

struct overrides {
  struct store *store;
  struct override_table table;
  struct overrides_options options;
  int64_t next_expiry; /* nothing expires before; 0: nothing at all */
  size_t idle;         /* overrides out of force that are still in the store */
  int64_t retry_at;
  bool outdated; /* somebody else has written what was not taken over yet */
};

/* Changes of facts, with one line of code for each. */
struct plan {
  struct fact_change *changes;
  size_t count, room;
  bool failed; /* out of memory */
};

/* Notes in the plan when there is no memory. */
void plan_add(struct plan *plan, struct fact_change change);

int64_t overrides_now(const struct overrides *overrides); /* Unix seconds */
bool overrides_is_over(const struct overrides *overrides, const struct store_override *override);

/* Says that what is in force has changed. */
void overrides_tell(const struct overrides *overrides);

/* All of the store, in a table of its own; false with a reason. */
bool overrides_load(struct overrides *overrides, struct override_table *table, char *why);

/* Finds out anew what is out of force, and when the next one will be. */
void overrides_recount(struct overrides *overrides);

/* Takes what is out of force out of the store, and out of memory once that is done. */
void overrides_clean_up(struct overrides *overrides);

#endif
