/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do a provider's own name servers answer what the model says?
 *
 * For each name server of the provider: the plain records of the zone are asked for one by one;
 * each steered name is asked from one place of each of its regions (client subnet, RFC 7871) as
 * often as `draws` says, and the shares of the answers are tested against those of the model
 * (chi-square). A layer that the provider has lost by declaration (its fidelity) is compared with
 * what was declared, not with the model.  One draw is one answer to a resolver, not one user.
 */
#ifndef SLUICE_TOOLS_SYNC_VERIFY_H
#define SLUICE_TOOLS_SYNC_VERIFY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/sync/run.h"

/* A test that fails by chance does so less than once in a million runs of all tests. */
enum { VERIFY_DRAWS = 2000 };

/* Where to ask from: location databases, read once for all targets; threads may share it. */
struct verify_geo;

/* The files `geo` and `asn`; either may be NULL for that of the machine's settings (NULL: the
 * default ones), and either may be missing: then some regions have no place.  NULL with one line in
 * `why` (512 octets).  It points to domains of the runs that it was used with until it is closed.
 */
struct verify_geo *verify_geo_open(const char *geo, const char *asn, const char *settings,
                                   char *why);
void verify_geo_close(struct verify_geo *geo);

struct verify_options {
  unsigned draws;         /* for each name, type and region; 0: VERIFY_DRAWS */
  int timeout_ms;         /* of one try of a question; 0: ASK_TIMEOUT_MS */
  bool steered;           /* look at steered names */
  bool plain;             /* look at all other RRsets of the zone */
  struct verify_geo *geo; /* NULL: the machine's databases, read for this call */
  size_t targets;         /* of the whole run, for the bounds of the tests; 0: 1 */
};

enum verify_verdict {
  VERIFY_SAME,
  VERIFY_DIFFERS,
  VERIFY_SILENT,  /* no answer, or one that is none */
  VERIFY_SKIPPED, /* no place of the region is known, or the provider cannot be asked for it */
};

struct verify_line {
  bool steered;   /* of a steered name; else of another RRset, or (SOA) of the server itself */
  char *server;   /* name server that was asked */
  char *name;     /* owner, absolute */
  char *type;     /* "A"; "steered" where the whole name is skipped */
  char *region;   /* of steered names, else NULL */
  char *place;    /* the client subnets, ", " between them, or NULL */
  unsigned draws; /* answers */
  double p; /* chance of such a difference if the shares are right; 1 where nothing is drawn */
  json_t *expected, *observed; /* shares of values, or lists of values */
  enum verify_verdict verdict;
  char *text; /* what differs, or why not asked; NULL: nothing */
};

struct verify_report {
  struct verify_line *lines;
  size_t count;
  size_t differ, silent, skipped;
};

void verify_report_close(struct verify_report *report);

/* The name servers of a provider for a zone: what `servers:` of its settings says, else
 * `ns:`, else what the provider itself tells.  A new reference to an array of texts, or NULL with
 * `error`. */
json_t *verify_servers(struct sync_run *run, const struct sync_provider *provider, const char *zone,
                       struct provider_error *error);

/* Looks at one target of a run that was planned (its `desired` objects and fidelity are used) at
 * the name servers `servers`, an array of texts for ask_resolve(); `run` tells domains and facts,
 * of which `names` of its zone limit the look.  Lines are added to `report`.  False without memory,
 * or if no server of the list can be resolved, or the target could not be planned (`error`). */
bool verify_target(const struct sync_run *run, const struct sync_target *target,
                   const json_t *servers, const struct verify_options *options,
                   struct verify_report *report, struct provider_error *error);

/* ---- output --------------------------------------------------------------------------------- */

/* One report for each target of the run. */
void verify_show(const struct sync_run *run, const struct verify_report *reports, unsigned draws,
                 bool verbose);
json_t *verify_json(const struct sync_run *run, const struct verify_report *reports,
                    unsigned draws);

int sync_verify_command(int argc, char **argv);

#endif
