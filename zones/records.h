/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of one zone as they are transferred: what `sluice build` writes beside the image, and
 * what the server maps when a zone is transferred (RFC 5936, RFC 1995).
 *
 * A header, then the records without compression, each
 *
 *   owner | type (2) | class (2) | TTL (4) | data length (2) | data        in network byte order
 *
 * in the order of records_compare() but for the SOA, which comes first.  No record occurs twice,
 * and owners are in lower case.  A steered name stands in it with its default answer
 * (zones/default_answer.h); glue and occluded names are included.  The numbers of the header are
 * little-endian.
 *
 * Two files of one zone are compared by walking both in step, so that the differences between two
 * serials need no state of their own on disk.
 */
#ifndef SLUICE_ZONES_RECORDS_H
#define SLUICE_ZONES_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "zones/model.h"

#define RECORDS_MAGIC "sluiceR\n"
enum {
  RECORDS_VERSION = 1,
  RECORDS_FIXED = 10, /* type, class, TTL, data length */
  /* Largest record: it fits a message together with the longest question and a signature. */
  RECORDS_MAX_RECORD = 65535 - 12 - 255 - 4 - 1024,
};

struct records_header {
  char magic[8];
  uint32_t version;
  uint32_t header_size;
  uint64_t file_size;
  uint64_t checksum; /* XXH3 (64 bits, seed 0) of all that follows this field */
  uint64_t record_count;
  uint32_t serial; /* as in the SOA */
  uint8_t reserved[4];
  uint8_t apex[256]; /* wire name, lower case, zero padding */
};

/* ---- writing ----------------------------------------------------------------------------------
 */

/* Appends the records file of a checked zone to `out`; false with a reason in `why` (512 bytes),
 * for example a record that fits no message.  Pure: same zone and serial, same bytes. */
bool records_compile(const struct model_zone *zone, uint32_t serial, struct buf *out, char *why);

/* ---- reading ----------------------------------------------------------------------------------
 */

/* An open file; immutable, so any number of threads may read it. */
struct records {
  const uint8_t *base;
  size_t size;
  bool owned; /* base is ours to free */
  const struct records_header *header;
};

/* One record; points into the file. */
struct records_rr {
  const uint8_t *start; /* owner, and all that follows */
  size_t size;          /* of the whole record */
  const uint8_t *rdata;
  uint32_t ttl;
  uint16_t owner_len;
  uint16_t type;
  uint16_t rdata_len;
};

/*
 * Reads a file and checks all of it.  False with a one-line reason in `why` (512 bytes) when it is
 * missing, truncated, of another version, damaged or out of order.  After that every offset that
 * records_read() gives can be trusted.  records_open_memory() checks bytes that the caller keeps,
 * aligned to 8.
 */
bool records_open(struct records *records, const char *path, char *why);
bool records_open_memory(struct records *records, const uint8_t *data, size_t size, char *why);
void records_close(struct records *records);

/* Reads just the header of a file; false if it has none of this version.  The rest is not checked.
 */
bool records_peek(int fd, struct records_header *header);

/* Offset of the SOA, the first record. */
static inline size_t records_first(void) {
  return sizeof(struct records_header);
}

/* Reads the record at `at` (less than records->size); returns the offset behind it. */
size_t records_read(const struct records *records, size_t at, struct records_rr *rr);

/* The order of records: canonical order of the owner (RFC 4034 section 6.1), then type, then data
 * as octets.  The TTL does not count. */
int records_compare(const struct records_rr *a, const struct records_rr *b);

#endif
