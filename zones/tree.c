/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/tree.h"

#include <ldns/ldns.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"

static uint32_t *slot_of(const struct tree *t, const uint8_t *name, size_t len) {
  uint32_t i = (uint32_t)name_hash(name) & t->slot_mask;
  for (; t->slots[i] != 0; i = (i + 1) & t->slot_mask) {
    const struct tree_node *n = &t->nodes[t->slots[i] - 1];
    if (n->name_len == len && memcmp(n->name, name, len) == 0)
      break;
  }
  return &t->slots[i];
}

static bool grow_slots(struct tree *t) {
  uint32_t want = t->slot_mask + 1;
  if (t->count * 2 < want)
    return true;
  want *= 2;
  uint32_t *slots = calloc(want, sizeof *slots);
  if (!slots)
    return false;
  free(t->slots);
  t->slots = slots;
  t->slot_mask = want - 1;
  for (uint32_t i = 0; i < t->count; i++)
    *slot_of(t, t->nodes[i].name, t->nodes[i].name_len) = i + 1;
  return true;
}

/* Adds a name that is not there yet, or returns the one that is; TREE_NONE without memory. */
static uint32_t add_node(struct tree *t, const uint8_t *name, size_t len, bool *added) {
  uint32_t *slot = slot_of(t, name, len);
  *added = *slot == 0;
  if (!*added)
    return *slot - 1;
  if (t->count == t->cap) {
    uint32_t cap = t->cap * 2;
    struct tree_node *nodes = realloc(t->nodes, cap * sizeof *nodes);
    if (!nodes)
      return TREE_NONE;
    t->nodes = nodes;
    t->cap = cap;
  }
  uint32_t index = t->count++;
  *slot = index + 1;
  struct tree_node *n = &t->nodes[index];
  memset(n, 0, sizeof *n);
  n->name = name;
  n->name_len = (uint8_t)len;
  n->labels = (uint8_t)name_labels(name);
  n->wildcard = TREE_NONE;
  n->domain = TREE_NONE;
  return grow_slots(t) ? index : TREE_NONE;
}

/* Adds the empty non-terminals between a name and the apex (RFC 4592 section 2.2.2), and tells the
 * parent of a wildcard about it. */
static bool add_ancestors(struct tree *t, uint32_t index) {
  uint32_t child = index;
  for (;;) {
    const uint8_t *name = t->nodes[child].name;
    if (t->nodes[child].labels <= t->nodes[0].labels)
      return true;
    const uint8_t *parent = name + *name + 1;
    size_t len = t->nodes[child].name_len - *name - 1u;
    bool added;
    uint32_t p = add_node(t, parent, len, &added);
    if (p == TREE_NONE)
      return false;
    if (name[0] == 1 && name[1] == '*')
      t->nodes[p].wildcard = child;
    if (!added)
      return true;
    child = p;
  }
}

static void note_types(struct tree *t, uint32_t index) {
  struct tree_node *n = &t->nodes[index];
  for (uint32_t i = 0; i < n->rr_count; i++) {
    uint16_t type = t->zone->rrs[n->first_rr + i].type;
    n->cut |= type == LDNS_RR_TYPE_NS && index != 0;
    /* A wildcard DNAME rewrites nothing (RFC 6672 section 3.3, RFC 4592 section 4.4). */
    n->dname |= type == LDNS_RR_TYPE_DNAME && !(n->name[0] == 1 && n->name[1] == '*');
    n->cname |= type == LDNS_RR_TYPE_CNAME;
  }
}

static bool add_records(struct tree *t) {
  const struct model_zone *z = t->zone;
  /* In canonical order all that is below a name follows it at once. */
  const uint8_t *occluder = NULL;
  for (size_t i = 0; i < z->rr_count;) {
    const uint8_t *owner = z->rrs[i].owner;
    size_t len = name_wire_len(owner, NAME_MAX_WIRE);
    size_t end = i + 1;
    while (end < z->rr_count && name_equal(z->rrs[end].owner, owner))
      end++;
    bool added;
    uint32_t index = add_node(t, owner, len, &added);
    if (index == TREE_NONE)
      return false;
    t->nodes[index].first_rr = (uint32_t)i;
    t->nodes[index].rr_count = (uint32_t)(end - i);
    note_types(t, index);
    bool below = occluder && name_is_below_or_equal(owner, occluder);
    t->nodes[index].occluded = below;
    if (!below && !add_ancestors(t, index))
      return false;
    if (!below && (t->nodes[index].cut || t->nodes[index].dname))
      occluder = owner;
    i = end;
  }
  return true;
}

static bool add_domains(struct tree *t) {
  size_t count = t->zone->domain_count;
  t->domain_names = calloc(count ? count : 1, NAME_BUF);
  if (!t->domain_names)
    return false;
  for (size_t i = 0; i < count; i++) {
    uint8_t *owner = t->domain_names[i]; /* a copy, since hashing needs the padding */
    name_copy_lower(owner, t->zone->domains[i].steer->owner);
    bool added;
    uint32_t index = add_node(t, owner, name_wire_len(owner, NAME_MAX_WIRE), &added);
    if (index == TREE_NONE)
      return false;
    t->nodes[index].domain = (uint32_t)i;
    if (added && !add_ancestors(t, index))
      return false;
  }
  return true;
}

bool tree_init(struct tree *t, const struct model_zone *zone, char *why) {
  memset(t, 0, sizeof *t);
  t->zone = zone;
  t->cap = (uint32_t)(zone->rr_count / 2 + 16);
  t->nodes = malloc(t->cap * sizeof *t->nodes);
  t->slot_mask = 63;
  while (t->slot_mask < t->cap)
    t->slot_mask = t->slot_mask * 2 + 1;
  t->slots = calloc((size_t)t->slot_mask + 1, sizeof *t->slots);
  bool added;
  if (zone->rr_count > UINT32_MAX / 64 || !t->nodes || !t->slots ||
      add_node(t, zone->apex, name_wire_len(zone->apex, NAME_MAX_WIRE), &added) == TREE_NONE ||
      !add_records(t) || !add_domains(t)) {
    snprintf(why, 512, "not enough memory for the zone's names");
    return false;
  }
  for (uint32_t i = 0; i < t->count; i++)
    if (!t->nodes[i].occluded && t->nodes[i].labels > t->max_labels)
      t->max_labels = t->nodes[i].labels;
  return true;
}

void tree_close(struct tree *t) {
  free(t->nodes);
  free(t->slots);
  free(t->domain_names);
  memset(t, 0, sizeof *t);
}

uint32_t tree_find(const struct tree *t, const uint8_t *name) {
  return *slot_of(t, name, name_wire_len(name, NAME_MAX_WIRE)) - 1;
}

enum tree_match tree_lookup(const struct tree *t, const uint8_t *name, uint32_t *node) {
  if (!name_is_below_or_equal(name, t->zone->apex))
    return TREE_OUTSIDE;
  uint32_t exact = tree_find(t, name);
  if (exact != TREE_NONE && !t->nodes[exact].occluded) {
    *node = exact;
    return t->nodes[exact].cut ? TREE_CUT : TREE_EXACT;
  }
  for (;;) {
    name += *name + 1u;
    uint32_t encloser = tree_find(t, name);
    if (encloser == TREE_NONE || t->nodes[encloser].occluded)
      continue;
    const struct tree_node *n = &t->nodes[encloser];
    *node = encloser;
    if (n->cut)
      return TREE_CUT;
    if (n->dname)
      return TREE_DNAME;
    *node = n->wildcard;
    return n->wildcard == TREE_NONE ? TREE_NXDOMAIN : TREE_WILDCARD;
  }
}
