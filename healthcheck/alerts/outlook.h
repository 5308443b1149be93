/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one region of a domain serves for one type, and how it came to that: by health, by hand, or
 * as configured.  Computed by the four layers themselves (steering/layers.h), three times: with all
 * that is known, without what checks have found, and by the configuration alone.  Pure.
 */
#ifndef SLUICE_HEALTHCHECK_ALERTS_OUTLOOK_H
#define SLUICE_HEALTHCHECK_ALERTS_OUTLOOK_H

#include "steering/model.h"

enum { OUTLOOK_NAMES = 8 }; /* how many endpoints are listed; the counts are of all */

/* The facts of a domain; NULL: nothing known.  `checked` has what checks say (manual: none);
 * `by_hand` what operators have set: manual status and forced health (unknown: not forced). */
struct outlook_facts {
  const struct steer_status *checked;
  const struct steer_status *by_hand;
  const int32_t *weights;
};

struct outlook_list {
  size_t count;
  uint16_t endpoints[OUTLOOK_NAMES];
};

struct outlook {
  uint16_t level;             /* that is served, from 1 */
  uint16_t level_by_hand;     /* that would be if every check were good */
  uint16_t level_plain;       /* that would be if, in addition, nothing were set by hand */
  bool all_down;              /* nothing is up, and something would be if every check were good */
  bool none_by_hand;          /* what was set by hand leaves nothing up */
  struct outlook_list serves; /* what is drawn from, in the order of the level */
  struct outlook_list failed; /* unhealthy ones that would be up: in better levels, or in all */
  struct outlook_list set;    /* those set by hand in better levels than the one served by hand */
};

/* False without memory.  The type must be offered. */
bool outlook_make(const struct steer_domain *domain, uint32_t region, enum steer_type type,
                  const struct outlook_facts *facts, struct outlook *out);

/* What the layers see of an endpoint: forced health wins over the checks. */
struct steer_status outlook_status(const struct outlook_facts *facts, uint32_t endpoint);

/* True if the endpoint would be in answers of some region if its checks were good: then its failure
 * changes what clients get.  Without memory: true. */
bool outlook_is_used(const struct steer_domain *domain, const struct outlook_facts *facts,
                     uint16_t endpoint);

#endif
