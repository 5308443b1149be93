/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serials of managed zones: which one a zone gets, given what it had before (RFC 1982).
 */
#ifndef SLUICE_ZONES_SERIAL_H
#define SLUICE_ZONES_SERIAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* RFC 1982 section 3.2; false both ways for two serials that are 2^31 apart. */
bool serial_is_greater(uint32_t a, uint32_t b);

/* One more (RFC 1982 section 3.1); 0 is left out, since some secondaries take it for "none yet". */
uint32_t serial_next(uint32_t serial);

/*
 * The serial of a zone whose content has the hash `input`.  Each entry tells what it had somewhere:
 * {"serial": N, "input": "hash"}, or NULL.  The greatest of them if that stood for the same
 * content, else one more; 1 without any.
 */
uint32_t serial_choose(const json_t *const *entries, size_t count, const char *input);

/* True if `value` is a serial. */
bool serial_is_valid(const json_t *value);

#endif
