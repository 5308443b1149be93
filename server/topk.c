/* SPDX-License-Identifier: Apache-2.0 */
#include "server/topk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { REGISTER_BITS = 7 };

static void note_distinct(struct topk *topk, uint64_t key) {
  uint64_t hash = XXH3_64bits(&key, sizeof key);
  size_t at = hash & (TOPK_REGISTERS - 1);
  uint64_t rest = hash >> REGISTER_BITS | UINT64_C(1) << (64 - REGISTER_BITS);
  uint8_t rank = (uint8_t)(__builtin_ctzll(rest) + 1);
  if (rank > topk->registers[at])
    topk->registers[at] = rank;
}

static struct topk_item *find(struct topk *topk, uint64_t key) {
  for (uint32_t i = 0; i < topk->count; i++)
    if (topk->items[i].key == key)
      return &topk->items[i];
  return NULL;
}

/* The place for a new key: a free one, or that of the smallest, whose count it inherits as its
 * error. */
static struct topk_item *make_place(struct topk *topk) {
  if (topk->count < TOPK_ITEMS) {
    topk->items[topk->count] = (struct topk_item){.count = 0};
    return &topk->items[topk->count++];
  }
  struct topk_item *least = &topk->items[0];
  for (uint32_t i = 1; i < topk->count; i++)
    if (topk->items[i].count < least->count)
      least = &topk->items[i];
  topk->full = true;
  least->error = least->count;
  return least;
}

static void add_item(struct topk *topk, uint64_t key, uint64_t count, uint64_t error) {
  struct topk_item *item = find(topk, key);
  if (item == NULL) {
    item = make_place(topk);
    item->key = key;
  }
  item->count += count;
  item->error += error;
}

void topk_add(struct topk *topk, uint64_t key, uint64_t count) {
  topk->total += count;
  note_distinct(topk, key);
  add_item(topk, key, count, 0);
}

void topk_merge(struct topk *topk, const struct topk *other) {
  for (uint32_t i = 0; i < other->count; i++)
    add_item(topk, other->items[i].key, other->items[i].count, other->items[i].error);
  topk->total += other->total;
  topk->full = topk->full || other->full;
  for (size_t i = 0; i < TOPK_REGISTERS; i++)
    if (other->registers[i] > topk->registers[i])
      topk->registers[i] = other->registers[i];
}

uint64_t topk_distinct(const struct topk *topk) {
  if (!topk->full)
    return topk->count;
  double m = TOPK_REGISTERS, sum = 0;
  unsigned empty = 0;
  for (size_t i = 0; i < TOPK_REGISTERS; i++) {
    sum += ldexp(1.0, -topk->registers[i]);
    empty += topk->registers[i] == 0;
  }
  double estimate = 0.7213 / (1 + 1.079 / m) * m * m / sum;
  if (estimate <= 2.5 * m && empty > 0)
    estimate = m * log(m / empty); /* few: linear counting */
  uint64_t number = (uint64_t)(estimate + 0.5);
  return number > topk->count ? number : topk->count;
}

static int compare(const void *a, const void *b) {
  const struct topk_item *x = a, *y = b;
  if (x->count != y->count)
    return x->count > y->count ? -1 : 1;
  return x->key < y->key ? -1 : x->key > y->key;
}

void topk_sort(struct topk *topk) {
  qsort(topk->items, topk->count, sizeof topk->items[0], compare);
}
