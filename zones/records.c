/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/fs.h"
#include "base/name.h"
#include "zones/record.h"

enum {
  WHY = 512,
  CLASS_IN = 1,
  SOA_NUMBERS = 20, /* octets behind the two names, RFC 1035 section 3.3.13 */
};

static const size_t FILE_LIMIT = (size_t)1 << 36; /* more than any zone has */

static uint16_t read16(const uint8_t *p) {
  return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t read32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Length of a wire name that is known to be well-formed. */
static size_t name_length(const uint8_t *name) {
  size_t n = 0;
  while (name[n] != 0)
    n += name[n] + 1u;
  return n + 1;
}

size_t records_read(const struct records *records, size_t at, struct records_rr *rr) {
  const uint8_t *p = records->base + at;
  rr->start = p;
  rr->owner_len = (uint16_t)name_length(p);
  p += rr->owner_len;
  rr->type = read16(p);
  rr->ttl = read32(p + 4);
  rr->rdata_len = read16(p + 8);
  rr->rdata = p + RECORDS_FIXED;
  rr->size = (size_t)rr->owner_len + RECORDS_FIXED + rr->rdata_len;
  return at + rr->size;
}

int records_compare(const struct records_rr *a, const struct records_rr *b) {
  if (a->owner_len != b->owner_len || memcmp(a->start, b->start, a->owner_len) != 0) {
    int d = name_compare(a->start, b->start);
    if (d != 0)
      return d;
  }
  if (a->type != b->type)
    return a->type < b->type ? -1 : 1;
  size_t n = a->rdata_len < b->rdata_len ? a->rdata_len : b->rdata_len;
  int d = memcmp(a->rdata, b->rdata, n);
  return d != 0 ? d : (a->rdata_len > b->rdata_len) - (a->rdata_len < b->rdata_len);
}

/* ---- checking ---------------------------------------------------------------------------------
 */

static bool is_lower(const uint8_t *name, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (name[i] >= 'A' && name[i] <= 'Z')
      return false;
  return true;
}

static bool header_is_known(const struct records_header *h) {
  return memcmp(h->magic, RECORDS_MAGIC, sizeof h->magic) == 0 && h->version == RECORDS_VERSION &&
         h->header_size == sizeof *h;
}

static bool header_is_right(const struct records *r, char *why) {
  const struct records_header *h = r->header;
  if (r->size < sizeof *h || memcmp(h->magic, RECORDS_MAGIC, sizeof h->magic) != 0)
    snprintf(why, WHY, "not a file of a zone's records");
  else if (!header_is_known(h))
    snprintf(why, WHY, "of version %u, this program reads version %d: build again", h->version,
             RECORDS_VERSION);
  else if (h->file_size != r->size)
    snprintf(why, WHY, "damaged: it has %zu octets, not %llu", r->size,
             (unsigned long long)h->file_size);
  else {
    size_t covered = offsetof(struct records_header, record_count);
    if (XXH3_64bits(r->base + covered, r->size - covered) == h->checksum)
      return true;
    snprintf(why, WHY, "damaged: its checksum is wrong");
  }
  return false;
}

/* True if a whole record is at `at`, of this zone. */
static bool record_is_whole(const struct records *r, size_t at) {
  const uint8_t *p = r->base + at;
  size_t left = r->size - at;
  size_t owner = name_wire_len(p, left);
  if (owner == 0 || left - owner < RECORDS_FIXED)
    return false;
  size_t rdata = read16(p + owner + 8);
  return rdata <= left - owner - RECORDS_FIXED && read16(p + owner + 2) == CLASS_IN &&
         owner + RECORDS_FIXED + rdata <= RECORDS_MAX_RECORD && is_lower(p, owner) &&
         name_is_below_or_equal(p, r->header->apex);
}

/* Names inside of data that a transfer compresses must be names, and the data must end behind them.
 */
static bool data_is_right(const struct records_rr *rr) {
  size_t at = 0;
  unsigned names = 0;
  size_t tail = 0;
  switch (rr->type) {
  case RECORD_NS:
  case RECORD_CNAME:
  case RECORD_PTR:
    names = 1;
    break;
  case RECORD_MX:
    at = 2;
    names = 1;
    break;
  case RECORD_SOA:
    names = 2;
    tail = SOA_NUMBERS;
    break;
  default:
    return true;
  }
  for (unsigned i = 0; i < names; i++) {
    size_t n = at < rr->rdata_len ? name_wire_len(rr->rdata + at, rr->rdata_len - at) : 0;
    if (n == 0)
      return false;
    at += n;
  }
  return at + tail == rr->rdata_len;
}

static bool soa_is_right(const struct records *r, const struct records_rr *soa) {
  return soa->type == RECORD_SOA && name_equal(soa->start, r->header->apex) && data_is_right(soa) &&
         read32(soa->rdata + soa->rdata_len - SOA_NUMBERS) == r->header->serial;
}

static bool records_are_right(const struct records *r) {
  size_t at = records_first();
  struct records_rr before = {.size = 0};
  uint64_t count = 0;
  while (at < r->size) {
    struct records_rr rr;
    if (!record_is_whole(r, at))
      return false;
    at = records_read(r, at, &rr);
    bool right = count == 0 ? soa_is_right(r, &rr) : rr.type != RECORD_SOA && data_is_right(&rr);
    if (!right || (count > 1 && records_compare(&before, &rr) >= 0))
      return false;
    before = rr;
    count++;
  }
  return count > 0 && count == r->header->record_count;
}

bool records_open_memory(struct records *records, const uint8_t *data, size_t size, char *why) {
  *records = (struct records){
      .base = data, .size = size, .header = (const struct records_header *)(const void *)data};
  bool ok = header_is_right(records, why);
  if (ok && (name_wire_len(records->header->apex, NAME_MAX_WIRE) == 0 ||
             !is_lower(records->header->apex, sizeof records->header->apex) ||
             !records_are_right(records))) {
    snprintf(why, WHY, "damaged: its records are inconsistent");
    ok = false;
  }
  if (!ok)
    *records = (struct records){.base = NULL};
  return ok;
}

bool records_open(struct records *records, const char *path, char *why) {
  char problem[WHY];
  uint8_t *data = NULL;
  size_t size = 0;
  *records = (struct records){.base = NULL};
  /* Memory of our own: a truncation would end who reads a mapped file with SIGBUS, and offsets in
   * it could change after the check. */
  if (!fs_read(path, FILE_LIMIT, &data, &size, why))
    return false;
  if (records_open_memory(records, data, size, problem)) {
    records->owned = true;
    return true;
  }
  free(data);
  snprintf(why, WHY, "%.200s: %.280s", path, problem);
  return false;
}

void records_close(struct records *records) {
  if (records->owned)
    free((void *)(uintptr_t)records->base);
  *records = (struct records){.base = NULL};
}

bool records_peek(int fd, struct records_header *header) {
  return pread(fd, header, sizeof *header, 0) == (ssize_t)sizeof *header && header_is_known(header);
}
