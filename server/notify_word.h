/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A NOTIFY on its way from the thread that answered it to the one that acts on it: one word, so
 * that no lock is needed.  0 is none.
 */
#ifndef SLUICE_SERVER_NOTIFY_WORD_H
#define SLUICE_SERVER_NOTIFY_WORD_H

#include <stdbool.h>
#include <stdint.h>

#include "server/transfer_rr.h"

#define NOTIFY_WORD_SET (UINT64_C(1) << 63)
#define NOTIFY_WORD_HAS_SERIAL (UINT64_C(1) << 62)
#define NOTIFY_WORD_SERIAL UINT64_C(0xffffffff)
enum { NOTIFY_WORD_PRIMARY_SHIFT = 32, NOTIFY_WORD_PRIMARY_MASK = 0xffff };

static inline uint64_t notify_word(unsigned primary, bool has_serial, uint32_t serial) {
  uint64_t word = NOTIFY_WORD_SET | (uint64_t)(primary & NOTIFY_WORD_PRIMARY_MASK)
                                        << NOTIFY_WORD_PRIMARY_SHIFT;
  return has_serial ? word | NOTIFY_WORD_HAS_SERIAL | serial : word;
}

static inline bool notify_word_has_serial(uint64_t word) {
  return (word & NOTIFY_WORD_HAS_SERIAL) != 0;
}

static inline unsigned notify_word_primary(uint64_t word) {
  return (unsigned)(word >> NOTIFY_WORD_PRIMARY_SHIFT) & NOTIFY_WORD_PRIMARY_MASK;
}

/*
 * What remains when `next` comes before `waiting` was acted on.  The serial is a hint that can
 * spare a query (RFC 1996 section 3.7), and over UDP anybody can forge it: where two differ it is
 * left out, so that the primary is asked.  Else a slower primary, or a forgery, would make us lose
 * a change that we have confirmed to know of.
 */
static inline uint64_t notify_word_merge(uint64_t waiting, uint64_t next) {
  bool both = notify_word_has_serial(waiting) && notify_word_has_serial(next);
  if (waiting == 0 || (both && (uint32_t)waiting == (uint32_t)next))
    return next;
  uint64_t kept = both && transfer_serial_newer((uint32_t)waiting, (uint32_t)next) ? waiting : next;
  return kept & ~(NOTIFY_WORD_HAS_SERIAL | NOTIFY_WORD_SERIAL);
}

#endif
