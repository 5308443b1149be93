/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs records into one message of a zone transfer (RFC 5936 section 2.2), with name compression.
 *
 * Names are compressed against what stands before them as far as that pays: a bounded table of the
 * suffixes in the first 16 KiB, where pointers reach (RFC 1035 section 4.1.4).  A suffix is shared
 * only where its octets are the same, so that the case of names survives.  In data, only names of
 * the types of RFC 1035 are compressed (RFC 3597 section 4).  Pure; no allocation.
 */
#ifndef SLUICE_SERVER_TRANSFER_PACK_H
#define SLUICE_SERVER_TRANSFER_PACK_H

#include "base/name.h"
#include "zones/records.h"

enum { TRANSFER_PACK_SLOTS = 1024 };

/* One message under construction; caller-owned, no close needed. */
struct transfer_pack {
  uint8_t *out;         /* the message, from its header on */
  size_t at;            /* octets written */
  size_t owner_at;      /* where the last owner stands, 0 if a pointer cannot reach it */
  const uint8_t *owner; /* its octets; a longer name must not be compared with them */
  size_t owner_len;
  uint16_t slots[TRANSFER_PACK_SLOTS]; /* offset of a name, 0 = empty */
};

/* Starts with a message of `at` octets (header, and a question or none) in `out`. */
void transfer_pack_begin(struct transfer_pack *pack, uint8_t *out, size_t at);

/* Notes the name at offset `at` (the question's), so that later ones can point to it. */
void transfer_pack_note(struct transfer_pack *pack, size_t at);

/* Appends a record if the message then has at most `limit` octets; else false, and nothing changed.
 */
bool transfer_pack_rr(struct transfer_pack *pack, const struct records_rr *rr, size_t limit);

#endif
