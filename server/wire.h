/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers in network byte order, and the fixed parts of a DNS message (RFC 1035 section 4.1).
 */
#ifndef SLUICE_SERVER_WIRE_H
#define SLUICE_SERVER_WIRE_H

#include <stdint.h>
#include <string.h>

static inline uint16_t wire_u16(const uint8_t *p) {
  uint16_t v;
  memcpy(&v, p, sizeof v);
  return __builtin_bswap16(v);
}

static inline uint32_t wire_u32(const uint8_t *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return __builtin_bswap32(v);
}

static inline void wire_put16(uint8_t *p, uint16_t v) {
  v = __builtin_bswap16(v);
  memcpy(p, &v, sizeof v);
}

static inline void wire_put32(uint8_t *p, uint32_t v) {
  v = __builtin_bswap32(v);
  memcpy(p, &v, sizeof v);
}

enum wire_header {
  WIRE_ID = 0,
  WIRE_FLAGS = 2,
  WIRE_QDCOUNT = 4,
  WIRE_ANCOUNT = 6,
  WIRE_NSCOUNT = 8,
  WIRE_ARCOUNT = 10,
  WIRE_QUESTION = 12,
};

enum wire_flag {
  WIRE_QR = 0x8000,
  WIRE_OPCODE = 0x7800,
  WIRE_AA = 0x0400,
  WIRE_TC = 0x0200,
  WIRE_RD = 0x0100,
  WIRE_RA = 0x0080,
  WIRE_CD = 0x0010,
  WIRE_RCODE = 0x000f,
};

enum { WIRE_OPCODE_SHIFT = 11, WIRE_POINTER = 0xc000, WIRE_POINTER_MAX = 0x3fff };

enum wire_opcode { OPCODE_QUERY = 0, OPCODE_NOTIFY = 4, OPCODE_UPDATE = 5 };

enum wire_rcode {
  RCODE_NOERROR = 0,
  RCODE_FORMERR = 1,
  RCODE_SERVFAIL = 2,
  RCODE_NXDOMAIN = 3,
  RCODE_NOTIMP = 4,
  RCODE_REFUSED = 5,
  RCODE_YXDOMAIN = 6,
  RCODE_NOTAUTH = 9,
  RCODE_BADVERS = 16,
  RCODE_BADCOOKIE = 23,
};

enum wire_type {
  TYPE_A = 1,
  TYPE_NS = 2,
  TYPE_CNAME = 5,
  TYPE_SOA = 6,
  TYPE_PTR = 12,
  TYPE_MX = 15,
  TYPE_TXT = 16,
  TYPE_AAAA = 28,
  TYPE_DNAME = 39,
  TYPE_OPT = 41,
  TYPE_DS = 43,
  TYPE_TSIG = 250,
  TYPE_IXFR = 251,
  TYPE_AXFR = 252,
  TYPE_ANY = 255,
};

enum wire_class { CLASS_IN = 1, CLASS_CH = 3, CLASS_ANY = 255 };

#endif
