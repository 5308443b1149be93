/* SPDX-License-Identifier: Apache-2.0 */
/* A table of pointers by text.  Keys are the caller's and must live as long as their entry. */
#ifndef SLUICE_HEALTHCHECK_ALERTS_MAP_H
#define SLUICE_HEALTHCHECK_ALERTS_MAP_H

#include <stdbool.h>
#include <stddef.h>

struct map_entry;

struct map {
  struct map_entry *entries; /* open addressing */
  size_t room;               /* a power of two, or 0 */
  size_t used;               /* with those that were taken out */
  size_t count;
};

void map_close(struct map *map);
void *map_get(const struct map *map, const char *key);

/* Adds or replaces; false without memory.  `value` is not NULL. */
bool map_put(struct map *map, const char *key, void *value);
void map_remove(struct map *map, const char *key);

/* All values, in no particular order: start with *at = 0; NULL at the end.  The one that was just
 * given may be removed meanwhile, nothing be put. */
void *map_next(const struct map *map, size_t *at);

#endif
