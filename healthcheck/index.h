/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table that gives back positions in an array of the caller's: open addressing, with a seed
 * of its own, so that nobody can make names collide.  Header only; one thread.
 */
#ifndef SLUICE_HEALTHCHECK_INDEX_H
#define SLUICE_HEALTHCHECK_INDEX_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <xxhash.h>

#include "base/rng.h"

#define INDEX_NONE UINT32_MAX

struct index_slot {
  uint64_t hash;
  uint32_t position; /* INDEX_NONE: free */
};

struct index {
  struct index_slot *slots;
  size_t cap; /* a power of two, or 0 */
  size_t used;
  uint64_t seed;
};

static inline void index_open(struct index *index) {
  struct rng rng;
  rng_seed_kernel(&rng);
  *index = (struct index){.seed = rng_next(&rng)};
}

static inline void index_close(struct index *index) {
  free(index->slots);
  *index = (struct index){.slots = NULL};
}

static inline uint64_t index_hash(const struct index *index, const void *data, size_t len) {
  return XXH3_64bits_withSeed(data, len, index->seed);
}

static inline uint64_t index_mix(uint64_t hash, uint64_t value) {
  return (hash ^ (hash >> 29) ^ value) * UINT64_C(0x9fb21c651e98df25);
}

/* The position under this hash for which same(arg, position) is true, or INDEX_NONE. */
static inline uint32_t index_find(const struct index *index, uint64_t hash,
                                  bool (*same)(const void *arg, uint32_t position),
                                  const void *arg) {
  if (index->cap == 0)
    return INDEX_NONE;
  for (size_t i = hash & (index->cap - 1); index->slots[i].position != INDEX_NONE;
       i = (i + 1) & (index->cap - 1))
    if (index->slots[i].hash == hash && same(arg, index->slots[i].position))
      return index->slots[i].position;
  return INDEX_NONE;
}

static inline void index_put(struct index_slot *slots, size_t cap, struct index_slot slot) {
  size_t i = slot.hash & (cap - 1);
  while (slots[i].position != INDEX_NONE)
    i = (i + 1) & (cap - 1);
  slots[i] = slot;
}

/* Adds a position that is not there yet; false without memory. */
static inline bool index_add(struct index *index, uint64_t hash, uint32_t position) {
  enum { FIRST = 64 };
  if (index->used * 2 >= index->cap) {
    size_t cap = index->cap != 0 ? index->cap * 2 : FIRST;
    struct index_slot *slots = malloc(cap * sizeof *slots);
    if (slots == NULL)
      return false;
    for (size_t i = 0; i < cap; i++)
      slots[i].position = INDEX_NONE;
    for (size_t i = 0; i < index->cap; i++)
      if (index->slots[i].position != INDEX_NONE)
        index_put(slots, cap, index->slots[i]);
    free(index->slots);
    index->slots = slots;
    index->cap = cap;
  }
  index_put(index->slots, index->cap, (struct index_slot){hash, position});
  index->used++;
  return true;
}

#endif
