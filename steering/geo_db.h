/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of a geo_db, for the code that flattens it.  Not for use outside of steering/.
 */
#ifndef SLUICE_STEERING_GEO_DB_H
#define SLUICE_STEERING_GEO_DB_H

#include "steering/geo.h"
#include "steering/geo_map.h"

struct geo_db {
  struct geo_map place4, place6;  /* address -> index into locations */
  struct geo_map asn4, asn6;      /* address -> AS number, 0 if none */
  struct geo_location *locations; /* distinct ones, without AS number; the first is "unknown" */
  uint32_t location_count;
  uint64_t build_epoch;
  bool has_ipv6;
};

/* An address as a number of its family's bits. */
u128 geo_address_number(const struct geo_address *address);

#endif
