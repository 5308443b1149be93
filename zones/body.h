/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assembles finished answer bodies (zones/image.h): the octets that follow the question of a
 * message whose question is the body's home.  Private to the compiler.
 */
#ifndef SLUICE_ZONES_BODY_H
#define SLUICE_ZONES_BODY_H

#include "base/buf.h"
#include "zones/image.h"
#include "zones/model.h"

enum body_section { BODY_ANSWER, BODY_AUTHORITY, BODY_ADDITIONAL };

/* Which pointers become fixups: see "NODES, ENTRIES AND BODIES" in zones/image.h. */
enum body_use {
  BODY_EXACT,    /* used only where the question is the home: none */
  BODY_WILDCARD, /* all but those of owners that are the question itself */
  BODY_SUFFIX,   /* all */
};

enum { BODY_MAX = 65535 - 12 - 255 - 4 - 512, BODY_MAX_FIXUPS = 8192, BODY_MAX_SEEN = 96 };

struct body {
  enum body_use use;
  const uint8_t *home;
  uint16_t start; /* where the body starts in its home message */
  bool overflow;  /* it fits no message */
  uint16_t counts[3];
  uint16_t fixup_count;
  uint16_t seen_count;
  size_t length;
  uint16_t target; /* offset of the last alias target written by body_rr() */
  struct {
    const uint8_t *name; /* a suffix that has been written */
    uint16_t at;         /* where, in the home message */
  } seen[BODY_MAX_SEEN];
  uint16_t fixups[BODY_MAX_FIXUPS];
  uint8_t data[BODY_MAX];
};

/* Starts a body whose home is the owner `home` (must stay valid, as must all names given later). */
void body_begin(struct body *b, const uint8_t *home, enum body_use use);

/* Appends one record under `owner` (which may be rr->owner, or an alias's target for a wildcard).
 */
void body_rr(struct body *b, enum body_section section, const uint8_t *owner,
             const struct model_rr *rr, uint32_t ttl);

/*
 * Appends the body, its extra and fixups, and for a chase the target name, to a node blob that
 * starts at `node_start` in `out`, and fills `entry`.  `target` is NULL where there is no chase.
 * False if the body overflowed.
 */
bool body_finish(const struct body *b, struct buf *out, size_t node_start, const uint8_t *target,
                 struct image_entry *entry);

#endif
