/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_ZONES_ZONE_HASH_H
#define SLUICE_ZONES_ZONE_HASH_H

#include "zones/model.h"

/* Fills zone->input_hash from a complete, sorted zone; false without memory. */
bool zone_hash(struct model_zone *zone);

#endif
