/* SPDX-License-Identifier: Apache-2.0 */
/* Layer 3: the best level that is still present. */
#include "steering/layers.h"

uint16_t priority_filter(struct layer_entry *entries, size_t count) {
  uint16_t best = UINT16_MAX;
  for (size_t i = 0; i < count; i++)
    if (entries[i].present && entries[i].level < best)
      best = entries[i].level;
  for (size_t i = 0; i < count; i++)
    if (entries[i].level != best)
      entries[i].present = false;
  return best;
}
