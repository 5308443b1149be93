/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a MaxMind DB so that neither hostile contents nor later changes of the file can hurt: the
 * file is copied whole into memory of this process, and its metadata is checked before libmaxminddb
 * reads it.  Not for use outside of steering/.
 */
#ifndef SLUICE_STEERING_MMDB_FILE_H
#define SLUICE_STEERING_MMDB_FILE_H

#include <maxminddb.h>
#include <stdbool.h>
#include <stddef.h>

enum { MMDB_WHY = 512 };

/* Both return false with one line in `why`.  MMDB_close() gives the memory back. */
bool mmdb_file_open(const char *path, MMDB_s *mmdb, char *why);
bool mmdb_file_open_memory(const void *bytes, size_t len, MMDB_s *mmdb, char *why);

#endif
