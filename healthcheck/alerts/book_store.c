/* SPDX-License-Identifier: Apache-2.0 */
/* The book's routes, groups, and what is kept on disk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "healthcheck/alerts/book_private.h"

enum { NAMES_ROOM = 600, TEXT_ROOM = 4096, ROUTE_NAME_MAX = 256, GROUPS_MAX = 10000 };

/* ---- routes -----------------------------------------------------------------------------------
 */

static struct book_route *find_route(const struct book *book, const char *name) {
  struct book_route *route = book->routes;
  while (route != NULL && strcmp(route->name, name) != 0)
    route = route->next;
  return route;
}

static struct book_route *add_route(struct book *book, const char *name) {
  struct book_route *route = calloc(1, sizeof *route);
  if (route == NULL)
    return NULL;
  route->name = strdup(name);
  if (route->name == NULL) {
    free(route);
    return NULL;
  }
  route->next = book->routes;
  book->routes = route;
  return route;
}

struct book_route *book_route(struct book *book, const char *name, bool pages) {
  struct book_route *route = find_route(book, name);
  if (route == NULL)
    route = add_route(book, name);
  if (route == NULL)
    return NULL;
  route->pages = pages;
  route->named = true;
  return route;
}

void book_routes_begin(struct book *book) {
  for (struct book_route *route = book->routes; route != NULL; route = route->next)
    route->named = false;
}

/* Drops the incident's links to routes that are gone. */
static void cut_links(struct book *book, struct incident *incident) {
  bool changed = false;
  for (struct incident_link **at = &incident->links; *at != NULL;) {
    struct incident_link *link = *at;
    if (link->route->named) {
      at = &link->next;
      continue;
    }
    struct book_group *group = link->thread != NULL ? map_get(&book->groups, link->thread) : NULL;
    if (group != NULL)
      book_group_leave(book, group);
    *at = link->next;
    book_wait_remove(link);
    free(link->thread);
    free(link);
    changed = true;
  }
  if (changed)
    book_record(book, incident);
}

void book_routes_end(struct book *book) {
  bool gone = false;
  for (struct book_route *route = book->routes; route != NULL; route = route->next) {
    gone = gone || !route->named;
    if (!route->named)
      log_notice("alerts: the route %s is gone; what is open there is not resolved", route->name);
  }
  if (!gone)
    return;
  size_t at = 0;
  for (struct incident *i; (i = map_next(&book->incidents, &at)) != NULL;)
    cut_links(book, i);
  for (struct book_route **next = &book->routes; *next != NULL;) {
    struct book_route *route = *next;
    if (route->named) {
      next = &route->next;
      continue;
    }
    *next = route->next;
    book_free_route(route);
  }
}

/* ---- groups -----------------------------------------------------------------------------------
 */

void book_group_free(struct book_group *group) {
  if (group == NULL)
    return;
  free(group->route);
  free(group->names);
  free(group->domain);
  free(group->owner);
  free(group);
}

static void add_name(char *names, const struct incident *incident) {
  size_t used = strlen(names);
  char name[100]; /* longer ones are cut: the key of a group does not depend on them */
  event_name(incident, name, sizeof name);
  snprintf(names + used, NAMES_ROOM - used, "%s%s", used != 0 ? ", " : "", name);
}

/* The text that all have, or NULL. */
static const char *common(const char *so_far, const char *text, bool first) {
  if (first)
    return text;
  return so_far != NULL && text != NULL && strcmp(so_far, text) == 0 ? so_far : NULL;
}

struct book_group *book_group_new(struct book *book, const struct book_route *route,
                                  enum incident_kind kind, const struct incident_link *first,
                                  int64_t now) {
  char names[NAMES_ROOM] = "";
  const char *domain = NULL, *owner = NULL;
  struct book_group *group = calloc(1, sizeof *group);
  if (group == NULL || book->groups.count >= GROUPS_MAX)
    goto failed;
  group->kind = kind;
  group->since = now;
  for (const struct incident_link *link = first; link != NULL; link = link->chosen) {
    const struct incident *i = link->incident;
    domain = common(domain, i->domain, group->total == 0);
    owner = common(owner, i->owner, group->total == 0);
    if (group->total++ < BOOK_FIRST_NAMES)
      add_name(names, i);
    group->page = group->page || i->page;
    if (i->severity > group->severity)
      group->severity = i->severity;
    if (i->since < group->since)
      group->since = i->since;
  }
  group->open = group->total;
  group->route = strdup(route->name);
  group->names = strdup(names);
  for (unsigned n = 0; n == 0 || map_get(&book->groups, group->key) != NULL; n++)
    snprintf(group->key, sizeof group->key, "sluice|group|%s|%lld-%u|%.80s|%.80s",
             incident_kind_name(kind), (long long)now, n, route->name, book->host);
  if (group->route != NULL && group->names != NULL && incident_text(&group->domain, domain) &&
      incident_text(&group->owner, owner) && map_put(&book->groups, group->key, group))
    return group;
failed:
  book_group_free(group);
  return NULL;
}

