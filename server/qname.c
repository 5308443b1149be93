/* SPDX-License-Identifier: Apache-2.0 */
#include "server/qname.h"

size_t qname_read(struct qname *q, const uint8_t *wire, size_t readable) {
  size_t end = readable < NAME_MAX_WIRE ? readable : NAME_MAX_WIRE;
  size_t at = 0;
  unsigned labels = 0;
  while (at < end) {
    uint8_t n = wire[at];
    q->at[labels] = (uint8_t)at;
    at++;
    if (n == 0) {
      q->len = (uint16_t)at;
      q->labels = (uint8_t)labels;
      return at;
    }
    if (n > NAME_MAX_LABEL)
      return 0;
    labels++;
    at += n;
  }
  return 0;
}

void qname_hash(struct qname *q, const uint8_t *wire) {
  size_t len = q->len;
  size_t i = 0;
  for (; i + 8 <= len; i += 8) {
    uint64_t v = name_lower8(name_load8(wire + i));
    memcpy(q->name + i, &v, 8);
  }
  uint64_t tail = 0;
  memcpy(&tail, wire + i, len - i);
  tail = name_lower8(tail);
  memcpy(q->name + i, &tail, 8);
  memset(q->name + i + 8, 0, 8);

  unsigned labels = q->labels;
  uint64_t h = NAME_HASH_ROOT;
  q->hash[labels] = h;
  while (labels > 0) {
    labels--;
    h = name_hash_label(h, q->name + q->at[labels]);
    q->hash[labels] = h;
  }
}

static const struct view_zone *zone_at(const struct qname *q, const struct view *view, unsigned i) {
  uint64_t hash = q->hash[i];
  size_t len = (size_t)q->len - q->at[i];
  for (uint32_t s = (uint32_t)hash & view->slot_mask; view->slots[s] != 0;
       s = (s + 1) & view->slot_mask) {
    uint32_t z = view->slots[s] - 1;
    if (view->zone_hashes[z] != hash)
      continue;
    const struct image_header *h = view->zones[z].image->header;
    if (h->apex_len == len && memcmp(h->apex, q->name + q->at[i], len) == 0)
      return &view->zones[z];
  }
  return NULL;
}

const struct view_zone *qname_zone(const struct qname *q, const struct view *view, bool above) {
  unsigned first = above ? 1 : 0;
  if (q->labels > view->max_apex_labels && q->labels - view->max_apex_labels > (int)first)
    first = (unsigned)(q->labels - view->max_apex_labels);
  for (unsigned i = first; i + view->min_apex_labels <= q->labels; i++) {
    const struct view_zone *zone = zone_at(q, view, i);
    if (zone)
      return zone;
  }
  return NULL;
}

const struct image_node *qname_encloser(const struct qname *q, const struct image *image) {
  const struct image_header *h = image->header;
  unsigned i = 1;
  /* No owner is deeper than this: long names cost no more than others. */
  if (q->labels > h->max_labels)
    i = (unsigned)(q->labels - h->max_labels);
  for (; i + h->apex_labels < q->labels; i++) {
    const struct image_node *n = qname_find(q, image, i);
    if (n)
      return n;
  }
  return image_node_at(image, h->apex_node);
}
