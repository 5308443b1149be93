/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the workers read: an immutable view of everything that is served.
 *
 * The main thread makes a view from a build (server/load.h) and publishes it by RCU; a worker takes
 * it once for each batch of packets.  What changes more often, the draw tables of a domain, hangs
 * on one atomic pointer for each domain: replaced whole, freed after a grace period.
 */
#ifndef SLUICE_SERVER_VIEW_H
#define SLUICE_SERVER_VIEW_H

#include <stdatomic.h>

#include "steering/geo.h"
#include "steering/layers.h"
#include "zones/image.h"

/* The draw tables of one domain: table of (region r, type t) is tables[r * STEER_TYPES + t], NULL
 * where the type is not offered. */
struct view_draws {
  const struct draw_table *tables[1]; /* region_count * STEER_TYPES */
};

struct view_domain {
  const struct steer_domain *steer;
  const struct geo_table *geo; /* shared between domains with the same regions; never NULL */
  _Atomic(const struct view_draws *) draws; /* never NULL */
  uint32_t index;                           /* in its image */
  uint32_t id;                              /* index into served->domains */
};

enum view_zone_state {
  VIEW_ZONE_SERVED,
  VIEW_ZONE_NOT_READY, /* a secondary zone that was never transferred: SERVFAIL */
  VIEW_ZONE_EXPIRED,   /* a secondary zone whose primaries are gone for too long: SERVFAIL */
};

struct transfer_policy;

struct view_zone {
  const struct image *image; /* just an apex unless VIEW_ZONE_SERVED */
  enum view_zone_state state;
  struct view_domain *domains; /* image->header->domain_count of them */
};

/* What a transfer of a zone needs; not for the fast path. */
struct view_transfer {
  const char *records;            /* path of its records file, or NULL: it has none */
  struct transfer_policy *policy; /* NULL: nobody may transfer it */
};

/* Zones by apex: open addressing on the apex's hash; `zone_slots` is a power of two. */
struct view {
  struct view_zone *zones;
  uint32_t zone_count;
  uint32_t slot_mask;
  uint32_t *slots;                       /* zone index + 1, 0 = empty */
  uint64_t *zone_hashes;                 /* of each zone's apex */
  const struct view_transfer *transfers; /* as zones; NULL: none can be transferred */
  uint8_t max_apex_labels;               /* of any zone */
  uint8_t min_apex_labels;
  uint32_t
      generation; /* views are counted, so that what is told of one is not taken for another's */
};

/* Fills the zone table of a view whose `zones` and `zone_count` are set; false without memory or
 * when two zones have the same apex.  view_unindex() frees the table. */
bool view_index(struct view *view);
void view_unindex(struct view *view);

#endif
