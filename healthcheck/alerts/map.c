/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/alerts/map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct map_entry {
  const char *key; /* NULL: taken out, or never used (then hash is 0) */
  uint64_t hash;
  void *value;
};

enum { ROOM_LEAST = 64 };

static uint64_t hash_of(const char *key) {
  uint64_t hash = XXH3_64bits(key, strlen(key));
  return hash != 0 ? hash : 1;
}

void map_close(struct map *map) {
  free(map->entries);
  *map = (struct map){0};
}

/* The entry of the key, or NULL. */
static struct map_entry *find(const struct map *map, const char *key, uint64_t hash) {
  if (map->room == 0)
    return NULL;
  for (size_t i = hash & (map->room - 1);; i = (i + 1) & (map->room - 1)) {
    struct map_entry *entry = &map->entries[i];
    if (entry->hash == 0)
      return NULL;
    if (entry->hash == hash && entry->key != NULL && strcmp(entry->key, key) == 0)
      return entry;
  }
}

static void insert(struct map *map, const char *key, uint64_t hash, void *value) {
  size_t i = hash & (map->room - 1);
  while (map->entries[i].hash != 0)
    i = (i + 1) & (map->room - 1);
  map->entries[i] = (struct map_entry){key, hash, value};
  map->used++;
  map->count++;
}

/* Makes the table anew, at most half full. */
static bool grow(struct map *map) {
  struct map bigger = {.room = ROOM_LEAST};
  while (bigger.room < (map->count + 1) * 4)
    bigger.room *= 2;
  bigger.entries = calloc(bigger.room, sizeof *bigger.entries);
  if (bigger.entries == NULL)
    return false;
  for (size_t i = 0; i < map->room; i++)
    if (map->entries[i].key != NULL)
      insert(&bigger, map->entries[i].key, map->entries[i].hash, map->entries[i].value);
  free(map->entries);
  *map = bigger;
  return true;
}

void *map_get(const struct map *map, const char *key) {
  const struct map_entry *entry = find(map, key, hash_of(key));
  return entry != NULL ? entry->value : NULL;
}

bool map_put(struct map *map, const char *key, void *value) {
  uint64_t hash = hash_of(key);
  struct map_entry *entry = find(map, key, hash);
  if (entry != NULL) {
    *entry = (struct map_entry){key, hash, value};
    return true;
  }
  if ((map->used + 1) * 4 > map->room * 3 && !grow(map))
    return false;
  insert(map, key, hash, value);
  return true;
}

void map_remove(struct map *map, const char *key) {
  struct map_entry *entry = find(map, key, hash_of(key));
  if (entry == NULL)
    return;
  entry->key = NULL; /* the hash stays: others may lie behind it */
  entry->value = NULL;
  map->count--;
}

void *map_next(const struct map *map, size_t *at) {
  while (*at < map->room) {
    const struct map_entry *entry = &map->entries[(*at)++];
    if (entry->key != NULL)
      return entry->value;
  }
  return NULL;
}
