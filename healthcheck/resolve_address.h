/* SPDX-License-Identifier: Apache-2.0 */
/* The pure part of resolving: which addresses are taken, in which order, and how a server is
 * written. */
#ifndef SLUICE_HEALTHCHECK_RESOLVE_ADDRESS_H
#define SLUICE_HEALTHCHECK_RESOLVE_ADDRESS_H

#include <stdbool.h>

#include "healthcheck/resolve.h"

/* Whether an endpoint can be there (resolve.h says which addresses are left out). */
bool resolve_address_usable(const struct resolve_address *address);

/* Both families by turns, IPv4 first, at most RESOLVE_ADDRESSES, to `out`; returns how many. */
size_t resolve_address_mix(const struct resolve_address *v4, size_t count4,
                           const struct resolve_address *v6, size_t count6,
                           struct resolve_address *out);

/* Reads "ADDRESS[@PORT]" (port 53 if it is left out). */
bool resolve_address_read(const char *text, struct resolve_address *address, uint16_t *port);

#endif
