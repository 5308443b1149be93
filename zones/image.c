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
#include "zones/image_read.h"

enum {
  WHY = 512,
  MAX_MESSAGE_BODY = 65535 - 12 - 255 - 4,
  COVERED = offsetof(struct image_header, serial), /* where what the checksum covers begins */
};

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

/* The owner is one whole lower-case name of that many labels, at or below the apex. */
static bool owner_is_right(const struct image_header *h, const struct image_node *n) {
  const uint8_t *name = image_node_name(n);
  if (n->name_len < h->apex_len)
    return false;
  unsigned apex_at = (unsigned)n->name_len - h->apex_len;
  unsigned last = n->name_len - 1u; /* of the root label */
  unsigned labels = 0;
  bool passes_apex = false;
  unsigned at = 0;
  for (; at < last; at += name[at] + 1u) {
    if (name[at] == 0 || name[at] > NAME_MAX_LABEL)
      return false;
    passes_apex |= at == apex_at;
    labels++;
  }
  passes_apex |= at == apex_at;
  return at == last && name[last] == 0 && labels == n->labels && labels <= h->max_labels &&
         passes_apex && memcmp(name + apex_at, h->apex, h->apex_len) == 0;
}

/* The entries that the flags promise to the query path are there. */
static bool flags_are_right(const struct image_node *n) {
  static const struct {
    uint8_t flag;
    uint16_t type;
  } promises[] = {{NODE_CUT, 2 /* NS */}, {NODE_DNAME, 39 /* DNAME */}, {NODE_CNAME, 0}};
  for (size_t i = 0; i < sizeof promises / sizeof promises[0]; i++) {
    if ((n->flags & promises[i].flag) == 0)
      continue;
    const struct image_entry *e = image_node_entries(n);
    unsigned at = 0;
    while (at < n->entries && e[at].type != promises[i].type)
      at++;
    if (at == n->entries)
      return false;
  }
  return true;
}

static bool node_is_right(const struct image_header *h, const struct image_node *n) {
  size_t bodies_at = sizeof *n + n->entries * sizeof(struct image_entry) + n->name_len;
  if (bodies_at > n->size || n->name_len == 0 || n->domain > h->domain_count ||
      !owner_is_right(h, n))
    return false;
  const struct image_entry *e = image_node_entries(n);
  for (unsigned i = 0; i < n->entries; i++)
    if ((i > 0 && e[i].type <= e[i - 1].type) ||
        !entry_is_right((const uint8_t *)n, n->size, bodies_at, &e[i]))
      return false;
  return flags_are_right(n);
}

/* Where nodes may be referred to: a bit for each possible place, and the wildcards to look at once
 * all places are known. */
struct places {
  uint64_t *starts;
  uint32_t *wildcards;
  size_t wildcard_count;
};

/* Walks the nodes in file order. */
static bool nodes_are_right(const struct image *image, struct places *p) {
  const struct image_header *h = image->header;
  uint64_t at = h->nodes.offset;
  uint64_t end = at + h->nodes.length;
  for (uint32_t i = 0; i < h->node_count; i++) {
    if (end - at < sizeof(struct image_node))
      return false;
    const struct image_node *n = image_node_at(image, (uint32_t)(at / IMAGE_ALIGN));
    __builtin_prefetch((const uint8_t *)n + 1024);
    if (n->size % IMAGE_ALIGN != 0 || n->size > end - at || !node_is_right(h, n))
      return false;
    uint64_t bit = (at - h->nodes.offset) / IMAGE_ALIGN;
    p->starts[bit / 64] |= UINT64_C(1) << (bit % 64);
    if (n->wildcard != 0)
      p->wildcards[p->wildcard_count++] = n->wildcard;
    at += n->size;
  }
  return at == end;
}

static bool is_start(const struct image_header *h, const struct places *p, uint32_t ref) {
  uint64_t at = (uint64_t)ref * IMAGE_ALIGN;
  if (at < h->nodes.offset || at >= h->nodes.offset + h->nodes.length)
    return false;
  uint64_t bit = (at - h->nodes.offset) / IMAGE_ALIGN;
  return (p->starts[bit / 64] >> (bit % 64) & 1) != 0;
}

