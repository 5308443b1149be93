/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "zones/domain_codec.h"

enum { WHY = 512, MAX_MESSAGE_BODY = 65535 - 12 - 255 - 4 };

static bool span_is_right(const struct image_span *span, size_t size, size_t align) {
  return span->offset % align == 0 && span->offset >= sizeof(struct image_header) &&
         span->offset <= size && span->length <= size - span->offset;
}

/* A body, its extra, fixups and target stand inside `limit` octets from `base`. */
static bool entry_is_right(const uint8_t *base, size_t limit, size_t least,
                           const struct image_entry *e) {
  if (e->body < least || e->body > limit || e->length > limit - e->body ||
      e->length > MAX_MESSAGE_BODY)
    return false;
  if ((e->flags & ENTRY_EXTRA) == 0)
    return (e->flags & ENTRY_CHASE) == 0;
  if (e->body < least + sizeof(struct image_extra))
    return false;
  const uint8_t *body = base + e->body;
  struct image_extra x = image_entry_extra(body);
  size_t left = limit - e->body - e->length;
  if (x.fixups * sizeof(uint16_t) > left)
    return false;
  for (unsigned i = 0; i < x.fixups; i++)
    if (image_fixup(body, e->length, i) + 2u > e->length)
      return false;
  if ((e->flags & ENTRY_CHASE) == 0)
    return true;
  left -= x.fixups * sizeof(uint16_t);
  return x.target < e->length && name_wire_len(image_entry_target(body, e->length, &x), left) != 0;
}

static bool node_is_right(const struct image_header *h, const struct image_node *n) {
  size_t names_at = sizeof *n + n->entries * sizeof(struct image_entry);
  size_t bodies_at = names_at + n->name_len;
  if (bodies_at > n->size)
    return false;
  const uint8_t *name = image_node_name(n);
  if (name_wire_len(name, n->name_len) != n->name_len || name_labels(name) != n->labels ||
      n->labels > h->max_labels || !name_is_below_or_equal(name, h->apex))
    return false;
  if (n->domain > h->domain_count)
    return false;
  const struct image_entry *e = image_node_entries(n);
  bool has[3] = {false, false, false}; /* what the flags promise to the query path */
  for (unsigned i = 0; i < n->entries; i++) {
    if ((i > 0 && e[i].type <= e[i - 1].type) ||
        !entry_is_right((const uint8_t *)n, n->size, bodies_at, &e[i]))
      return false;
    has[0] |= e[i].type == 2;  /* NS */
    has[1] |= e[i].type == 39; /* DNAME */
    has[2] |= e[i].type == 0;
  }
  return (has[0] || !(n->flags & NODE_CUT)) && (has[1] || !(n->flags & NODE_DNAME)) &&
         (has[2] || !(n->flags & NODE_CNAME));
}

/* Walks the nodes in file order.  References (slots, wildcards, the apex) must point to the start
 * of one: `starts` has a bit for each possible place. */
static bool nodes_are_right(const struct image *image, uint64_t *starts) {
  const struct image_header *h = image->header;
  uint64_t at = h->nodes.offset;
  uint64_t end = at + h->nodes.length;
  for (uint32_t i = 0; i < h->node_count; i++) {
    if (end - at < sizeof(struct image_node))
      return false;
    const struct image_node *n = image_node_at(image, (uint32_t)(at / IMAGE_ALIGN));
    if (n->size % IMAGE_ALIGN != 0 || n->size > end - at || !node_is_right(h, n))
      return false;
    uint64_t bit = (at - h->nodes.offset) / IMAGE_ALIGN;
    starts[bit / 64] |= UINT64_C(1) << (bit % 64);
    at += n->size;
  }
  return at == end;
}

static bool is_start(const struct image_header *h, const uint64_t *starts, uint32_t ref) {
  uint64_t at = (uint64_t)ref * IMAGE_ALIGN;
  if (at < h->nodes.offset || at >= h->nodes.offset + h->nodes.length)
    return false;
  uint64_t bit = (at - h->nodes.offset) / IMAGE_ALIGN;
  return (starts[bit / 64] >> (bit % 64) & 1) != 0;
}

static bool references_are_right(const struct image *image, const uint64_t *starts) {
  const struct image_header *h = image->header;
  uint32_t used = 0;
  for (uint32_t i = 0; i < h->slot_count; i++) {
    if (image->slots[i].node == 0)
      continue;
    used++;
    if (!is_start(h, starts, image->slots[i].node))
      return false;
  }
  /* Probing ends at an empty slot: there must be one. */
  if (used >= h->slot_count || !is_start(h, starts, h->apex_node))
    return false;
  for (uint64_t at = h->nodes.offset; at < h->nodes.offset + h->nodes.length;) {
    const struct image_node *n = image_node_at(image, (uint32_t)(at / IMAGE_ALIGN));
    if (n->wildcard != 0 && (!is_start(h, starts, n->wildcard) ||
                             (image_node_at(image, n->wildcard)->flags & NODE_WILDCARD) == 0))
      return false;
    at += n->size;
  }
  return true;
}

