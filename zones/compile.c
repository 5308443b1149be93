/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/compile.h"

#include <ldns/ldns.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/name.h"
#include "zones/body.h"
#include "zones/domain_codec.h"
#include "zones/image.h"
#include "zones/tree.h"

enum { WHY = 512, MAX_NODE_ENTRIES = 255 };

struct compiler {
  const struct model_zone *zone;
  struct tree tree;
  struct body *body; /* scratch: one body at a time */
  const struct model_rr *soa;
  struct model_rr soa_rr; /* with the serial put in */
  uint8_t soa_rdata[600];
  uint32_t negative_ttl; /* min(SOA TTL, MINIMUM), RFC 2308 section 3 */
  struct buf *out;
  size_t base;        /* where the image starts in out */
  uint32_t *node_ref; /* tree node -> image node in units of IMAGE_ALIGN, 0 = none */
  char *why;
};

/* A run of records of one owner and type. */
struct rrset {
  const struct model_rr *rrs;
  uint32_t count;
};

static struct rrset next_rrset(const struct compiler *c, const struct tree_node *n, uint32_t *at) {
  struct rrset set = {&c->zone->rrs[n->first_rr + *at], 0};
  uint16_t type = set.rrs->type;
  while (*at < n->rr_count && c->zone->rrs[n->first_rr + *at].type == type) {
    set.count++;
    (*at)++;
  }
  return set;
}

static struct rrset find_rrset(const struct compiler *c, const struct tree_node *n, uint16_t type) {
  for (uint32_t at = 0; at < n->rr_count;) {
    struct rrset set = next_rrset(c, n, &at);
    if (set.rrs->type == type)
      return set;
  }
  return (struct rrset){NULL, 0};
}

static bool fail_size(struct compiler *c, const struct tree_node *n, uint16_t type) {
  char text[NAME_MAX_TEXT];
  char *type_text = ldns_rr_type2str((ldns_rr_type)type);
  snprintf(c->why, WHY, "the %s records of %.255s do not fit in a DNS message of 64 KiB; use fewer",
           type_text ? type_text : "?", name_to_text(text, n->name));
  free(type_text);
  return false;
}

static void add_set(struct compiler *c, enum body_section section, const uint8_t *owner,
                    struct rrset set) {
  for (uint32_t i = 0; i < set.count; i++) {
    const struct model_rr *rr = &set.rrs[i];
    body_rr(c->body, section, owner, rr->type == LDNS_RR_TYPE_SOA ? c->soa : rr, set.rrs->ttl);
  }
}

static void add_soa(struct compiler *c) {
  body_rr(c->body, BODY_AUTHORITY, c->soa->owner, c->soa, c->negative_ttl);
}

/* Glue of one kind for the name servers of a cut: those below the cut first, since RFC 9471 demands
 * them, then other addresses that the zone has at hand. */
static void add_glue(struct compiler *c, const struct tree_node *cut, struct rrset ns, bool below) {
  for (uint32_t i = 0; i < ns.count; i++) {
    uint8_t target[NAME_BUF];
    name_copy_lower(target, ns.rrs[i].rdata);
    if (name_is_below_or_equal(target, cut->name) != below)
      continue;
    uint32_t index = tree_find(&c->tree, target);
    if (index == TREE_NONE)
      continue;
    const struct tree_node *n = &c->tree.nodes[index];
    add_set(c, BODY_ADDITIONAL, n->name, find_rrset(c, n, LDNS_RR_TYPE_A));
    add_set(c, BODY_ADDITIONAL, n->name, find_rrset(c, n, LDNS_RR_TYPE_AAAA));
  }
}

/* RFC 1034 section 4.3.2 step 3b. */
static void add_referral(struct compiler *c, const struct tree_node *cut) {
  struct rrset ns = find_rrset(c, cut, LDNS_RR_TYPE_NS);
  add_set(c, BODY_AUTHORITY, cut->name, ns);
  add_glue(c, cut, ns, true);
  add_glue(c, cut, ns, false);
}

static enum body_use use_of(const struct tree_node *n) {
  return n->name[0] == 1 && n->name[1] == '*' ? BODY_WILDCARD : BODY_EXACT;
}

/* ---- entries ----------------------------------------------------------------------------------
 */

struct node_entries {
  struct image_entry items[MAX_NODE_ENTRIES];
  unsigned count;
};

