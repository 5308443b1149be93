/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growable byte buffer for the tools and the builder (never used per query).
 *
 * The storage of the struct is the caller's; the bytes are the buffer's until buf_close().  A
 * failed allocation sets `failed`, after which every append is a no-op: check once, at the end.
 */
#ifndef SLUICE_BASE_BUF_H
#define SLUICE_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
  uint8_t *data;
  size_t len;
  size_t cap;
  bool failed; /* out of memory at some append */
};

void buf_init(struct buf *b);
void buf_close(struct buf *b);
void buf_clear(struct buf *b); /* keeps the storage */

/* Makes room for `n` more bytes and returns where they go (not yet counted), or NULL. */
uint8_t *buf_reserve(struct buf *b, size_t n);

void buf_add(struct buf *b, const void *data, size_t n);
void buf_add_u8(struct buf *b, uint8_t v);
void buf_add_u16be(struct buf *b, uint16_t v);
void buf_add_u32be(struct buf *b, uint32_t v);
void buf_add_str(struct buf *b, const char *s); /* without the NUL */
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_align(struct buf *b, size_t to); /* pads with zeros; `to` is a power of two */

/* Ends the buffer with a NUL that is not counted, and returns it as text; "" if it failed. */
const char *buf_text(struct buf *b);

#endif
