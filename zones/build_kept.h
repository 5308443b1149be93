/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines that the lists of an earlier build (zones/build_lists.h) have for zones that a model
 * keeps, so that the lists of the next one are complete without reading those zones.
 */
#ifndef SLUICE_ZONES_BUILD_KEPT_H
#define SLUICE_ZONES_BUILD_KEPT_H

#include "base/buf.h"
#include "zones/model.h"

struct kept_line {
  const char *text; /* {"...": ..., "zone": "NAME"}, without what separates it from the next */
  size_t len;
  const char *zone; /* NAME, escaped as in JSON */
  size_t zone_len;
};

struct kept_lines {
  struct kept_line *items; /* in the order of the list; they lead into it */
  size_t count;
};

/* Finds them in a list; false without memory.  Lines that do not look like one of a domain are left
 * out (first and last lines of a list are such). */
bool kept_lines_find(struct kept_lines *lines, const struct model *model, const struct buf *list);
void kept_lines_free(struct kept_lines *lines);

/* What stands between the quotes for a zone; `out` gets `size` octets.  "" if it does not fit. */
const char *kept_zone_name(const uint8_t *apex, char *out, size_t size);

bool kept_line_is_of(const struct kept_line *line, const char *zone);

#endif