void book_group_record(struct book *book, const struct book_group *g) {
  book->sink.record(
      book->sink.arg,
      json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:I, s:I, s:s, s:s?, s:s?}", "t", "group",
                "key", g->key, "route", g->route, "kind", incident_kind_name(g->kind), "severity",
                incident_severity_name(g->severity), "page", (int)g->page, "flapping",
                (int)g->flapping, "since", (json_int_t)g->since, "total", (json_int_t)g->total,
                "names", g->names, "domain", g->domain, "owner", g->owner));
}

void book_group_remove(struct book *book, struct book_group *group) {
  book->sink.record(book->sink.arg, json_pack("{s:s, s:s}", "t", "ungroup", "key", group->key));
  map_remove(&book->groups, group->key);
  book_group_free(group);
}

void book_group_leave(struct book *book, struct book_group *group) {
  if (group->open > 1)
    group->open--;
  else
    book_group_remove(book, group);
}

json_t *book_group_event(const struct book *book, const struct book_group *group,
                         enum event_action action, int64_t now) {
  struct event_group event = {
      .key = group->key,
      .kind = group->kind,
      .severity = group->severity,
      .page = group->page,
      .flapping = group->flapping,
      .since = group->since,
      .count = group->total,
      .names = group->names,
      .domain = group->domain,
      .owner = group->owner,
  };
  return event_of_group(&event, action, book->host, now);
}

/* ---- records ----------------------------------------------------------------------------------
 */

json_t *book_incident_record(const struct incident *incident) {
  json_t *record = incident_to_json(incident);
  json_t *links = json_array();
  for (const struct incident_link *link = incident->links; link != NULL && links != NULL;
       link = link->next)
    if (link->thread != NULL || link->told_at != 0)
      json_array_append_new(links,
                            json_pack("{s:s, s:s?, s:I, s:b, s:s}", "route", link->route->name,
                                      "thread", link->thread, "told_at", (json_int_t)link->told_at,
                                      "flapping", (int)link->flapping, "news", link->news));
  if (record == NULL || links == NULL || json_object_set(record, "links", links) != 0) {
    json_decref(record);
    record = NULL;
  }
  json_decref(links);
  return record;
}

/* Many of them may be written at once, so they are short. */
void book_link_record(struct book *book, const struct incident_link *link) {
  book->sink.record(book->sink.arg,
                    json_pack("{s:s, s:s, s:s, s:s?, s:I, s:b, s:s}", "t", "told", "key",
                              link->incident->key, "route", link->route->name, "thread",
                              link->thread, "told_at", (json_int_t)link->told_at, "flapping",
                              (int)link->flapping, "news", link->news));
}

static const char *short_text(const json_t *record, const char *member, size_t most) {
  const json_t *value = json_object_get(record, member);
  return json_string_length(value) > 0 && json_string_length(value) < most
             ? json_string_value(value)
             : NULL;
}

static bool restore_link(struct book *book, struct incident *incident, const json_t *record) {
  const char *name = short_text(record, "route", ROUTE_NAME_MAX);
  const char *thread = short_text(record, "thread", INCIDENT_KEY);
  const char *news = short_text(record, "news", INCIDENT_NEWS);
  json_int_t told_at = json_integer_value(json_object_get(record, "told_at"));
  if (name == NULL || told_at < 0)
    return false;
  struct book_route *route = find_route(book, name);
  if (route == NULL)
    route = add_route(book, name);
  struct incident_link *link = route != NULL ? book_link(incident, route) : NULL;
  if (link == NULL || !incident_text(&link->thread, thread))
    return false;
  link->told_at = told_at;
  link->flapping = json_is_true(json_object_get(record, "flapping"));
  snprintf(link->news, sizeof link->news, "%s", news != NULL ? news : "");
  return true;
}

/* Frees one that is replaced or was not whole. */
static void discard(struct book *book, struct incident *incident) {
  for (struct incident_link *link = incident->links; link != NULL; link = link->next)
    book_wait_remove(link);
  if (map_get(&book->incidents, incident->key) == incident)
    map_remove(&book->incidents, incident->key);
  incident_free(incident);
}

/* An end that was not told yet is told now. */
static void wait_for_end(struct incident *incident) {
  for (struct incident_link *link = incident->links; link != NULL; link = link->next) {
    if (incident->open || link->thread == NULL || link->waiting)
      continue;
    book_wait_append(link);
    link->route->again = 1;
  }
}

static bool restore_incident(struct book *book, const json_t *record) {
  struct incident *incident = incident_from_json(record);
  if (incident == NULL)
    return false;
  size_t i;
  json_t *link;
  bool ok = true;
  json_array_foreach(json_object_get(record, "links"), i, link) {
    ok = ok && i < 100 && restore_link(book, incident, link);
  }
  struct incident *before = map_get(&book->incidents, incident->key);
  if (before != NULL)
    discard(book, before);
  if (ok && book->incidents.count < BOOK_INCIDENTS &&
      map_put(&book->incidents, incident->key, incident)) {
    wait_for_end(incident);
    return true;
  }
  discard(book, incident);
  return false;
}

