/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structure of a zone: what may stand beside and below what.
 */
#ifndef SLUICE_ZONES_ZONE_CHECK_H
#define SLUICE_ZONES_ZONE_CHECK_H

#include "zones/model.h"

struct zone_check {
  const struct model_zone *zone; /* records sorted */
  const char *yaml_path; /* records of this file must not be occluded; NULL: a plain zone, where the
                          * rules that servers do not share are warnings */
  struct diag_list *problems;
  bool soa_reported; /* a SOA or NS was there but wrong: no message that it is missing */
  bool ns_reported;
};

void zone_check_run(const struct zone_check *check);

/* The first record of a name (and type, unless 0), or NULL.  Records must be sorted. */
const struct model_rr *zone_check_find(const struct model_zone *zone, const uint8_t *owner,
                                       uint16_t type);

/* The delegation (NS below the apex) or DNAME at or above `name` that takes it out of the zone, or
 * NULL.  A DNAME counts only above the name. */
const struct model_rr *zone_check_occluder(const struct model_zone *zone, const uint8_t *name);

/*
 * Reports the records of `zone` that no query can reach, because `child`, a zone of its own in the
 * same configuration, answers for them.  NS, DS and glue may stand there.
 */
void zone_check_child(const struct zone_check *check, const struct model_zone *child);

/* True if a record's owner is `name` or below it. */
bool zone_check_exists(const struct model_zone *zone, const uint8_t *name);

#endif
