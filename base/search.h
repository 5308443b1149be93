/* SPDX-License-Identifier: Apache-2.0 */
/* Where something is, or would be, in a sorted list: what bsearch(3) leaves out. */
#ifndef SLUICE_BASE_SEARCH_H
#define SLUICE_BASE_SEARCH_H

#include <stddef.h>

/* Index of the first of the `count` elements of `size` octets that is not before the key; `count`
 * if all are.  `compare` is called as bsearch(3) does: the key first, then an element. */
static inline size_t search_first(const void *key, const void *base, size_t count, size_t size,
                                  int (*compare)(const void *key, const void *element)) {
  size_t low = 0;
  size_t high = count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (compare(key, (const char *)base + middle * size) > 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

#endif