static bool restore_told(struct book *book, const json_t *record) {
  const char *key = short_text(record, "key", INCIDENT_KEY);
  struct incident *incident = key != NULL ? map_get(&book->incidents, key) : NULL;
  if (key == NULL || (incident != NULL && !restore_link(book, incident, record)))
    return false;
  if (incident == NULL) /* its own record may have been damaged */
    return true;
  for (struct incident_link *link = incident->links; link != NULL; link = link->next)
    if (link->thread == NULL)
      book_wait_remove(link);
  wait_for_end(incident);
  return true;
}

static int find_kind(const char *word) {
  for (int i = 0; word != NULL && i < INCIDENT_KINDS; i++)
    if (strcmp(word, incident_kind_name((enum incident_kind)i)) == 0)
      return i;
  return -1;
}

static int find_severity(const char *word) {
  for (int i = SEVERITY_INFO; word != NULL && i <= SEVERITY_CRITICAL; i++)
    if (strcmp(word, incident_severity_name((enum incident_severity)i)) == 0)
      return i;
  return -1;
}

static bool restore_group(struct book *book, const json_t *record) {
  const char *key = short_text(record, "key", INCIDENT_KEY);
  const char *route = short_text(record, "route", ROUTE_NAME_MAX);
  const char *names = short_text(record, "names", NAMES_ROOM);
  int kind = find_kind(short_text(record, "kind", 32));
  int severity = find_severity(short_text(record, "severity", 32));
  json_int_t since = json_integer_value(json_object_get(record, "since"));
  json_int_t total = json_integer_value(json_object_get(record, "total"));
  if (key == NULL || route == NULL || kind < 0 || severity < 0 || since < 0 || total < 1 ||
      book->groups.count >= GROUPS_MAX)
    return false;
  struct book_group *before = map_get(&book->groups, key);
  if (before != NULL) {
    map_remove(&book->groups, key);
    book_group_free(before);
  }
  struct book_group *group = calloc(1, sizeof *group);
  if (group == NULL)
    return false;
  snprintf(group->key, sizeof group->key, "%s", key);
  group->kind = (enum incident_kind)kind;
  group->severity = (enum incident_severity)severity;
  group->page = json_is_true(json_object_get(record, "page"));
  group->flapping = json_is_true(json_object_get(record, "flapping"));
  group->since = since;
  group->total = (uint64_t)total;
  group->route = strdup(route);
  group->names = strdup(names != NULL ? names : "");
  if (group->route != NULL && group->names != NULL &&
      incident_text(&group->domain, short_text(record, "domain", TEXT_ROOM)) &&
      incident_text(&group->owner, short_text(record, "owner", TEXT_ROOM)) &&
      map_put(&book->groups, group->key, group))
    return true;
  book_group_free(group);
  return false;
}

static bool restore_removal(struct book *book, const json_t *record, bool group) {
  const char *key = short_text(record, "key", INCIDENT_KEY);
  if (key == NULL)
    return false;
  struct incident *incident = group ? NULL : map_get(&book->incidents, key);
  struct book_group *gone = group ? map_get(&book->groups, key) : NULL;
  if (incident != NULL)
    discard(book, incident);
  if (gone == NULL)
    return true;
  map_remove(&book->groups, key);
  book_group_free(gone);
  return true;
}

bool book_restore(struct book *book, const json_t *record) {
  const char *kind = json_string_value(json_object_get(record, "t"));
  if (kind == NULL)
    return false;
  if (strcmp(kind, "incident") == 0)
    return restore_incident(book, record);
  if (strcmp(kind, "told") == 0)
    return restore_told(book, record);
  if (strcmp(kind, "group") == 0)
    return restore_group(book, record);
  if (strcmp(kind, "gone") == 0)
    return restore_removal(book, record, false);
  if (strcmp(kind, "ungroup") == 0)
    return restore_removal(book, record, true);
  return false;
}

void book_restored(struct book *book) {
  size_t at = 0;
  for (struct book_group *g; (g = map_next(&book->groups, &at)) != NULL;)
    g->open = 0;
  at = 0;
  for (struct incident *i; (i = map_next(&book->incidents, &at)) != NULL;)
    for (struct incident_link *link = i->links; link != NULL; link = link->next) {
      struct book_group *group = link->thread != NULL ? map_get(&book->groups, link->thread) : NULL;
      if (group != NULL)
        group->open++;
    }
  /* Its members have all gone meanwhile, so nobody would resolve it. */
  at = 0;
  for (struct book_group *g; (g = map_next(&book->groups, &at)) != NULL;)
    if (g->open == 0)
      book_group_remove(book, g);
}

void book_dump(const struct book *book, void (*record)(void *arg, json_t *record), void *arg) {
  struct book copy = *book; /* the same book with another sink */
  copy.sink.record = record;
  copy.sink.arg = arg;
  size_t at = 0;
  for (struct book_group *g; (g = map_next(&book->groups, &at)) != NULL;)
    book_group_record(&copy, g);
  at = 0;
  for (struct incident *i; (i = map_next(&book->incidents, &at)) != NULL;)
    book_record(&copy, i);
}
