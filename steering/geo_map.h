/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the address that are constant on ranges: where an address is, which AS announces it,
 * which net atom covers it.  Not for use outside of steering/.
 *
 * A map holds the starts of its ranges in order, the first at 0, and a value for each; neighbours
 * with equal values are one range.  In an IPv6 map a range may be an alias: a prefix inside which
 * the IPv4 map decides, by the 32 bits after the prefix (::/96, 6to4, Teredo, as location files
 * have it).
 */
#ifndef SLUICE_STEERING_GEO_MAP_H
#define SLUICE_STEERING_GEO_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef unsigned __int128 u128;

#define GEO_MAP_ALIAS UINT32_MAX

struct geo_map {
  unsigned bits; /* of an address: 32 or 128 */
  size_t count;  /* at least 1 once the map is complete */
  size_t cap;
  uint32_t *values;
  uint32_t *starts4; /* in a map of 32 bits */
  u128 *starts6;     /* in a map of 128 bits */
};

void geo_map_init(struct geo_map *map, unsigned bits);
void geo_map_close(struct geo_map *map);

/* Appends the range that starts at `start`, which must not be below the last one's; a range that
 * starts where the last one does replaces it.  False without memory. */
bool geo_map_add(struct geo_map *map, u128 start, uint32_t value);

/* Gives back memory that was reserved for growing. */
void geo_map_trim(struct geo_map *map);

/* The value at an address; `map4` answers for aliases. */
uint32_t geo_map_at(const struct geo_map *map, const struct geo_map *map4, u128 address);

/* The last address of `bits` bits. */
static inline u128 geo_last(unsigned bits) {
  return bits == 128 ? ~(u128)0 : ((u128)1 << bits) - 1;
}

/* Walks the ranges in order, aliases resolved. */
struct geo_cursor {
  const struct geo_map *map;
  const struct geo_map *map4;
  size_t i; /* the range of `map` */
  size_t j; /* inside an alias: the range of `map4` */
  u128 end; /* last address of the current range */
  uint32_t value;
};

void geo_cursor_init(struct geo_cursor *cursor, const struct geo_map *map,
                     const struct geo_map *map4);
void geo_cursor_next(struct geo_cursor *cursor); /* not past the last range */

#endif
