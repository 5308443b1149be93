/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b) {
  memset(b, 0, sizeof *b);
}

void buf_close(struct buf *b) {
  free(b->data);
  buf_init(b);
}

void buf_clear(struct buf *b) {
  b->len = 0;
}

uint8_t *buf_reserve(struct buf *b, size_t n) {
  if (b->failed)
    return NULL;
  if (n > SIZE_MAX / 2 - b->len) {
    b->failed = true;
    return NULL;
  }
  if (b->data && b->len + n <= b->cap)
    return b->data + b->len;
  size_t cap = b->cap ? b->cap : 256;
  while (cap < b->len + n)
    cap *= 2;
  uint8_t *data = realloc(b->data, cap);
  if (!data) {
    b->failed = true;
    return NULL;
  }
  b->data = data;
  b->cap = cap;
  return b->data + b->len;
}

void buf_add(struct buf *b, const void *data, size_t n) {
  uint8_t *to = buf_reserve(b, n);
  if (!to || n == 0)
    return;
  memcpy(to, data, n);
  b->len += n;
}

void buf_add_u8(struct buf *b, uint8_t v) {
  buf_add(b, &v, 1);
}

void buf_add_u16be(struct buf *b, uint16_t v) {
  uint8_t octets[2] = {(uint8_t)(v >> 8), (uint8_t)v};
  buf_add(b, octets, sizeof octets);
}

void buf_add_u32be(struct buf *b, uint32_t v) {
  uint8_t octets[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
  buf_add(b, octets, sizeof octets);
}

void buf_add_str(struct buf *b, const char *s) {
  buf_add(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (n < 0)
    return;
  uint8_t *to = buf_reserve(b, (size_t)n + 1);
  if (!to)
    return;
  va_start(args, format);
  vsnprintf((char *)to, (size_t)n + 1, format, args);
  va_end(args);
  b->len += (size_t)n;
}

void buf_align(struct buf *b, size_t to) {
  while (!b->failed && (b->len & (to - 1)) != 0)
    buf_add_u8(b, 0);
}

const char *buf_text(struct buf *b) {
  uint8_t *end = buf_reserve(b, 1);
  if (!end)
    return "";
  *end = 0;
  return (const char *)b->data;
}
