/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zone image: what `sluice build` makes and `sluiced` takes into memory as it is.
 *
 * One file for each zone, little-endian, made of flat arrays and offsets.  It holds no pointer and
 * is never written after it was made.  Its checksum and its structure are checked once, when it is
 * opened (image_open()); after that, the serving path trusts every offset.
 *
 *   header | hash slots | nodes | domains | negative body
 *
 * NODES.  One node for each owner name that answers queries of its own: authoritative names, zone
 * cuts, empty non-terminals, wildcards.  Names that only occur as glue or that are occluded (below
 * a zone cut or a DNAME) have none.  A node is one contiguous blob, so that a lookup touches the
 * hash slot and then one place: header, entries, owner name, bodies.
 *
 * ENTRIES AND BODIES.  An entry is the finished answer for one type: the bytes that follow the
 * question, and the section counts.  Owner names are pointers to the question (C0 0C), names inside
 * are compressed against it or against what stands before them in the body.  A body is made for its
 * *home*: a message whose question is the owner of the node.  Where it is used for a longer name
 * (wildcard expansion, referral, negative answer, DNAME), each pointer listed in the entry's fixups
 * grows by the difference of the lengths.  The fixups of a wildcard's entries leave the owners out
 * (they point to the question itself); those of cuts, DNAMEs and the SOA hold all.  No pointer of a
 * body exceeds 0x3FFF - 256, so that a fixup cannot overflow.
 *
 * CNAME.  The chain inside the zone is followed when the image is made: entries for the types at
 * the end of it, and the entry of type 0 for all others (NODATA, NXDOMAIN, a loop's stop).  Where
 * the end is known only at query time (another zone, a steered name, below a DNAME), there is only
 * the entry of type 0, with ENTRY_CHASE: its body is the chain so far, and `target` tells where in
 * the body the last target name stands; image_entry_target() gives it uncompressed.
 */
#ifndef SLUICE_ZONES_IMAGE_H
#define SLUICE_ZONES_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/name.h"
#include "steering/model.h"

#define IMAGE_MAGIC "sluiceZ\n"
enum {
  IMAGE_VERSION = 1,
  IMAGE_ALIGN = 8,
  IMAGE_MAX_CHAIN = 16, /* aliases followed inside a body or at query time */
};

struct image_span {
  uint64_t offset; /* from the start of the file */
  uint64_t length; /* in bytes */
};

/* Empty slots have node 0 (the file starts with the header, so no node is there). */
struct image_slot {
  uint32_t tag;  /* upper 32 bits of the name's hash */
  uint32_t node; /* offset from the start of the file in units of IMAGE_ALIGN */
};

/* What most entries need; a referral, a negative answer or an alias has a `struct image_extra` as
 * well. */
struct image_entry {
  uint16_t type;    /* 0: any type that has no entry of its own (CNAME nodes only) */
  uint16_t length;  /* of the body, in octets */
  uint16_t ancount; /* records in the answer section */
  uint8_t flags;    /* enum image_entry_flags */
  uint8_t rcode;    /* of the finished answer: NOERROR, or NXDOMAIN at the end of a chain */
  uint32_t body;    /* offset from the start of the node */
};

enum image_entry_flags {
  ENTRY_EXTRA = 1, /* a struct image_extra stands right before the body (at any alignment) */
  ENTRY_CHASE = 2, /* the answer goes on at query time; the target wire name follows the fixups */
};

struct image_extra {
  uint16_t nscount; /* records in the authority section */
  uint16_t arcount; /* records in the additional section */
  uint16_t fixups;  /* how many u16 offsets of pointers in the body follow it (at any alignment) */
  uint16_t target;  /* ENTRY_CHASE: offset in the body of the last target name */
};

/* Followed by struct image_entry[entries], the owner name (lower case), and the bodies. */
struct image_node {
  uint8_t flags;     /* enum image_node_flags */
  uint8_t labels;    /* of the owner, the root label not counted */
  uint8_t name_len;  /* 1..255 */
  uint8_t entries;   /* how many; sorted by type */
  uint32_t size;     /* of the whole blob, a multiple of IMAGE_ALIGN */
  uint32_t wildcard; /* node of "*.<this>" in units of IMAGE_ALIGN, 0 if there is none */
  uint32_t domain;   /* index of the steered domain + 1, 0 if not steered */
};

enum image_node_flags {
  NODE_CUT = 1, /* delegation: the NS entry is the referral (authority and glue); DS is an answer */
  NODE_DNAME = 2, /* has a DNAME entry; names below are synthesised */
  NODE_CNAME = 4, /* has a CNAME entry and one of type 0 */
  NODE_APEX = 8,
  NODE_WILDCARD = 16, /* the owner's first label is "*" */
};

struct image_header {
  char magic[8];
  uint32_t version;
  uint32_t header_size;
  uint64_t file_size;
  uint64_t checksum; /* XXH3 (64 bits, seed 0) of all that follows this field */
  uint32_t serial;
  uint32_t node_count;
  uint32_t slot_count; /* any number above node_count; see image_slot_index() */
  uint32_t domain_count;
  uint32_t apex_node; /* in units of IMAGE_ALIGN */
  uint16_t apex_len;
  uint8_t apex_labels;
  uint8_t max_labels; /* of any owner: deeper names need no lookup of their own */
  struct image_span slots;
  struct image_span nodes;
  struct image_span domains; /* see zones/domain_codec.h */
  /* The negative answer's authority: the SOA with TTL min(SOA TTL, MINIMUM) (RFC 2308 section 3);
   * its home is the apex; `body` counts from the start of the file. */
  struct image_span negative_body;
  struct image_entry negative; /* always with ENTRY_EXTRA; its extra starts the span */
  uint8_t reserved[4];
  uint8_t apex[256]; /* wire name, lower case, zero padding */
};

/* ---- reading ----------------------------------------------------------------------------------
 */

struct image {
  const uint8_t *base; /* the mapping */
  size_t size;
  bool mapped; /* base is our own memory */
  const struct image_header *header;
  const struct image_slot *slots;
  struct steer_domain **domains;            /* decoded, header->domain_count of them */
  const struct image_records_ref **records; /* of each domain: endpoint_count * STEER_TYPES items */
};

/* Finished records of one endpoint for one type, their owners all C0 0C.  A and AAAA records have
 * 16 and 28 octets; a CNAME's target is uncompressed, so nothing in them depends on the question's
 * length. */
struct image_records_ref {
  uint32_t offset; /* from the start of the file */
  uint16_t length; /* octets */
  uint16_t count;
};

struct image_records {
  const uint8_t *data;
  uint16_t length;
  uint16_t count;
};

/*
 * Reads an image into memory of its own and checks it: from then on nothing that is done to the
 * file can hurt.  False with a one-line reason in `why` (512 bytes) when the file is missing,
 * truncated, of another version, damaged, or inconsistent.  `image` is caller-owned storage;
 * image_close() gives the memory back.  image_open_memory() checks bytes that the caller keeps
 * (tests, fuzzing).
 */
bool image_open(struct image *image, const char *path, char *why);
bool image_open_memory(struct image *image, const uint8_t *data, size_t size, char *why);
void image_close(struct image *image);

/* The records of one endpoint of one domain for one type; none if it has no such address. */
static inline struct image_records image_steer(const struct image *image, uint32_t domain,
                                               uint16_t endpoint, enum steer_type type) {
  const struct image_records_ref *ref =
      &image->records[domain][(size_t)endpoint * STEER_TYPES + (size_t)type];
  return (struct image_records){image->base + ref->offset, ref->length, ref->count};
}

static inline const struct image_node *image_node_at(const struct image *image, uint32_t ref) {
  return (const struct image_node *)(const void *)(image->base + (uint64_t)ref * IMAGE_ALIGN);
}
static inline const struct image_entry *image_node_entries(const struct image_node *node) {
  return (const struct image_entry *)(const void *)(node + 1);
}
static inline const uint8_t *image_node_name(const struct image_node *node) {
  return (const uint8_t *)(image_node_entries(node) + node->entries);
}
static inline const uint8_t *image_entry_body(const struct image_node *node,
                                              const struct image_entry *entry) {
  return (const uint8_t *)node + entry->body;
}
/* The extra of an entry that has ENTRY_EXTRA. */
static inline struct image_extra image_entry_extra(const uint8_t *body) {
  struct image_extra extra;
  memcpy(&extra, body - sizeof extra, sizeof extra);
  return extra;
}
/* The i-th offset in a body of `length` octets of a pointer that moves with the question's length.
 */
static inline uint16_t image_fixup(const uint8_t *body, uint16_t length, unsigned i) {
  uint16_t at;
  memcpy(&at, body + length + 2 * (size_t)i, sizeof at);
  return at;
}
/* ENTRY_CHASE: the last target as an uncompressed wire name in lower case. */
static inline const uint8_t *image_entry_target(const uint8_t *body, uint16_t length,
                                                const struct image_extra *extra) {
  return body + length + 2 * (size_t)extra->fixups;
}

/* First slot to look at for a hash; probing is linear and wraps. */
static inline uint32_t image_slot_index(const struct image_header *header, uint64_t hash) {
  return (uint32_t)(((hash & UINT32_MAX) * header->slot_count) >> 32);
}

/* The node of a name (lower case, padded) whose hash is known, or NULL. */
const struct image_node *image_find(const struct image *image, const uint8_t *name, size_t name_len,
                                    uint64_t hash);

#endif
