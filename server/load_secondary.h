/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of loading that is about secondary zones.  Private to server/load.c.
 */
#ifndef SLUICE_SERVER_LOAD_SECONDARY_H
#define SLUICE_SERVER_LOAD_SECONDARY_H

#include "server/load.h"

/*
 * Adds the secondary zones of the request to a view that has the build's zones and is indexed; its
 * arrays have room for them.  An image that cannot be used becomes a problem, not a failure, and
 * the zone answers SERVFAIL; a zone that the build has too is left to the build.  False with a
 * reason in `why` (LOAD_WHY octets) when out of memory.
 */
bool load_secondary_take(struct served *served, const struct load_request *request, char *why);

void load_secondary_free(struct served *served);

#endif
