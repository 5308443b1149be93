/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the health checker has told: its subjects with their verdicts, and where their targets are
 * in the view that is served.
 *
 * A map is filled from a snapshot, subject by subject, and closed by health_map_finish().  Targets
 * keep their names, so that health_map_resolve() can find them again in each new view; from then on
 * a change of a subject is a walk over an array of (domain, endpoint).
 *
 * No sockets, no clock.  Belongs to the main thread.
 */
#ifndef SLUICE_SERVER_HEALTH_MAP_H
#define SLUICE_SERVER_HEALTH_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/facts.h"
#include "server/load.h"

enum {
  HEALTH_SUBJECTS_MAX = 4 << 20,
  HEALTH_TARGETS_MAX = 16 << 20,
  HEALTH_TEXT_MAX = 1 << 30, /* octets of names */
  HEALTH_REASON_MAX = 255,   /* octets of a reason that are kept */
  HEALTH_FAMILIES = 2,       /* IPv4, IPv6 */
};

enum health_state { HEALTH_STATE_NONE, HEALTH_STATE_OPEN, HEALTH_STATE_UP, HEALTH_STATE_DOWN };

/* A verdict as it was told: none for the family, not decided yet, up, down. */
struct health_verdict {
  uint8_t state; /* enum health_state */
  int64_t since; /* Unix seconds */
  char *why;     /* or NULL */
};

struct health_map;

struct health_map *health_map_new(void);
void health_map_free(struct health_map *map);

/* The subject with this number; made if there is none and `make`.  -1 without memory, or if there
 * are too many, or if there is none. */
long health_map_subject(struct health_map *map, uint32_t id, bool make);

/* Sets a subject's verdict of a family (0: IPv4, 1: IPv6); `why` is copied, shortened.  False
 * without memory. */
bool health_map_judge(struct health_map *map, size_t subject, int family, enum health_state state,
                      int64_t since, const char *why);

const struct health_verdict *health_map_verdict(const struct health_map *map, size_t subject,
                                                int family);

/* Adds a target: the domain in wire format and lower case, the endpoint's name.  False without
 * memory, or if there are too many. */
bool health_map_target(struct health_map *map, size_t subject, const uint8_t *owner,
                       const char *endpoint);

/* Ends the filling; false without memory. */
bool health_map_finish(struct health_map *map);

/* Looks all targets up in a view; false without memory: then the map has no targets in it. */
bool health_map_resolve(struct health_map *map, const struct served *served);

/* Changes of facts, growing. */
struct health_changes {
  struct fact_change *items;
  size_t count;
  size_t capacity;
};
void health_changes_close(struct health_changes *changes);

/*
 * Appends what the verdicts of a subject mean for its targets in the view, of the families that
 * `families` has (1: IPv4, 2: IPv6).  Nothing for a verdict that is open: what was known stays.
 * False without memory.
 */
bool health_map_apply(const struct health_map *map, size_t subject, unsigned families,
                      struct health_changes *changes);

/* The same for all subjects; and what is in none becomes unknown.  The map was resolved for this
 * view. */
bool health_map_apply_all(const struct health_map *map, const struct served *served,
                          struct health_changes *changes);

/* What was told of an endpoint in the view, or NULL: it is not checked. */
const struct health_verdict *health_map_verdicts(const struct health_map *map, uint32_t domain,
                                                 uint16_t endpoint);

struct health_counts {
  size_t subjects;
  size_t targets;
  size_t served; /* targets that are in the view */
};
struct health_counts health_map_counts(const struct health_map *map);

#endif
