/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/alerts/event.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/utf8.h"

static const char *const action_words[] = {"trigger", "update", "resolve"};

char *event_time(int64_t unix_ms, char *out) {
  time_t seconds = (time_t)(unix_ms / 1000);
  struct tm tm;
  if (gmtime_r(&seconds, &tm) == NULL || strftime(out, EVENT_TIME, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
    strcpy(out, "1970-01-01T00:00:00Z");
  return out;
}

void event_name(const struct incident *incident, char *out, size_t room) {
  switch (incident->kind) {
  case INCIDENT_ENDPOINT:
    snprintf(out, room, "%s %s", incident->domain, incident->endpoint);
    break;
  case INCIDENT_ISOLATED:
    snprintf(out, room, "%s", incident->region != NULL ? incident->region : "checker");
    break;
  default:
    snprintf(out, room, "%s %s (%s)", incident->domain, incident->region, incident->type);
  }
}

/* Members that all events have, but for the id. */
static json_t *common(enum event_action action, const char *key, enum incident_kind kind,
                      enum incident_severity severity, const char *summary, const char *host,
                      int64_t since, int64_t now) {
  char text[INCIDENT_SUMMARY];
  char time[EVENT_TIME];
  char began[EVENT_TIME];
  snprintf(text, sizeof text, "%s", summary);
  utf8_repair(text);
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "action", action_words[action],
                   "key", key, "kind", incident_kind_name(kind), "severity",
                   incident_severity_name(severity), "summary", text, "time", event_time(now, time),
                   "since", event_time(since, began), "host", host);
}

/* Adds the members of `more` (taken over); NULL if either is missing. */
static json_t *add(json_t *event, json_t *more) {
  bool ok = event != NULL && more != NULL && json_object_update_missing(event, more) == 0;
  json_decref(more);
  if (ok)
    return event;
  json_decref(event);
  return NULL;
}

json_t *event_of_incident(const struct incident *i, enum event_action action, bool flapping,
                          const char *host, int64_t now) {
  json_t *detail = i->detail != NULL ? json_loads(i->detail, 0, NULL) : NULL;
  char summary[INCIDENT_SUMMARY + 16];
  snprintf(summary, sizeof summary, "%s%s", flapping ? "flapping: " : "",
           i->summary != NULL ? i->summary : i->key);
  json_t *event = common(action, i->key, i->kind, i->severity, summary, host, i->since, now);
  event = add(event, json_pack("{s:b, s:b, s:s?, s:s?, s:s?, s:s?, s:s?, s:i}", "page",
                               (int)i->page, "flapping", (int)flapping, "domain", i->domain,
                               "region", i->kind == INCIDENT_ISOLATED ? NULL : i->region, "type",
                               i->type, "endpoint", i->endpoint, "owner", i->owner, "count", 1));
  return json_is_object(detail) ? add(event, detail) : (json_decref(detail), event);
}

static const char *plural(enum incident_kind kind) {
  static const char *const words[INCIDENT_KINDS] = {
      "endpoints down", "regions fail over", "regions moved by hand",
      "regions with nothing healthy left", "checkers cut off"};
  return words[kind];
}

json_t *event_of_group(const struct event_group *group, enum event_action action, const char *host,
                       int64_t now) {
  char summary[INCIDENT_SUMMARY];
  bool over = action == EVENT_RESOLVE;
  const char *more = group->count > BOOK_FIRST_NAMES ? ", ..." : "";
  if (over)
    snprintf(summary, sizeof summary, "recovered: all of %llu %s (%s%s)",
             (unsigned long long)group->count, plural(group->kind), group->names, more);
  else
    snprintf(summary, sizeof summary, "%s%llu %s: %s%s", group->flapping ? "flapping: " : "",
             (unsigned long long)group->count, plural(group->kind), group->names, more);
  json_t *event =
      common(action, group->key, group->kind, group->severity, summary, host, group->since, now);
  return add(event,
             json_pack("{s:b, s:b, s:s?, s:n, s:n, s:n, s:s?, s:I}", "page", (int)group->page,
                       "flapping", (int)group->flapping, "domain", group->domain, "region", "type",
                       "endpoint", "owner", group->owner, "count", (json_int_t)group->count));
}
