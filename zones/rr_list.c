/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/rr_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "zones/record.h"

bool rr_list_add(struct rr_list *list, uint8_t *owner, uint16_t type, uint32_t ttl,
                 const uint8_t *rdata, uint16_t rdata_len, struct diag_pos pos) {
  if (list->count == list->cap) {
    size_t cap = list->cap == 0 ? 32 : list->cap + list->cap / 2;
    struct model_rr *rrs = realloc(list->rrs, cap * sizeof *rrs);
    if (rrs == NULL)
      return false;
    list->rrs = rrs;
    list->cap = cap;
  }
  uint8_t *copy = arena_copy(list->memory, rdata, rdata_len, 0);
  if (copy == NULL)
    return false;
  list->rrs[list->count++] = (struct model_rr){owner, copy, rdata_len, type, ttl, pos};
  return true;
}

uint8_t *rr_list_owner(struct rr_list *list, const uint8_t *name) {
  uint8_t lower[NAME_BUF];
  size_t len = name_copy_lower(lower, name);
  return arena_copy(list->memory, lower, len, NAME_PAD);
}

/* ---- order ------------------------------------------------------------------------------------
 */

/* Sixteen octets of the owner's canonical form decide most comparisons. */
struct item {
  uint64_t high;
  uint64_t low;
  uint32_t index;
};

/*
 * The labels below the apex, from the right, with a 0 after each; the octets 0 and 1 become 1 1 and
 * 1 2, so that a label sorts before a longer one that it begins (RFC 4034 section 6.1).
 */
static void make_key(struct item *item, const uint8_t *owner, unsigned apex_labels) {
  const uint8_t *labels[NAME_MAX_LABELS + 1];
  unsigned count = 0;
  for (const uint8_t *p = owner; *p != 0; p += *p + 1)
    labels[count++] = p;
  uint8_t key[16 + 2] = {0};
  size_t n = 0;
  for (unsigned i = count - (count < apex_labels ? count : apex_labels); i-- > 0 && n < 16;) {
    for (unsigned k = 1; k <= labels[i][0] && n < 16; k++) {
      uint8_t c = labels[i][k];
      if (c <= 1) {
        key[n++] = 1;
        c = (uint8_t)(c + 1);
      }
      key[n++] = c;
    }
    n++;
  }
  item->high = item->low = 0;
  for (unsigned i = 0; i < 8; i++) {
    item->high = item->high << 8 | key[i];
    item->low = item->low << 8 | key[8 + i];
  }
}

static int compare_octets(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len) {
  size_t n = a_len < b_len ? a_len : b_len;
  int d = n > 0 ? memcmp(a, b, n) : 0;
  return d != 0 ? d : (a_len > b_len) - (a_len < b_len);
}

static int compare_lowered(const struct model_rr *a, const struct model_rr *b) {
  uint8_t la[RECORD_MAX_RDATA];
  uint8_t lb[RECORD_MAX_RDATA];
  record_lower(a->type, a->rdata, a->rdata_len, la);
  record_lower(b->type, b->rdata, b->rdata_len, lb);
  return compare_octets(la, a->rdata_len, lb, b->rdata_len);
}

static int compare_rdata(const struct model_rr *a, const struct model_rr *b) {
  if (record_has_names(a->type))
    return compare_lowered(a, b);
  return compare_octets(a->rdata, a->rdata_len, b->rdata, b->rdata_len);
}

static int compare(const void *va, const void *vb, void *arg) {
  const struct item *x = va;
  const struct item *y = vb;
  const struct model_rr *rrs = arg;
  if (x->high != y->high)
    return x->high < y->high ? -1 : 1;
  if (x->low != y->low)
    return x->low < y->low ? -1 : 1;
  const struct model_rr *a = &rrs[x->index];
  const struct model_rr *b = &rrs[y->index];
  int d = a->owner == b->owner ? 0 : name_compare(a->owner, b->owner);
  if (d != 0)
    return d;
  if (a->type != b->type)
    return a->type < b->type ? -1 : 1;
  d = compare_rdata(a, b);
  if (d != 0)
    return d;
  return x->index < y->index ? -1 : x->index > y->index;
}

/* ---- RRsets -----------------------------------------------------------------------------------
 */

static bool same_rrset(const struct model_rr *a, const struct model_rr *b) {
  return a->type == b->type && (a->owner == b->owner || name_equal(a->owner, b->owner));
}

/* Records start..end are one RRset; `items` tells in which order they were written. */
static void unify_ttl(const struct model_rr *rrs, const struct item *items, struct model_rr *sorted,
                      size_t start, size_t end, bool lenient, struct diag_list *problems) {
  size_t first = start;
  for (size_t i = start + 1; i < end; i++)
    if (items[i].index < items[first].index)
      first = i;
  const struct model_rr *written = &rrs[items[first].index];
  for (size_t i = start; i < end; i++) {
    struct model_rr *rr = &sorted[i];
    if (rr->ttl == written->ttl)
      continue;
    char type[16];
    char name[NAME_MAX_TEXT];
    char where[DIAG_WHERE];
    record_type_text(rr->type, type);
    name_to_text(name, rr->owner);
    if (lenient)
      diag_warning(problems, rr->pos,
                   "TTL %u differs from the TTL %u of the other %s records of `%s`; %u is used",
                   rr->ttl, written->ttl, type, name, written->ttl);
    else
      diag_error(problems, rr->pos,
                 "TTL %u differs from the TTL %u of the other %s records of `%s` (%s); all "
                 "records of one name and type must have the same",
                 rr->ttl, written->ttl, type, name, diag_where(written->pos, rr->pos.path, where));
    rr->ttl = written->ttl;
  }
}

static size_t drop_repeated(struct model_rr *sorted, size_t start, size_t end, size_t kept) {
  for (size_t i = start; i < end; i++)
    if (i == start || compare_rdata(&sorted[kept - 1], &sorted[i]) != 0)
      sorted[kept++] = sorted[i];
  return kept;
}

bool rr_list_sort(struct rr_list *list, const uint8_t *apex, bool lenient,
                  struct diag_list *problems) {
  if (list->count == 0)
    return true;
  struct item *items = malloc(list->count * sizeof *items);
  struct model_rr *sorted = malloc(list->count * sizeof *sorted);
  if (items == NULL || sorted == NULL) {
    free(items);
    free(sorted);
    return false;
  }
  unsigned apex_labels = name_labels(apex);
  for (size_t i = 0; i < list->count; i++) {
    items[i].index = (uint32_t)i;
    if (i > 0 && list->rrs[i].owner == list->rrs[i - 1].owner) {
      items[i].high = items[i - 1].high;
      items[i].low = items[i - 1].low;
    } else {
      make_key(&items[i], list->rrs[i].owner, apex_labels);
    }
  }
  qsort_r(items, list->count, sizeof *items, compare, list->rrs);
  for (size_t i = 0; i < list->count; i++)
    sorted[i] = list->rrs[items[i].index];
  size_t kept = 0;
  for (size_t i = 0, end; i < list->count; i = end) {
    end = i + 1;
    while (end < list->count && same_rrset(&sorted[i], &sorted[end]))
      end++;
    if (end > i + 1)
      unify_ttl(list->rrs, items, sorted, i, end, lenient, problems);
    kept = drop_repeated(sorted, i, end, kept);
  }
  free(items);
  free(list->rrs);
  list->rrs = sorted;
  list->cap = list->count;
  list->count = kept;
  return true;
}
