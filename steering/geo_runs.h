/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer 1 of one domain as a function of the address: ranges that decide the same way.
 * Not for use outside of steering/.
 */
#ifndef SLUICE_STEERING_GEO_RUNS_H
#define SLUICE_STEERING_GEO_RUNS_H

#include "steering/geo_db.h"

/* Fills `runs4` and `runs6` with the index of the region of every address, neighbours of equal
 * regions merged; `db` may be NULL.  False without memory.  The caller closes both in any case. */
bool geo_runs_build(const struct geo_db *db, const struct steer_domain *domain,
                    struct geo_map *runs4, struct geo_map *runs6);

#endif
