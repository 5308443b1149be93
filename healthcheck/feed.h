/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed: how sluice-healthd tells servers what is up, over a Unix stream socket, in lines of
 * JSON (at most FEED_LINE octets each).  The checker listens; any number of servers subscribe by
 * connecting.  This header is the protocol for both sides.
 *
 * A *subject* is what is judged once, however many endpoints of however many domains share it: a
 * set of addresses (or a host name) with the settings of its check.  It has a verdict for each
 * family; a change of one subject is one line, whatever hangs on it.
 *
 * Checker to subscriber, on connection and again whenever the list of checks changed, a snapshot:
 *   {"t":"hello","format":1,"session":TEXT,"beat":MS}    first of all; MS: between heartbeats
 *   {"t":"begin","seq":N}
 *   {"t":"subject","id":N,"targets":[[DOMAIN,ENDPOINT],...],"v4":VERDICT,"v6":VERDICT}
 *       at most FEED_TARGETS targets in one line; a line with the same id again adds targets
 *   {"t":"end","seq":N}        what is in no subject now has no check: its health is unknown
 * then
 *   {"t":"change","seq":N,"id":N,"v4":VERDICT,"v6":VERDICT}      seq rises by one each time
 *   {"t":"beat","seq":N}       seq of the last change: a gap shows, and the subscriber reconnects
 *
 * VERDICT: null (no address of the family) or [STATE, SINCE, WHY]: "up", "down" or "unknown" (not
 * decided yet: the subscriber keeps what it knew); Unix seconds; text of the last result ("connect
 * refused", "status 503", ...).  A host name's verdict stands in both.
 *
 * Subscriber to checker, on connection and when they change:
 *   {"t":"overrides","list":[{"kind":"weight"|"status"|"health","domain","endpoint","region",
 *                             "level","family","value"},...]}
 *       all that is overridden there now, as in base/store.h; so alerts tell what is served.  A
 *       list too long for a line goes on in the next line: then the former has "more":true.
 *
 * Domains are absolute, in lower case, with the final dot.  A subscriber that reads too slowly
 * (more than FEED_BACKLOG octets waiting) is disconnected: it comes back and gets a snapshot.
 */
#ifndef SLUICE_HEALTHCHECK_FEED_H
#define SLUICE_HEALTHCHECK_FEED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum {
  FEED_LINE = 1 << 20,
  FEED_TARGETS = 1000,
  FEED_BACKLOG = 256 << 20,
  FEED_BEAT_MS = 1000,
  FEED_SILENCE_MS =
      5000, /* without any line for so long, a subscriber takes the checker for lost */
  FEED_WHY = 512,
};

enum feed_state { FEED_NONE, FEED_UNKNOWN, FEED_UP, FEED_DOWN };

struct feed_verdict {
  uint8_t state; /* enum feed_state */
  int64_t since; /* Unix seconds */
  const char *why;
};

struct feed;

/* What the feed asks of its owner.  All runs on the loop's thread. */
struct feed_source {
  void *arg;
  /* Calls feed_subject() for each subject, from inside; for a snapshot. */
  void (*snapshot)(void *arg, struct feed *feed);
  /* A subscriber's overrides, whole; borrowed. */
  void (*overrides)(void *arg, const json_t *list);
};

/* Listens at `path` (mode 0660; a stale socket is replaced, one in use is not); NULL with one line
 * in `why` (FEED_WHY octets). */
struct feed *feed_open(uv_loop_t *loop, const char *path, const struct feed_source *source,
                       char *why);
void feed_close(struct feed *feed);

/* Inside of snapshot(): one subject; call again with the same id for more targets.  `targets` are
 * pairs of texts. */
void feed_subject(struct feed *feed, uint32_t id, const char *const (*targets)[2], size_t count,
                  const struct feed_verdict verdicts[2]);

/* A subject's verdict changed: told to all at once. */
void feed_change(struct feed *feed, uint32_t id, const struct feed_verdict verdicts[2]);

/* The list of checks changed: all get a snapshot. */
void feed_reset(struct feed *feed);

/* For `sluice health`: {"subscribers": N, "seq": N}. */
json_t *feed_json(const struct feed *feed);

#endif
