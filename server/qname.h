/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A name on its way through the lookup: lower case, with the offset and the hash of each suffix.
 * Private to the query path.
 */
#ifndef SLUICE_SERVER_QNAME_H
#define SLUICE_SERVER_QNAME_H

#include "base/name.h"
#include "server/view.h"

struct qname {
  uint16_t len;                       /* octets, the root label included */
  uint8_t labels;                     /* the root not counted */
  uint8_t at[NAME_MAX_LABELS + 1];    /* offset of each label, leftmost first; then the root's */
  uint64_t hash[NAME_MAX_LABELS + 1]; /* of the suffix from that label on */
  _Alignas(8) uint8_t name[NAME_BUF + 8];
};

/* Finds the labels of the wire name at `wire`, of which `readable` octets may be read.  Returns its
 * length, 0 if it is not a whole uncompressed name of at most 255 octets (RFC 1035 section 2.3.4).
 */
size_t qname_read(struct qname *q, const uint8_t *wire, size_t readable);

/* The second half: lower case and hashes of the name that qname_read() has found at `wire`. */
void qname_hash(struct qname *q, const uint8_t *wire);

/* The zone that encloses the name most closely, or NULL; with `above`, not one whose apex is the
 * name itself (for DS, RFC 4035 section 3.1.4.1). */
const struct view_zone *qname_zone(const struct qname *q, const struct view *view, bool above);

/* The node of the suffix that starts at label `i`. */
static inline const struct image_node *qname_find(const struct qname *q, const struct image *image,
                                                  unsigned i) {
  return image_find(image, q->name + q->at[i], (size_t)q->len - q->at[i], q->hash[i]);
}

/* The first node whose hash looks like the one given; its name is not compared, so that nothing
 * but slots is read.  NULL: there is no such name. */
static inline const struct image_node *qname_probe(const struct image *image, uint64_t hash) {
  uint32_t count = image->header->slot_count;
  uint32_t tag = (uint32_t)(hash >> 32);
  uint32_t i = image_slot_index(image->header, hash);
  for (; image->slots[i].node != 0; i = i + 1 == count ? 0 : i + 1)
    if (image->slots[i].tag == tag)
      return image_node_at(image, image->slots[i].node);
  return NULL;
}

static inline void qname_prefetch_slot(const struct image *image, uint64_t hash) {
  __builtin_prefetch(&image->slots[image_slot_index(image->header, hash)]);
}

static inline void qname_prefetch_node(const struct image_node *node) {
  __builtin_prefetch(node);
  __builtin_prefetch((const uint8_t *)node + 64);
}

/*
 * The closest encloser of a name that does not exist itself (RFC 4592 section 3.3.1): the node of
 * the longest suffix that has one; the apex at the latest.
 */
const struct image_node *qname_encloser(const struct qname *q, const struct image *image);

#endif
