/* SPDX-License-Identifier: Apache-2.0 */
#include "server/view.h"

#include <stdlib.h>
#include <string.h>

bool view_index(struct view *view) {
  uint32_t size = 8;
  while (size < view->zone_count * 2)
    size *= 2;
  view->slots = calloc(size, sizeof *view->slots);
  view->zone_hashes = calloc(view->zone_count ? view->zone_count : 1, sizeof *view->zone_hashes);
  view->slot_mask = size - 1;
  view->max_apex_labels = 0;
  view->min_apex_labels = NAME_MAX_LABELS;
  if (!view->slots || !view->zone_hashes)
    goto fail;
  for (uint32_t z = 0; z < view->zone_count; z++) {
    const struct image_header *h = view->zones[z].image->header;
    uint64_t hash = name_hash(h->apex);
    view->zone_hashes[z] = hash;
    uint32_t i = (uint32_t)hash & view->slot_mask;
    for (; view->slots[i] != 0; i = (i + 1) & view->slot_mask) {
      const struct image_header *other = view->zones[view->slots[i] - 1].image->header;
      if (name_equal(other->apex, h->apex))
        goto fail;
    }
    view->slots[i] = z + 1;
    if (h->apex_labels > view->max_apex_labels)
      view->max_apex_labels = h->apex_labels;
    if (h->apex_labels < view->min_apex_labels)
      view->min_apex_labels = h->apex_labels;
  }
  return true;
fail:
  view_unindex(view);
  return false;
}

void view_unindex(struct view *view) {
  free(view->slots);
  free(view->zone_hashes);
  view->slots = NULL;
  view->zone_hashes = NULL;
}