static struct image_entry *new_entry(struct compiler *c, const struct tree_node *n,
                                     struct node_entries *e, uint16_t type) {
  if (e->count == MAX_NODE_ENTRIES) {
    char text[NAME_MAX_TEXT];
    snprintf(c->why, WHY, "%.255s has more than %d types", name_to_text(text, n->name),
             MAX_NODE_ENTRIES - 2);
    return NULL;
  }
  struct image_entry *entry = &e->items[e->count++];
  memset(entry, 0, sizeof *entry);
  entry->type = type;
  return entry;
}

static bool finish(struct compiler *c, const struct tree_node *n, size_t start,
                   struct image_entry *entry, const uint8_t *target) {
  if (!entry)
    return false;
  if (!body_finish(c->body, c->out, start, target, entry))
    return fail_size(c, n, entry->type);
  return true;
}

static bool plain_entry(struct compiler *c, const struct tree_node *n, struct node_entries *e,
                        size_t start, struct rrset set) {
  enum body_use use = use_of(n);
  if (n->dname && set.rrs->type == LDNS_RR_TYPE_DNAME)
    use = BODY_SUFFIX; /* it is also the answer for names below */
  body_begin(c->body, n->name, use);
  add_set(c, BODY_ANSWER, n->name, set);
  return finish(c, n, start, new_entry(c, n, e, set.rrs->type), NULL);
}

static bool cut_entries(struct compiler *c, const struct tree_node *n, struct node_entries *e,
                        size_t start) {
  body_begin(c->body, n->name, use_of(n) == BODY_WILDCARD ? BODY_WILDCARD : BODY_SUFFIX);
  add_referral(c, n);
  if (!finish(c, n, start, new_entry(c, n, e, LDNS_RR_TYPE_NS), NULL))
    return false;
  struct rrset ds =
      find_rrset(c, n, LDNS_RR_TYPE_DS); /* the parent's side of the cut, RFC 4035 3.1.4.1 */
  return !ds.count || plain_entry(c, n, e, start, ds);
}

/* ---- CNAME chains -----------------------------------------------------------------------------
 */

enum chain_end {
  CHAIN_DATA,     /* at *node, which is not an alias; records are given under `owner` */
  CHAIN_REFERRAL, /* at the cut *node */
  CHAIN_NXDOMAIN,
  CHAIN_LOOP,  /* back at a name already given, or too long: what there is so far is the answer */
  CHAIN_CHASE, /* goes on at query time from `owner` */
};

struct chain {
  enum chain_end end;
  uint32_t node;
  const uint8_t *owner; /* last target, in the storage below */
  unsigned length;      /* aliases */
  const struct model_rr *aliases[IMAGE_MAX_CHAIN];
  uint8_t names[IMAGE_MAX_CHAIN + 1]
               [NAME_BUF]; /* names[0] is the start, names[i] the i-th target */
};

static bool seen_in_chain(const struct chain *chain, const uint8_t *name) {
  for (unsigned i = 0; i < chain->length; i++)
    if (name_equal(chain->names[i], name))
      return true;
  return false;
}

/* Follows aliases from the CNAME node `start` as far as the zone alone can tell. */
static void follow(const struct compiler *c, const struct tree_node *start, struct chain *chain) {
  const struct tree_node *n = start;
  bool from_wildcard = use_of(start) == BODY_WILDCARD;
  chain->length = 0;
  name_copy_lower(chain->names[0], n->name);
  for (;;) {
    struct rrset cname = find_rrset(c, n, LDNS_RR_TYPE_CNAME);
    chain->aliases[chain->length++] = &cname.rrs[0];
    uint8_t *target = chain->names[chain->length];
    name_copy_lower(target, cname.rrs[0].rdata);
    chain->owner = target;
    enum tree_match match = tree_lookup(&c->tree, target, &chain->node);
    chain->end = match == TREE_CUT                              ? CHAIN_REFERRAL
                 : match == TREE_NXDOMAIN                       ? CHAIN_NXDOMAIN
                 : match == TREE_OUTSIDE || match == TREE_DNAME ? CHAIN_CHASE
                                                                : CHAIN_DATA;
    if (chain->end == CHAIN_CHASE)
      return;
    if (chain->end == CHAIN_DATA) {
      n = &c->tree.nodes[chain->node];
      /* A wildcard's own expansion may be one of the later names: only the query's name tells. */
      if (n->domain != TREE_NONE || n->cut || (from_wildcard && n == start)) {
        chain->end = CHAIN_CHASE;
        return;
      }
    }
    if (seen_in_chain(chain, target) || chain->length == IMAGE_MAX_CHAIN) {
      chain->end = CHAIN_LOOP;
      return;
    }
    if (chain->end != CHAIN_DATA || !n->cname)
      return;
  }
}

