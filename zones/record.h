/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of one resource record: presentation format in, uncompressed wire format out.
 *
 * Every type that ldns reads, and unknown ones in the form of RFC 3597.
 */
#ifndef SLUICE_ZONES_RECORD_H
#define SLUICE_ZONES_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zones/master_token.h"

enum { RECORD_MAX_RDATA = 65535, RECORD_WHY = 256 };

enum {
  RECORD_A = 1,
  RECORD_NS = 2,
  RECORD_CNAME = 5,
  RECORD_SOA = 6,
  RECORD_PTR = 12,
  RECORD_MX = 15,
  RECORD_TXT = 16,
  RECORD_KEY = 25,
  RECORD_AAAA = 28,
  RECORD_SRV = 33,
  RECORD_DNAME = 39,
  RECORD_DS = 43,
  RECORD_RRSIG = 46,
  RECORD_NSEC = 47,
  RECORD_SPF = 99,
};

struct record_rdata {
  uint16_t len;
  uint8_t data[RECORD_MAX_RDATA];
};

/* Type of a mnemonic or `TYPE123`, without regard to case; 0 if unknown or no type of data. */
uint16_t record_type(const char *text, size_t len);

/* Mnemonic or `TYPE123`; `out` holds 16 bytes. */
char *record_type_text(uint16_t type, char *out);

/* "1h30m" or "3600", up to 2147483647 (RFC 2181 section 8). */
bool record_ttl(const char *text, size_t len, uint32_t *out);

/*
 * Reads the words of the data.  Relative names are completed with `origin`; with `origin` NULL
 * names follow the dot rule of the configuration.  False with a reason in `why` (RECORD_WHY bytes)
 * and the word it is about in *bad (its index, at most `count`).
 */
bool record_read(uint16_t type, const struct master_word *words, size_t count,
                 const uint8_t *origin, struct record_rdata *out, size_t *bad, char *why);

/* The data of a TXT or SPF record that holds `text`, cut into strings of 255 octets. */
bool record_from_text(const char *text, size_t len, struct record_rdata *out, char *why);

/* True if data of the type may hold names that record_lower() changes. */
bool record_has_names(uint16_t type);

/* Copies the data with the names inside in lower case (RFC 4034 section 6.2). */
void record_lower(uint16_t type, const uint8_t *rdata, size_t len, uint8_t *out);

#endif