static bool header_is_right(const struct image *image, char *why) {
  const struct image_header *h = image->header;
  if (image->size < sizeof *h || memcmp(h->magic, IMAGE_MAGIC, sizeof h->magic) != 0) {
    snprintf(why, WHY, "not a zone image");
    return false;
  }
  if (h->version != IMAGE_VERSION || h->header_size != sizeof *h) {
    snprintf(why, WHY, "a zone image of version %u, this program reads version %d: build again",
             h->version, IMAGE_VERSION);
    return false;
  }
  if (h->file_size != image->size) {
    snprintf(why, WHY, "truncated: %zu of %llu bytes are there", image->size,
             (unsigned long long)h->file_size);
    return false;
  }
  size_t covered = offsetof(struct image_header, serial);
  if (XXH3_64bits(image->base + covered, image->size - covered) != h->checksum) {
    snprintf(why, WHY, "damaged: its checksum is wrong");
    return false;
  }
  snprintf(why, WHY, "damaged: its header is inconsistent");
  return h->apex_len != 0 && name_wire_len(h->apex, NAME_MAX_WIRE) == h->apex_len &&
         name_labels(h->apex) == h->apex_labels && h->max_labels <= NAME_MAX_LABELS &&
         span_is_right(&h->nodes, image->size - IMAGE_ALIGN, IMAGE_ALIGN) &&
         span_is_right(&h->slots, image->size, IMAGE_ALIGN) &&
         span_is_right(&h->domains, image->size, IMAGE_ALIGN) &&
         span_is_right(&h->negative_body, image->size, 1) && h->slot_count > 0 &&
         h->slots.length / sizeof(struct image_slot) == h->slot_count &&
         (h->nodes.offset + h->nodes.length) / IMAGE_ALIGN <= UINT32_MAX &&
         (h->negative.flags & (ENTRY_EXTRA | ENTRY_CHASE)) == ENTRY_EXTRA &&
         entry_is_right(image->base, h->negative_body.offset + h->negative_body.length,
                        h->negative_body.offset, &h->negative);
}

static bool check(struct image *image, char *why) {
  if (!header_is_right(image, why))
    return false;
  const struct image_header *h = image->header;
  image->slots = (const struct image_slot *)(const void *)(image->base + h->slots.offset);
  uint64_t *starts = calloc(h->nodes.length / IMAGE_ALIGN / 64 + 1, sizeof *starts);
  if (!starts) {
    snprintf(why, WHY, "not enough memory");
    return false;
  }
  snprintf(why, WHY, "damaged: its nodes are inconsistent");
  bool ok = nodes_are_right(image, starts) && references_are_right(image, starts);
  free(starts);
  return ok && domain_codec_read(image, why);
}

bool image_open_memory(struct image *image, const uint8_t *data, size_t size, char *why) {
  memset(image, 0, sizeof *image);
  image->base = data;
  image->size = size;
  image->header = (const struct image_header *)(const void *)data;
  if (check(image, why))
    return true;
  image_close(image);
  return false;
}

bool image_open(struct image *image, const char *path, char *why) {
  memset(image, 0, sizeof *image);
  char problem[WHY];
  struct stat st;
  void *map = MAP_FAILED;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) != 0) {
    snprintf(problem, WHY, "%s", strerror(errno));
    goto fail;
  }
  if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(struct image_header)) {
    snprintf(problem, WHY, "not a zone image");
    goto fail;
  }
  /* Populated at once: the check reads every page anyway, in one pass of the kernel instead of a
   * fault for each. */
  map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (map == MAP_FAILED) {
    snprintf(problem, WHY, "cannot map it: %s", strerror(errno));
    goto fail;
  }
  close(fd);
  fd = -1;
  if (image_open_memory(image, map, (size_t)st.st_size, problem)) {
    image->mapped = true;
    return true;
  }
  munmap(map, (size_t)st.st_size);
fail:
  if (fd >= 0)
    close(fd);
  snprintf(why, WHY, "%.200s: %.280s", path, problem);
  return false;
}

void image_close(struct image *image) {
  domain_codec_free(image);
  if (image->mapped)
    munmap((void *)(uintptr_t)image->base, image->size);
  memset(image, 0, sizeof *image);
}

const struct image_node *image_find(const struct image *image, const uint8_t *name, size_t name_len,
                                    uint64_t hash) {
  uint32_t tag = (uint32_t)(hash >> 32);
  uint32_t count = image->header->slot_count;
  for (uint32_t i = image_slot_index(image->header, hash); image->slots[i].node != 0;
       i = i + 1 == count ? 0 : i + 1) {
    if (image->slots[i].tag != tag)
      continue;
    const struct image_node *n = image_node_at(image, image->slots[i].node);
    if (n->name_len == name_len && memcmp(image_node_name(n), name, name_len) == 0)
      return n;
  }
  return NULL;
}
