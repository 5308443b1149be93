/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TSIG record on the wire (RFC 8945 section 4.2); private to server/tsig*.c.
 */
#ifndef SLUICE_SERVER_TSIG_RECORD_H
#define SLUICE_SERVER_TSIG_RECORD_H

#include "base/name.h"

enum { TSIG_HEADER_SIZE = 12, TSIG_OTHER_MAX = 6 };

/* Parsed, or to be written.  `mac` and `other` point into the message or at the caller's octets. */
struct tsig_record {
  size_t at;                   /* offset of the record in its message */
  uint8_t name[NAME_BUF];      /* of the key, lower case */
  uint8_t algorithm[NAME_BUF]; /* lower case */
  size_t name_len, algorithm_len;
  uint64_t time_signed; /* 48 bits */
  uint16_t fudge;
  uint16_t original_id;
  uint16_t error;
  uint16_t mac_len;
  uint16_t other_len;
  const uint8_t *mac;
  const uint8_t *other;
};

enum tsig_found { TSIG_FOUND, TSIG_NOT_FOUND, TSIG_MALFORMED };

/*
 * Walks the whole message.  FOUND: its last record is a well-formed TSIG, and the only one.
 * NOT_FOUND: no TSIG in it, and the records fill it exactly.  MALFORMED: anything else.
 */
enum tsig_found tsig_record_find(const uint8_t *message, size_t len, struct tsig_record *record);

/* Octets that a record takes. */
size_t tsig_record_size(const struct tsig_record *record);

/* Writes the record at `out`, which has room for its size. */
void tsig_record_write(const struct tsig_record *record, uint8_t *out);

static inline uint16_t tsig_get16(const uint8_t *p) {
  return (uint16_t)(p[0] << 8 | p[1]);
}

static inline void tsig_put16(uint8_t *p, uint16_t v) {
  p[0] = (uint8_t)(v >> 8);
  p[1] = (uint8_t)v;
}

static inline uint64_t tsig_get48(const uint8_t *p) {
  return (uint64_t)tsig_get16(p) << 32 | (uint64_t)tsig_get16(p + 2) << 16 | tsig_get16(p + 4);
}

static inline void tsig_put48(uint8_t *p, uint64_t v) {
  tsig_put16(p, (uint16_t)(v >> 32));
  tsig_put16(p + 2, (uint16_t)(v >> 16));
  tsig_put16(p + 4, (uint16_t)v);
}

#endif