static void add_chain(struct compiler *c, const struct tree_node *n, const struct chain *chain) {
  body_begin(c->body, n->name, use_of(n));
  const uint8_t *owner = n->name;
  for (unsigned i = 0; i < chain->length; i++) {
    body_rr(c->body, BODY_ANSWER, owner, chain->aliases[i], chain->aliases[i]->ttl);
    owner = chain->names[i + 1];
  }
}

/* The answer for all types that the end of the chain does not have. */
static bool chain_default(struct compiler *c, const struct tree_node *n, struct node_entries *e,
                          size_t start, const struct chain *chain) {
  add_chain(c, n, chain);
  struct image_entry *entry = new_entry(c, n, e, 0);
  if (!entry)
    return false;
  switch (chain->end) {
  case CHAIN_NXDOMAIN:
    entry->rcode = LDNS_RCODE_NXDOMAIN; /* of the last name: RFC 6604 section 3 */
    add_soa(c);
    break;
  case CHAIN_DATA:
    add_soa(c);
    break;
  case CHAIN_REFERRAL:
    add_referral(c, &c->tree.nodes[chain->node]);
    break;
  case CHAIN_LOOP:
  case CHAIN_CHASE:
    break;
  }
  return finish(c, n, start, entry, chain->end == CHAIN_CHASE ? chain->owner : NULL);
}

/* A DS at the cut that the chain leads to is the parent's to answer (RFC 4035 section 3.1.4.1). */
static bool chain_ds(struct compiler *c, const struct tree_node *n, struct node_entries *e,
                     size_t start, const struct chain *chain) {
  const struct tree_node *cut = &c->tree.nodes[chain->node];
  if (chain->end != CHAIN_REFERRAL || !name_equal(chain->owner, cut->name))
    return true;
  struct rrset ds = find_rrset(c, cut, LDNS_RR_TYPE_DS);
  add_chain(c, n, chain);
  if (ds.count)
    add_set(c, BODY_ANSWER, chain->owner, ds);
  else
    add_soa(c);
  return finish(c, n, start, new_entry(c, n, e, LDNS_RR_TYPE_DS), NULL);
}

static bool cname_entries(struct compiler *c, const struct tree_node *n, struct node_entries *e,
                          size_t start) {
  struct chain *chain = malloc(sizeof *chain);
  if (!chain) {
    snprintf(c->why, WHY, "not enough memory");
    return false;
  }
  follow(c, n, chain);
  bool ok = chain_default(c, n, e, start, chain);
  struct rrset own = find_rrset(c, n, LDNS_RR_TYPE_CNAME);
  ok = ok && plain_entry(c, n, e, start, own);
  ok = ok && chain_ds(c, n, e, start, chain);
  const struct tree_node *end = &c->tree.nodes[chain->node];
  for (uint32_t at = 0; ok && chain->end == CHAIN_DATA && at < end->rr_count;) {
    struct rrset set = next_rrset(c, end, &at);
    add_chain(c, n, chain);
    add_set(c, BODY_ANSWER, chain->owner, set);
    ok = finish(c, n, start, new_entry(c, n, e, set.rrs->type), NULL);
  }
  /* Other data beside the alias (RFC 2181 section 10.1 allows only DNSSEC's) is answered by itself.
   */
  for (uint32_t at = 0; ok && at < n->rr_count;) {
    struct rrset set = next_rrset(c, n, &at);
    if (set.rrs->type == LDNS_RR_TYPE_NSEC || set.rrs->type == LDNS_RR_TYPE_RRSIG)
      ok = plain_entry(c, n, e, start, set);
  }
  free(chain);
  return ok;
}

static bool all_entries(struct compiler *c, const struct tree_node *n, struct node_entries *e,
                        size_t start) {
  if (n->cut)
    return cut_entries(c, n, e, start);
  if (n->cname)
    return cname_entries(c, n, e, start);
  for (uint32_t at = 0; at < n->rr_count;)
    if (!plain_entry(c, n, e, start, next_rrset(c, n, &at)))
      return false;
  return true;
}

/* ---- nodes ------------------------------------------------------------------------------------
 */

static unsigned count_entries(const struct compiler *c, const struct tree_node *n) {
  unsigned types = 0;
  for (uint32_t at = 0; at < n->rr_count; types++)
    next_rrset(c, n, &at);
  return types;
}

static int entry_order(const void *a, const void *b) {
  const struct image_entry *x = a;
  const struct image_entry *y = b;
  return (int)x->type - (int)y->type;
}

