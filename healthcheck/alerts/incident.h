/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Incidents: what is wrong, under a name that does not change.
 *
 * The key of an incident is made of its kind, domain, region, type and endpoint, and of nothing
 * that varies: trigger and resolve carry the same one, also across restarts, and a new outage has
 * that of the one before.  Receivers limit keys to 255 octets (PagerDuty), so longer ones are
 * hashed.
 */
#ifndef SLUICE_HEALTHCHECK_ALERTS_INCIDENT_H
#define SLUICE_HEALTHCHECK_ALERTS_INCIDENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum incident_kind {
  INCIDENT_ENDPOINT, /* an endpoint is down */
  INCIDENT_FAILOVER, /* a region serves another level than if all checks were good */
  INCIDENT_BY_HAND,  /* what operators set has moved a region to another level */
  INCIDENT_ALL_DOWN, /* nothing is up in a region because of health */
  INCIDENT_ISOLATED, /* the checker itself is cut off */
};
enum { INCIDENT_KINDS = 5 };

enum incident_severity { SEVERITY_INFO, SEVERITY_WARNING, SEVERITY_ERROR, SEVERITY_CRITICAL };

enum {
  INCIDENT_KEY = 256,
  INCIDENT_NEWS = 32,
  INCIDENT_SUMMARY = 1000, /* PagerDuty takes 1024 characters */
};

/* What it is about; NULL where the kind has none. */
struct incident_name {
  enum incident_kind kind;
  const char *domain; /* absolute, lower case */
  const char *region;
  const char *type; /* "A", "AAAA", "CNAME" */
  const char *endpoint;
};

/* Writes the key to `out` (INCIDENT_KEY octets). */
void incident_key(const struct incident_name *name, char *out);

/* "endpoint", "failover", "failover" (by hand too), "all-down", "isolated". */
const char *incident_kind_name(enum incident_kind kind);
/* "info", "warning", "error", "critical": the severities of PagerDuty. */
const char *incident_severity_name(enum incident_severity severity);

/* How one route knows an incident. */
struct incident_link {
  struct incident_link *next; /* of the incident */
  struct incident *incident;
  struct book_route *route;
  char *thread; /* key under which it was triggered there: its own or a group's; NULL: not told */
  int64_t told_at;          /* of the last trigger, Unix ms; 0: never */
  bool flapping;            /* told as such: resolved only after a while of quiet */
  char news[INCIDENT_NEWS]; /* as told */
  bool silent;              /* its end is not to be told */
  bool waiting;             /* in the route's list of changes */
  struct incident_link *waiting_prev, *waiting_next;
  struct incident_link *chosen; /* next of those that are told together */
};

struct incident {
  char key[INCIDENT_KEY];
  enum incident_kind kind;
  char *domain, *region, *type, *endpoint; /* or NULL */
  char *owner;                             /* the team, or NULL */
  bool open;
  bool page;
  bool restored; /* from the spool; the facts have not confirmed it yet */
  enum incident_severity severity;
  int64_t since;            /* Unix ms */
  int64_t ended;            /* likewise; while it is not open */
  char news[INCIDENT_NEWS]; /* a change of it is told as an update */
  char *summary;            /* one line */
  char *detail;             /* further members of events: a JSON object as text, or NULL */
  uint32_t stamp;           /* of the last evaluation that found it */
  struct incident_link *links;
  struct incident *sibling; /* the next one of the same domain; the evaluator's */
};

/* A new, closed one; NULL without memory. */
struct incident *incident_new(const struct incident_name *name);
void incident_free(struct incident *incident);

/* As a record of the spool, without links: those are added by the book.  NULL without memory. */
json_t *incident_to_json(const struct incident *incident);
/* Trusts nothing; NULL if it is not a record of an incident. */
struct incident *incident_from_json(const json_t *record);

/* Replaces a text by a copy; false without memory, then nothing changed. */
bool incident_text(char **text, const char *value);

#endif
