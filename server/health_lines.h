/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of the health feed (healthcheck/feed.h) as a subscriber reads them: the order of a
 * snapshot, sequence numbers, verdicts.  Trusts nothing: what does not fit ends the connection, and
 * leaves the map of before.
 *
 * No sockets, no clock.  Belongs to the main thread.
 */
#ifndef SLUICE_SERVER_HEALTH_LINES_H
#define SLUICE_SERVER_HEALTH_LINES_H

#include "server/health_map.h"

struct health_lines;

enum { HEALTH_LINES_WHY = 256 };

enum health_line {
  HEALTH_LINE_NONE,     /* nothing to do (yet) */
  HEALTH_LINE_HELLO,    /* the peer is a checker */
  HEALTH_LINE_SNAPSHOT, /* a snapshot is whole: there is a new map, not resolved yet */
  HEALTH_LINE_CHANGE,   /* a subject changed, in the map */
  HEALTH_LINE_BAD,      /* the connection cannot go on */
};

/* What changed. */
struct health_line_change {
  size_t subject;
  unsigned families; /* 1: IPv4, 2: IPv6 */
};

struct health_lines *health_lines_new(void);
void health_lines_free(struct health_lines *lines);

/* A new connection: a checker introduces itself first.  The map of before stays. */
void health_lines_restart(struct health_lines *lines);

/* Reads one line; `change` is filled for HEALTH_LINE_CHANGE, `why` (HEALTH_LINES_WHY octets) for
 * HEALTH_LINE_BAD. */
enum health_line health_lines_read(struct health_lines *lines, const char *line, size_t len,
                                   struct health_line_change *change, char *why);

/* Of the last whole snapshot, with the changes since; NULL before the first one. */
struct health_map *health_lines_map(const struct health_lines *lines);

#endif
