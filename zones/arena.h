/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is given back all at once: for trees and records that live and die together.
 *
 * Pieces come from large blocks, so a million small ones cost no header each.  One thread.
 */
#ifndef SLUICE_ZONES_ARENA_H
#define SLUICE_ZONES_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
  struct arena_block *blocks;
  size_t used;
  size_t cap;
};

void arena_init(struct arena *arena);
void arena_close(struct arena *arena);

/* `size` bytes aligned to `align` (1, 2, 4, 8 or 16), not cleared; NULL without memory. */
void *arena_alloc(struct arena *arena, size_t size, size_t align);

/* Copies `size` bytes and puts `pad` zero bytes behind them; NULL without memory. */
void *arena_copy(struct arena *arena, const void *data, size_t size, size_t pad);

#endif
