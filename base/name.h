/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domain names in wire format (RFC 1035 section 3.1), uncompressed.
 *
 * A wire name is a run of labels, each a length octet (1..63) and its octets, ended by the
 * zero-length root label; at most 255 octets in all.  All functions here are pure and thread-safe.
 *
 * Hashing goes from the root towards the leftmost label, so that the hash of every suffix of a name
 * is a by-product of hashing the name: the server needs them to find the zone and the closest
 * encloser.  The hash is part of the image format (zones/image.h): changing it changes the version.
 */
#ifndef SLUICE_BASE_NAME_H
#define SLUICE_BASE_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
  NAME_MAX_WIRE = 255,   /* RFC 1035 section 2.3.4 */
  NAME_MAX_LABEL = 63,   /* RFC 1035 section 2.3.4 */
  NAME_MAX_LABELS = 127, /* without the root label */
  NAME_PAD = 8,          /* octets that may be read (not written) past the end of a stored name */
  NAME_BUF = NAME_MAX_WIRE + 1 + NAME_PAD,
  NAME_MAX_TEXT = 1024, /* presentation form, with escapes, final dot and NUL */
};

/* Initial value of every name's hash: the hash of the root. */
#define NAME_HASH_ROOT UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t name_load8(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

/* Lower-cases the ASCII letters of eight octets at once; length octets (at most 63) are below 'A'.
 */
static inline uint64_t name_lower8(uint64_t v) {
  const uint64_t ones = UINT64_C(0x0101010101010101);
  uint64_t low7 = v & (ones * 0x7f);
  uint64_t ge_a = low7 + ones * (0x80 - 'A');
  uint64_t gt_z = low7 + ones * (0x80 - 'Z' - 1);
  uint64_t upper = (ge_a ^ gt_z) & ~v & (ones * 0x80);
  return v | (upper >> 2);
}

static inline uint64_t name_mix(uint64_t a, uint64_t b) {
  __uint128_t r = (__uint128_t)a * b;
  return (uint64_t)r ^ (uint64_t)(r >> 64);
}

/*
 * Extends the hash `h` of a suffix by the label at `label` (its length octet first), which stands
 * left of that suffix.  The label must be in lower case; up to NAME_PAD octets past it are read.
 */
static inline uint64_t name_hash_label(uint64_t h, const uint8_t *label) {
  size_t n = (size_t)label[0] + 1;
  while (n > 8) {
    h = name_mix(h ^ name_load8(label), UINT64_C(0xa0761d6478bd642f));
    label += 8;
    n -= 8;
  }
  uint64_t last = name_load8(label) & (UINT64_MAX >> (64 - 8 * n));
  return name_mix(h ^ last, UINT64_C(0xe7037ed1a0b428db));
}

/*
 * Hash of the whole lower-case name at `name`; the buffer must have NAME_PAD readable octets
 * after the name.
 */
uint64_t name_hash(const uint8_t *name);

/*
 * Length in octets of the wire name at `p`, of which `len` octets may be read; 0 if it is not a
 * whole uncompressed name of at most 255 octets.
 */
size_t name_wire_len(const uint8_t *p, size_t len);

/* Number of labels, the root not counted, of a valid wire name. */
unsigned name_labels(const uint8_t *name);

/* Copies a valid wire name in lower case to `out` (NAME_BUF octets); returns its length. */
size_t name_copy_lower(uint8_t *out, const uint8_t *name);

/* True if two valid wire names are equal without regard to ASCII case (RFC 4343). */
bool name_equal(const uint8_t *a, const uint8_t *b);

/* True if `name` is `parent` or below it, without regard to case. */
bool name_is_below_or_equal(const uint8_t *name, const uint8_t *parent);

/* Canonical order (RFC 4034 section 6.1): negative, 0 or positive. */
int name_compare(const uint8_t *a, const uint8_t *b);

/*
 * Reads presentation format (RFC 1035 section 5.1: \DDD and \X escapes).  A name without a final
 * dot is completed with `origin` (a wire name), or taken as absolute when origin is NULL.
 * Writes the wire name to `out` (NAME_BUF octets, case kept, padding zeroed).  Returns its length,
 * or 0 with *why set to a static text ("a label is longer than 63 octets").
 */
size_t name_from_text(uint8_t *out, const char *text, size_t len, const uint8_t *origin,
                      const char **why);

/* Writes presentation format with the final dot to `out` (NAME_MAX_TEXT); returns `out`. */
char *name_to_text(char *out, const uint8_t *name);

#endif
