/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines out of octets as they come from a socket: whatever the pieces, whole lines come out, each
 * at most `limit` octets long.  Memory grows with what is there and never above the limit by more
 * than one read.
 *
 * Use: lines_room() gives the place for the next read, lines_added() counts what was read, then
 * lines_next() until it is LINES_NONE.
 */
#ifndef SLUICE_BASE_LINES_H
#define SLUICE_BASE_LINES_H

#include <stddef.h>

struct lines {
  char *data;
  size_t len;   /* octets that are there */
  size_t start; /* of what was not given out yet */
  size_t seen;  /* no line end before here */
  size_t cap;
  size_t limit;
};

enum lines_result { LINES_NONE, LINES_LINE, LINES_TOO_LONG };

void lines_init(struct lines *lines, size_t limit);
void lines_close(struct lines *lines);

/* Where the next octets go, at least one and about `want`; *room gets how many fit.  NULL without
 * memory. */
char *lines_room(struct lines *lines, size_t want, size_t *room);
void lines_added(struct lines *lines, size_t n);

/* The next whole line without its end, followed by a NUL; valid until lines_room().  After
 * LINES_TOO_LONG the rest cannot be read any more. */
enum lines_result lines_next(struct lines *lines, char **line, size_t *len);

#endif
