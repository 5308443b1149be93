/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The largest of many, in bounded memory: the Space-Saving algorithm (Metwally, Agrawal, El Abbadi:
 * "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005), and how many
 * different ones there were (HyperLogLog, Flajolet et al., 2007).
 *
 * While there are at most TOPK_ITEMS different ones, everything is exact.  Pure; one thread.
 */
#ifndef SLUICE_SERVER_TOPK_H
#define SLUICE_SERVER_TOPK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOPK_ITEMS = 24, TOPK_REGISTERS = 128 /* the number is good to about 9 % */ };

struct topk_item {
  uint64_t key;
  uint64_t count; /* at most `error` too large */
  uint64_t error;
};

struct topk {
  uint64_t total;
  uint32_t count;                     /* of items */
  bool full;                          /* there were more than the items */
  struct topk_item items[TOPK_ITEMS]; /* in no order */
  uint8_t registers[TOPK_REGISTERS];
};

void topk_add(struct topk *topk, uint64_t key, uint64_t count);

/* Adds all that `other` has seen. */
void topk_merge(struct topk *topk, const struct topk *other);

/* How many different keys there were. */
uint64_t topk_distinct(const struct topk *topk);

/* Puts the items in order, largest first. */
void topk_sort(struct topk *topk);

#endif
