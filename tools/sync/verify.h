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

struct verify_options {
  unsigned draws;  /* for each name, type and region; 0: VERIFY_DRAWS */
  int timeout_ms;  /* of one question; 0: ASK_TIMEOUT_MS */
  bool steered;    /* look at steered names */
  bool plain;      /* look at all other RRsets of the zone */
  const char *geo; /* location database, to find a place in each region; NULL: the machine's */
};

enum verify_verdict {
  VERIFY_SAME,
  VERIFY_DIFFERS,
  VERIFY_SILENT,  /* no answer, or one that is none */
  VERIFY_SKIPPED, /* no place of the region is known, or the provider cannot be asked for it */
};

struct verify_line {
  char *server;   /* name server that was asked */
  char *name;     /* owner, absolute */
  char *type;     /* "A" */
  char *region;   /* of steered names, else NULL */
  char *place;    /* the client subnet, or NULL */
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

/* Looks at one target of a run that was planned (its `desired` objects and fidelity are used) at
 * the name servers `servers`, an array of texts for ask_resolve(); `run` tells domains and facts,
 * of which `names` of its zone limit the look.  Lines are added to `report`.  False without memory,
 * or if no server of the list can be resolved (`error`). */
bool verify_target(const struct sync_run *run, const struct sync_target *target,
                   const json_t *servers, const struct verify_options *options,
                   struct verify_report *report, struct provider_error *error);

#endif
