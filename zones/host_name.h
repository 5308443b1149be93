/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names as people write them in YAML.
 */
#ifndef SLUICE_ZONES_HOST_NAME_H
#define SLUICE_ZONES_HOST_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/name.h"

enum { HOST_NAME_WHY = 256 };

/* A value with a colon, or whose last label is all digits, can only be an address. */
bool host_name_is_address(const char *text, size_t len);

/*
 * The dot rule: a name that holds a dot is absolute, with or without a final one; a name without
 * any dot is refused, because it could mean two things.  What can only be an address is refused.
 * `.` is the root.  Writes the wire name to `out` (NAME_BUF octets), or a reason to `why`
 * (HOST_NAME_WHY bytes).
 */
bool host_name_read(uint8_t *out, const char *text, size_t len, char *why);

/*
 * An owner in `records:`, or the name of a directory: relative to `apex`, `@` for the apex itself,
 * absolute when it ends with a dot.  Characters other than letters, digits, `-`, `_`, `/` and `*`
 * must be escaped (`\.`, `\032`).
 */
bool host_name_read_owner(uint8_t *out, const char *text, size_t len, const uint8_t *apex,
                          char *why);

/* The name of a zone's directory. */
bool host_name_read_zone(uint8_t *out, const char *text, size_t len, char *why);

/* The name of a domain's directory: `@`, `cdn`, `api.eu`, `_wildcard`, `_wildcard.x`. */
bool host_name_read_domain(uint8_t *out, const char *text, size_t len, const uint8_t *apex,
                           char *why);

#endif
