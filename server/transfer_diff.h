/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changed between two versions of a zone (RFC 1995): the records to delete and those to add.
 *
 * Both files are walked in step.  Versions in between do not matter: one difference leads from the
 * old serial to the new one (RFC 1995 section 5 allows that).  Pure but for the lists, whose size
 * is bounded by the caller.
 */
#ifndef SLUICE_SERVER_TRANSFER_DIFF_H
#define SLUICE_SERVER_TRANSFER_DIFF_H

#include "zones/records.h"

/* Offsets of records in their file, in its order; SOA records are left out. */
struct transfer_list {
  uint64_t *offsets;
  size_t count;
  size_t cap;
};

struct transfer_diff {
  struct transfer_list deleted; /* in the old file */
  struct transfer_list added;   /* in the new one */
  size_t octets;                /* of all of them */
};

enum transfer_diff_result {
  TRANSFER_DIFF_OK,
  TRANSFER_DIFF_TOO_LARGE, /* more than `max_octets`: the whole zone is cheaper */
  TRANSFER_DIFF_NO_MEMORY,
};

/* Fills `diff`; transfer_diff_close() is needed after TRANSFER_DIFF_OK only. */
enum transfer_diff_result transfer_diff_make(struct transfer_diff *diff, const struct records *from,
                                             const struct records *to, size_t max_octets);
void transfer_diff_close(struct transfer_diff *diff);

#endif
