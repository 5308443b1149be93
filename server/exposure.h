/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was answered in the last minutes: for each steered domain, answers by region and endpoint,
 * and the resolvers that asked most.  Workers leave samples in rings (server/exposure_ring.h); the
 * main thread adds them up here.
 *
 * Counts are kept in two periods of EXPOSURE_PERIOD seconds, the running one and the one before, so
 * a figure is of the last 5 to 10 minutes.  Memory is bounded: a domain that nobody asks for costs
 * nothing, and beyond EXPOSURE_CELLS no more are added.  Reloads keep what was counted, by names.
 *
 * All belongs to the main thread.
 */
#ifndef SLUICE_SERVER_EXPOSURE_H
#define SLUICE_SERVER_EXPOSURE_H

#include <jansson.h>

#include "server/exposure_ring.h"
#include "server/load.h"

enum {
  EXPOSURE_PERIOD = 300,     /* seconds */
  EXPOSURE_CELLS = 1 << 20,  /* (domain, region, endpoint), of all domains */
  EXPOSURE_DOMAINS = 200000, /* that are kept at a time */
  EXPOSURE_TICK_MS = 200,    /* between two calls of exposure_drain() */
  EXPOSURE_NETWORKS = 10,    /* largest resolvers that are told */
};

struct exposure;

struct exposure *exposure_open(void); /* NULL without memory */
void exposure_close(struct exposure *exposure);

/* Takes over what a ring holds, and tells its worker how much to sample.  `now` is a monotonic
 * clock in seconds. */
void exposure_drain(struct exposure *exposure, struct exposure_ring *ring,
                    const struct served *served, uint64_t now);

/* A new view will be published in the place of `old` (after all rings were drained).  Without
 * memory what was counted is forgotten. */
void exposure_move(struct exposure *exposure, const struct served *old,
                   const struct served *served);

/* As `exposure` of the control socket replies it (server/control.h); NULL without memory. */
json_t *exposure_json(const struct exposure *exposure, const struct served *served, uint32_t domain,
                      uint64_t now);

#endif
