/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/alerts/incident.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_TEXT_MAX = 1100 };

static const char *const kind_words[INCIDENT_KINDS] = {"endpoint", "failover", "failover-by-hand",
                                                       "all-down", "isolated"};
static const char *const severity_words[] = {"info", "warning", "error", "critical"};

const char *incident_kind_name(enum incident_kind kind) {
  return kind_words[kind == INCIDENT_BY_HAND ? INCIDENT_FAILOVER : kind];
}

const char *incident_severity_name(enum incident_severity severity) {
  return severity_words[severity];
}

static const char *or_none(const char *text) {
  return text != NULL ? text : "";
}

/* Regions, types and endpoints have no `|` in their names, and a domain ends with a dot: so no two
 * incidents have the same key. */
void incident_key(const struct incident_name *name, char *out) {
  char *text = NULL;
  int length =
      asprintf(&text, "sluice|%s|%s|%s|%s", kind_words[name->kind], or_none(name->domain),
               name->kind == INCIDENT_ENDPOINT ? or_none(name->endpoint) : or_none(name->region),
               or_none(name->type));
  if (length < 0) {
    out[0] = '\0';
    return;
  }
  if (name->type == NULL)
    text[--length] = '\0';
  if ((size_t)length < INCIDENT_KEY) {
    memcpy(out, text, (size_t)length + 1);
    free(text);
    return;
  }
  uint8_t hash[SHA256_DIGEST_LENGTH];
  SHA256((const uint8_t *)text, (size_t)length, hash);
  int at = snprintf(out, INCIDENT_KEY, "sluice|%s|sha256:", kind_words[name->kind]);
  for (size_t i = 0; i < sizeof hash; i++)
    at += snprintf(out + at, INCIDENT_KEY - (size_t)at, "%02x", hash[i]);
  free(text);
}

bool incident_text(char **text, const char *value) {
  char *copy = value != NULL ? strdup(value) : NULL;
  if (value != NULL && copy == NULL)
    return false;
  free(*text);
  *text = copy;
  return true;
}

struct incident *incident_new(const struct incident_name *name) {
  struct incident *incident = calloc(1, sizeof *incident);
  if (incident == NULL)
    return NULL;
  incident->kind = name->kind;
  incident_key(name, incident->key);
  if (incident->key[0] != '\0' && incident_text(&incident->domain, name->domain) &&
      incident_text(&incident->region, name->region) &&
      incident_text(&incident->type, name->type) &&
      incident_text(&incident->endpoint, name->endpoint))
    return incident;
  incident_free(incident);
  return NULL;
}

void incident_free(struct incident *incident) {
  if (incident == NULL)
    return;
  for (struct incident_link *link = incident->links, *next; link != NULL; link = next) {
    next = link->next;
    free(link->thread);
    free(link);
  }
  free(incident->domain);
  free(incident->region);
  free(incident->type);
  free(incident->endpoint);
  free(incident->owner);
  free(incident->summary);
  free(incident->detail);
  free(incident);
}

/* ---- records ----------------------------------------------------------------------------------
 */

json_t *incident_to_json(const struct incident *i) {
  return json_pack("{s:s, s:s, s:s?, s:s?, s:s?, s:s?, s:s?, s:b, s:b, s:s, s:I, s:I, s:s, s:s?, "
                   "s:s?}",
                   "t", "incident", "kind", kind_words[i->kind], "domain", i->domain, "region",
                   i->region, "type", i->type, "endpoint", i->endpoint, "owner", i->owner, "open",
                   (int)i->open, "page", (int)i->page, "severity", severity_words[i->severity],
                   "since", (json_int_t)i->since, "ended", (json_int_t)i->ended, "news", i->news,
                   "summary", i->summary, "detail", i->detail);
}

static int find_word(const json_t *record, const char *member, const char *const *words,
                     int count) {
  const char *word = json_string_value(json_object_get(record, member));
  for (int i = 0; word != NULL && i < count; i++)
    if (strcmp(word, words[i]) == 0)
      return i;
  return -1;
}

/* A text of bounded length, or NULL; *ok becomes false for anything else. */
static const char *get_text(const json_t *record, const char *member, size_t most, bool *ok) {
  const json_t *value = json_object_get(record, member);
  if (value == NULL || json_is_null(value))
    return NULL;
  const char *text = json_string_value(value);
  *ok = *ok && text != NULL && json_string_length(value) < most;
  return *ok ? text : NULL;
}

static int64_t get_time(const json_t *record, const char *member, bool *ok) {
  const json_t *value = json_object_get(record, member);
  *ok = *ok && json_is_integer(value) && json_integer_value(value) >= 0;
  return *ok ? json_integer_value(value) : 0;
}

static bool has_names(const struct incident_name *name) {
  switch (name->kind) {
  case INCIDENT_ENDPOINT:
    return name->domain != NULL && name->endpoint != NULL && name->region == NULL &&
           name->type == NULL;
  case INCIDENT_ISOLATED:
    return name->domain == NULL && name->endpoint == NULL && name->type == NULL;
  default:
    return name->domain != NULL && name->region != NULL && name->type != NULL &&
           name->endpoint == NULL;
  }
}

struct incident *incident_from_json(const json_t *record) {
  bool ok = true;
  int kind = find_word(record, "kind", kind_words, INCIDENT_KINDS);
  int severity = find_word(record, "severity", severity_words, 4);
  if (kind < 0 || severity < 0)
    return NULL;
  struct incident_name name = {
      .kind = (enum incident_kind)kind,
      .domain = get_text(record, "domain", NAME_TEXT_MAX, &ok),
      .region = get_text(record, "region", NAME_TEXT_MAX, &ok),
      .type = get_text(record, "type", NAME_TEXT_MAX, &ok),
      .endpoint = get_text(record, "endpoint", NAME_TEXT_MAX, &ok),
  };
  const char *owner = get_text(record, "owner", 4096, &ok);
  const char *news = get_text(record, "news", INCIDENT_NEWS, &ok);
  const char *summary = get_text(record, "summary", INCIDENT_SUMMARY * 4, &ok);
  const char *detail = get_text(record, "detail", 32768, &ok);
  int64_t since = get_time(record, "since", &ok);
  int64_t ended = get_time(record, "ended", &ok);
  if (!ok || !has_names(&name))
    return NULL;
  struct incident *incident = incident_new(&name);
  if (incident == NULL)
    return NULL;
  incident->severity = (enum incident_severity)severity;
  incident->open = json_is_true(json_object_get(record, "open"));
  incident->page = json_is_true(json_object_get(record, "page"));
  incident->restored = true;
  incident->since = since;
  incident->ended = ended;
  snprintf(incident->news, sizeof incident->news, "%s", or_none(news));
  if (incident_text(&incident->owner, owner) && incident_text(&incident->summary, summary) &&
      incident_text(&incident->detail, detail))
    return incident;
  incident_free(incident);
  return NULL;
}
