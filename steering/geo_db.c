/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading: a file's tree is walked once and becomes sorted ranges; then the file is closed.
 *
 * The trees of real files reach the node of the IPv4 tree (:: and 96 zero bits down) by other ways
 * too: ::ffff:0:0/96, 6to4, Teredo.  These are kept as aliases, not walked again.  What else leads
 * twice to one node is walked again, within a number of steps that the size of the tree bounds.
 */
#include "steering/geo_db.h"

#include <maxminddb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steering/geo_record.h"
#include "steering/mmdb_file.h"

static const char WHY_TREE[] = "its search tree is damaged";
static const char WHY_LOOP[] = "its search tree has loops";
static const char WHY_DATA[] = "a record is damaged";
static const char WHY_MEMORY[] = "out of memory";

/* An open-addressed table from a number that is not 0 to another. */
struct slot {
  uint32_t key; /* 0: free */
  uint32_t value;
};
struct slots {
  struct slot *items;
  size_t size; /* a power of two */
  size_t used;
};

struct loader {
  MMDB_s *mmdb;
  struct geo_db *db;
  bool is_asn;
  struct mmdb_data data;
  struct slots by_offset; /* decoded records */
  struct slots by_place;  /* hash of a location -> index */
  uint32_t location_cap;
  bool known; /* some record had a field of a schema */

  struct geo_map *map; /* of the walk */
  uint32_t root4;      /* node of the IPv4 tree inside an IPv6 tree, or UINT32_MAX */
  uint64_t steps;      /* nodes that may still be visited */
  const char *why;     /* what failed */
};

static uint32_t spread(uint32_t key) {
  uint64_t wide = key * UINT64_C(0x9e3779b97f4a7c15);
  return (uint32_t)(wide >> 32);
}

/* The slot of a key, or the free one where it belongs. */
static struct slot *slots_find(const struct slots *s, uint32_t key) {
  size_t i = spread(key) & (s->size - 1);
  while (s->items[i].key && s->items[i].key != key)
    i = (i + 1) & (s->size - 1);
  return &s->items[i];
}

/* Makes room for one more. */
static bool slots_reserve(struct slots *s) {
  if (s->size && s->used < s->size / 2)
    return true;
  struct slots wide = {.size = s->size ? s->size * 2 : 256, .used = s->used};
  wide.items = calloc(wide.size, sizeof *wide.items);
  if (!wide.items)
    return false;
  for (size_t i = 0; i < s->size; i++)
    if (s->items[i].key)
      *slots_find(&wide, s->items[i].key) = s->items[i];
  free(s->items);
  *s = wide;
  return true;
}

static void slots_put(struct slots *s, struct slot *at, uint32_t key, uint32_t value) {
  *at = (struct slot){key, value};
  s->used++;
}

static uint32_t location_key(const struct geo_location *location) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  const uint8_t *bytes = (const uint8_t *)location;
  for (size_t i = 0; i < sizeof *location; i++)
    hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
  return (uint32_t)(hash ^ hash >> 32);
}

static bool append_location(struct loader *l, const struct geo_location *location) {
  struct geo_db *db = l->db;
  if (db->location_count == l->location_cap) {
    uint32_t cap = l->location_cap ? l->location_cap * 2 : 64;
    struct geo_location *wide = reallocarray(db->locations, cap, sizeof *wide);
    if (!wide)
      return false;
    db->locations = wide;
    l->location_cap = cap;
  }
  db->locations[db->location_count++] = *location;
  return true;
}

/* Index of the location, added if it is new. */
static bool intern_location(struct loader *l, const struct geo_location *location,
                            uint32_t *index) {
  if (!slots_reserve(&l->by_place))
    return false;
  uint32_t key = location_key(location);
  for (;; key++) { /* two locations of one hash take keys in a row */
    key = key ? key : 1;
    struct slot *at = slots_find(&l->by_place, key);
    if (!at->key) {
      *index = l->db->location_count;
      slots_put(&l->by_place, at, key, *index);
      return append_location(l, location);
    }
    *index = at->value;
    if (memcmp(&l->db->locations[*index], location, sizeof *location) == 0)
      return true;
  }
}

static bool decode(struct loader *l, size_t offset, uint32_t *value) {
  l->why = WHY_DATA;
  if (l->is_asn)
    return geo_record_asn(&l->data, offset, value, &l->known);
  struct geo_location location;
  if (!geo_record_place(&l->data, offset, &location, &l->known))
    return false;
  l->why = WHY_MEMORY;
  return intern_location(l, &location, value);
}

