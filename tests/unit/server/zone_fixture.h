/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zones for unit tests and fuzz targets of the query path: made in memory from records in
 * presentation format and from steered domains, compiled, opened and indexed.
 */
#ifndef SLUICE_TESTS_ZONE_FIXTURE_H
#define SLUICE_TESTS_ZONE_FIXTURE_H

#include "server/query.h"
#include "zones/model.h"

struct zone_fixture;

/* A zone of the records in `text` (one a line, absolute names, TTL and class given). */
struct zone_fixture_zone {
  const char *apex;
  const char *text;
  struct steer_domain **domains; /* taken over; may be NULL */
  size_t domain_count;
};

struct zone_fixture *zone_fixture_new(const struct zone_fixture_zone *zones, size_t count);
void zone_fixture_free(struct zone_fixture *fixture);
const struct view *zone_fixture_view(const struct zone_fixture *fixture);

/* A domain with endpoints e0..en-1 at 192.0.2.(10+i) and 2001:db8::(10+i), one region `global` with
 * one level of the given weights; `host` makes it a domain of host names e<i>.<host>. */
struct steer_domain *zone_fixture_domain(const char *owner, unsigned endpoints,
                                         const uint16_t *weights, const char *host);

#endif
