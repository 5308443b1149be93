/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads DATA/current/manifest.json (layout: zones/build.h) without trust in it.
 */
#ifndef SLUICE_SERVER_MANIFEST_H
#define SLUICE_SERVER_MANIFEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct manifest_zone {
  char *apex; /* presentation form */
  uint32_t serial;
  int64_t names;    /* owner names, for status */
  char *image;      /* path of the image file */
  char *records;    /* path of the records file, or NULL: the build has none */
  json_t *transfer; /* the zone's `transfer:`, or NULL */
};

struct manifest {
  char *build_id;
  char *commit; /* or NULL */
  int64_t commit_time;
  char *default_zone; /* as the configuration spells it, or NULL */
  struct manifest_zone *zones;
  size_t zone_count;
};

/* Reads the build that DATA/current points to now.  False with a one-line reason in `why` (512
 * octets).  manifest_close() frees the contents, also after a failure. */
bool manifest_read(struct manifest *manifest, const char *data_dir, char *why);
void manifest_close(struct manifest *manifest);

#endif
