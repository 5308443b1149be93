/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A data directory as `sluice build` leaves it, made from zones of the zone fixture.
 */
#ifndef SLUICE_TESTS_DATA_FIXTURE_H
#define SLUICE_TESTS_DATA_FIXTURE_H

#include "zone_fixture.h"

/* Makes a new temporary folder and returns its path (malloc'd). */
char *data_fixture_new(void);

/* Writes a build of this name with these zones (domains are taken over) and switches to it. */
void data_fixture_build(const char *data, const char *id, const struct zone_fixture_zone *zones,
                        size_t count);

/* Removes the folder and frees the path. */
void data_fixture_free(char *data);

/* Writes `text` to the file DATA/NAME. */
void data_fixture_write(const char *data, const char *name, const void *text, size_t length);

#endif
