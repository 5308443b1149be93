/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A catalog zone (RFC 9432, version 2) of all zones of a build: secondaries that follow it serve
 * every zone without a word in their own configuration.
 *
 * It is a zone like any other: made at build time, with a managed serial, transferred like the
 * others.
 */
#ifndef SLUICE_ZONES_CATALOG_H
#define SLUICE_ZONES_CATALOG_H

#include "zones/model.h"

/*
 * Adds the catalog zone `apex` (wire name) whose members are all other zones of the model, which
 * must be complete.  `pos` is where it was asked for, for messages; `transfer` (or NULL) is the
 * zone's `transfer:`, and its reference is taken over.  False after a problem was reported.
 */
bool catalog_add(struct model *model, const uint8_t *apex, struct diag_pos pos, json_t *transfer,
                 struct diag_list *problems);

#endif
