/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages in a stream: however the stream is cut into reads, the same messages come out, in
 * order, and it is found bad at the same place.
 *
 * Input: octet 0 is the number n of cuts, then n octets with the lengths of the first reads, then
 * the stream.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/tcp_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 4096 /* messages that are compared */ };

struct split {
  size_t count;
  size_t at[MOST]; /* in the stream, behind the length */
  size_t length[MOST];
  enum tcp_frame end;
  size_t left; /* octets behind the last message */
};

static void require(int condition) {
  if (!condition)
    abort();
}

/* Takes the whole messages of data[0..length), which begins at `base` of the stream.  Returns the
 * octets that are done with. */
static size_t take(struct split *split, const uint8_t *data, size_t length, size_t base) {
  size_t at = 0;
  size_t message = 0;
  while ((split->end = tcp_frame_next(data + at, length - at, &message)) == TCP_FRAME_WHOLE) {
    require(message >= TCP_FRAME_LEAST && message <= TCP_FRAME_MAX - TCP_FRAME_HEAD);
    require(message + TCP_FRAME_HEAD <= length - at);
    if (split->count < MOST) {
      split->at[split->count] = base + at + TCP_FRAME_HEAD;
      split->length[split->count] = message;
    }
    split->count++;
    at += TCP_FRAME_HEAD + message;
  }
  split->left = length - at;
  return at;
}

/* A copy that ends where its memory ends. */
static uint8_t *copy_of(const uint8_t *data, size_t length) {
  uint8_t *copy = malloc(length > 0 ? length : 1);
  require(copy != NULL);
  if (length > 0)
    memcpy(copy, data, length);
  return copy;
}

static void take_in_reads(struct split *split, const uint8_t *stream, size_t length,
                          const uint8_t *cuts, size_t cut_count) {
  size_t done = 0;
  size_t arrived = 0;
  for (size_t i = 0; arrived < length && split->end != TCP_FRAME_BAD; i++) {
    size_t read = i < cut_count ? cuts[i] : length;
    arrived = length - arrived < read ? length : arrived + read;
    uint8_t *copy = copy_of(stream + done, arrived - done);
    done += take(split, copy, arrived - done, done);
    free(copy);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct split whole, parts;
  size_t cuts = size > 0 ? data[0] : 0;
  if (size < 1 + cuts)
    return 0;
  const uint8_t *stream = data + 1 + cuts;
  size_t length = size - 1 - cuts;
  whole.count = parts.count = 0;
  parts.end = TCP_FRAME_PART;
  parts.left = 0;
  uint8_t *copy = copy_of(stream, length);
  take(&whole, copy, length, 0);
  free(copy);
  take_in_reads(&parts, stream, length, data + 1, cuts);
  require(whole.end != TCP_FRAME_WHOLE);
  require(parts.count == whole.count && parts.end == whole.end);
  require(parts.end == TCP_FRAME_BAD || parts.left == whole.left);
  size_t compared = whole.count < MOST ? whole.count : MOST;
  require(memcmp(parts.at, whole.at, compared * sizeof whole.at[0]) == 0);
  require(memcmp(parts.length, whole.length, compared * sizeof whole.length[0]) == 0);
  return 0;
}
