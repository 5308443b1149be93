/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Octets that are written once and sent to many: a chain of blocks, each kept as long as somebody
 * has still to read it.  So a snapshot exists once however many subscribers it goes to, and of what
 * is told to all only what the slowest has not read yet.
 *
 * Belongs to the loop's thread.
 */
#ifndef SLUICE_HEALTHCHECK_FEED_STREAM_H
#define SLUICE_HEALTHCHECK_FEED_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct feed_block;

struct feed_stream {
  struct feed_block *first; /* kept from the beginning, or NULL */
  struct feed_block *last;
  uint64_t length; /* octets ever added */
};

/* A reader's place. */
struct feed_cursor {
  struct feed_block *block; /* NULL: closed */
  size_t at;
  uint64_t done; /* octets of the stream that are behind it */
};

/* `keep`: all of it can be read later on, not only what comes after a cursor was placed.  False
 * without memory; feed_stream_close() is allowed then. */
bool feed_stream_init(struct feed_stream *stream, bool keep);
void feed_stream_close(struct feed_stream *stream);

/* False without memory: then a part of it may be there. */
bool feed_stream_add(struct feed_stream *stream, const void *data, size_t len);

/* Places a cursor at the beginning (of a stream that is kept), or at the end. */
void feed_cursor_begin(struct feed_cursor *cursor, const struct feed_stream *stream);
void feed_cursor_end(struct feed_cursor *cursor, const struct feed_stream *stream);
void feed_cursor_close(struct feed_cursor *cursor);

/* What comes next, in at most `most` pieces; returns how many.  The octets stay where they are
 * until the cursor has moved on. */
unsigned feed_cursor_look(const struct feed_cursor *cursor, uv_buf_t *pieces, unsigned most);
void feed_cursor_move(struct feed_cursor *cursor, size_t octets);

static inline uint64_t feed_cursor_left(const struct feed_cursor *cursor,
                                        const struct feed_stream *stream) {
  return stream->length - cursor->done;
}

#endif
