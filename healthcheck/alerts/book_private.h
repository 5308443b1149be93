/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the book: what book.c (incidents, telling) and book_store.c (routes, groups, records)
 * have in common. */
#ifndef SLUICE_HEALTHCHECK_ALERTS_BOOK_PRIVATE_H
#define SLUICE_HEALTHCHECK_ALERTS_BOOK_PRIVATE_H

#include "healthcheck/alerts/book.h"
#include "healthcheck/alerts/event.h"
#include "healthcheck/alerts/map.h"

enum { BOOK_RETRY_MS = 30000 }; /* until the next try when a message found no room */

struct book_route {
  struct book_route *next;
  char *name;
  bool pages;
  bool named; /* since book_routes_begin() */
  struct incident_link *waiting, *waiting_last;
  uint64_t first, last; /* of the changes that are being gathered; 0: none */
  uint64_t again;       /* when to look at those that wait longer; 0: they do not */
};

/* Incidents that one message spoke of. */
struct book_group {
  char key[INCIDENT_KEY];
  char *route;
  enum incident_kind kind;
  enum incident_severity severity;
  bool page;
  bool flapping;
  int64_t since; /* Unix ms */
  uint64_t total;
  uint64_t open;        /* members of which the end was not told yet */
  char *names;          /* the first ones */
  char *domain, *owner; /* if all have the same, else NULL */
};

struct book {
  struct book_options options;
  struct book_sink sink;
  char *host;
  struct map incidents; /* key -> struct incident */
  struct map groups;    /* key -> struct book_group */
  struct book_route *routes;
  uint64_t swept;
  bool held;
  bool full;
};

struct incident_link *book_link(struct incident *incident, struct book_route *route);
void book_wait_append(struct incident_link *link);
void book_wait_remove(struct incident_link *link);
void book_record(struct book *book, const struct incident *incident);
/* What a route knows of it, alone. */
void book_link_record(struct book *book, const struct incident_link *link);
json_t *book_incident_record(const struct incident *incident);
void book_free_route(struct book_route *route);

/* A group of the links in the list `first` (by `chosen`); NULL without memory. */
struct book_group *book_group_new(struct book *book, const struct book_route *route,
                                  enum incident_kind kind, const struct incident_link *first,
                                  int64_t now);
void book_group_free(struct book_group *group);
/* One member less. */
void book_group_leave(struct book *book, struct book_group *group);
void book_group_remove(struct book *book, struct book_group *group);
void book_group_record(struct book *book, const struct book_group *group);
json_t *book_group_event(const struct book *book, const struct book_group *group,
                         enum event_action action, int64_t now);

#endif
