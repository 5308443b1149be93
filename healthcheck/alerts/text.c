/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/alerts/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "steering/layers.h"

enum { NAMES_ROOM = 700, WHY_SHOWN = 120 };

const char *text_type(enum steer_type type) {
  static const char *const names[STEER_TYPES] = {"A", "AAAA", "CNAME"};
  return names[type];
}

static void append(char *out, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *out, size_t room, const char *format, ...) {
  size_t used = strlen(out);
  va_list args;
  va_start(args, format);
  vsnprintf(out + used, room - used, format, args);
  va_end(args);
}

static const char *why_of(const struct text_source *s, uint16_t endpoint) {
  const char *why = s->whys != NULL ? s->whys[endpoint] : NULL;
  return why != NULL && why[0] != '\0' ? why : NULL;
}

/* "a, b and 3 more" */
static const char *names(const struct text_source *s, const struct outlook_list *list, char *out) {
  out[0] = '\0';
  for (size_t i = 0; i < list->count && i < OUTLOOK_NAMES; i++)
    append(out, NAMES_ROOM, "%s%s", i != 0 ? ", " : "",
           s->steer->endpoints[list->endpoints[i]].name);
  if (list->count > OUTLOOK_NAMES)
    append(out, NAMES_ROOM, " and %zu more", list->count - OUTLOOK_NAMES);
  return out;
}

/* "a (connect refused), b (status 503)" */
static const char *failed(const struct text_source *s, const struct outlook_list *list, char *out) {
  out[0] = '\0';
  for (size_t i = 0; i < list->count && i < OUTLOOK_NAMES; i++) {
    const char *why = why_of(s, list->endpoints[i]);
    append(out, NAMES_ROOM, "%s%s", i != 0 ? ", " : "",
           s->steer->endpoints[list->endpoints[i]].name);
    if (why != NULL)
      append(out, NAMES_ROOM, " (%.*s)", WHY_SHOWN, why);
  }
  if (list->count > OUTLOOK_NAMES)
    append(out, NAMES_ROOM, " and %zu more", list->count - OUTLOOK_NAMES);
  return out;
}

/* What somebody did to an endpoint. */
static const char *act_of(const struct text_source *s, uint16_t endpoint) {
  const struct steer_status *status =
      s->facts->by_hand != NULL ? &s->facts->by_hand[endpoint] : NULL;
  if (status != NULL && status->manual == MANUAL_DISABLED)
    return "disabled by hand";
  if (status != NULL && (status->health4 == HEALTH_DOWN || status->health6 == HEALTH_DOWN))
    return "forced down by hand";
  if (status != NULL && status->manual == MANUAL_ENABLED && !s->steer->endpoints[endpoint].enabled)
    return "enabled by hand";
  return "weight set by hand";
}

static json_t *reasons_json(const struct text_source *s, const struct outlook_list *list,
                            bool by_hand) {
  json_t *out = json_array();
  for (size_t i = 0; out != NULL && i < list->count && i < OUTLOOK_NAMES; i++) {
    uint16_t e = list->endpoints[i];
    json_array_append_new(out, json_pack("{s:s, s:s?}", "endpoint", s->steer->endpoints[e].name,
                                         "why", by_hand ? act_of(s, e) : why_of(s, e)));
  }
  return out;
}

static json_t *serves_json(const struct text_source *s, const struct outlook *o) {
  json_t *out = json_array();
  for (size_t i = 0; out != NULL && i < o->serves.count && i < OUTLOOK_NAMES; i++)
    json_array_append_new(out, json_string(s->steer->endpoints[o->serves.endpoints[i]].name));
  return out;
}

static json_t *detail(const struct text_source *s, const struct outlook *o, unsigned from,
                      unsigned to, const struct outlook_list *list, bool by_hand) {
  return json_pack("{s:i, s:i, s:s, s:o, s:o}", "from", (int)from, "to", (int)to, "cause",
                   by_hand ? "manual" : "health", "reasons", reasons_json(s, list, by_hand),
                   "serves", serves_json(s, o));
}

json_t *text_failover(const struct text_source *s, uint32_t region, enum steer_type type,
                      const struct outlook *o, char *out) {
  char why[NAMES_ROOM];
  char serving[NAMES_ROOM];
  snprintf(out, INCIDENT_SUMMARY,
           "%s: region %s failed over from level %u to level %u (%s); now serving %s; down: %s",
           s->name, s->steer->regions[region].name, o->level_by_hand, o->level, text_type(type),
           names(s, &o->serves, serving), failed(s, &o->failed, why));
  return detail(s, o, o->level_by_hand, o->level, &o->failed, false);
}

