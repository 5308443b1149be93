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

#include "base/buf.h"
#include "zones/model.h"

struct build_options {
  const char *data_dir;
  const char *commit;  /* hex, or NULL outside git */
  int64_t commit_time; /* Unix seconds, 0 outside git */

  /* The rest is for deploys (docs/deploy.md), all of it may be left out. */
  const char *base;         /* id of the build that has what the model's kept zones lack */
  const json_t *serials;    /* zone name -> {"serial","input"}: of the deploy before, which the next
                             * serials follow as they follow the live build's */
  const json_t *retired;    /* the same of zones that the deploy before did not have any more */
  bool serials_are_final;   /* take `serials` and `retired` as they are: they are of this deploy */
  const struct buf *inputs; /* to be kept beside the build, as inputs.json (zones/inputs.h) */
  bool prepare;             /* make the build but do not switch: build_publish() does */
};

struct build_result {
  size_t zones;
  size_t rebuilt; /* zones whose inputs changed */
  bool unchanged; /* nothing changed at all: the current build stays */
  bool stale;     /* after false: the live build is not `base` any more, or has not all that is
                   * needed of it; read the zones and try again */
  char id[17];    /* name of the build */
  /* As in the options, of this build; json_decref() them. */
  json_t *serials;
  json_t *retired;
};

/* Compiles every zone without writing anything, and reports those that cannot be (an RRset that
 * fits no message), at the zone's own file. */
void build_check(const struct model *model, struct diag_list *problems);

/* Builds and switches; false with a one-line reason in `why` (512 bytes), and then nothing changed.
 */
bool build_run(const struct model *model, const struct build_options *options,
               struct build_result *result, char *why);

/* Switches to a build that was prepared; false with a one-line reason in `why` (512 bytes). */
bool build_publish(const char *data_dir, const char *id, char *why);

/* Which builder this is: another one makes other files of the same input. */
const char *build_builder(void);

/* The id of the live build of a data folder; "" without one. */
void build_current(const char *data_dir, char id[17]);

#endif
