/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice sync import`: what one provider holds of one zone, as a configuration directory.
 *
 * The way of it, a file for each step:
 *   import_model.c   objects of the provider -> record sets and steered domains; what is neither is
 *                    named in the report
 *   import_zone.c    record sets -> zone.yaml and, for what YAML cannot say, a master file
 *   import_domain.c  domains -> domain.yaml; defaults.yaml
 *   import_check.c   the checker over the texts, together with the directory that they go to.  What
 *                    it refuses goes from zone.yaml to the master file, then out and into the
 *                    report; until it refuses nothing
 *   import_write.c   the files, all or none
 *   import_report.c  what was done and what could not be, as text and JSON
 *
 * Nothing is left out or simplified without a line in the report.  What a provider says is hostile:
 * names become paths only if they read back as the same name from letters, digits, `-`, `_`, `.`.
 * All of it belongs to one thread.
 */
#ifndef SLUICE_TOOLS_SYNC_IMPORT_H
#define SLUICE_TOOLS_SYNC_IMPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/name.h"
#include "tools/providers/provider.h"
#include "tools/sync/run.h"
#include "zones/model.h"

/* Where a record set goes; each step down is taken when the checker refuses the one before. */
enum import_place { IMPORT_YAML, IMPORT_ZONEFILE, IMPORT_NOWHERE };

struct import_value {
  uint8_t *rdata;
  size_t len;
};

/* A plain RRset. */
struct import_set {
  uint8_t name[NAME_BUF]; /* lower case */
  uint16_t type;
  uint32_t ttl;
  struct import_value *values;
  size_t count;
  enum import_place place;
  enum import_place written; /* where the texts have it */
  unsigned line;             /* where it begins in that file, from 1; 0: it is not there */
};

/* A steered domain. */
struct import_domain {
  char name[NAME_MAX_TEXT];
  char *directory;            /* of its domain.yaml, below the zone's */
  bool dropped;               /* left out */
  struct steer_domain *steer; /* with weights and `enabled` as in force */
  json_t *document;           /* what it was made from (zones/domain_json.h, with "down", and
                               * "health" where the provider says so) */
  const json_t *health;       /* settings of all endpoints' checks, in the document; or NULL */
  struct provider_fidelity fidelity; /* at this provider */
};

struct import_file {
  char *path; /* relative to the root of the configuration */
  struct buf text;
};

struct import {
  const char *zone_text; /* as on the command line */
  char zone[NAME_MAX_TEXT];
  uint8_t apex[NAME_BUF];
  char directory[NAME_MAX_TEXT]; /* of the zone: its name without the final dot */
  const char *out;               /* root of the configuration; NULL: print */
  json_t *target;                /* settings of defaults.yaml at `out`, or NULL: there is none */

  struct sync_run run; /* its secrets and socket */
  struct sync_provider provider;
  struct provider_objects objects;

  uint32_t ttl; /* the zone's */
  struct import_set *sets;
  size_t set_count;
  struct import_domain *domains;
  size_t domain_count;
  json_t *regions; /* that a new defaults.yaml defines: name -> [atoms] */

  struct import_file *files;
  size_t file_count;

  json_t *unmodelled;   /* [{"name", "type", "why", "part": it is there, but not all of it}] */
  json_t *approximate;  /* [{"name", "layer", "why"}] */
  json_t *notes;        /* [text] */
  size_t marks, dnssec; /* RRsets that are never imported */
  bool failed;          /* memory ran out */
};

/* ---- the report ----------------------------------------------------------------------------- */

/* Names what is not there (`part`: not all of it).  Texts may be anything. */
void import_miss(struct import *import, const char *name, const char *type, bool part,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));
void import_note(struct import *import, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void import_show(const struct import *import, bool printed);

/* A new reference, or NULL without memory. */
json_t *import_json(const struct import *import, const char *error, const char *failure);

/* ---- steps ---------------------------------------------------------------------------------- */

/* From `objects` to sets and domains.  `self` is the open provider.  False after an error was
 * printed (memory). */
bool import_model(struct import *import, void *self);

/* The texts; they take the place of those that were made before.  False without memory. */
bool import_texts(struct import *import);

/* Appends a file; its text is to be filled in.  NULL without memory. */
struct buf *import_add_file(struct import *import, const char *directory, const char *sub,
                            const char *name);

bool import_zone_text(struct import *import);
bool import_domain_texts(struct import *import);
bool import_defaults_text(struct import *import);

/* Why the domain cannot stand in the configuration (a region that defaults.yaml defines otherwise),
 * or true; regions that are missing go into `regions` if defaults.yaml is to be made. */
bool import_domain_fits(struct import *import, const struct steer_domain *steer, char *why,
                        size_t size);

/*
 * Makes texts until the checker accepts them.  False after an error was printed: there is something
 * that cannot be left out.
 */
bool import_check(struct import *import);

/* Writes all files below `out`, or none.  False after an error was printed. */
bool import_write(struct import *import);

/* The checker over the directory `top` (of new files) in the place of the texts, on top of what is
 * in `out`.  False after an error was printed. */
bool import_check_written(struct import *import, const char *top);

/* Prints the files, each under its path. */
void import_print(const struct import *import);

void import_close(struct import *import);

#endif