/* The value of the record at a data offset, each decoded once. */
static bool record_value(struct loader *l, uint32_t offset, uint32_t *value) {
  if (offset == UINT32_MAX) { /* a record that points before the data section */
    l->why = WHY_TREE;
    return false;
  }
  if (!slots_reserve(&l->by_offset)) {
    l->why = WHY_MEMORY;
    return false;
  }
  struct slot *at = slots_find(&l->by_offset, offset + 1);
  if (at->key) {
    *value = at->value;
    return true;
  }
  if (!decode(l, offset, value))
    return false;
  slots_put(&l->by_offset, at, offset + 1, *value);
  return true;
}

static bool add(struct loader *l, u128 start, uint32_t value) {
  if (geo_map_add(l->map, start, value))
    return true;
  l->why = WHY_MEMORY;
  return false;
}

static bool walk_node(struct loader *l, uint32_t node, unsigned depth, u128 prefix);

/* What one side of a node says about the prefix of `depth` bits at `start`. */
static bool walk_record(struct loader *l, uint8_t type, uint64_t record, uint32_t offset,
                        unsigned depth, u128 start) {
  static const u128 mapped = (u128)0xffff << 32;
  uint32_t value;
  switch (type) {
  case MMDB_RECORD_TYPE_SEARCH_NODE:
    if (record != l->root4 || depth > 96)
      return walk_node(l, (uint32_t)record, depth, start);
    /* Mapped addresses are never looked up as IPv6. */
    return add(l, start, start == mapped && depth == 96 ? 0 : GEO_MAP_ALIAS);
  case MMDB_RECORD_TYPE_EMPTY:
    return add(l, start, 0);
  case MMDB_RECORD_TYPE_DATA:
    return record_value(l, offset, &value) && add(l, start, value);
  default:
    l->why = WHY_TREE;
    return false;
  }
}

static bool walk_node(struct loader *l, uint32_t node, unsigned depth, u128 prefix) {
  MMDB_search_node_s n;
  l->why = WHY_LOOP;
  if (depth >= l->map->bits || l->steps == 0)
    return false;
  l->steps--;
  if (MMDB_read_node(l->mmdb, node, &n) != MMDB_SUCCESS) {
    l->why = WHY_TREE;
    return false;
  }
  u128 right = prefix | (u128)1 << (l->map->bits - 1 - depth);
  return walk_record(l, n.left_record_type, n.left_record, n.left_record_entry.offset, depth + 1,
                     prefix) &&
         walk_record(l, n.right_record_type, n.right_record, n.right_record_entry.offset, depth + 1,
                     right);
}

/* Walks an IPv6 tree: first down the zeros to the IPv4 tree, then each. */
static bool walk_tree6(struct loader *l, struct geo_map *map4, struct geo_map *map6) {
  MMDB_search_node_s n = {.left_record = 0, .left_record_type = MMDB_RECORD_TYPE_SEARCH_NODE};
  for (unsigned depth = 0; depth < 96; depth++) {
    if (n.left_record_type != MMDB_RECORD_TYPE_SEARCH_NODE)
      break;
    if (MMDB_read_node(l->mmdb, (uint32_t)n.left_record, &n) != MMDB_SUCCESS) {
      l->why = WHY_TREE;
      return false;
    }
  }
  l->map = map4;
  l->root4 = UINT32_MAX;
  if (!walk_record(l, n.left_record_type, n.left_record, n.left_record_entry.offset, 0, 0))
    return false;
  l->map = map6;
  if (n.left_record_type == MMDB_RECORD_TYPE_SEARCH_NODE)
    l->root4 = (uint32_t)n.left_record;
  return walk_node(l, 0, 0, 0);
}

static bool walk_tree(struct loader *l, struct geo_map *map4, struct geo_map *map6) {
  l->steps = (uint64_t)l->mmdb->metadata.node_count * 4 + 65536;
  l->data = (struct mmdb_data){
      .bytes = l->mmdb->data_section,
      .size = l->mmdb->data_section_size,
      .budget = (uint64_t)l->mmdb->data_section_size * 32 + 65536,
  };
  bool ok;
  if (l->mmdb->metadata.node_count == 0) {
    l->why = WHY_TREE;
    return false;
  }
  if (l->mmdb->metadata.ip_version == 6) {
    ok = walk_tree6(l, map4, map6);
  } else {
    l->map = map4;
    l->root4 = UINT32_MAX;
    ok = walk_node(l, 0, 0, 0);
  }
  if (ok && !l->known) {
    l->why = l->is_asn ? "it has no AS numbers (autonomous_system_number or asn)"
                       : "it has neither country.iso_code (GeoIP2 schema) nor country_code (flat "
                         "schema)";
    ok = false;
  }
  return ok;
}

