/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/alerts/book.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/utf8.h"
#include "healthcheck/alerts/book_private.h"
#include "healthcheck/alerts/event.h"

enum {
  WINDOWS_MOST = 5, /* of gathering, while changes go on */
  AGAIN_QUIETS = 3, /* a trigger within so many `quiet` of the last one is flapping */
  SWEEP_MS = 30000, /* between looks for what is not needed any more */
};

struct book *book_open(const struct book_options *options, const struct book_sink *sink) {
  struct book *book = calloc(1, sizeof *book);
  if (book == NULL)
    return NULL;
  book->options = *options;
  book->sink = *sink;
  book->host = strdup(options->host);
  if (book->host == NULL) {
    free(book);
    return NULL;
  }
  return book;
}

void book_free_route(struct book_route *route) {
  free(route->name);
  free(route);
}

void book_close(struct book *book) {
  if (book == NULL)
    return;
  size_t at = 0;
  for (struct incident *i; (i = map_next(&book->incidents, &at)) != NULL;)
    incident_free(i);
  at = 0;
  for (struct book_group *g; (g = map_next(&book->groups, &at)) != NULL;)
    book_group_free(g);
  for (struct book_route *r = book->routes, *next; r != NULL; r = next) {
    next = r->next;
    book_free_route(r);
  }
  map_close(&book->incidents);
  map_close(&book->groups);
  free(book->host);
  free(book);
}

/* ---- records ----------------------------------------------------------------------------------
 */

void book_record(struct book *book, const struct incident *incident) {
  book->sink.record(book->sink.arg, book_incident_record(incident));
}

/* After a change of one link.  In full, so that one damaged record does not lose an incident; short
 * for members of a group, of which there may be very many at once. */
static void record_link(struct book *book, const struct incident_link *link, bool grouped) {
  if (grouped)
    book_link_record(book, link);
  else
    book_record(book, link->incident);
}

static bool is_grouped(const struct incident_link *link) {
  return link->thread != NULL && strcmp(link->thread, link->incident->key) != 0;
}

/* ---- lists of changes -------------------------------------------------------------------------
 */

static void wait_add(struct incident_link *link, const struct moment *now) {
  struct book_route *route = link->route;
  if (route->first == 0 || route->waiting == NULL)
    route->first = now->mono;
  route->last = now->mono;
  route->again = 0;
  if (link->waiting)
    return;
  book_wait_append(link);
}

void book_wait_append(struct incident_link *link) {
  struct book_route *route = link->route;
  link->waiting = true;
  link->waiting_next = NULL;
  link->waiting_prev = route->waiting_last;
  if (route->waiting_last != NULL)
    route->waiting_last->waiting_next = link;
  else
    route->waiting = link;
  route->waiting_last = link;
}

void book_wait_remove(struct incident_link *link) {
  if (!link->waiting)
    return;
  link->waiting = false;
  if (link->waiting_prev != NULL)
    link->waiting_prev->waiting_next = link->waiting_next;
  else
    link->route->waiting = link->waiting_next;
  if (link->waiting_next != NULL)
    link->waiting_next->waiting_prev = link->waiting_prev;
  else
    link->route->waiting_last = link->waiting_prev;
}

/* ---- links ------------------------------------------------------------------------------------
 */

static struct incident_link *find_link(const struct incident *incident,
                                       const struct book_route *route) {
  struct incident_link *link = incident->links;
  while (link != NULL && link->route != route)
    link = link->next;
  return link;
}

struct incident_link *book_link(struct incident *incident, struct book_route *route) {
  struct incident_link *link = find_link(incident, route);
  if (link != NULL)
    return link;
  link = calloc(1, sizeof *link);
  if (link == NULL)
    return NULL;
  link->incident = incident;
  link->route = route;
  link->next = incident->links;
  incident->links = link;
  return link;
}

static void drop_link(struct incident *incident, struct incident_link *link) {
  struct incident_link **at = &incident->links;
  while (*at != link)
    at = &(*at)->next;
  *at = link->next;
  book_wait_remove(link);
  free(link->thread);
  free(link);
}

/* What pages people gets a failover only where the domain wants to be paged for it, and never what
 * somebody has done by hand. */
static bool is_wanted(const struct incident *incident, const struct book_policy *policy,
                      const struct book_route *route) {
  if (policy == NULL || !policy->wanted[incident->kind])
    return false;
  if (!route->pages)
    return true;
  if (incident->kind == INCIDENT_BY_HAND)
    return false;
  return incident->kind != INCIDENT_FAILOVER || policy->page;
}

static bool is_in_policy(const struct book_policy *policy, const struct book_route *route) {
  for (size_t i = 0; policy != NULL && i < policy->route_count; i++)
    if (policy->routes[i] == route)
      return true;
  return false;
}

