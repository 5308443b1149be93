/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a view that outlive it: images, location data and location tables, each counted by the
 * views that use it.  References are taken by the loading thread and dropped by the thread that
 * frees an old view, so the counts are atomic; the parts themselves are immutable.
 */
#ifndef SLUICE_SERVER_SHARED_H
#define SLUICE_SERVER_SHARED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "steering/geo.h"
#include "zones/image.h"

/* Tells whether a file is still the one that was read. */
struct shared_file {
  dev_t device;
  ino_t inode;
  off_t size;
  struct timespec modified;
};

/* False with errno set. */
bool shared_file_look(const char *path, struct shared_file *file);
bool shared_file_equal(const struct shared_file *a, const struct shared_file *b);

struct load_image {
  struct image image;
  struct shared_file file;
  uint8_t *memory; /* NULL, or the bytes of an image that is in no file; freed with it */
  atomic_uint references;
};

/* A new image with one reference, or NULL with a reason in `why` (512 octets). */
struct load_image *shared_image_open(const char *path, char *why);
void shared_image_take(struct load_image *image);
void shared_image_drop(struct load_image *image);

struct load_geo {
  struct geo_db *db;
  char *geo_path; /* or NULL */
  char *asn_path; /* or NULL */
  struct shared_file geo_file;
  struct shared_file asn_file;
  atomic_uint references;
};

/* Loads the files; NULL with a reason. */
struct load_geo *shared_geo_open(const char *geo_path, const char *asn_path, char *why);
bool shared_geo_is_current(const struct load_geo *geo, const char *geo_path, const char *asn_path);
void shared_geo_take(struct load_geo *geo);
void shared_geo_drop(struct load_geo *geo);

/*
 * The location tables of one view, found by the regions of a domain.  A set borrows the domains it
 * was filled for: they must live as long as it (they are in the images of the same view).
 */
struct load_tables;

struct load_tables *shared_tables_new(void);
void shared_tables_free(struct load_tables *tables);

/*
 * The table for a domain: of this set, else taken over from `previous` (NULL, or a set made with
 * the same location data), else built.  NULL without memory.
 */
const struct geo_table *shared_tables_get(struct load_tables *tables,
                                          const struct load_tables *previous,
                                          const struct geo_db *db,
                                          const struct steer_domain *domain);

#endif
