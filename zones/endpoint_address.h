/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses at which no endpoint can be: answers with them would send clients to nobody, and probes
 * of them would reach what is none of ours (the metadata service of a cloud, this machine itself).
 */
#ifndef SLUICE_ZONES_ENDPOINT_ADDRESS_H
#define SLUICE_ZONES_ENDPOINT_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * NULL if an endpoint can have the address, else what kind of address it is, as in "a multicast
 * address": unspecified and "this network" (RFC 6890), link-local (RFC 3927, RFC 4291 section
 * 2.5.6), multicast, reserved and broadcast, and IPv4-mapped IPv6 (RFC 4291 section 2.5.5.2).
 * Private and loopback addresses are fine.  `octets` has 4 of them, or 16 if `v6`.  Pure; the text
 * is static.
 */
const char *endpoint_address_flaw(const uint8_t *octets, bool v6);

/* Whether these 16 octets are an IPv4 address (the last 4) in the form ::ffff:a.b.c.d. */
bool endpoint_address_is_mapped(const uint8_t *octets);

#endif
