/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice build`: writes a new directory beside the live one and switches in one rename.
 *
 *   DATA/current -> builds/<id>       the symbolic link that is switched
 *   DATA/builds/<id>/manifest.json    commit, its time, zones (apex, serial, input hash, files), in
 * order DATA/builds/<id>/zones/<apex>image     hard links to unchanged zones of the previous build
 *   DATA/builds/<id>/zones/<apex>zone      standard master file
 *   DATA/builds/<id>/zones/<apex>records   what zone transfers send (zones/records.h)
 *   DATA/builds/<id>/checks.json      the list for the health checker, and each domain's alerts
 *   DATA/builds/<id>/domains.json     what tools need of each domain, a line for each
 *
 * <id> is the first 16 hex digits of the SHA-256 of the manifest, so the same input gives the same
 * bytes in the same place.
 */
#ifndef SLUICE_ZONES_BUILD_H
#define SLUICE_ZONES_BUILD_H

#include "zones/model.h"

struct build_options {
  const char *data_dir;
  const char *commit;  /* hex, or NULL outside git */
  int64_t commit_time; /* Unix seconds, 0 outside git */
};

struct build_result {
  size_t zones;
  size_t rebuilt; /* zones whose inputs changed */
  bool unchanged; /* nothing changed at all: the current build stays */
};

/* Compiles every zone without writing anything, and reports those that cannot be (an RRset that
 * fits no message), at the zone's own file. */
void build_check(const struct model *model, struct diag_list *problems);

/* Builds and switches; false with a one-line reason in `why` (512 bytes), and then nothing changed.
 */
bool build_run(const struct model *model, const struct build_options *options,
               struct build_result *result, char *why);

#endif