/* Brings the links in line with the policy, and notes what has to be told. */
static bool follow_policy(struct incident *incident, const struct book_policy *policy,
                          const struct moment *now) {
  for (struct incident_link *link = incident->links, *next; link != NULL; link = next) {
    next = link->next;
    bool wanted = is_in_policy(policy, link->route) && is_wanted(incident, policy, link->route);
    if (!wanted && link->thread == NULL)
      drop_link(incident, link);
  }
  for (size_t i = 0; i < policy->route_count; i++) {
    if (!is_wanted(incident, policy, policy->routes[i]))
      continue;
    struct incident_link *link = book_link(incident, policy->routes[i]);
    if (link == NULL)
      return false;
    if (link->thread == NULL || strcmp(link->news, incident->news) != 0)
      wait_add(link, now);
  }
  return true;
}

/* ---- incidents --------------------------------------------------------------------------------
 */

struct incident *book_find(const struct book *book, const struct incident_name *name) {
  char key[INCIDENT_KEY];
  incident_key(name, key);
  return map_get(&book->incidents, key);
}

struct incident *book_next(const struct book *book, size_t *at) {
  return map_next(&book->incidents, at);
}

size_t book_count(const struct book *book) {
  return book->incidents.count;
}

static struct incident *add_incident(struct book *book, const struct incident_name *name) {
  if (book->incidents.count >= BOOK_INCIDENTS) {
    if (!book->full)
      log_warning("alerts: more than %d incidents, further ones are not told", BOOK_INCIDENTS);
    book->full = true;
    return NULL;
  }
  book->full = false;
  struct incident *incident = incident_new(name);
  if (incident != NULL && map_put(&book->incidents, incident->key, incident))
    return incident;
  incident_free(incident);
  return NULL;
}

static void remove_incident(struct book *book, struct incident *incident) {
  for (struct incident_link *link = incident->links; link != NULL; link = link->next)
    book_wait_remove(link);
  book->sink.forget(book->sink.arg, incident);
  book->sink.record(book->sink.arg, json_pack("{s:s, s:s}", "t", "gone", "key", incident->key));
  map_remove(&book->incidents, incident->key);
  incident_free(incident);
}

/* True if the record on disk has to follow. */
static bool take_report(struct incident *incident, const struct book_report *report,
                        const struct moment *now) {
  bool news = !incident->open || strcmp(incident->news, report->news) != 0;
  if (!incident->open) {
    incident->since = now->unix_ms;
    incident->ended = 0;
  }
  incident->open = true;
  incident->restored = false;
  incident->severity = report->severity;
  incident->page = report->page;
  snprintf(incident->news, sizeof incident->news, "%s", report->news);
  if (!news)
    return false;
  char *detail = report->detail != NULL ? json_dumps(report->detail, JSON_COMPACT) : NULL;
  free(incident->detail);
  incident->detail = detail;
  /* Without memory the text before stays: better than none. */
  (void)incident_text(&incident->owner, report->owner);
  (void)incident_text(&incident->summary, report->summary);
  if (incident->summary != NULL)
    utf8_repair(incident->summary);
  return true;
}

struct incident *book_set(struct book *book, const struct book_report *report,
                          const struct book_policy *policy, const struct moment *now) {
  char key[INCIDENT_KEY];
  incident_key(&report->name, key);
  struct incident *incident = map_get(&book->incidents, key);
  if (incident == NULL)
    incident = add_incident(book, &report->name);
  if (incident == NULL)
    return NULL;
  bool news = take_report(incident, report, now);
  if (!follow_policy(incident, policy, now))
    log_warning("alerts: out of memory: %s is not told to all", incident->key);
  if (news && incident->links != NULL) /* else nobody wants to know of it */
    book_record(book, incident);
  return incident;
}

void book_end(struct book *book, struct incident *incident, const char *summary,
              const struct book_policy *policy, const struct moment *now) {
  if (!incident->open && !incident->restored)
    return;
  if (incident->open)
    incident->ended = now->unix_ms;
  incident->open = false;
  incident->restored = false;
  (void)incident_text(&incident->summary, summary);
  for (struct incident_link *link = incident->links, *next; link != NULL; link = next) {
    next = link->next;
    if (link->thread == NULL) { /* it was never told: nothing to take back */
      book_wait_remove(link);
      continue;
    }
    link->silent = policy != NULL && !policy->recovered;
    wait_add(link, now);
  }
  if (incident->links != NULL)
    book_record(book, incident);
}

/* ---- telling ----------------------------------------------------------------------------------
 */

