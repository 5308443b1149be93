/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept of a secondary zone over restarts, in STATE/secondary:
 *
 *   <apex>image     what is served (zones/image.h)
 *   <apex>records   its records (zones/records.h), which IXFR applies to
 *   <apex>json      the SOA's numbers and when a primary last confirmed them
 *
 * Each file is written whole or not at all, in the order records, image, JSON; a crash in between
 * is found out by the serials.  Paths are immutable, so the functions may run in any thread, but
 * for one zone only in one at a time.
 */
#ifndef SLUICE_SERVER_SECONDARY_STORE_H
#define SLUICE_SERVER_SECONDARY_STORE_H

#include "server/secondary_model.h"

enum { SECONDARY_STORE_WHY = 512 };

struct secondary_files {
  char *image;
  char *records;
  char *info;
};

struct secondary_info {
  struct transfer_soa soa;
  int64_t refreshed; /* Unix seconds */
  int64_t names;
};

/* Makes STATE/secondary; false with a one-line reason in `why` (SECONDARY_STORE_WHY octets). */
bool secondary_store_open(const char *state, char *why);

/* Paths of the zone's files; false without memory. */
bool secondary_files_init(struct secondary_files *files, const char *state, const uint8_t *apex);
void secondary_files_close(struct secondary_files *files);

/*
 * Tells what is there.  False if nothing is, or nothing that can be used: then `why` says so, or is
 * empty.  The image itself is checked by who maps it.
 */
bool secondary_files_look(const struct secondary_files *files, struct secondary_info *info,
                          char *why);

/* Compiles and writes a zone; *info gets all but `refreshed`, which the caller sets.  False with a
 * reason, and then the old image is still in place. */
bool secondary_files_save(const struct secondary_files *files, const struct secondary_model *model,
                          struct secondary_info *info, char *why);

/* Writes the JSON file alone. */
bool secondary_files_confirm(const struct secondary_files *files, const struct secondary_info *info,
                             char *why);

/* Renames an image that cannot be used to NAME.damaged, for people to look at. */
void secondary_files_set_aside(const struct secondary_files *files);

#endif
