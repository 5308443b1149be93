/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Master files (RFC 1035 section 5, RFC 2308 section 4, RFC 3597): into a list of records.
 */
#ifndef SLUICE_ZONES_ZONEFILE_H
#define SLUICE_ZONES_ZONEFILE_H

#include "zones/model.h"
#include "zones/rr_list.h"

enum {
  ZONEFILE_MAX_BYTES = 1 << 30,
  ZONEFILE_MAX_DEPTH = 8, /* of $INCLUDE */
  ZONEFILE_MAX_INCLUDES = 1000,
  ZONEFILE_MAX_ERRORS = 100, /* of one zone; then reading stops */
};

struct zonefile {
  struct config_source *source; /* where the files come from; nothing outside of it is read */
  const char *root; /* absolute paths in $INCLUDE that start with it are allowed; or NULL */
  const uint8_t *apex;
  struct rr_list *list;
  struct diag_list *problems;
  bool utf8; /* refuse files that are not UTF-8 */
};

/*
 * Reads `path` (relative to the source's root) and what it includes.  False if an error was
 * reported.
 */
bool zonefile_read(const struct zonefile *zone, const char *path);

/* The same with the text of the first file at hand. */
bool zonefile_read_text(const struct zonefile *zone, const char *path, const char *data,
                        size_t len);

/*
 * Resolves `path` as written in a file that stands in the folder of `from` (both relative to the
 * root), into `out` (`size` bytes).  False if it leaves the root, is absolute, empty or too long.
 */
bool zonefile_resolve(const char *from, const char *path, char *out, size_t size);

#endif
