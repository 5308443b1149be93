/* SPDX-License-Identifier: Apache-2.0 */
#include "server/transfer_pack.h"

#include <string.h>

#include "server/wire.h"

enum {
  PROBES = 4,
  MX_PREFERENCE = 2,
  HASH_BITS = 10,
};
_Static_assert(1 << HASH_BITS == TRANSFER_PACK_SLOTS, "the hash fills the table");

/* Labels of a name, and the hash of the suffix that starts at each. */
struct labels {
  unsigned count;
  uint8_t at[NAME_MAX_LABELS];
  uint32_t hash[NAME_MAX_LABELS];
};

static size_t split(const uint8_t *name, struct labels *labels) {
  size_t at = 0;
  labels->count = 0;
  while (name[at] != 0) {
    labels->at[labels->count++] = (uint8_t)at;
    at += name[at] + 1u;
  }
  uint32_t hash = 0;
  for (unsigned i = labels->count; i-- > 0;) {
    const uint8_t *label = name + labels->at[i];
    for (unsigned k = 0; k <= label[0]; k++)
      hash = (hash ^ label[k]) * 16777619u;
    labels->hash[i] = hash;
  }
  return at + 1;
}

static uint32_t slot_of(uint32_t hash, unsigned probe) {
  return ((hash * 2654435769u >> (32 - HASH_BITS)) + probe) % TRANSFER_PACK_SLOTS;
}

/* True if the name at offset `at` of the message has the same octets as `name`.  Pointers only lead
 * backwards, to names that were written here, so this ends. */
static bool same_name(const struct transfer_pack *pack, size_t at, const uint8_t *name) {
  const uint8_t *p = pack->out + at;
  for (;;) {
    while (p[0] >= 0xc0)
      p = pack->out + (wire_u16(p) & WIRE_POINTER_MAX);
    if (p[0] != name[0] || memcmp(p, name, p[0] + 1u) != 0)
      return false;
    if (name[0] == 0)
      return true;
    p += name[0] + 1u;
    name += name[0] + 1u;
  }
}

static size_t find(const struct transfer_pack *pack, uint32_t hash, const uint8_t *name) {
  for (unsigned probe = 0; probe < PROBES; probe++) {
    uint16_t at = pack->slots[slot_of(hash, probe)];
    if (at == 0)
      return 0;
    if (same_name(pack, at, name))
      return at;
  }
  return 0;
}

static void insert(struct transfer_pack *pack, uint32_t hash, size_t at) {
  if (at > WIRE_POINTER_MAX)
    return;
  for (unsigned probe = 0; probe < PROBES; probe++) {
    uint16_t *slot = &pack->slots[slot_of(hash, probe)];
    if (*slot != 0)
      continue;
    *slot = (uint16_t)at;
    return;
  }
}

/* Writes a name at pack->at and notes its suffixes.  Never longer than the name itself. */
static void put_name(struct transfer_pack *pack, const uint8_t *name) {
  struct labels labels;
  size_t length = split(name, &labels);
  unsigned written = 0;
  size_t target = 0;
  for (; written < labels.count; written++) {
    target = find(pack, labels.hash[written], name + labels.at[written]);
    if (target != 0)
      break;
  }
  uint8_t *to = pack->out + pack->at;
  size_t octets = target != 0 ? labels.at[written] : length;
  memcpy(to, name, octets);
  for (unsigned i = 0; i < written; i++)
    insert(pack, labels.hash[i], pack->at + labels.at[i]);
  pack->at += octets;
  if (target == 0)
    return;
  wire_put16(to + octets, (uint16_t)(WIRE_POINTER | target));
  pack->at += 2;
}

static void put_owner(struct transfer_pack *pack, const struct records_rr *rr) {
  if (pack->owner_at != 0 && rr->owner_len > 2 && rr->owner_len == pack->owner_len &&
      memcmp(pack->owner, rr->start, rr->owner_len) == 0) {
    wire_put16(pack->out + pack->at, (uint16_t)(WIRE_POINTER | pack->owner_at));
    pack->at += 2;
    return;
  }
  size_t at = pack->at;
  put_name(pack, rr->start);
  pack->owner = rr->start;
  pack->owner_len = rr->owner_len;
  pack->owner_at = at <= WIRE_POINTER_MAX ? at : 0;
}

static void put_octets(struct transfer_pack *pack, const uint8_t *octets, size_t n) {
  memcpy(pack->out + pack->at, octets, n);
  pack->at += n;
}

static void put_rdata(struct transfer_pack *pack, const struct records_rr *rr) {
  const uint8_t *rdata = rr->rdata;
  size_t names = 0;
  size_t at = 0;
  switch (rr->type) {
  case TYPE_NS:
  case TYPE_CNAME:
  case TYPE_PTR:
    names = 1;
    break;
  case TYPE_MX:
    at = MX_PREFERENCE;
    names = 1;
    break;
  case TYPE_SOA:
    names = 2;
    break;
  default:
    break;
  }
  put_octets(pack, rdata, at);
  for (; names > 0; names--) {
    put_name(pack, rdata + at);
    while (rdata[at] != 0)
      at += rdata[at] + 1u;
    at++;
  }
  put_octets(pack, rdata + at, rr->rdata_len - at);
}

void transfer_pack_begin(struct transfer_pack *pack, uint8_t *out, size_t at) {
  pack->out = out;
  pack->at = at;
  pack->owner_at = 0;
  pack->owner = NULL;
  pack->owner_len = 0;
  memset(pack->slots, 0, sizeof pack->slots);
}

void transfer_pack_note(struct transfer_pack *pack, size_t at) {
  struct labels labels;
  split(pack->out + at, &labels);
  for (unsigned i = 0; i < labels.count; i++)
    insert(pack, labels.hash[i], at + labels.at[i]);
}

bool transfer_pack_rr(struct transfer_pack *pack, const struct records_rr *rr, size_t limit) {
  /* Compression only ever shortens; a record that would fit by it alone goes to the next message.
   */
  if (pack->at > limit || rr->size > limit - pack->at)
    return false;
  put_owner(pack, rr);
  uint8_t *fixed = pack->out + pack->at;
  memcpy(fixed, rr->start + rr->owner_len, RECORDS_FIXED);
  pack->at += RECORDS_FIXED;
  size_t start = pack->at;
  put_rdata(pack, rr);
  wire_put16(fixed + 8, (uint16_t)(pack->at - start));
  return true;
}
