/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer 1 backwards: networks whose clients are in a given region.  For those who ask name servers
 * from there (`sluice sync verify`).
 */
#ifndef SLUICE_STEERING_GEO_PLACE_H
#define SLUICE_STEERING_GEO_PLACE_H

#include "steering/geo.h"

enum { GEO_PLACES = 24 };

/* A network all of whose addresses layer 1 decides alike; host bits are zero. */
struct geo_place {
  uint8_t family; /* 4 or 6 */
  uint8_t bits;
  uint8_t octets[16];
};

/* Networks of one region, the best first. */
struct geo_places {
  size_t count;
  struct geo_place items[GEO_PLACES];
};

/*
 * Fills `out` (one for each region of `domain`) with networks of `family`: first from the region's
 * own net atoms, then large networks that the location file knows, and for clients that cannot be
 * placed those of documentation (RFC 5737, RFC 3849).  With `also`, a domain with as many regions,
 * only networks that are in the same region there.  Prefixes are as short as resolvers send them
 * (RFC 7871 section 11.1: 24 and 56 bits), or longer where the region needs it.  `db` may be NULL.
 * False without memory.
 */
bool geo_places_find(const struct geo_db *db, const struct steer_domain *domain,
                     const struct steer_domain *also, uint8_t family, struct geo_places *out);

#endif
