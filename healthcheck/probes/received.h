/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much a TCP connection has brought, as the kernel counts it.
 */
#ifndef SLUICE_HEALTHCHECK_PROBES_RECEIVED_H
#define SLUICE_HEALTHCHECK_PROBES_RECEIVED_H

#include <stdint.h>

/* Octets received so far; 0 where the kernel does not say. */
uint64_t received_octets(int fd);

#endif
