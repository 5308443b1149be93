/* SPDX-License-Identifier: Apache-2.0 */
#include "server/tsig_record.h"

enum {
  TYPE_TSIG = 250,
  CLASS_ANY = 255,
  FIXED_SIZE = 10,       /* type, class, TTL, RDLENGTH */
  RDATA_BEFORE_MAC = 10, /* time signed, fudge, MAC size */
  RDATA_AFTER_MAC = 6,   /* original ID, error, other length */
};

/* Position after the name at `at`; 0 if it is not whole. */
static size_t skip_name(const uint8_t *message, size_t len, size_t at) {
  while (at < len) {
    uint8_t label = message[at];
    if (label == 0)
      return at + 1;
    if ((label & 0xc0) == 0xc0)
      return len - at >= 2 ? at + 2 : 0;
    if (label > NAME_MAX_LABEL)
      return 0;
    at += label + 1u;
  }
  return 0;
}

/*
 * Copies the name at `at` to `out` in lower case, pointers followed; returns its length, or 0. Each
 * pointer must lead before the place where the labels before it began (RFC 1035 section 4.1.4: a
 * prior occurrence), so that a walk ends.
 */
static size_t expand_name(const uint8_t *message, size_t len, size_t at, uint8_t out[NAME_BUF]) {
  uint8_t whole[NAME_BUF];
  size_t used = 0, start = at;
  while (at < len) {
    uint8_t label = message[at];
    if ((label & 0xc0) == 0xc0) {
      if (len - at < 2)
        return 0;
      at = (size_t)(label & 0x3f) << 8 | message[at + 1];
      if (at >= start)
        return 0;
      start = at;
      continue;
    }
    if (label > NAME_MAX_LABEL || len - at < label + 1u || used + label + 1u > NAME_MAX_WIRE)
      return 0;
    memcpy(whole + used, message + at, label + 1u);
    used += label + 1u;
    at += label + 1u;
    if (label == 0)
      return name_copy_lower(out, whole);
  }
  return 0;
}

/* Reads the RDATA; false if its fields do not fill it exactly. */
static bool read_rdata(const uint8_t *p, size_t len, struct tsig_record *record) {
  /* The algorithm is never compressed (RFC 3597 section 4). */
  size_t n = name_wire_len(p, len);
  if (n == 0 || len - n < RDATA_BEFORE_MAC)
    return false;
  record->algorithm_len = name_copy_lower(record->algorithm, p);
  p += n;
  len -= n;
  record->time_signed = tsig_get48(p);
  record->fudge = tsig_get16(p + 6);
  record->mac_len = tsig_get16(p + 8);
  record->mac = p + RDATA_BEFORE_MAC;
  len -= RDATA_BEFORE_MAC;
  if (len < (size_t)record->mac_len + RDATA_AFTER_MAC)
    return false;
  p = record->mac + record->mac_len;
  record->original_id = tsig_get16(p);
  record->error = tsig_get16(p + 2);
  record->other_len = tsig_get16(p + 4);
  record->other = p + RDATA_AFTER_MAC;
  return len == (size_t)record->mac_len + RDATA_AFTER_MAC + record->other_len;
}

/* Reads the TSIG at `at`, whose fixed part begins at `fixed`. */
static enum tsig_found read_record(const uint8_t *message, size_t len, size_t at, size_t fixed,
                                   struct tsig_record *record) {
  static const uint8_t any_no_ttl[6] = {0, CLASS_ANY, 0, 0, 0, 0};
  /* RFC 8945 section 4.2: the class is ANY, the TTL 0. */
  if (memcmp(message + fixed + 2, any_no_ttl, sizeof any_no_ttl) != 0)
    return TSIG_MALFORMED;
  record->at = at;
  record->name_len = expand_name(message, len, at, record->name);
  if (record->name_len == 0)
    return TSIG_MALFORMED;
  size_t rdata = fixed + FIXED_SIZE;
  return read_rdata(message + rdata, len - rdata, record) ? TSIG_FOUND : TSIG_MALFORMED;
}

enum tsig_found tsig_record_find(const uint8_t *message, size_t len, struct tsig_record *record) {
  if (len < TSIG_HEADER_SIZE)
    return TSIG_MALFORMED;
  size_t at = TSIG_HEADER_SIZE;
  for (unsigned left = tsig_get16(message + 4); left > 0; left--) {
    at = skip_name(message, len, at);
    if (at == 0 || len - at < 4)
      return TSIG_MALFORMED;
    at += 4;
  }
  unsigned left =
      (unsigned)tsig_get16(message + 6) + tsig_get16(message + 8) + tsig_get16(message + 10);
  for (; left > 0; left--) {
    size_t fixed = skip_name(message, len, at);
    if (fixed == 0 || len - fixed < FIXED_SIZE)
      return TSIG_MALFORMED;
    size_t end = fixed + FIXED_SIZE + tsig_get16(message + fixed + 8);
    if (end > len)
      return TSIG_MALFORMED;
    if (tsig_get16(message + fixed) == TYPE_TSIG) {
      /* RFC 8945 section 5.1: the last record of the additional section, and only one. */
      if (left > 1 || end != len || tsig_get16(message + 10) == 0)
        return TSIG_MALFORMED;
      return read_record(message, len, at, fixed, record);
    }
    at = end;
  }
  return at == len ? TSIG_NOT_FOUND : TSIG_MALFORMED;
}

static size_t rdata_size(const struct tsig_record *record) {
  return record->algorithm_len + RDATA_BEFORE_MAC + record->mac_len + RDATA_AFTER_MAC +
         record->other_len;
}

size_t tsig_record_size(const struct tsig_record *record) {
  return record->name_len + FIXED_SIZE + rdata_size(record);
}

static uint8_t *put(uint8_t *out, const uint8_t *octets, size_t len) {
  if (len > 0)
    memcpy(out, octets, len);
  return out + len;
}

void tsig_record_write(const struct tsig_record *record, uint8_t *out) {
  out = put(out, record->name, record->name_len);
  tsig_put16(out, TYPE_TSIG);
  tsig_put16(out + 2, CLASS_ANY);
  memset(out + 4, 0, 4);
  tsig_put16(out + 8, (uint16_t)rdata_size(record));
  out = put(out + FIXED_SIZE, record->algorithm, record->algorithm_len);
  tsig_put48(out, record->time_signed);
  tsig_put16(out + 6, record->fudge);
  tsig_put16(out + 8, record->mac_len);
  out = put(out + RDATA_BEFORE_MAC, record->mac, record->mac_len);
  tsig_put16(out, record->original_id);
  tsig_put16(out + 2, record->error);
  tsig_put16(out + 4, record->other_len);
  put(out + RDATA_AFTER_MAC, record->other, record->other_len);
}
