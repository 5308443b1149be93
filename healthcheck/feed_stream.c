/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/feed_stream.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = (64 << 10) - 64 };

struct feed_block {
  size_t refs; /* of the block before, of the stream (twice if it is first and last), of cursors */
  struct feed_block *next;
  size_t used;
  char data[BLOCK];
};

static struct feed_block *block_new(void) {
  struct feed_block *block = malloc(sizeof *block);
  if (!block)
    return NULL;
  block->refs = 1;
  block->next = NULL;
  block->used = 0;
  return block;
}

static struct feed_block *take(struct feed_block *block) {
  block->refs++;
  return block;
}

static void drop(struct feed_block *block) {
  while (block && --block->refs == 0) {
    struct feed_block *next = block->next;
    free(block);
    block = next;
  }
}

bool feed_stream_init(struct feed_stream *stream, bool keep) {
  *stream = (struct feed_stream){.last = block_new()};
  if (stream->last && keep)
    stream->first = take(stream->last);
  return stream->last != NULL;
}

void feed_stream_close(struct feed_stream *stream) {
  drop(stream->first);
  drop(stream->last);
  *stream = (struct feed_stream){.last = NULL};
}

bool feed_stream_add(struct feed_stream *stream, const void *data, size_t len) {
  const char *from = data;
  while (len > 0) {
    struct feed_block *block = stream->last;
    if (block->used == BLOCK) {
      block->next = block_new();
      if (!block->next)
        return false;
      stream->last = take(block->next);
      drop(block);
      continue;
    }
    size_t n = BLOCK - block->used < len ? BLOCK - block->used : len;
    memcpy(block->data + block->used, from, n);
    block->used += n;
    stream->length += n;
    from += n;
    len -= n;
  }
  return true;
}

void feed_cursor_begin(struct feed_cursor *cursor, const struct feed_stream *stream) {
  *cursor = (struct feed_cursor){.block = take(stream->first)};
}

void feed_cursor_end(struct feed_cursor *cursor, const struct feed_stream *stream) {
  *cursor = (struct feed_cursor){
      .block = take(stream->last), .at = stream->last->used, .done = stream->length};
}

void feed_cursor_close(struct feed_cursor *cursor) {
  drop(cursor->block);
  cursor->block = NULL;
}

unsigned feed_cursor_look(const struct feed_cursor *cursor, uv_buf_t *pieces, unsigned most) {
  unsigned count = 0;
  size_t at = cursor->at;
  for (struct feed_block *block = cursor->block; block && count < most; block = block->next) {
    if (block->used > at)
      pieces[count++] = uv_buf_init(block->data + at, (unsigned)(block->used - at));
    at = 0;
  }
  return count;
}

void feed_cursor_move(struct feed_cursor *cursor, size_t octets) {
  cursor->done += octets;
  cursor->at += octets;
  while (cursor->at >= cursor->block->used && cursor->block->next) {
    struct feed_block *block = cursor->block;
    cursor->at -= block->used;
    cursor->block = take(block->next);
    drop(block);
  }
}
