/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a drain does to one domain, and what undoes it.  All here is pure.
 */
#ifndef SLUICE_TOOLS_ENDPOINTS_DRAINING_H
#define SLUICE_TOOLS_ENDPOINTS_DRAINING_H

#include "tools/endpoints/change.h"

enum { DRAINING_WHY = 512, DRAINING_PATTERN = 240 };

/* Sets picked[i] for each endpoint whose name matches; returns how many. */
size_t draining_match(const struct steer_domain *domain, const char *pattern, bool *picked);

/*
 * Adds weight 0 for each entry of the picked endpoints that has another one.  False with `why`
 * (DRAINING_WHY octets) when somewhere nothing else could take its traffic: no other weight above 0
 * in that level or a later one, of the same type.
 */
bool draining_plan(struct plan *plan, const bool *picked, const char *cause, char *why);

/* Adds what restores the weights that a drain of this cause replaced. */
void draining_undo(struct plan *plan, const char *cause, int64_t now);

/*
 * Weights that the latest drain of the pattern had replaced and someone has set since: `history` is
 * the domain's trail, latest first (what is newer than `state` is left out).  Returns an array of
 * {"region", "level", "endpoint", "weight", "who", "since"}.
 */
json_t *draining_kept(const struct state *state, const json_t *history, const char *pattern,
                      const char *cause);

#endif