json_t *text_by_hand(const struct text_source *s, uint32_t region, enum steer_type type,
                     const struct outlook *o, char *out) {
  char serving[NAMES_ROOM];
  const char *name = s->steer->regions[region].name;
  if (o->level_by_hand != o->level_plain)
    snprintf(out, INCIDENT_SUMMARY,
             "%s: region %s was moved by hand from level %u to level %u (%s)", s->name, name,
             o->level_plain, o->level_by_hand, text_type(type));
  else
    snprintf(out, INCIDENT_SUMMARY, "%s: what was set by hand leaves nothing up in region %s (%s)",
             s->name, name, text_type(type));
  append(out, INCIDENT_SUMMARY, "; now serving %s", names(s, &o->serves, serving));
  if (o->level != o->level_by_hand)
    append(out, INCIDENT_SUMMARY, " of level %u because of health", o->level);
  for (size_t i = 0; i < o->set.count && i < OUTLOOK_NAMES; i++)
    append(out, INCIDENT_SUMMARY, "%s%s %s", i != 0 ? ", " : "; ",
           s->steer->endpoints[o->set.endpoints[i]].name, act_of(s, o->set.endpoints[i]));
  return detail(s, o, o->level_plain, o->level_by_hand, &o->set, true);
}

json_t *text_all_down(const struct text_source *s, uint32_t region, enum steer_type type,
                      const struct outlook *o, char *out) {
  char why[NAMES_ROOM];
  char serving[NAMES_ROOM];
  snprintf(out, INCIDENT_SUMMARY,
           "%s: nothing healthy left in region %s (%s); still serving %s of level %u; down: %s",
           s->name, s->steer->regions[region].name, text_type(type), names(s, &o->serves, serving),
           o->level, failed(s, &o->failed, why));
  return detail(s, o, o->level_by_hand, o->level, &o->failed, false);
}

json_t *text_endpoint(const struct text_source *s, uint16_t endpoint, bool down4, bool down6,
                      bool used, char *out) {
  const struct steer_endpoint *e = &s->steer->endpoints[endpoint];
  const struct outlook_list one = {1, {endpoint}};
  const char *why = why_of(s, endpoint);
  bool both = e->addr4_count > 0 && e->addr6_count > 0;
  snprintf(out, INCIDENT_SUMMARY, "%s: endpoint %s is down", s->name, e->name);
  if (both && down4 != down6)
    append(out, INCIDENT_SUMMARY, " over %s", down4 ? "IPv4" : "IPv6");
  if (why != NULL)
    append(out, INCIDENT_SUMMARY, " (%.*s)", WHY_SHOWN, why);
  if (status_is_disabled(e, s->facts->by_hand != NULL ? &s->facts->by_hand[endpoint] : NULL))
    append(out, INCIDENT_SUMMARY, "; it is disabled");
  else if (!used)
    append(out, INCIDENT_SUMMARY, "; it is not in use at the moment");
  json_t *types = json_array();
  if (e->host != NULL)
    json_array_append_new(types, json_string("CNAME"));
  if (e->host == NULL && down4)
    json_array_append_new(types, json_string("A"));
  if (e->host == NULL && down6)
    json_array_append_new(types, json_string("AAAA"));
  return json_pack("{s:b, s:s, s:o, s:o}", "used", (int)used, "cause", "health", "types", types,
                   "reasons", reasons_json(s, &one, false));
}

/* The level that the incident said it came from, or 0. */
static unsigned level_before(const struct incident *incident) {
  unsigned from = 0;
  return sscanf(incident->news, "%u>", &from) == 1 ? from : 0;
}

void text_region_end(const struct text_source *s, const struct incident *i, const struct outlook *o,
                     char *out) {
  char serving[NAMES_ROOM];
  names(s, &o->serves, serving);
  if (i->kind == INCIDENT_ALL_DOWN)
    snprintf(out, INCIDENT_SUMMARY, "%s: region %s has something healthy again (%s)", s->name,
             i->region, i->type);
  else if (level_before(i) == o->level)
    snprintf(out, INCIDENT_SUMMARY, "%s: region %s is back on level %u (%s)", s->name, i->region,
             o->level, i->type);
  else if (i->kind == INCIDENT_BY_HAND)
    snprintf(out, INCIDENT_SUMMARY, "%s: region %s is no longer moved by hand (%s)", s->name,
             i->region, i->type);
  else
    snprintf(out, INCIDENT_SUMMARY, "%s: region %s is no longer moved by health (%s)", s->name,
             i->region, i->type);
  append(out, INCIDENT_SUMMARY, "; now serving %s of level %u", serving, o->level);
}

void text_endpoint_end(const struct text_source *s, uint16_t endpoint, char *out) {
  const struct steer_status *checked =
      s->facts->checked != NULL ? &s->facts->checked[endpoint] : NULL;
  bool known =
      checked != NULL && (checked->health4 != HEALTH_UNKNOWN || checked->health6 != HEALTH_UNKNOWN);
  const char *why = why_of(s, endpoint);
  snprintf(out, INCIDENT_SUMMARY, "%s: endpoint %s %s", s->name, s->steer->endpoints[endpoint].name,
           known ? "is up again" : "is no longer checked");
  if (known && why != NULL)
    append(out, INCIDENT_SUMMARY, " (%.*s)", WHY_SHOWN, why);
}
