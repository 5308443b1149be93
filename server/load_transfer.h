/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a load prepares for zone transfers: who may transfer each zone, and from which file.  Part
 * of the loader.
 */
#ifndef SLUICE_SERVER_LOAD_TRANSFER_H
#define SLUICE_SERVER_LOAD_TRANSFER_H

#include "server/load.h"
#include "server/manifest.h"

/* Fills served->transfers once all zones are taken.  False with a reason in `why` (LOAD_WHY
 * octets).
 */
bool load_transfer_take(struct served *served, const struct load_request *request,
                        const struct manifest *manifest, char *why);
void load_transfer_free(struct served *served);

#endif
