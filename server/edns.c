/* SPDX-License-Identifier: Apache-2.0 */
#include "server/edns.h"

#include <string.h>

#include "server/cookie.h"
#include "server/wire.h"

enum { DO_BIT = 0x8000 };

/* RFC 7871 section 6, with the strictness that spec/steering.md asks for: FORMERR on anything that
 * is not exactly one well-formed network. */
static bool read_subnet(struct edns_subnet *s, const uint8_t *data, size_t len) {
  if (s->present || len < 4)
    return false;
  uint16_t family = wire_u16(data);
  unsigned source = data[2];
  if (family > 2 || data[3] != 0) /* SCOPE PREFIX-LENGTH must be 0 in queries */
    return false;
  unsigned widest = family == 1 ? 32 : family == 2 ? 128 : 0;
  size_t octets = (source + 7) / 8;
  if (source > widest || len - 4 != octets)
    return false;
  if (source % 8 != 0 && (data[4 + octets - 1] & (0xff >> (source % 8))) != 0)
    return false;
  s->present = true;
  s->family = (uint8_t)family;
  s->source = (uint8_t)source;
  s->scope = 0;
  memset(s->address, 0, sizeof s->address);
  memcpy(s->address, data + 4, octets);
  return true;
}

static void read_cookie(struct edns *edns, const uint8_t *data, size_t len) {
  if (edns->cookie_present) /* of two the first counts, RFC 7873 section 5 */
    return;
  edns->cookie_present = true;
  edns->cookie_len = (uint8_t)(len < sizeof edns->cookie ? len : sizeof edns->cookie);
  memcpy(edns->cookie, data, edns->cookie_len);
}

static bool read_option(struct edns *edns, uint16_t code, const uint8_t *data, size_t len) {
  switch (code) {
  case EDNS_CLIENT_SUBNET:
    return read_subnet(&edns->subnet, data, len);
  case EDNS_NSID:
    edns->nsid_asked = true;
    return true;
  case EDNS_COOKIE:
    read_cookie(edns, data, len);
    return true;
  case EDNS_KEEPALIVE:
    edns->keepalive_asked = true;
    return true;
  case EDNS_PADDING:
    edns->padding_asked = true;
    return true;
  default: /* RFC 6891 section 6.1.2: unknown options are ignored */
    return true;
  }
}

bool edns_read(struct edns *edns, uint16_t payload, uint32_t ttl, const uint8_t *rdata,
               size_t len) {
  edns->present = true;
  edns->payload = payload < EDNS_MIN_PAYLOAD ? EDNS_MIN_PAYLOAD : payload;
  edns->version = (uint8_t)(ttl >> 16);
  edns->dnssec_ok = (ttl & DO_BIT) != 0;
  if (edns->version != 0)
    return true; /* BADVERS: options of a later version are not ours to read */
  while (len > 0) {
    if (len < 4)
      return false;
    uint16_t code = wire_u16(rdata);
    size_t size = wire_u16(rdata + 2);
    if (size > len - 4)
      return false;
    const uint8_t *data = rdata + 4;
    if (!read_option(edns, code, data, size))
      return false;
    rdata += 4 + size;
    len -= 4 + size;
  }
  return true;
}

static size_t subnet_octets(const struct edns_subnet *s) {
  return (s->source + 7u) / 8;
}

size_t edns_size(const struct edns *edns, const struct edns_reply *reply) {
  size_t n = EDNS_OPT_FIXED;
  if (edns->subnet.present)
    n += 8 + subnet_octets(&edns->subnet);
  if (edns->nsid_asked && reply->nsid)
    n += 4 + reply->nsid_len;
  if (reply->cookie)
    n += 4 + COOKIE_SIZE;
  if (reply->keepalive >= 0)
    n += 6;
  if (reply->extended_error != EDE_NONE)
    n += 6;
  return n;
}

static uint8_t *put_option(uint8_t *at, uint16_t code, size_t len) {
  wire_put16(at, code);
  wire_put16(at + 2, (uint16_t)len);
  return at + 4;
}

static uint8_t *put_subnet(uint8_t *at, const struct edns_subnet *s) {
  size_t octets = subnet_octets(s);
  at = put_option(at, EDNS_CLIENT_SUBNET, 4 + octets);
  wire_put16(at, s->family);
  at[2] = s->source;
  at[3] = s->scope;
  memcpy(at + 4, s->address, octets);
  return at + 4 + octets;
}

static uint8_t *put_octets(uint8_t *at, uint16_t code, const void *data, size_t len) {
  at = put_option(at, code, len);
  memcpy(at, data, len);
  return at + len;
}

static uint8_t *put_number(uint8_t *at, uint16_t code, int value) {
  at = put_option(at, code, 2);
  wire_put16(at, (uint16_t)value);
  return at + 2;
}

/* RFC 8467 section 4.1: up to a multiple of the block, but not past the limit. */
static uint8_t *put_padding(uint8_t *at, const uint8_t *message, size_t limit) {
  size_t used = (size_t)(at - message) + 4;
  if (used > limit)
    return at;
  size_t padded = (used + EDNS_PADDING_BLOCK - 1) / EDNS_PADDING_BLOCK * EDNS_PADDING_BLOCK;
  size_t zeros = (padded < limit ? padded : limit) - used;
  at = put_option(at, EDNS_PADDING, zeros);
  memset(at, 0, zeros);
  return at + zeros;
}

size_t edns_write(const struct edns *edns, const struct edns_reply *reply, uint8_t *message,
                  size_t start, size_t limit) {
  uint8_t *out = message + start;
  uint8_t *at = out;
  *at++ = 0;
  wire_put16(at, TYPE_OPT);
  wire_put16(at + 2, reply->payload);
  at[4] = reply->rcode_high;
  at[5] = 0; /* version */
  /* DO is copied, all other flags are zero (RFC 6891 section 6.1.4, RFC 3225 section 3). */
  wire_put16(at + 6, edns->dnssec_ok ? DO_BIT : 0);
  uint8_t *length = at + 8;
  at += 10;
  if (edns->subnet.present)
    at = put_subnet(at, &edns->subnet);
  if (edns->nsid_asked && reply->nsid)
    at = put_octets(at, EDNS_NSID, reply->nsid, reply->nsid_len);
  if (reply->cookie)
    at = put_octets(at, EDNS_COOKIE, reply->cookie, COOKIE_SIZE);
  if (reply->keepalive >= 0)
    at = put_number(at, EDNS_KEEPALIVE, reply->keepalive);
  if (reply->extended_error != EDE_NONE)
    at = put_number(at, EDNS_EXTENDED_ERROR, reply->extended_error);
  if (reply->padding)
    at = put_padding(at, message, limit);
  wire_put16(length, (uint16_t)(at - length - 2));
  return (size_t)(at - out);
}