static bool references_are_right(const struct image *image, const struct places *p) {
  const struct image_header *h = image->header;
  uint32_t used = 0;
  for (uint32_t i = 0; i < h->slot_count; i++) {
    if (image->slots[i].node == 0)
      continue;
    used++;
    if (!is_start(h, p, image->slots[i].node))
      return false;
  }
  /* Probing ends at an empty slot: there must be one. */
  if (used >= h->slot_count || !is_start(h, p, h->apex_node) ||
      image_node_at(image, h->apex_node)->name_len != h->apex_len)
    return false;
  for (size_t i = 0; i < p->wildcard_count; i++)
    if (!is_start(h, p, p->wildcards[i]) ||
        (image_node_at(image, p->wildcards[i])->flags & NODE_WILDCARD) == 0)
      return false;
  return true;
}

static bool header_is_right(const struct image *image, uint64_t checksum, char *why) {
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
  if (checksum != h->checksum) {
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
         h->node_count <= h->nodes.length / sizeof(struct image_node) &&
         h->slots.length / sizeof(struct image_slot) == h->slot_count &&
         (h->nodes.offset + h->nodes.length) / IMAGE_ALIGN <= UINT32_MAX &&
         (h->negative.flags & (ENTRY_EXTRA | ENTRY_CHASE)) == ENTRY_EXTRA &&
         entry_is_right(image->base, h->negative_body.offset + h->negative_body.length,
                        h->negative_body.offset, &h->negative);
}

static bool check(struct image *image, uint64_t checksum, char *why) {
  if (!header_is_right(image, checksum, why))
    return false;
  const struct image_header *h = image->header;
  image->slots = (const struct image_slot *)(const void *)(image->base + h->slots.offset);
  struct places places = {
      .starts = calloc(h->nodes.length / IMAGE_ALIGN / 64 + 1, sizeof *places.starts),
      .wildcards = malloc((h->node_count + (size_t)1) * sizeof *places.wildcards),
  };
  bool ok = false;
  if (!places.starts || !places.wildcards) {
    snprintf(why, WHY, "not enough memory");
    goto done;
  }
  snprintf(why, WHY, "damaged: its nodes are inconsistent");
  ok = nodes_are_right(image, &places) && references_are_right(image, &places);
done:
  free(places.starts);
  free(places.wildcards);
  return ok && domain_codec_read(image, why);
}

static bool open_checked(struct image *image, const uint8_t *data, size_t size, uint64_t checksum,
                         char *why) {
  memset(image, 0, sizeof *image);
  image->base = data;
  image->size = size;
  image->header = (const struct image_header *)(const void *)data;
  if (check(image, checksum, why))
    return true;
  image_close(image);
  return false;
}

bool image_open_memory(struct image *image, const uint8_t *data, size_t size, char *why) {
  uint64_t checksum = size > COVERED ? XXH3_64bits(data + COVERED, size - COVERED) : 0;
  return open_checked(image, data, size, checksum, why);
}

/*
 * Memory of our own for an image: what is done to the file afterwards (a truncation would end the
 * process with SIGBUS, a changed offset would be trusted) cannot hurt.  Huge pages spare lookups in
 * a large zone most of their TLB misses.
 */
static void *image_memory(size_t size) {
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return NULL;
  madvise(memory, size, MADV_HUGEPAGE);
  return memory;
}

bool image_open(struct image *image, const char *path, char *why) {
  memset(image, 0, sizeof *image);
  char problem[WHY];
  struct stat st;
  void *memory = NULL;
  size_t size = 0;
  uint64_t checksum = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) != 0) {
    snprintf(problem, WHY, "%s", strerror(errno));
    goto fail;
  }
  if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(struct image_header)) {
    snprintf(problem, WHY, "not a zone image");
    goto fail;
  }
  size = (size_t)st.st_size;
  memory = image_memory(size);
  if (!memory || !image_read_file(fd, memory, size, COVERED, &checksum)) {
    snprintf(problem, WHY, "cannot read it: %s", strerror(errno));
    goto fail;
  }
  if (!open_checked(image, memory, size, checksum, problem))
    goto fail;
  image->mapped = true;
  mprotect(memory, size, PROT_READ); /* nobody writes to it from here on, not even by mistake */
  close(fd);
  return true;
fail:
  if (memory)
    munmap(memory, size);
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
