/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of layer 1: how specific a match of one atom is.  Not for use outside of steering/.
 */
#ifndef SLUICE_STEERING_FENCE_H
#define SLUICE_STEERING_FENCE_H

#include "steering/geo.h"
#include "steering/model.h"

/* 0 if the atom does not match the client, else a number that is larger the more specific the match
 * is.  `address` may be NULL: then no net matches. */
unsigned fence_rank(const struct steer_atom *atom, const struct geo_location *location,
                    const struct geo_address *address);

#endif