static bool load_opened(struct geo_db *db, MMDB_s *mmdb, bool is_asn, const char *name, char *why) {
  struct loader l = {.mmdb = mmdb, .db = db, .is_asn = is_asn};
  l.location_cap = db->location_count;
  struct geo_map *map4 = is_asn ? &db->asn4 : &db->place4;
  struct geo_map *map6 = is_asn ? &db->asn6 : &db->place6;
  bool ok = walk_tree(&l, map4, map6);
  if (!ok)
    snprintf(why, MMDB_WHY, "%s: %s", name, l.why);
  geo_map_trim(map4);
  geo_map_trim(map6);
  free(l.by_offset.items);
  free(l.by_place.items);
  if (!is_asn) {
    db->build_epoch = mmdb->metadata.build_epoch;
    db->has_ipv6 = mmdb->metadata.ip_version == 6;
  }
  MMDB_close(mmdb);
  return ok;
}

static struct geo_db *db_new(void) {
  struct geo_db *db = calloc(1, sizeof *db);
  if (!db)
    return NULL;
  geo_map_init(&db->place4, 32);
  geo_map_init(&db->place6, 128);
  geo_map_init(&db->asn4, 32);
  geo_map_init(&db->asn6, 128);
  db->locations = calloc(1, sizeof *db->locations);
  db->location_count = 1;
  if (db->locations)
    return db;
  free(db);
  return NULL;
}

/* Gives the maps that no file filled their one range: nothing is known anywhere. */
static bool db_complete(struct geo_db *db) {
  struct geo_map *maps[] = {&db->place4, &db->place6, &db->asn4, &db->asn6};
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
    if (maps[i]->count == 0 && !geo_map_add(maps[i], 0, 0))
      return false;
  return true;
}

/* One file on its way in: a path or bytes; neither: there is none. */
struct source {
  const char *path;
  const void *bytes;
  size_t len;
};

static bool load_source(struct geo_db *db, struct source source, bool is_asn, char *why) {
  MMDB_s mmdb;
  const char *name = source.path ? source.path : "database in memory";
  if (!source.path && !source.bytes)
    return true;
  bool ok = source.path ? mmdb_file_open(source.path, &mmdb, why)
                        : mmdb_file_open_memory(source.bytes, source.len, &mmdb, why);
  return ok && load_opened(db, &mmdb, is_asn, name, why);
}

static bool load(struct source geo, struct source asn, struct geo_db **out, char *why) {
  *out = NULL;
  struct geo_db *db = db_new();
  if (!db) {
    snprintf(why, MMDB_WHY, "%s", WHY_MEMORY);
    return false;
  }
  if (!load_source(db, geo, false, why) || !load_source(db, asn, true, why)) {
    geo_db_free(db);
    return false;
  }
  if (!db_complete(db)) {
    snprintf(why, MMDB_WHY, "%s", WHY_MEMORY);
    geo_db_free(db);
    return false;
  }
  *out = db;
  return true;
}

bool geo_db_load(const char *geo_path, const char *asn_path, struct geo_db **db, char *why) {
  return load((struct source){.path = geo_path}, (struct source){.path = asn_path}, db, why);
}

bool geo_db_load_memory(const void *geo, size_t geo_len, const void *asn, size_t asn_len,
                        struct geo_db **db, char *why) {
  return load((struct source){.bytes = geo, .len = geo_len},
              (struct source){.bytes = asn, .len = asn_len}, db, why);
}

void geo_db_free(struct geo_db *db) {
  if (!db)
    return;
  geo_map_close(&db->place4);
  geo_map_close(&db->place6);
  geo_map_close(&db->asn4);
  geo_map_close(&db->asn6);
  free(db->locations);
  free(db);
}

uint64_t geo_db_build_epoch(const struct geo_db *db) {
  return db->build_epoch;
}

bool geo_db_has_ipv6(const struct geo_db *db) {
  return db->has_ipv6;
}

void geo_address_set4(struct geo_address *a, const uint8_t octets[4]) {
  *a = (struct geo_address){.family = 4};
  memcpy(a->octets, octets, 4);
}

void geo_address_set6(struct geo_address *a, const uint8_t octets[16]) {
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
  if (memcmp(octets, mapped, sizeof mapped) == 0) {
    geo_address_set4(a, octets + 12);
    a->mapped = true;
    return;
  }
  *a = (struct geo_address){.family = 6};
  memcpy(a->octets, octets, 16);
}

u128 geo_address_number(const struct geo_address *address) {
  u128 number = 0;
  for (unsigned i = 0; i < (address->family == 4 ? 4U : 16U); i++)
    number = number << 8 | address->octets[i];
  return number;
}

void geo_db_locate(const struct geo_db *db, const struct geo_address *address,
                   struct geo_location *location) {
  memset(location, 0, sizeof *location);
  if (!db)
    return;
  bool is4 = address->family == 4;
  u128 number = geo_address_number(address);
  *location = db->locations[geo_map_at(is4 ? &db->place4 : &db->place6, &db->place4, number)];
  location->asn = geo_map_at(is4 ? &db->asn4 : &db->asn6, &db->asn4, number);
}
