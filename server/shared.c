/* SPDX-License-Identifier: Apache-2.0 */
#include "server/shared.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool shared_file_look(const char *path, struct shared_file *file) {
  struct stat st;
  if (stat(path, &st) != 0)
    return false;
  *file = (struct shared_file){
      .device = st.st_dev, .inode = st.st_ino, .size = st.st_size, .modified = st.st_mtim};
  return true;
}

bool shared_file_equal(const struct shared_file *a, const struct shared_file *b) {
  return a->device == b->device && a->inode == b->inode && a->size == b->size &&
         a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec;
}

/* True for the one that dropped the last reference. */
static bool drop(atomic_uint *references) {
  return atomic_fetch_sub_explicit(references, 1, memory_order_acq_rel) == 1;
}

/* ---- images -----------------------------------------------------------------------------------
 */

struct load_image *shared_image_open(const char *path, char *why) {
  struct load_image *image = calloc(1, sizeof *image);
  if (image == NULL) {
    snprintf(why, 512, "out of memory");
    return NULL;
  }
  if (!shared_file_look(path, &image->file)) {
    snprintf(why, 512, "cannot open %.400s: %s", path, strerror(errno));
    free(image);
    return NULL;
  }
  if (!image_open(&image->image, path, why)) {
    free(image);
    return NULL;
  }
  atomic_init(&image->references, 1);
  return image;
}

void shared_image_take(struct load_image *image) {
  atomic_fetch_add_explicit(&image->references, 1, memory_order_relaxed);
}

void shared_image_drop(struct load_image *image) {
  if (image == NULL || !drop(&image->references))
    return;
  image_close(&image->image);
  free(image->memory);
  free(image);
}

/* ---- location data ----------------------------------------------------------------------------
 */

static bool copy_path(char **copy, const char *path, struct shared_file *file, char *why) {
  if (path == NULL)
    return true;
  if (!shared_file_look(path, file)) {
    snprintf(why, 512, "cannot read %.400s: %s", path, strerror(errno));
    return false;
  }
  *copy = strdup(path);
  if (*copy == NULL)
    snprintf(why, 512, "out of memory");
  return *copy != NULL;
}

static void geo_free(struct load_geo *geo) {
  geo_db_free(geo->db);
  free(geo->geo_path);
  free(geo->asn_path);
  free(geo);
}

struct load_geo *shared_geo_open(const char *geo_path, const char *asn_path, char *why) {
  struct load_geo *geo = calloc(1, sizeof *geo);
  if (geo == NULL) {
    snprintf(why, 512, "out of memory");
    return NULL;
  }
  atomic_init(&geo->references, 1);
  if (copy_path(&geo->geo_path, geo_path, &geo->geo_file, why) &&
      copy_path(&geo->asn_path, asn_path, &geo->asn_file, why) &&
      geo_db_load(geo_path, asn_path, &geo->db, why))
    return geo;
  geo_free(geo);
  return NULL;
}

static bool is_same_file(const char *path, const char *loaded, const struct shared_file *file) {
  if (path == NULL || loaded == NULL)
    return path == loaded;
  struct shared_file now;
  return strcmp(path, loaded) == 0 && shared_file_look(path, &now) && shared_file_equal(&now, file);
}

bool shared_geo_is_current(const struct load_geo *geo, const char *geo_path, const char *asn_path) {
  return is_same_file(geo_path, geo->geo_path, &geo->geo_file) &&
         is_same_file(asn_path, geo->asn_path, &geo->asn_file);
}

void shared_geo_take(struct load_geo *geo) {
  atomic_fetch_add_explicit(&geo->references, 1, memory_order_relaxed);
}

void shared_geo_drop(struct load_geo *geo) {
  if (geo != NULL && drop(&geo->references))
    geo_free(geo);
}

/* ---- location tables --------------------------------------------------------------------------
 */

struct shared_table {
  struct geo_table *table;
  atomic_uint references;
};

struct table_slot {
  uint64_t hash;
  const struct steer_domain *like; /* a domain that the table is for; NULL: empty slot */
  struct shared_table *shared;
};

struct load_tables {
  struct table_slot *slots;
  size_t count;
  size_t capacity; /* a power of two, more than count */
};

struct load_tables *shared_tables_new(void) {
  struct load_tables *tables = calloc(1, sizeof *tables);
  if (tables == NULL)
    return NULL;
  tables->capacity = 16;
  tables->slots = calloc(tables->capacity, sizeof *tables->slots);
  if (tables->slots != NULL)
    return tables;
  free(tables);
  return NULL;
}

static void table_drop(struct shared_table *shared) {
  if (!drop(&shared->references))
    return;
  geo_table_free(shared->table);
  free(shared);
}

void shared_tables_free(struct load_tables *tables) {
  if (tables == NULL)
    return;
  for (size_t i = 0; i < tables->capacity; i++)
    if (tables->slots[i].like != NULL)
      table_drop(tables->slots[i].shared);
  free(tables->slots);
  free(tables);
}

/* The slot of an equal key, or the empty one where it belongs. */
static struct table_slot *find_slot(const struct load_tables *tables, uint64_t hash,
                                    const struct steer_domain *domain) {
  size_t i = (size_t)hash & (tables->capacity - 1);
  for (;; i = (i + 1) & (tables->capacity - 1)) {
    struct table_slot *slot = &tables->slots[i];
    if (slot->like == NULL || (slot->hash == hash && geo_table_same_key(slot->like, domain)))
      return slot;
  }
}

static bool grow(struct load_tables *tables) {
  if ((tables->count + 1) * 2 <= tables->capacity)
    return true;
  struct load_tables bigger = {.capacity = tables->capacity * 2};
  bigger.slots = calloc(bigger.capacity, sizeof *bigger.slots);
  if (bigger.slots == NULL)
    return false;
  for (size_t i = 0; i < tables->capacity; i++)
    if (tables->slots[i].like != NULL)
      *find_slot(&bigger, tables->slots[i].hash, tables->slots[i].like) = tables->slots[i];
  free(tables->slots);
  tables->slots = bigger.slots;
  tables->capacity = bigger.capacity;
  return true;
}

static struct shared_table *table_new(const struct geo_db *db, const struct steer_domain *domain) {
  struct shared_table *shared = calloc(1, sizeof *shared);
  if (shared == NULL)
    return NULL;
  atomic_init(&shared->references, 1);
  shared->table = geo_table_build(db, domain);
  if (shared->table != NULL)
    return shared;
  free(shared);
  return NULL;
}

const struct geo_table *shared_tables_get(struct load_tables *tables,
                                          const struct load_tables *previous,
                                          const struct geo_db *db,
                                          const struct steer_domain *domain) {
  if (!grow(tables))
    return NULL;
  uint64_t hash = geo_table_key_hash(domain);
  struct table_slot *slot = find_slot(tables, hash, domain);
  if (slot->like != NULL)
    return slot->shared->table;
  struct table_slot *old = previous != NULL ? find_slot(previous, hash, domain) : NULL;
  struct shared_table *shared;
  if (old != NULL && old->like != NULL) {
    shared = old->shared;
    atomic_fetch_add_explicit(&shared->references, 1, memory_order_relaxed);
  } else {
    shared = table_new(db, domain);
  }
  if (shared == NULL)
    return NULL;
  *slot = (struct table_slot){.hash = hash, .like = domain, .shared = shared};
  tables->count++;
  return shared->table;
}