/* What a flush of one route has found. */
struct flush {
  struct book *book;
  struct book_route *route;
  const struct moment *now;
  struct incident_link *triggers[INCIDENT_KINDS]; /* lists by `chosen` */
  struct incident_link *last[INCIDENT_KINDS];
  size_t counts[INCIDENT_KINDS];
  uint64_t again; /* mono ms of the next look at what waits longer; 0: none */
};

static bool tell(const struct flush *f, const char *key, json_t *event) {
  struct book *book = f->book;
  return event != NULL && book->sink.tell(book->sink.arg, f->route->name, key, event);
}

static void look_again(struct flush *f, uint64_t in_ms) {
  uint64_t when = f->now->mono + in_ms;
  if (f->again == 0 || when < f->again)
    f->again = when;
}

static bool is_flapping(const struct flush *f, const struct incident_link *link) {
  int64_t within = (int64_t)f->book->options.quiet_ms * AGAIN_QUIETS;
  return link->told_at != 0 && f->now->unix_ms - link->told_at < within &&
         f->now->unix_ms >= link->told_at;
}

static void was_told(const struct flush *f, struct incident_link *link, char *thread) {
  free(link->thread);
  link->thread = thread;
  link->flapping = is_flapping(f, link);
  link->told_at = f->now->unix_ms;
  memcpy(link->news, link->incident->news, sizeof link->news);
  book_wait_remove(link);
  record_link(f->book, link, is_grouped(link));
}

static void tell_trigger(struct flush *f, struct incident_link *link) {
  const struct incident *i = link->incident;
  char *thread = strdup(i->key);
  json_t *event =
      event_of_incident(i, EVENT_TRIGGER, is_flapping(f, link), f->book->host, f->now->unix_ms);
  if (thread != NULL && tell(f, i->key, event)) {
    was_told(f, link, thread);
    return;
  }
  if (thread == NULL)
    json_decref(event);
  free(thread);
  look_again(f, BOOK_RETRY_MS);
}

static void tell_update(struct flush *f, struct incident_link *link) {
  const struct incident *i = link->incident;
  bool alone = !is_grouped(link);
  /* Who flaps is not told each time, and a group speaks of all its members. */
  if (alone && !link->flapping &&
      !tell(f, i->key, event_of_incident(i, EVENT_UPDATE, false, f->book->host, f->now->unix_ms))) {
    look_again(f, BOOK_RETRY_MS);
    return;
  }
  memcpy(link->news, i->news, sizeof link->news);
  book_wait_remove(link);
  record_link(f->book, link, !alone);
}

static void was_resolved(const struct flush *f, struct incident_link *link) {
  bool grouped = is_grouped(link);
  free(link->thread);
  link->thread = NULL;
  link->flapping = false;
  link->news[0] = '\0';
  book_wait_remove(link);
  record_link(f->book, link, grouped);
}

static void tell_resolve(struct flush *f, struct incident_link *link) {
  const struct incident *i = link->incident;
  int64_t quiet = f->now->unix_ms - i->ended;
  if (link->flapping && quiet >= 0 && quiet < (int64_t)f->book->options.quiet_ms) {
    look_again(f, (uint64_t)((int64_t)f->book->options.quiet_ms - quiet));
    return;
  }
  struct book_group *group = map_get(&f->book->groups, link->thread);
  bool told = true;
  bool last = group != NULL && group->open <= 1;
  if (last)
    told = link->silent ||
           tell(f, group->key, book_group_event(f->book, group, EVENT_RESOLVE, f->now->unix_ms));
  else if (group == NULL && !link->silent && !is_grouped(link))
    told =
        tell(f, i->key,
             event_of_incident(i, EVENT_RESOLVE, link->flapping, f->book->host, f->now->unix_ms));
  if (!told) {
    look_again(f, BOOK_RETRY_MS);
    return;
  }
  if (last)
    book_group_remove(f->book, group);
  else if (group != NULL)
    book_group_leave(f->book, group);
  was_resolved(f, link);
}

static void tell_group(struct flush *f, enum incident_kind kind) {
  struct book_group *group =
      book_group_new(f->book, f->route, kind, f->triggers[kind], f->now->unix_ms);
  if (group == NULL) {
    look_again(f, BOOK_RETRY_MS);
    return;
  }
  for (struct incident_link *link = f->triggers[kind]; link != NULL; link = link->chosen)
    group->flapping = group->flapping || is_flapping(f, link);
  if (!tell(f, group->key, book_group_event(f->book, group, EVENT_TRIGGER, f->now->unix_ms))) {
    book_group_remove(f->book, group);
    look_again(f, BOOK_RETRY_MS);
    return;
  }
  for (struct incident_link *link = f->triggers[kind]; link != NULL; link = link->chosen) {
    char *thread = strdup(group->key);
    if (thread != NULL)
      was_told(f, link, thread);
    else
      book_group_leave(f->book, group);
  }
  book_group_record(f->book, group);
}

