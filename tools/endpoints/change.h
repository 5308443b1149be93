/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing what is overridden in one domain: a plan is computed from the domain's state, and
 * committed only if that is still the state; else it is computed again.  So no update is lost and
 * none is applied to what its author has not seen.
 *
 * A plan holds for everyone who serves the domain: our own server decides, then all other providers
 * are brought level with it (level.h), each with its own result.
 */
#ifndef SLUICE_TOOLS_ENDPOINTS_CHANGE_H
#define SLUICE_TOOLS_ENDPOINTS_CHANGE_H

#include "tools/endpoints/backend.h"

struct plan {
  const struct state *state;
  json_t *changes; /* as `changes` of a commit */
  json_t *what;    /* of the audit trail: what was asked, and "changes" with old and new values */
  int64_t expires_at;
  const char *reason;
};

/* Adds a weight.  `cause` and `before` as in base/store.h, or NULL. */
void plan_weight(struct plan *plan, uint32_t region, uint32_t level, uint16_t endpoint, int value,
                 const char *cause, const char *before);

/* Adds a status (STATE_STATUS_...) of an endpoint. */
void plan_status(struct plan *plan, uint16_t endpoint, int value);

/* Adds forced health of a family (1 up, 2 down, 0: not forced). */
void plan_health(struct plan *plan, uint16_t endpoint, uint8_t family, int value);

/* Adds the end of an override. */
void plan_drop(struct plan *plan, const struct store_override *override);

struct change {
  const char *command; /* for the trail: "set", "drain", ... */
  const char *reason;
  int64_t expires_at; /* or 0 */
  /* Fills the plan; an exit status, with its message printed unless it is CLI_DONE.  May be called
   * again with a newer state. */
  int (*plan)(void *arg, struct plan *plan);
  void *arg;
  bool dry_run; /* only plan() */
};

struct change_result {
  json_t *changes;       /* old and new values, to show; freed by the caller */
  bool unknown;          /* it is not known whether it was done */
  struct state *planned; /* what it was computed from; freed by the caller */
};

/*
 * Plans and commits; a plan without changes is done without a commit.  An exit status.  `result` is
 * filled in any case, change_result_close() frees it.
 */
int change_make(struct backend *backend, const char *domain, const struct change *change,
                struct change_result *result);
void change_result_close(struct change_result *result);

/* Prints "global level 1: a 100 -> 95, b 0 -> 5", a line for each level, indented. */
void change_print(FILE *out, const json_t *changes);

/* What providers that are behind, or a store that was changed without a server, make of an exit
 * status: says so, CLI_PARTIAL. */
int change_end(const struct backend *backend, int status);

#endif
