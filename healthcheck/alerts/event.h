/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event: what is said about an incident, in one form for all routes.  It is the body of the
 * plain JSON format; the others are made of it (format.h).
 *
 * {"id": TEXT, different for each event and the same when it is sent again,
 *  "action": "trigger"|"update"|"resolve", "key": TEXT, "kind": "endpoint"|"failover"|"all-down"|
 *  "isolated", "severity": "info"|"warning"|"error"|"critical", "page": bool, "flapping": bool,
 *  "summary": one line, "time": when it was told, "since": when it began, "host": the checker,
 *  "domain", "region", "type", "endpoint", "owner": TEXT or null,
 *  "count": N, how many incidents it speaks of,
 *  and of single ones, as far as known: "from", "to": levels, "cause": "health"|"manual",
 *  "reasons": [{"endpoint","why"}], "serves": [NAME...]}
 *
 * Times are UTC in ISO 8601.
 */
#ifndef SLUICE_HEALTHCHECK_ALERTS_EVENT_H
#define SLUICE_HEALTHCHECK_ALERTS_EVENT_H

#include "healthcheck/alerts/book.h"

enum event_action { EVENT_TRIGGER, EVENT_UPDATE, EVENT_RESOLVE };
enum { EVENT_TIME = 32 };

/* "2026-11-30T01:02:03Z"; `out` holds EVENT_TIME octets. */
char *event_time(int64_t unix_ms, char *out);

/* Of one incident; NULL without memory. */
json_t *event_of_incident(const struct incident *incident, enum event_action action, bool flapping,
                          const char *host, int64_t now);

/* Of `count` incidents of one kind, of which `first` is an example and `names` are the first. */
struct event_group {
  const char *key;
  enum incident_kind kind;
  enum incident_severity severity;
  bool page;
  bool flapping;
  int64_t since;
  uint64_t count;
  const char *names;  /* "a, b, c" */
  const char *domain; /* if all are of the same one, else NULL */
  const char *owner;  /* likewise */
};
json_t *event_of_group(const struct event_group *group, enum event_action action, const char *host,
                       int64_t now);

/* How a message names it: "cdn.example.com. central-4", "cdn.example.com. eu (A)". */
void event_name(const struct incident *incident, char *out, size_t room);

#endif
