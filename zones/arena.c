/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/arena.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_FIRST = 4096, BLOCK_LARGEST = 1 << 20, BLOCK_ALIGN = 16 };

struct arena_block {
  struct arena_block *next;
  size_t unused; /* keeps the data behind it aligned to BLOCK_ALIGN */
};

void arena_init(struct arena *arena) {
  memset(arena, 0, sizeof *arena);
}

void arena_close(struct arena *arena) {
  while (arena->blocks != NULL) {
    struct arena_block *next = arena->blocks->next;
    free(arena->blocks);
    arena->blocks = next;
  }
  arena_init(arena);
}

static unsigned char *new_block(struct arena *arena, size_t cap) {
  struct arena_block *block = malloc(sizeof *block + cap);
  if (block == NULL)
    return NULL;
  block->next = arena->blocks;
  arena->blocks = block;
  return (unsigned char *)(block + 1);
}

void *arena_alloc(struct arena *arena, size_t size, size_t align) {
  size_t at = (arena->used + align - 1) & ~(align - 1);
  if (arena->blocks != NULL && at <= arena->cap && size <= arena->cap - at) {
    arena->used = at + size;
    return (unsigned char *)(arena->blocks + 1) + at;
  }
  size_t cap = arena->cap == 0 ? BLOCK_FIRST : arena->cap * 2;
  if (cap > BLOCK_LARGEST)
    cap = BLOCK_LARGEST;
  if (cap < size)
    cap = size;
  unsigned char *data = new_block(arena, cap);
  if (data == NULL)
    return NULL;
  arena->cap = cap;
  arena->used = size;
  return data;
}

void *arena_copy(struct arena *arena, const void *data, size_t size, size_t pad) {
  unsigned char *copy = arena_alloc(arena, size + pad, 1);
  if (copy == NULL)
    return NULL;
  if (size > 0)
    memcpy(copy, data, size);
  memset(copy + size, 0, pad);
  return copy;
}
