/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known about endpoints now: manual status, health, and forced health, by the names of
 * domain and endpoint, so that it survives reloads; kept in a file, so that it survives restarts.
 *
 * A change recomputes the draw tables of the domains that it touches, publishes them all, and waits
 * once for the readers.  All functions belong to the main thread, which is no RCU reader.
 */
#ifndef SLUICE_SERVER_FACTS_H
#define SLUICE_SERVER_FACTS_H

#include <jansson.h>
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
};

struct fact_change {
  uint32_t domain;   /* index into served->domains */
  uint16_t endpoint; /* index into the domain's endpoints */
  uint8_t field;     /* enum fact_field */
  uint8_t value;
};

/* Who changes something by hand, and why; copied. */
struct fact_author {
  const char *who;
  const char *reason; /* or NULL */
  int64_t when;       /* Unix seconds */
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
 * Applies all that is known to a view that is not published yet.  What has no target any more is
 * dropped: with a log line if it was set by hand.  False without memory; then the view must not be
 * published and nothing was dropped.
 */
bool facts_attach(struct facts *facts, struct served *served);

/*
 * Makes all the changes, or none with a reason in `why`: for the published view and on disk.
 * `author` is NULL for what the checker says; such changes are written to disk by facts_flush().
 */
bool facts_apply(struct facts *facts, struct served *served, const struct fact_change *changes,
                 size_t count, const struct fact_author *author, char *why);

/* Writes what facts_apply() left unwritten; false with a reason. */
bool facts_flush(struct facts *facts, char *why);

/* The facts of a domain, for explain. */
struct steer_facts facts_of(const struct served *served, uint32_t domain);

/* All that was set by hand, as `status` of the control socket lists it; NULL without memory. */
json_t *facts_overrides(const struct facts *facts);

#endif
