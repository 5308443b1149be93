/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records files, and what a transfer makes of them.  Input: a number for the length of the first
 * file (2 octets), then the records of two files behind their headers; headers and checksums are
 * made right here, so that what lies behind them is reached.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "server/transfer_stream.h"
#include "zones/records.h"

enum { MESSAGE_MAX = 65535, ROOM = 100 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

/* How many records there seem to be, for the header. */
static uint64_t count_records(const uint8_t *p, size_t size) {
  uint64_t count = 0;
  size_t at = 0;
  while (at < size) {
    size_t owner = name_wire_len(p + at, size - at);
    if (owner == 0 || size - at - owner < RECORDS_FIXED)
      return 0;
    size_t rdata = (size_t)p[at + owner + 8] << 8 | p[at + owner + 9];
    if (rdata > size - at - owner - RECORDS_FIXED)
      return 0;
    at += owner + RECORDS_FIXED + rdata;
    count++;
  }
  return count;
}

/* Puts a header before the records, in storage of exactly that size; the apex and the serial are
 * those of the first record. */
static uint8_t *make_file(const uint8_t *p, size_t size, size_t *len) {
  struct records_header h = {.version = RECORDS_VERSION, .header_size = sizeof h};
  memcpy(h.magic, RECORDS_MAGIC, sizeof h.magic);
  size_t apex = name_wire_len(p, size);
  memcpy(h.apex, p, apex);
  if (apex > 0 && size - apex >= RECORDS_FIXED) {
    size_t rdata = (size_t)p[apex + 8] << 8 | p[apex + 9];
    const uint8_t *end = p + apex + RECORDS_FIXED + rdata;
    if (rdata >= 22 && rdata <= size - apex - RECORDS_FIXED)
      h.serial =
          (uint32_t)end[-20] << 24 | (uint32_t)end[-19] << 16 | (uint32_t)end[-18] << 8 | end[-17];
  }
  h.record_count = count_records(p, size);
  h.file_size = sizeof h + size;
  uint8_t *file = malloc(h.file_size);
  memcpy(file, &h, sizeof h);
  if (size > 0)
    memcpy(file + sizeof h, p, size);
  size_t covered = offsetof(struct records_header, record_count);
  h.checksum = XXH3_64bits(file + covered, h.file_size - covered);
  memcpy(file, &h, sizeof h);
  *len = h.file_size;
  return file;
}

/* Offset behind the name at `at`, following no pointer but checking that it leads back. */
static size_t skip_name(const uint8_t *message, size_t length, size_t at) {
  for (;;) {
    require(at < length);
    uint8_t n = message[at];
    if (n == 0)
      return at + 1;
    if (n >= 0xc0) {
      require(at + 1 < length && ((n & 0x3fU) << 8 | message[at + 1]) < at);
      return at + 2;
    }
    require(n <= 63);
    at += n + 1u;
  }
}

/* The message is exactly its question and `count` records. */
static void check_frame(const uint8_t *message, size_t length, unsigned count) {
  size_t at = 12;
  if (message[5] == 1)
    at = skip_name(message, length, at) + 4;
  for (unsigned i = 0; i < count; i++) {
    at = skip_name(message, length, at);
    require(length - at >= RECORDS_FIXED);
    at += RECORDS_FIXED + ((size_t)message[at + 8] << 8 | message[at + 9]);
  }
  require(at == length);
}

/* Runs a stream to its end: every message can be read, and no record is lost. */
static void run(struct transfer_stream *stream, uint64_t records) {
  uint8_t *message = malloc(MESSAGE_MAX);
  uint64_t got = 0;
  transfer_stream_start(stream);
  while (!transfer_stream_is_done(stream)) {
    size_t length = transfer_stream_next(stream, message, ROOM);
    require(length > 12 && length <= MESSAGE_MAX - ROOM);
    unsigned count = (unsigned)message[6] << 8 | message[7];
    require(count > 0);
    got += count;
    check_frame(message, length, count);
  }
  require(got == records);
  free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  size_t first = (size_t)data[0] << 8 | data[1];
  data += 2;
  size -= 2;
  if (first > size)
    first = size;
  struct records a, b;
  char why[512];
  size_t a_len, b_len;
  uint8_t *a_file = make_file(data, first, &a_len);
  uint8_t *b_file = make_file(data + first, size - first, &b_len);
  bool a_ok = records_open_memory(&a, a_file, a_len, why);
  bool b_ok = records_open_memory(&b, b_file, b_len, why);
  struct transfer_stream *stream = calloc(1, sizeof *stream);
  stream->head.question_len = 17;
  memcpy(stream->head.question, "\7example\3com\0\0\373\0\1", 17);
  if (a_ok) {
    stream->kind = TRANSFER_ALL;
    stream->now = &a;
    run(stream, a.header->record_count + 1);
  }
  struct transfer_diff diff;
  if (a_ok && b_ok && memcmp(a.header->apex, b.header->apex, sizeof a.header->apex) == 0 &&
      transfer_diff_make(&diff, &a, &b, a_len + b_len) == TRANSFER_DIFF_OK) {
    stream->kind = TRANSFER_DIFF;
    stream->old = &a;
    stream->now = &b;
    stream->diff = &diff;
    run(stream, 4 + diff.deleted.count + diff.added.count);
    require(a.header->record_count - diff.deleted.count + diff.added.count ==
            b.header->record_count);
    transfer_diff_close(&diff);
  }
  free(stream);
  records_close(&a);
  records_close(&b);
  free(a_file);
  free(b_file);
  return 0;
}
