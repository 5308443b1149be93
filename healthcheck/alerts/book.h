/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The book of incidents: what is open, which route was told of it under which key, and what has to
 * be told next.
 *
 * Changes are gathered per route until nothing has changed for a window (at most five windows in
 * all), then told by difference: open and not told is a trigger, told and not open a resolve; what
 * came and went meanwhile is not told.  More than BOOK_TOGETHER triggers of one kind at once become
 * one message with a count, under a key of the group's own, that resolves when the last of its
 * members has.  An incident that is triggered again soon after (three times `quiet`) is marked as
 * flapping and resolves only after `quiet` without a change.
 *
 * No clock, sockets or files in it: time is passed in, messages and records go out through the
 * sink.  One thread.
 */
#ifndef SLUICE_HEALTHCHECK_ALERTS_BOOK_H
#define SLUICE_HEALTHCHECK_ALERTS_BOOK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "healthcheck/alerts/incident.h"

enum {
  BOOK_TOGETHER = 5,
  BOOK_INCIDENTS = 200000, /* more are not taken in: said once in the log */
  BOOK_FIRST_NAMES = 5,    /* of a group, in its message */
};

struct moment {
  uint64_t mono; /* ms, for windows */
  int64_t unix_ms;
};

struct book;
struct book_route;

struct book_options {
  uint32_t window_ms;
  uint32_t quiet_ms;
  const char *host; /* of this checker, for events */
};

struct book_sink {
  void *arg;
  /* An event to send to a route, in order per key; takes the reference over.  False: no room now,
   * the book comes back with it. */
  bool (*tell)(void *arg, const char *route, const char *key, json_t *event);
  /* A record for the spool; takes the reference over (NULL: without memory). */
  void (*record)(void *arg, json_t *record);
  /* The incident is about to be freed. */
  void (*forget)(void *arg, struct incident *incident);
};

/* Whom an incident of a domain concerns. */
struct book_policy {
  bool wanted[INCIDENT_KINDS];
  bool recovered;             /* resolves are wanted */
  bool page;                  /* a failover pages */
  struct book_route **routes; /* `to` */
  size_t route_count;
};

/* What is wrong now.  Texts are borrowed. */
struct book_report {
  struct incident_name name;
  const char *owner; /* or NULL */
  const char *news;  /* an open incident is told again when it changes */
  enum incident_severity severity;
  bool page;
  const char *summary;
  json_t *detail; /* members for events, borrowed; or NULL */
};

struct book *book_open(const struct book_options *options, const struct book_sink *sink);
void book_close(struct book *book);

/* ---- routes ---- */

/* The route of that name, made if it is new.  `pages`: everything that is sent there pages people.
 * NULL without memory. */
struct book_route *book_route(struct book *book, const char *name, bool pages);
/* Between the two, book_route() names the routes that there are; the others are forgotten, with
 * what was open there. */
void book_routes_begin(struct book *book);
void book_routes_end(struct book *book);

/* ---- incidents ---- */

struct incident *book_find(const struct book *book, const struct incident_name *name);
/* All incidents: start with *at = 0, NULL at the end; none may be added meanwhile. */
struct incident *book_next(const struct book *book, size_t *at);
size_t book_count(const struct book *book);

/* It is so now; opens the incident or brings it up to date.  NULL without memory, or if there are
 * too many. */
struct incident *book_set(struct book *book, const struct book_report *report,
                          const struct book_policy *policy, const struct moment *now);

/* It is over; `summary` says how.  No more than a note if it was not open. */
void book_end(struct book *book, struct incident *incident, const char *summary,
              const struct book_policy *policy, const struct moment *now);

/* While held, only INCIDENT_ISOLATED is told. */
void book_hold(struct book *book, bool held, const struct moment *now);

/* Tells what is due, and drops what is not needed any more. */
void book_tick(struct book *book, const struct moment *now);
/* Milliseconds until book_tick() has to do something; UINT64_MAX: nothing. */
uint64_t book_wait(const struct book *book, const struct moment *now);

/* ---- spool and display ---- */

/* A record of an earlier run; false if it is none of the book's.  After the last one,
 * book_restored(). */
bool book_restore(struct book *book, const json_t *record);
void book_restored(struct book *book);
/* Records of all that is known, to the sink. */
void book_dump(const struct book *book, void (*record)(void *arg, json_t *record), void *arg);
/* Those that are open, for people: a list. */
json_t *book_open_json(const struct book *book);

#endif