/* Drops the later of two entries for one type (an alias and its target may both have RRSIG). */
static void sort_entries(struct node_entries *e) {
  qsort(e->items, e->count, sizeof e->items[0], entry_order);
  unsigned kept = 0;
  for (unsigned i = 0; i < e->count; i++)
    if (kept == 0 || e->items[kept - 1].type != e->items[i].type)
      e->items[kept++] = e->items[i];
  e->count = kept;
}

/*
 * Entries stand before the bodies, but a chain tells only when it is followed how many there are:
 * bodies are written behind a gap that suffices, then moved down to close it.
 */
static bool write_node(struct compiler *c, uint32_t index) {
  const struct tree_node *n = &c->tree.nodes[index];
  buf_align(c->out, IMAGE_ALIGN);
  size_t start = c->out->len;
  c->node_ref[index] = (uint32_t)((start - c->base) / IMAGE_ALIGN);
  unsigned gap = n->cname ? MAX_NODE_ENTRIES : count_entries(c, n);
  size_t reserve = sizeof(struct image_node) + gap * sizeof(struct image_entry) + n->name_len;
  if (!buf_reserve(c->out, reserve)) {
    snprintf(c->why, WHY, "not enough memory for the image");
    return false;
  }
  memset(c->out->data + start, 0, reserve);
  c->out->len += reserve;

  struct node_entries e = {.count = 0};
  if (!all_entries(c, n, &e, start))
    return false;
  sort_entries(&e);
  size_t used = sizeof(struct image_node) + e.count * sizeof(struct image_entry) + n->name_len;
  size_t shift = reserve - used;
  if (c->out->failed) {
    snprintf(c->why, WHY, "not enough memory for the image");
    return false;
  }
  uint8_t *at = c->out->data + start;
  memmove(at + used, at + reserve, c->out->len - start - reserve);
  c->out->len -= shift;
  for (unsigned i = 0; i < e.count; i++)
    e.items[i].body -= (uint32_t)shift;
  buf_align(c->out, IMAGE_ALIGN);

  at = c->out->data + start; /* the alignment may have moved the buffer */
  struct image_node node = {
      .flags = (uint8_t)((n->cut ? NODE_CUT : 0) | (n->dname ? NODE_DNAME : 0) |
                         (n->cname && !n->cut ? NODE_CNAME : 0) | (index == 0 ? NODE_APEX : 0) |
                         (use_of(n) == BODY_WILDCARD ? NODE_WILDCARD : 0)),
      .labels = n->labels,
      .name_len = n->name_len,
      .entries = (uint8_t)e.count,
      .size = (uint32_t)(c->out->len - start),
      .domain = n->domain == TREE_NONE ? 0 : n->domain + 1,
  };
  memcpy(at, &node, sizeof node);
  memcpy(at + sizeof node, e.items, e.count * sizeof e.items[0]);
  memcpy(at + sizeof node + e.count * sizeof e.items[0], n->name, n->name_len);
  return true;
}

static bool write_nodes(struct compiler *c, struct image_header *h) {
  buf_align(c->out, IMAGE_ALIGN);
  h->nodes.offset = c->out->len - c->base;
  for (uint32_t i = 0; i < c->tree.count; i++) {
    if (c->tree.nodes[i].occluded)
      continue;
    if (!write_node(c, i))
      return false;
    h->node_count++;
  }
  h->nodes.length = c->out->len - c->base - h->nodes.offset;
  /* Hashing a stored name may read a few octets past the last node. */
  buf_add(c->out, "\0\0\0\0\0\0\0", IMAGE_ALIGN);
  if (c->out->failed || h->nodes.length / IMAGE_ALIGN > UINT32_MAX / 2) {
    snprintf(c->why, WHY, "the image is too large");
    return false;
  }
  for (uint32_t i = 0; i < c->tree.count; i++) {
    const struct tree_node *n = &c->tree.nodes[i];
    if (n->occluded || n->wildcard == TREE_NONE)
      continue;
    size_t at =
        c->base + (size_t)c->node_ref[i] * IMAGE_ALIGN + offsetof(struct image_node, wildcard);
    memcpy(c->out->data + at, &c->node_ref[n->wildcard], sizeof(uint32_t));
  }
  return true;
}

static bool write_slots(struct compiler *c, struct image_header *h) {
  /* Two thirds full: five probes for an average name that does not exist, all in one cache line or
   * two. */
  h->slot_count = h->node_count + h->node_count / 2 + 8;
  h->slots.offset = c->out->len - c->base;
  h->slots.length = (uint64_t)h->slot_count * sizeof(struct image_slot);
  struct image_slot *slots = calloc(h->slot_count, sizeof *slots);
  if (!slots) {
    snprintf(c->why, WHY, "not enough memory for the hash table");
    return false;
  }
  for (uint32_t i = 0; i < c->tree.count; i++) {
    if (c->tree.nodes[i].occluded)
      continue;
    uint64_t hash = name_hash(c->tree.nodes[i].name);
    uint32_t s = image_slot_index(h, hash);
    while (slots[s].node != 0)
      s = s + 1 == h->slot_count ? 0 : s + 1;
    slots[s].tag = (uint32_t)(hash >> 32);
    slots[s].node = c->node_ref[i];
  }
  buf_add(c->out, slots, h->slots.length);
  free(slots);
  return true;
}

