/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EDNS(0), RFC 6891: reading the OPT record of a query, writing that of a response.  Pure; no
 * allocation; reads nothing outside of the given octets.
 */
#ifndef SLUICE_SERVER_EDNS_H
#define SLUICE_SERVER_EDNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  EDNS_OPT_FIXED = 11, /* root owner, type, class, TTL, rdata length */
  EDNS_MIN_PAYLOAD = 512,
  EDNS_NSID_MAX = 128,
};

enum edns_option {
  EDNS_NSID = 3,           /* RFC 5001 */
  EDNS_CLIENT_SUBNET = 8,  /* RFC 7871 */
  EDNS_COOKIE = 10,        /* RFC 7873 */
  EDNS_KEEPALIVE = 11,     /* RFC 7828 */
  EDNS_PADDING = 12,       /* RFC 7830 */
  EDNS_EXTENDED_ERROR = 15 /* RFC 8914 */
};

/* Info codes of RFC 8914 that are used. */
enum {
  EDE_NONE = -1,
  EDE_NOT_READY = 14,
  EDE_PROHIBITED = 18,
  EDE_NOT_AUTHORITATIVE = 20,
  EDE_INVALID_DATA = 24
};

enum {
  EDNS_COOKIE_MAX = 40,     /* octets of the option in a query, RFC 7873 section 4 */
  EDNS_PADDING_BLOCK = 468, /* responses are padded to a multiple of it, RFC 8467 section 4.1 */
};

/* Client subnet, RFC 7871 section 6. */
struct edns_subnet {
  bool present;
  uint8_t family; /* 0, 1 or 2 as in the option */
  uint8_t source; /* prefix length in bits */
  uint8_t scope;  /* of the response */
  uint8_t address[16];
};

struct edns {
  bool present;
  bool dnssec_ok;
  uint8_t version;
  uint16_t payload; /* the requestor's, at least 512 (RFC 6891 section 6.2.3) */
  bool nsid_asked;
  bool keepalive_asked;
  bool padding_asked;
  bool cookie_present;
  uint8_t
      cookie_len; /* of the first COOKIE option, cut at EDNS_COOKIE_MAX + 1: never a right length */
  uint8_t cookie[EDNS_COOKIE_MAX + 1];
  struct edns_subnet subnet;
};

/*
 * Reads an OPT record's class, TTL and rdata.  False if its options are malformed (FORMERR); what
 * was understood up to there is in `edns`.  Of a repeated option other than ECS the first counts.
 */
bool edns_read(struct edns *edns, uint16_t payload, uint32_t ttl, const uint8_t *rdata, size_t len);

/* What the OPT of a response says besides. */
struct edns_reply {
  uint16_t payload;   /* our own */
  uint8_t rcode_high; /* upper 8 bits of the extended RCODE */
  const char *nsid;
  size_t nsid_len;
  int extended_error;    /* info code, or EDE_NONE */
  const uint8_t *cookie; /* whole option data (COOKIE_SIZE octets), or NULL */
  int keepalive;         /* idle timeout in units of 100 ms (RFC 7828), or -1 for none */
  bool padding;          /* fill up the message to EDNS_PADDING_BLOCK */
};

/* Octets that edns_write() will write, padding left out. */
size_t edns_size(const struct edns *edns, const struct edns_reply *reply);

/*
 * Writes the OPT record at `message + at`, which has room for edns_size(), and with padding up to
 * `limit` octets of the whole message.  Returns the length of the record.
 */
size_t edns_write(const struct edns *edns, const struct edns_reply *reply, uint8_t *message,
                  size_t at, size_t limit);

#endif
