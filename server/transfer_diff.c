/* SPDX-License-Identifier: Apache-2.0 */
#include "server/transfer_diff.h"

#include <stdlib.h>
#include <string.h>

/* One of the two files while they are walked. */
struct side {
  const struct records *records;
  size_t at;   /* of `rr` */
  size_t next; /* behind it */
  struct records_rr rr;
};

static bool is_done(const struct side *side) {
  return side->at >= side->records->size;
}

static void step(struct side *side) {
  side->at = side->next;
  if (!is_done(side))
    side->next = records_read(side->records, side->at, &side->rr);
}

static void start(struct side *side, const struct records *records) {
  side->records = records;
  side->at = records_first();
  side->next = records_read(records, side->at, &side->rr);
  step(side); /* over the SOA */
}

static bool add(struct transfer_diff *diff, struct transfer_list *list, const struct side *side) {
  diff->octets += side->rr.size;
  if (list->count == list->cap) {
    size_t cap = list->cap != 0 ? list->cap * 2 : 64;
    uint64_t *more = realloc(list->offsets, cap * sizeof *more);
    if (more == NULL)
      return false;
    list->offsets = more;
    list->cap = cap;
  }
  list->offsets[list->count++] = side->at;
  return true;
}

static bool is_same(const struct side *a, const struct side *b) {
  return a->rr.size == b->rr.size && memcmp(a->rr.start, b->rr.start, a->rr.size) == 0;
}

/* Takes the record, or the two, that come next in order. */
static bool take(struct transfer_diff *diff, struct side *from, struct side *to) {
  int order = is_done(from) ? 1 : is_done(to) ? -1 : records_compare(&from->rr, &to->rr);
  /* 0: only the TTL differs, and that is a deletion and an addition too. */
  if (order <= 0) {
    if (!add(diff, &diff->deleted, from))
      return false;
    step(from);
  }
  if (order >= 0) {
    if (!add(diff, &diff->added, to))
      return false;
    step(to);
  }
  return true;
}

enum transfer_diff_result transfer_diff_make(struct transfer_diff *diff, const struct records *from,
                                             const struct records *to, size_t max_octets) {
  struct side a, b;
  enum transfer_diff_result result = TRANSFER_DIFF_OK;
  *diff = (struct transfer_diff){.octets = 0};
  start(&a, from);
  start(&b, to);
  while (result == TRANSFER_DIFF_OK && !(is_done(&a) && is_done(&b))) {
    if (!is_done(&a) && !is_done(&b) && is_same(&a, &b)) {
      step(&a);
      step(&b);
    } else if (!take(diff, &a, &b)) {
      result = TRANSFER_DIFF_NO_MEMORY;
    } else if (diff->octets > max_octets) {
      result = TRANSFER_DIFF_TOO_LARGE;
    }
  }
  if (result != TRANSFER_DIFF_OK)
    transfer_diff_close(diff);
  return result;
}

void transfer_diff_close(struct transfer_diff *diff) {
  free(diff->deleted.offsets);
  free(diff->added.offsets);
  *diff = (struct transfer_diff){.octets = 0};
}
