/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/body.h"

#include <ldns/ldns.h>
#include <string.h>

#include "base/name.h"

enum {
  HEADER_LEN = 12,
  QUESTION_TAIL = 4,            /* type and class */
  POINTER_LIMIT = 0x3fff - 256, /* a fixup adds at most 254 (RFC 1035 section 4.1.4: 14 bits) */
};

void body_begin(struct body *b, const uint8_t *home, enum body_use use) {
  b->use = use;
  b->home = home;
  b->overflow = false;
  memset(b->counts, 0, sizeof b->counts);
  b->fixup_count = 0;
  b->seen_count = 0;
  b->length = 0;
  b->target = 0;
  size_t len = name_wire_len(home, NAME_MAX_WIRE);
  b->start = (uint16_t)(HEADER_LEN + len + QUESTION_TAIL);
  size_t at = 0;
  /* A wildcard's first label is not in the questions that it answers: no pointer may go there. */
  if (use == BODY_WILDCARD)
    at = home[0] + 1u;
  for (; home[at] != 0 && b->seen_count < BODY_MAX_SEEN / 2; at += home[at] + 1u) {
    b->seen[b->seen_count].name = home + at;
    b->seen[b->seen_count++].at = (uint16_t)(HEADER_LEN + at);
  }
}

static void add(struct body *b, const void *data, size_t n) {
  if (b->overflow || n > BODY_MAX - b->length) {
    b->overflow = true;
    return;
  }
  memcpy(b->data + b->length, data, n);
  b->length += n;
}

static void add_u16(struct body *b, uint16_t v) {
  uint8_t octets[2] = {(uint8_t)(v >> 8), (uint8_t)v};
  add(b, octets, sizeof octets);
}

static void add_pointer(struct body *b, uint16_t to, bool moves) {
  if (moves) {
    if (b->fixup_count == BODY_MAX_FIXUPS) {
      b->overflow = true;
      return;
    }
    b->fixups[b->fixup_count++] = (uint16_t)b->length;
  }
  add_u16(b, (uint16_t)(0xc000 | to));
}

static int find_seen(const struct body *b, const uint8_t *name) {
  for (int i = 0; i < b->seen_count; i++)
    if (name_equal(b->seen[i].name, name))
      return i;
  return -1;
}

/* Writes a name, compressed against what stands before it (RFC 1035 section 4.1.4). */
static void add_name(struct body *b, const uint8_t *name) {
  for (; *name != 0; name += *name + 1u) {
    int known = find_seen(b, name);
    if (known >= 0) {
      add_pointer(b, b->seen[known].at, b->use != BODY_EXACT);
      return;
    }
    size_t at = b->start + b->length;
    if (at <= POINTER_LIMIT && b->seen_count < BODY_MAX_SEEN) {
      b->seen[b->seen_count].name = name;
      b->seen[b->seen_count++].at = (uint16_t)at;
    }
    add(b, name, *name + 1u);
  }
  add(b, "", 1);
}

static void add_owner(struct body *b, const uint8_t *owner) {
  if (owner != b->home && !name_equal(owner, b->home)) {
    add_name(b, owner);
    return;
  }
  if (*owner == 0) {
    add(b, "", 1);
    return;
  }
  add_pointer(b, HEADER_LEN, b->use == BODY_SUFFIX);
}

/* Only the types of RFC 1035 may have compressed names in their rdata (RFC 3597 section 4). */
static void add_rdata(struct body *b, const struct model_rr *rr) {
  size_t first = 0; /* octets before the first name */
  int names = 1;
  switch (rr->type) {
  case LDNS_RR_TYPE_NS:
  case LDNS_RR_TYPE_CNAME:
  case LDNS_RR_TYPE_PTR:
    break;
  case LDNS_RR_TYPE_MX:
    first = 2;
    break;
  case LDNS_RR_TYPE_SOA:
    names = 2;
    break;
  default:
    add(b, rr->rdata, rr->rdata_len);
    return;
  }
  add(b, rr->rdata, first);
  size_t at = first;
  for (int i = 0; i < names; i++) {
    b->target = (uint16_t)b->length;
    add_name(b, rr->rdata + at);
    at += name_wire_len(rr->rdata + at, rr->rdata_len - at);
  }
  add(b, rr->rdata + at, rr->rdata_len - at);
}

void body_rr(struct body *b, enum body_section section, const uint8_t *owner,
             const struct model_rr *rr, uint32_t ttl) {
  add_owner(b, owner);
  add_u16(b, rr->type);
  add_u16(b, LDNS_RR_CLASS_IN);
  add_u16(b, (uint16_t)(ttl >> 16));
  add_u16(b, (uint16_t)ttl);
  size_t length_at = b->length;
  add_u16(b, 0);
  add_rdata(b, rr);
  if (b->overflow)
    return;
  size_t n = b->length - length_at - 2;
  b->data[length_at] = (uint8_t)(n >> 8);
  b->data[length_at + 1] = (uint8_t)n;
  b->counts[section]++;
}

bool body_finish(const struct body *b, struct buf *out, size_t node_start, const uint8_t *target,
                 struct image_entry *entry) {
  if (b->overflow)
    return false;
  bool extra = target || b->fixup_count || b->counts[BODY_AUTHORITY] || b->counts[BODY_ADDITIONAL];
  if (extra) {
    struct image_extra e = {
        .nscount = b->counts[BODY_AUTHORITY],
        .arcount = b->counts[BODY_ADDITIONAL],
        .fixups = b->fixup_count,
        .target = target ? b->target : 0,
    };
    buf_add(out, &e, sizeof e);
  }
  entry->flags = (uint8_t)((extra ? ENTRY_EXTRA : 0) | (target ? ENTRY_CHASE : 0));
  entry->body = (uint32_t)(out->len - node_start);
  entry->length = (uint16_t)b->length;
  entry->ancount = b->counts[BODY_ANSWER];
  buf_add(out, b->data, b->length);
  buf_add(out, b->fixups, b->fixup_count * sizeof b->fixups[0]);
  if (target)
    buf_add(out, target, name_wire_len(target, NAME_MAX_WIRE));
  return true;
}
