/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of verify.h: what is expected of a steered name, what was observed, and how both compare;
 * where to ask from.
 */
#ifndef SLUICE_TOOLS_SYNC_VERIFY_PRIVATE_H
#define SLUICE_TOOLS_SYNC_VERIFY_PRIVATE_H

#include "steering/layers.h"
#include "tools/sync/ask.h"
#include "tools/sync/verify.h"

/* Chance of one false alarm in a whole run, spread over all of its tests.  Ten times less than what
 * is promised, since the chi-square distribution is only approached. */
#define VERIFY_ALPHA 1e-7

/* ---- what is expected ----------------------------------------------------------------------- */

/* The answers that may come, each with its share.  A *set* is the values of one answer, sorted,
 * with spaces between them. */
struct verify_cells {
  size_t count;
  char **texts;   /* of each cell: the set, or the one value where `several` */
  double *shares; /* of the answers */
  double *most;   /* where `several`: the share is between `shares` and this */
  json_t *places; /* set, or value where `several` or `parts` -> index */
  double error;   /* by which a share may be off as declared */
  bool several;   /* cells are values, and an answer holds several */
  bool parts;     /* an answer may hold a part of a cell's set */
  size_t least;   /* values of an answer where `several` */
};

/* By the model: layers 2 to 4 with these facts, as the provider has declared to do them.  False
 * without memory. */
bool verify_cells_make(const struct steer_domain *steer, uint32_t region, enum steer_type type,
                       const struct steer_facts *facts, const struct provider_fidelity *fidelity,
                       struct verify_cells *out);

/* One set is the only answer; an empty array: no data. */
bool verify_cells_set(const json_t *values, struct verify_cells *out);

void verify_cells_close(struct verify_cells *cells);

/* ---- what is observed ----------------------------------------------------------------------- */

struct verify_observed {
  json_t *sets;       /* set -> how often; or "NXDOMAIN", "no data" */
  uint64_t answers;   /* of these */
  uint64_t silent;    /* no answer, or none by this zone's server */
  uint64_t subnets;   /* answers that speak of the client subnet */
  uint32_t ttl;       /* the largest */
  char why[ASK_TEXT]; /* of the last silent one */
};

bool verify_observed_open(struct verify_observed *observed);
void verify_observed_close(struct verify_observed *observed);

/* Takes an answer in: data of `type` (and CNAME) at `name`.  False without memory. */
bool verify_observed_add(struct verify_observed *observed, const struct ask_answer *answer,
                         const char *name, const char *type);

/* Adds what another one has. */
bool verify_observed_join(struct verify_observed *observed, const struct verify_observed *more);

/* The chance of such answers if they are drawn as expected; 0 for those that cannot be, negative
 * without memory. */
double verify_chance(const struct verify_cells *cells, const struct verify_observed *observed);

/* New references to shares as a line has them: cell -> share; for `observed` also the sets that are
 * in no cell. */
json_t *verify_shares_expected(const struct verify_cells *cells);
json_t *verify_shares_observed(const struct verify_cells *cells,
                               const struct verify_observed *observed);

/* ---- places --------------------------------------------------------------------------------- */

struct verify_place {
  bool known;
  int family; /* AF_INET or AF_INET6 */
  uint8_t octets[16];
  uint8_t bits;
  char text[64]; /* "81.2.69.0/24" */
};

enum { VERIFY_FAMILIES = 2 };

/* Places of all regions of a domain, IPv4 and IPv6: region_count * VERIFY_FAMILIES items, malloc'd.
 * NULL without memory.  `also` as in geo_places_find(). */
struct verify_place *verify_places(struct verify_geo *geo, const struct steer_domain *steer,
                                   const struct steer_domain *also);

/* ---- the work ------------------------------------------------------------------------------- */

struct verify_job {
  const struct sync_run *run;
  const struct sync_target *target;
  const struct verify_options *options;
  struct verify_geo *geo;
  struct verify_report *report;
  const struct ask_server *server;
  double alpha; /* of one test */
  bool dead;    /* the server gives no answers any more */
};

/* A new line, with copies of its texts; NULL without memory. */
struct verify_line *verify_line_add(const struct verify_job *job, const char *name,
                                    const char *type, enum verify_verdict verdict);

/* Sets the text of a line (what differs). */
bool verify_line_say(struct verify_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* All steered names, all other RRsets at the server of the job.  False without memory. */
bool verify_steered(struct verify_job *job);
bool verify_plain(struct verify_job *job);

/* How many tests verify_steered() makes for one server, at most. */
size_t verify_tests(const struct sync_target *target);

/* True if the run was asked to look at the name. */
bool verify_selects(const struct sync_zone *zone, const char *name);

/* "NXDOMAIN" or "RCODE 11"; static storage of the thread. */
const char *verify_rcode(unsigned rcode);

#endif
