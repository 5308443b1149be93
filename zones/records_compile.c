/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the records of a zone in transfer order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/name.h"
#include "zones/default_answer.h"
#include "zones/record.h"
#include "zones/records.h"

enum { WHY = 512, CLASS_IN = 1, SOA_NUMBERS = 20 };

struct writer {
  const struct model_zone *zone;
  uint32_t serial;
  struct buf *out;
  size_t base; /* of the file in `out` */
  uint64_t count;
  struct model_rr *steered; /* default answers, sorted */
  size_t steered_count;
  size_t steered_cap;
  char *why;
};

static bool out_of_memory(struct writer *w) {
  snprintf(w->why, WHY, "not enough memory");
  return false;
}

static int compare_rdata(const struct model_rr *a, const struct model_rr *b) {
  size_t n = a->rdata_len < b->rdata_len ? a->rdata_len : b->rdata_len;
  int d = memcmp(a->rdata, b->rdata, n);
  return d != 0 ? d : (a->rdata_len > b->rdata_len) - (a->rdata_len < b->rdata_len);
}

static int compare(const void *va, const void *vb) {
  const struct model_rr *a = va;
  const struct model_rr *b = vb;
  int d = a->owner == b->owner ? 0 : name_compare(a->owner, b->owner);
  if (d != 0)
    return d;
  if (a->type != b->type)
    return a->type < b->type ? -1 : 1;
  return compare_rdata(a, b);
}

/* ---- one record -------------------------------------------------------------------------------
 */

static bool write_rr(struct writer *w, const struct model_rr *rr) {
  uint8_t owner[NAME_BUF];
  size_t owner_len = name_copy_lower(owner, rr->owner);
  if (owner_len + RECORDS_FIXED + rr->rdata_len > RECORDS_MAX_RECORD) {
    char name[NAME_MAX_TEXT];
    char type[16];
    snprintf(w->why, WHY, "the %s record of %.300s has %u octets, which no message can hold",
             record_type_text(rr->type, type), name_to_text(name, rr->owner), rr->rdata_len);
    return false;
  }
  buf_add(w->out, owner, owner_len);
  buf_add_u16be(w->out, rr->type);
  buf_add_u16be(w->out, CLASS_IN);
  buf_add_u32be(w->out, rr->ttl);
  buf_add_u16be(w->out, rr->rdata_len);
  buf_add(w->out, rr->rdata, rr->rdata_len);
  w->count++;
  return true;
}

static bool write_soa(struct writer *w) {
  const struct model_zone *zone = w->zone;
  const struct model_rr *soa = NULL;
  for (size_t i = 0; i < zone->rr_count && soa == NULL; i++)
    if (zone->rrs[i].type == RECORD_SOA)
      soa = &zone->rrs[i];
  if (soa == NULL || soa->rdata_len < 2 + SOA_NUMBERS) {
    snprintf(w->why, WHY, "the zone has no SOA record");
    return false;
  }
  if (!write_rr(w, soa))
    return false;
  if (w->out->failed)
    return out_of_memory(w);
  uint8_t *serial = w->out->data + w->out->len - SOA_NUMBERS;
  if (zone->serial_mode == SERIAL_MANAGED)
    for (unsigned i = 0; i < 4; i++)
      serial[i] = (uint8_t)(w->serial >> (24 - 8 * i));
  else
    w->serial = (uint32_t)serial[0] << 24 | (uint32_t)serial[1] << 16 | (uint32_t)serial[2] << 8 |
                serial[3];
  return true;
}

/* ---- steered names ----------------------------------------------------------------------------
 */

static void take_steered(void *arg, const struct model_rr *rr) {
  struct writer *w = arg;
  if (w->steered_count == w->steered_cap) {
    size_t cap = w->steered_cap != 0 ? w->steered_cap * 2 : 64;
    struct model_rr *more = realloc(w->steered, cap * sizeof *more);
    if (more == NULL) {
      w->out->failed = true;
      return;
    }
    w->steered = more;
    w->steered_cap = cap;
  }
  w->steered[w->steered_count++] = *rr; /* owner and data are the domain's */
}

static bool take_all_steered(struct writer *w) {
  for (size_t i = 0; i < w->zone->domain_count; i++)
    default_answer(w->zone->domains[i].steer, take_steered, w);
  if (w->out->failed)
    return out_of_memory(w);
  if (w->steered_count > 0)
    qsort(w->steered, w->steered_count, sizeof *w->steered, compare);
  return true;
}

/* ---- all of them ------------------------------------------------------------------------------
 */

static bool same_rrset(const struct model_rr *a, const struct model_rr *b) {
  return a->type == b->type && (a->owner == b->owner || name_equal(a->owner, b->owner));
}

/* Writes one RRset of the zone, whose records the model has in canonical order of the data: that
 * order takes names inside without regard to case, ours takes the octets. */
static bool write_rrset(struct writer *w, const struct model_rr *rrs, size_t count) {
  if (count == 1)
    return write_rr(w, rrs);
  struct model_rr *sorted = malloc(count * sizeof *sorted);
  if (sorted == NULL)
    return out_of_memory(w);
  memcpy(sorted, rrs, count * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, compare);
  bool ok = true;
  for (size_t i = 0; ok && i < count; i++)
    ok = write_rr(w, &sorted[i]);
  free(sorted);
  return ok;
}

static bool write_rest(struct writer *w) {
  const struct model_rr *rrs = w->zone->rrs;
  size_t at = 0;
  for (size_t i = 0, end; i < w->zone->rr_count; i = end) {
    end = i + 1;
    while (end < w->zone->rr_count && same_rrset(&rrs[i], &rrs[end]))
      end++;
    if (rrs[i].type == RECORD_SOA)
      continue;
    while (at < w->steered_count && compare(&w->steered[at], &rrs[i]) < 0)
      if (!write_rr(w, &w->steered[at++]))
        return false;
    if (!write_rrset(w, &rrs[i], end - i))
      return false;
  }
  while (at < w->steered_count)
    if (!write_rr(w, &w->steered[at++]))
      return false;
  return true;
}

static bool write_all(struct writer *w) {
  struct records_header h = {.version = RECORDS_VERSION, .header_size = sizeof h};
  memcpy(h.magic, RECORDS_MAGIC, sizeof h.magic);
  uint8_t apex[NAME_BUF];
  memcpy(h.apex, apex, name_copy_lower(apex, w->zone->apex));
  buf_add(w->out, &h, sizeof h); /* its place; filled in at the end */
  if (!take_all_steered(w) || !write_soa(w) || !write_rest(w))
    return false;
  if (w->out->failed)
    return out_of_memory(w);
  h.serial = w->serial;
  h.record_count = w->count;
  h.file_size = w->out->len - w->base;
  uint8_t *file = w->out->data + w->base;
  memcpy(file, &h, sizeof h);
  size_t covered = offsetof(struct records_header, record_count);
  h.checksum = XXH3_64bits(file + covered, h.file_size - covered);
  memcpy(file, &h, sizeof h);
  return true;
}

bool records_compile(const struct model_zone *zone, uint32_t serial, struct buf *out, char *why) {
  struct writer w = {.zone = zone, .serial = serial, .out = out, .why = why};
  buf_align(out, 8);
  w.base = out->len;
  bool ok = write_all(&w);
  free(w.steered);
  return ok;
}
