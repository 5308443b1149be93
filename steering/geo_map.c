/* SPDX-License-Identifier: Apache-2.0 */
#include "steering/geo_map.h"

#include <stdlib.h>
#include <string.h>

void geo_map_init(struct geo_map *map, unsigned bits) {
  memset(map, 0, sizeof *map);
  map->bits = bits;
}

void geo_map_close(struct geo_map *map) {
  free(map->values);
  free(map->starts4);
  free(map->starts6);
  geo_map_init(map, map->bits);
}

static bool resize(struct geo_map *map, size_t cap) {
  uint32_t *values = reallocarray(map->values, cap, sizeof *values);
  if (values)
    map->values = values;
  void *starts = map->bits == 32 ? reallocarray(map->starts4, cap, sizeof *map->starts4)
                                 : reallocarray(map->starts6, cap, sizeof *map->starts6);
  if (starts && map->bits == 32)
    map->starts4 = starts;
  if (starts && map->bits != 32)
    map->starts6 = starts;
  if (!values || !starts)
    return false;
  map->cap = cap;
  return true;
}

static u128 start_of(const struct geo_map *map, size_t i) {
  return map->bits == 32 ? map->starts4[i] : map->starts6[i];
}

static u128 end_of(const struct geo_map *map, size_t i) {
  return i + 1 < map->count ? start_of(map, i + 1) - 1 : geo_last(map->bits);
}

bool geo_map_add(struct geo_map *map, u128 start, uint32_t value) {
  if (map->count && start_of(map, map->count - 1) == start)
    map->count--;
  if (map->count && map->values[map->count - 1] == value && value != GEO_MAP_ALIAS)
    return true;
  if (map->count == map->cap && !resize(map, map->cap ? map->cap * 2 : 64))
    return false;
  if (map->bits == 32)
    map->starts4[map->count] = (uint32_t)start;
  else
    map->starts6[map->count] = start;
  map->values[map->count++] = value;
  return true;
}

void geo_map_trim(struct geo_map *map) {
  if (map->count && map->count < map->cap)
    (void)resize(map, map->count);
}

/* An alias is a whole prefix: how far the 32 bits after it are from the right end of the address.
 */
static unsigned alias_shift(const struct geo_map *map, size_t i) {
  u128 size = end_of(map, i) - start_of(map, i); /* a run of ones */
  uint64_t high = (uint64_t)(size >> 64);
  unsigned host_bits =
      (unsigned)__builtin_popcountll(high) + (unsigned)__builtin_popcountll((uint64_t)size);
  return host_bits - 32;
}

uint32_t geo_map_at(const struct geo_map *map, const struct geo_map *map4, u128 address) {
  size_t low = 0, high = map->count; /* the range is in [low, high) */
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (start_of(map, middle) <= address)
      low = middle;
    else
      high = middle;
  }
  if (map->values[low] != GEO_MAP_ALIAS)
    return map->values[low];
  return geo_map_at(map4, NULL, address >> alias_shift(map, low) & UINT32_MAX);
}

static void cursor_load(struct geo_cursor *c) {
  const struct geo_map *map = c->map;
  c->value = map->values[c->i];
  c->end = end_of(map, c->i);
  if (c->value != GEO_MAP_ALIAS)
    return;
  u128 last4 = end_of(c->map4, c->j);
  c->value = c->map4->values[c->j];
  c->end = start_of(map, c->i) + (((last4 + 1) << alias_shift(map, c->i)) - 1);
}

void geo_cursor_init(struct geo_cursor *cursor, const struct geo_map *map,
                     const struct geo_map *map4) {
  *cursor = (struct geo_cursor){.map = map, .map4 = map4};
  cursor_load(cursor);
}

void geo_cursor_next(struct geo_cursor *cursor) {
  bool in_alias = cursor->map->values[cursor->i] == GEO_MAP_ALIAS;
  if (in_alias && cursor->j + 1 < cursor->map4->count) {
    cursor->j++;
  } else {
    cursor->i++;
    cursor->j = 0;
  }
  cursor_load(cursor);
}