/* One change: resolves and updates at once, triggers when all are known. */
static void sort_out(struct flush *f, struct incident_link *link) {
  const struct incident *i = link->incident;
  if (f->book->held && i->kind != INCIDENT_ISOLATED)
    return;
  if (i->restored && i->open) { /* not confirmed yet */
    book_wait_remove(link);
    return;
  }
  if (i->open && link->thread == NULL) {
    link->chosen = NULL;
    *(f->triggers[i->kind] != NULL ? &f->last[i->kind]->chosen : &f->triggers[i->kind]) = link;
    f->last[i->kind] = link;
    f->counts[i->kind]++;
  } else if (i->open && strcmp(link->news, i->news) != 0) {
    tell_update(f, link);
  } else if (!i->open && link->thread != NULL) {
    tell_resolve(f, link);
  } else {
    book_wait_remove(link);
  }
}

static void flush_route(struct book *book, struct book_route *route, const struct moment *now) {
  struct flush f = {.book = book, .route = route, .now = now};
  for (struct incident_link *link = route->waiting, *next; link != NULL; link = next) {
    next = link->waiting_next;
    sort_out(&f, link);
  }
  for (int kind = 0; kind < INCIDENT_KINDS; kind++) {
    if (f.counts[kind] > BOOK_TOGETHER) {
      tell_group(&f, (enum incident_kind)kind);
      continue;
    }
    for (struct incident_link *link = f.triggers[kind], *next; link != NULL; link = next) {
      next = link->chosen;
      tell_trigger(&f, link);
    }
  }
  route->first = 0;
  route->again = f.again;
}

/* When the route's changes are to be told; UINT64_MAX: nothing waits. */
static uint64_t due(const struct book *book, const struct book_route *route) {
  if (route->waiting == NULL)
    return UINT64_MAX;
  if (route->first == 0)
    return route->again != 0 ? route->again : UINT64_MAX;
  uint64_t quiet = route->last + book->options.window_ms;
  uint64_t last = route->first + (uint64_t)book->options.window_ms * WINDOWS_MOST;
  return quiet < last ? quiet : last;
}

void book_hold(struct book *book, bool held, const struct moment *now) {
  book->held = held;
  for (struct book_route *route = book->routes; route != NULL && !held; route = route->next) {
    if (route->waiting == NULL)
      continue;
    route->first = now->mono != 0 ? now->mono : 1;
    route->last = route->first;
  }
}

/* Closed ones are kept for a while, to know whether they flap. */
static void sweep(struct book *book, const struct moment *now) {
  int64_t keep = (int64_t)book->options.quiet_ms * AGAIN_QUIETS;
  size_t at = 0;
  for (struct incident *i; (i = map_next(&book->incidents, &at)) != NULL;) {
    bool needed = i->open || i->restored;
    for (const struct incident_link *link = i->links; link != NULL && !needed; link = link->next) {
      int64_t age = now->unix_ms - link->told_at;
      needed = link->thread != NULL || (link->told_at != 0 && age >= 0 && age < keep);
    }
    if (!needed)
      remove_incident(book, i);
  }
}

void book_tick(struct book *book, const struct moment *now) {
  for (struct book_route *route = book->routes; route != NULL; route = route->next)
    if (due(book, route) <= now->mono)
      flush_route(book, route, now);
  if (now->mono - book->swept < SWEEP_MS)
    return;
  book->swept = now->mono;
  sweep(book, now);
}

uint64_t book_wait(const struct book *book, const struct moment *now) {
  uint64_t first = book->incidents.count != 0 ? book->swept + SWEEP_MS : UINT64_MAX;
  for (const struct book_route *route = book->routes; route != NULL; route = route->next) {
    uint64_t when = due(book, route);
    if (when < first)
      first = when;
  }
  if (first == UINT64_MAX)
    return UINT64_MAX;
  return first > now->mono ? first - now->mono : 0;
}

json_t *book_open_json(const struct book *book) {
  json_t *list = json_array();
  size_t at = 0;
  for (struct incident *i; list != NULL && (i = map_next(&book->incidents, &at)) != NULL;) {
    if (!i->open)
      continue;
    bool told = false;
    bool flapping = false;
    for (const struct incident_link *link = i->links; link != NULL; link = link->next) {
      told = told || link->thread != NULL;
      flapping = flapping || link->flapping;
    }
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s?, s:I, s:b, s:b}", "key", i->key,
                                          "kind", incident_kind_name(i->kind), "severity",
                                          incident_severity_name(i->severity), "summary",
                                          i->summary, "since", (json_int_t)(i->since / 1000),
                                          "told", (int)told, "flapping", (int)flapping));
  }
  return list;
}
