/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known about endpoints now: measured health, and what is overridden (manual status, forced
 * health, weights).  Status and health are kept by the names of domain and endpoint, so that they
 * survive reloads; measured health also in a file, so that it survives restarts.  What is
 * overridden, by whom and until when belongs to server/overrides.h.
 *
 * A change recomputes the draw tables of the domains that it touches, publishes them all, and waits
 * once for the readers.  All functions belong to the main thread, which is no RCU reader.
 */
#ifndef SLUICE_SERVER_FACTS_H
#define SLUICE_SERVER_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/load.h"

struct facts;

enum fact_field {
  FACT_MANUAL,  /* enum steer_manual */
  FACT_HEALTH4, /* enum steer_health: what the checker says */
  FACT_HEALTH6,
  FACT_FORCED4, /* enum steer_health: what it would say, forced; HEALTH_UNKNOWN: not forced */
  FACT_FORCED6,
  FACT_FIELDS,
  FACT_WEIGHT = FACT_FIELDS, /* of an entry: 0..STEER_MAX_WEIGHT, or -1: the configuration's */
};

struct fact_change {
  uint32_t domain;   /* index into served->domains */
  uint16_t endpoint; /* index into the domain's endpoints; not of FACT_WEIGHT */
  uint8_t field;     /* enum fact_field */
  int32_t value;
  uint32_t entry; /* FACT_WEIGHT: index into the entries of all levels of all regions */
};

/* The point of no return of a change: called once when all is prepared and nothing visible yet.
 * False with a reason in `why` (FACTS_WHY octets) stops it all. */
struct fact_commit {
  bool (*run)(void *arg, char *why);
  void *arg;
};

enum { FACTS_WHY = 512 };

/*
 * Reads `state_dir`/status.json, or keeps nothing on disk if state_dir is NULL.  A missing file is
 * an empty one; a damaged one is renamed to status.json.damaged, with a log line.  NULL with a
 * one-line reason in `why` (FACTS_WHY octets) if the folder cannot be used.
 */
struct facts *facts_open(const char *state_dir, char *why);
void facts_close(struct facts *facts);

/*
 * Applies all that is known to a view that is not published yet, in which overridden weights are
 * set already (facts_set_weight()).  Health that has no target any more is dropped.  False without
 * memory; then the view must not be published and nothing was dropped.
 */
bool facts_attach(struct facts *facts, struct served *served);

/* In a view before facts_attach(): the weight of an entry; false without memory. */
bool facts_set_weight(struct served *served, uint32_t domain, uint32_t entry, int32_t weight);

/* Before facts_attach(): a status or forced health, by names (wire format in lower case), whether
 * there is such an endpoint or not.  False without memory. */
bool facts_force(struct facts *facts, const uint8_t *owner, const char *endpoint, uint8_t field,
                 uint8_t value);

/*
 * Makes all the changes in the published view, or none with a reason in `why`.  `commit` may be
 * NULL.  Measured health is written to disk by facts_flush().
 */
bool facts_apply(struct facts *facts, struct served *served, const struct fact_change *changes,
                 size_t count, const struct fact_commit *commit, char *why);

/* Writes what facts_apply() left unwritten; false with a reason. */
bool facts_flush(struct facts *facts, char *why);

/*
 * The same in the background: begin() copies what has to be written (NULL: nothing, or no memory
 * for it now), run() writes it in any thread, end() tells how that went and frees it.  One at a
 * time, ended before facts_close().
 */
struct facts_save;
struct facts_save *facts_save_begin(struct facts *facts);
bool facts_save_run(const struct facts_save *save, char *why);
void facts_save_end(struct facts *facts, struct facts_save *save, bool done);

/*
 * Whether what the checker said counts: while it does not, all that it measured counts as healthy
 * (what is forced still holds), in this view and in later ones, and nothing of it is forgotten.
 * False without memory, and then all is as before.
 */
bool facts_ignore_measured(struct facts *facts, struct served *served, bool ignore);

/* The facts of a domain: status and weights in force. */
struct steer_facts facts_of(const struct served *served, uint32_t domain);

/* What is measured of an endpoint's family (4 or 6), and what is forced instead (enum
 * steer_health; HEALTH_UNKNOWN: nothing). */
struct fact_health {
  uint8_t measured;
  uint8_t forced;
};
struct fact_health facts_health(const struct served *served, uint32_t domain, uint16_t endpoint,
                                int family);

#endif
