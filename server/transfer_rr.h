/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One resource record of a message that came from the network, with the names expanded.
 *
 * Pure; reads nothing outside of the given octets, whatever they hold.
 */
#ifndef SLUICE_SERVER_TRANSFER_RR_H
#define SLUICE_SERVER_TRANSFER_RR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/name.h"

struct transfer_rr {
  uint8_t owner[NAME_BUF]; /* lower case, padded */
  uint16_t type;
  uint16_t rclass;
  uint32_t ttl;
  uint16_t rdata_len;
  uint8_t rdata[65535]; /* uncompressed; names keep their case */
};

/* The numbers of a SOA record (RFC 1035 section 3.3.13). */
struct transfer_soa {
  uint32_t serial;
  uint32_t refresh;
  uint32_t retry;
  uint32_t expire;
  uint32_t minimum;
};

/*
 * Expands the name at offset `at` of a message into `out` (NAME_BUF octets, case kept, padding
 * zeroed).  Returns the offset behind it, or 0 if it is malformed: a pointer must lead backwards
 * (RFC 1035 section 4.1.4: to a prior occurrence), so there are no loops.
 */
size_t transfer_name_read(const uint8_t *message, size_t len, size_t at, uint8_t *out);

/*
 * Reads the record at *at and moves *at behind it.  Returns NULL, or a static text that says what
 * is wrong: the data of a type of RFC 1035 (and others with names in their data) must be
 * well-formed.
 */
const char *transfer_rr_read(const uint8_t *message, size_t len, size_t *at,
                             struct transfer_rr *rr);

/* The numbers of uncompressed SOA data as transfer_rr_read() gives it. */
struct transfer_soa transfer_soa_read(const uint8_t *rdata, size_t len);

/* Serial arithmetic (RFC 1982 section 3.2): true if `a` comes after `b`. */
static inline bool transfer_serial_newer(uint32_t a, uint32_t b) {
  return a != b && (uint32_t)(a - b) < UINT32_C(0x80000000);
}

#endif