static bool write_negative(struct compiler *c, struct image_header *h) {
  buf_align(c->out, IMAGE_ALIGN);
  h->negative_body.offset = c->out->len - c->base;
  body_begin(c->body, c->zone->apex, BODY_SUFFIX);
  add_soa(c);
  if (!finish(c, &c->tree.nodes[0], c->base, &h->negative, NULL))
    return false;
  h->negative_body.length = c->out->len - c->base - h->negative_body.offset;
  return true;
}

/* Puts the serial into the SOA and works out the negative TTL. */
static bool prepare_soa(struct compiler *c, uint32_t serial) {
  struct rrset soa = find_rrset(c, &c->tree.nodes[0], LDNS_RR_TYPE_SOA);
  if (soa.count != 1 || soa.rrs->rdata_len < 22 || soa.rrs->rdata_len > sizeof c->soa_rdata) {
    snprintf(c->why, WHY, "the zone has no single SOA record");
    return false;
  }
  c->soa_rr = soa.rrs[0];
  memcpy(c->soa_rdata, soa.rrs->rdata, soa.rrs->rdata_len);
  c->soa_rr.rdata = c->soa_rdata;
  c->soa = &c->soa_rr;
  uint8_t *numbers = c->soa_rdata + soa.rrs->rdata_len - 20;
  if (c->zone->serial_mode == SERIAL_MANAGED)
    ldns_write_uint32(numbers, serial);
  uint32_t minimum = ldns_read_uint32(numbers + 16);
  c->negative_ttl = minimum < soa.rrs->ttl ? minimum : soa.rrs->ttl;
  return true;
}

static bool write_image(struct compiler *c, uint32_t serial) {
  if (!tree_init(&c->tree, c->zone, c->why) || !prepare_soa(c, serial))
    return false;
  c->node_ref = calloc(c->tree.count, sizeof *c->node_ref);
  if (!c->node_ref) {
    snprintf(c->why, WHY, "not enough memory");
    return false;
  }
  struct image_header h = {.version = IMAGE_VERSION, .header_size = sizeof h};
  memcpy(h.magic, IMAGE_MAGIC, sizeof h.magic);
  h.serial = ldns_read_uint32(c->soa->rdata + c->soa->rdata_len - 20);
  uint8_t apex[NAME_BUF]; /* it pads, and the header has no room for that */
  h.apex_len = (uint16_t)name_copy_lower(apex, c->zone->apex);
  memcpy(h.apex, apex, h.apex_len);
  h.apex_labels = (uint8_t)name_labels(c->zone->apex);
  h.max_labels = c->tree.max_labels;
  h.domain_count = (uint32_t)c->zone->domain_count;
  buf_add(c->out, &h, sizeof h); /* its place; filled in at the end */
  if (!write_nodes(c, &h) || !write_slots(c, &h) || !write_negative(c, &h) ||
      !domain_codec_write(c->zone, c->out, c->base, &h.domains, c->why))
    return false;
  buf_align(c->out, IMAGE_ALIGN);
  if (c->out->failed) {
    snprintf(c->why, WHY, "not enough memory for the image");
    return false;
  }
  h.apex_node = c->node_ref[0];
  h.file_size = c->out->len - c->base;
  uint8_t *image = c->out->data + c->base;
  memcpy(image, &h, sizeof h);
  size_t covered = offsetof(struct image_header, serial);
  h.checksum = XXH3_64bits(image + covered, h.file_size - covered);
  memcpy(image, &h, sizeof h);
  return true;
}

bool compile_image(const struct model_zone *zone, uint32_t serial, struct buf *out, char *why) {
  struct compiler c = {.zone = zone, .out = out, .why = why};
  buf_align(out, IMAGE_ALIGN);
  c.base = out->len;
  c.body = malloc(sizeof *c.body);
  bool ok = false;
  if (!c.body) {
    snprintf(why, WHY, "not enough memory");
    goto done;
  }
  ok = write_image(&c, serial);
done:
  tree_close(&c.tree);
  free(c.node_ref);
  free(c.body);
  return ok;
}
