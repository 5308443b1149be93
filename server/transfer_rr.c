/* SPDX-License-Identifier: Apache-2.0 */
#include "server/transfer_rr.h"

#include "server/wire.h"

enum {
  RR_FIXED = 10, /* type, class, TTL, rdata length */
  POINTER_MIN = 0xc0,
  POINTER_LEN = 2,
  SOA_NUMBERS = 20,
};

size_t transfer_name_read(const uint8_t *message, size_t len, size_t at, uint8_t *out) {
  size_t behind = 0; /* once a pointer was met */
  size_t written = 0;
  size_t limit = at; /* a pointer must lead to before what has been read so far */
  for (;;) {
    if (at >= len)
      return 0;
    uint8_t n = message[at];
    if (n >= POINTER_MIN) {
      if (len - at < POINTER_LEN)
        return 0;
      size_t to = wire_u16(message + at) & WIRE_POINTER_MAX;
      if (to >= limit || to < WIRE_QUESTION)
        return 0;
      if (behind == 0)
        behind = at + POINTER_LEN;
      at = limit = to;
      continue;
    }
    size_t size = n + 1u;
    if (n > NAME_MAX_LABEL || size > len - at || written + size > NAME_MAX_WIRE)
      return 0;
    memcpy(out + written, message + at, size);
    written += size;
    at += size;
    if (n == 0)
      break;
  }
  memset(out + written, 0, NAME_PAD);
  return behind != 0 ? behind : at;
}

/* ---- data -------------------------------------------------------------------------------------
 */

/* How the data of a type is made up: so many octets, character strings, names, then octets. */
struct layout {
  uint16_t type;
  uint8_t octets;
  uint8_t strings;
  uint8_t names;
  int8_t tail; /* octets behind the names, or ANY_TAIL */
};

enum { ANY_TAIL = -1 };

/* The types whose names a sender may compress, or did before RFC 3597 section 4 forbade it; and
 * addresses, which must have their length. */
static const struct layout layouts[] = {
    {1, 4, 0, 0, 0},          /* A */
    {2, 0, 0, 1, 0},          /* NS */
    {3, 0, 0, 1, 0},          /* MD */
    {4, 0, 0, 1, 0},          /* MF */
    {5, 0, 0, 1, 0},          /* CNAME */
    {6, 0, 0, 2, 20},         /* SOA */
    {7, 0, 0, 1, 0},          /* MB */
    {8, 0, 0, 1, 0},          /* MG */
    {9, 0, 0, 1, 0},          /* MR */
    {12, 0, 0, 1, 0},         /* PTR */
    {14, 0, 0, 2, 0},         /* MINFO */
    {15, 2, 0, 1, 0},         /* MX */
    {17, 0, 0, 2, 0},         /* RP */
    {18, 2, 0, 1, 0},         /* AFSDB */
    {21, 2, 0, 1, 0},         /* RT */
    {24, 18, 0, 1, ANY_TAIL}, /* SIG */
    {26, 2, 0, 2, 0},         /* PX */
    {28, 16, 0, 0, 0},        /* AAAA */
    {30, 0, 0, 1, ANY_TAIL},  /* NXT */
    {33, 6, 0, 1, 0},         /* SRV */
    {35, 4, 3, 1, 0},         /* NAPTR */
    {36, 2, 0, 1, 0},         /* KX */
    {39, 0, 0, 1, 0},         /* DNAME */
};

static const struct layout *find_layout(uint16_t type) {
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
    if (layouts[i].type == type)
      return &layouts[i];
  return NULL;
}

/* The part of a message that holds one record's data. */
struct data {
  const uint8_t *message;
  size_t end;
  size_t at;
  struct transfer_rr *rr;
};

static bool copy(struct data *d, size_t n) {
  if (n > d->end - d->at || n > sizeof d->rr->rdata - d->rr->rdata_len)
    return false;
  memcpy(d->rr->rdata + d->rr->rdata_len, d->message + d->at, n);
  d->rr->rdata_len = (uint16_t)(d->rr->rdata_len + n);
  d->at += n;
  return true;
}

static bool copy_string(struct data *d) {
  return d->at < d->end && copy(d, d->message[d->at] + 1u);
}

static bool copy_name(struct data *d) {
  uint8_t name[NAME_BUF];
  size_t behind = transfer_name_read(d->message, d->end, d->at, name);
  if (behind == 0)
    return false;
  size_t n = name_wire_len(name, NAME_MAX_WIRE);
  if (n > sizeof d->rr->rdata - d->rr->rdata_len)
    return false;
  memcpy(d->rr->rdata + d->rr->rdata_len, name, n);
  d->rr->rdata_len = (uint16_t)(d->rr->rdata_len + n);
  d->at = behind;
  return true;
}

static bool copy_data(struct data *d) {
  const struct layout *layout = find_layout(d->rr->type);
  if (layout == NULL)
    return copy(d, d->end - d->at);
  bool ok = copy(d, layout->octets);
  for (unsigned i = 0; ok && i < layout->strings; i++)
    ok = copy_string(d);
  for (unsigned i = 0; ok && i < layout->names; i++)
    ok = copy_name(d);
  size_t left = d->end - d->at;
  if (!ok || (layout->tail != ANY_TAIL && left != (size_t)layout->tail))
    return false;
  return copy(d, left);
}

/* ---- records ----------------------------------------------------------------------------------
 */

const char *transfer_rr_read(const uint8_t *message, size_t len, size_t *at,
                             struct transfer_rr *rr) {
  uint8_t owner[NAME_BUF];
  size_t behind = transfer_name_read(message, len, *at, owner);
  if (behind == 0)
    return "a name is malformed";
  if (len - behind < RR_FIXED)
    return "a record is cut off";
  size_t end = name_copy_lower(rr->owner, owner);
  memset(rr->owner + end, 0, NAME_PAD);
  rr->type = wire_u16(message + behind);
  rr->rclass = wire_u16(message + behind + 2);
  rr->ttl = wire_u32(message + behind + 4);
  if (rr->ttl > INT32_MAX)
    rr->ttl = 0; /* RFC 2181 section 8 */
  size_t rdlen = wire_u16(message + behind + 8);
  behind += RR_FIXED;
  if (rdlen > len - behind)
    return "a record is cut off";
  rr->rdata_len = 0;
  struct data data = {.message = message, .end = behind + rdlen, .at = behind, .rr = rr};
  if (!copy_data(&data))
    return "the data of a record is malformed";
  *at = behind + rdlen;
  return NULL;
}

struct transfer_soa transfer_soa_read(const uint8_t *rdata, size_t len) {
  if (len < SOA_NUMBERS)
    return (struct transfer_soa){0};
  const uint8_t *p = rdata + len - SOA_NUMBERS;
  return (struct transfer_soa){.serial = wire_u32(p),
                               .refresh = wire_u32(p + 4),
                               .retry = wire_u32(p + 8),
                               .expire = wire_u32(p + 12),
                               .minimum = wire_u32(p + 16)};
}
