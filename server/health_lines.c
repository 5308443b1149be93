/* SPDX-License-Identifier: Apache-2.0 */
#include "server/health_lines.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "healthcheck/feed.h"

enum phase { PHASE_HELLO, PHASE_BEGIN, PHASE_SNAPSHOT, PHASE_LIVE };

enum { FORMAT = 1, ENDPOINT_NAME_MAX = 255 };

struct health_lines {
  struct health_map *map;
  struct health_map *filling; /* the snapshot that is coming in, or NULL */
  enum phase phase;
  json_int_t seq; /* of the last line that has one */
};

struct health_lines *health_lines_new(void) {
  return calloc(1, sizeof(struct health_lines));
}

void health_lines_free(struct health_lines *lines) {
  if (lines == NULL)
    return;
  health_map_free(lines->map);
  health_map_free(lines->filling);
  free(lines);
}

void health_lines_restart(struct health_lines *lines) {
  health_map_free(lines->filling);
  lines->filling = NULL;
  lines->phase = PHASE_HELLO;
}

struct health_map *health_lines_map(const struct health_lines *lines) {
  return lines->map;
}

static enum health_line bad(char *why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum health_line bad(char *why, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(why, HEALTH_LINES_WHY, format, args);
  va_end(args);
  return HEALTH_LINE_BAD;
}

static bool number_of(const json_t *json, const char *key, json_int_t *out) {
  const json_t *value = json_object_get(json, key);
  *out = json_integer_value(value);
  return json_is_integer(value) && *out >= 0;
}

/* ---- verdicts ---------------------------------------------------------------------------------
 */

static bool read_verdict(const json_t *json, struct health_verdict *verdict) {
  static const char *const words[] = {
      [HEALTH_STATE_OPEN] = "unknown", [HEALTH_STATE_UP] = "up", [HEALTH_STATE_DOWN] = "down"};
  *verdict = (struct health_verdict){.state = HEALTH_STATE_NONE};
  if (json_is_null(json))
    return true;
  const char *word = json_string_value(json_array_get(json, 0));
  const json_t *since = json_array_get(json, 1);
  const json_t *why = json_array_get(json, 2);
  if (json_array_size(json) != 3 || word == NULL || !json_is_integer(since) || !json_is_string(why))
    return false;
  for (uint8_t i = HEALTH_STATE_OPEN; i <= HEALTH_STATE_DOWN; i++)
    if (strcmp(word, words[i]) == 0)
      verdict->state = i;
  verdict->since = json_integer_value(since);
  verdict->why = (char *)(uintptr_t)json_string_value(why); /* borrowed */
  return verdict->state != HEALTH_STATE_NONE;
}

/* Takes both verdicts of a line over; `changed` gets the families whose state is another one. */
static enum health_line judge(struct health_map *map, size_t subject, const json_t *json,
                              unsigned *changed, char *why) {
  static const char *const keys[HEALTH_FAMILIES] = {"v4", "v6"};
  struct health_verdict verdicts[HEALTH_FAMILIES];
  *changed = 0;
  for (int f = 0; f < HEALTH_FAMILIES; f++)
    if (!read_verdict(json_object_get(json, keys[f]), &verdicts[f]))
      return bad(why, "a verdict that is none");
  for (int f = 0; f < HEALTH_FAMILIES; f++) {
    const struct health_verdict *now = &verdicts[f];
    if (health_map_verdict(map, subject, f)->state != now->state)
      *changed |= 1u << f;
    if (!health_map_judge(map, subject, f, (enum health_state)now->state, now->since, now->why))
      return bad(why, "out of memory");
  }
  return HEALTH_LINE_NONE;
}

/* ---- lines ------------------------------------------------------------------------------------
 */

static enum health_line read_hello(struct health_lines *lines, const json_t *json, char *why) {
  json_int_t format;
  if (lines->phase != PHASE_HELLO)
    return bad(why, "a second hello");
  if (!number_of(json, "format", &format))
    return bad(why, "a hello without a format");
  if (format != FORMAT)
    return bad(why, "format %" JSON_INTEGER_FORMAT " of the feed is not known here", format);
  lines->phase = PHASE_BEGIN;
  return HEALTH_LINE_HELLO;
}

static enum health_line read_begin(struct health_lines *lines, const json_t *json, char *why) {
  if (lines->phase != PHASE_BEGIN && lines->phase != PHASE_LIVE)
    return bad(why, "a snapshot begins where none can");
  if (!number_of(json, "seq", &lines->seq))
    return bad(why, "a snapshot without a sequence number");
  lines->filling = health_map_new();
  lines->phase = PHASE_SNAPSHOT;
  return lines->filling != NULL ? HEALTH_LINE_NONE : bad(why, "out of memory");
}

static enum health_line read_target(struct health_lines *lines, size_t subject, const json_t *json,
                                    char *why) {
  const char *domain = json_string_value(json_array_get(json, 0));
  const char *endpoint = json_string_value(json_array_get(json, 1));
  uint8_t mixed[NAME_BUF], owner[NAME_BUF];
  const char *reason;
  if (json_array_size(json) != 2 || domain == NULL || endpoint == NULL)
    return bad(why, "a target is not [domain, endpoint]");
  size_t len = strlen(domain);
  if (len == 0 || domain[len - 1] != '.' ||
      name_from_text(mixed, domain, len, NULL, &reason) == 0 || endpoint[0] == '\0' ||
      strlen(endpoint) > ENDPOINT_NAME_MAX)
    return bad(why, "a target with a wrong name");
  name_copy_lower(owner, mixed);
  if (!health_map_target(lines->filling, subject, owner, endpoint))
    return bad(why, "too many targets, or out of memory");
  return HEALTH_LINE_NONE;
}

static enum health_line read_subject(struct health_lines *lines, const json_t *json, char *why) {
  const json_t *targets = json_object_get(json, "targets");
  json_int_t id;
  unsigned changed;
  if (lines->phase != PHASE_SNAPSHOT)
    return bad(why, "a subject outside of a snapshot");
  if (!number_of(json, "id", &id) || id > UINT32_MAX || !json_is_array(targets))
    return bad(why, "a subject without number or targets");
  long subject = health_map_subject(lines->filling, (uint32_t)id, true);
  if (subject < 0)
    return bad(why, "too many subjects, or out of memory");
  for (size_t i = 0; i < json_array_size(targets); i++)
    if (read_target(lines, (size_t)subject, json_array_get(targets, i), why) == HEALTH_LINE_BAD)
      return HEALTH_LINE_BAD;
  return judge(lines->filling, (size_t)subject, json, &changed, why);
}

static enum health_line read_end(struct health_lines *lines, const json_t *json, char *why) {
  json_int_t seq;
  if (lines->phase != PHASE_SNAPSHOT)
    return bad(why, "a snapshot ends that has not begun");
  if (!number_of(json, "seq", &seq) || seq != lines->seq)
    return bad(why, "a snapshot ends with another sequence number than it began with");
  if (!health_map_finish(lines->filling))
    return bad(why, "out of memory");
  health_map_free(lines->map);
  lines->map = lines->filling;
  lines->filling = NULL;
  lines->phase = PHASE_LIVE;
  return HEALTH_LINE_SNAPSHOT;
}

static enum health_line read_change(struct health_lines *lines, const json_t *json,
                                    struct health_line_change *change, char *why) {
  json_int_t seq, id;
  if (lines->phase != PHASE_LIVE)
    return bad(why, "a change before the snapshot");
  if (!number_of(json, "seq", &seq) || !number_of(json, "id", &id) || id > UINT32_MAX)
    return bad(why, "a change without numbers");
  if (seq - lines->seq != 1)
    return bad(why, "a gap: change %" JSON_INTEGER_FORMAT " comes after %" JSON_INTEGER_FORMAT, seq,
               lines->seq);
  long subject = health_map_subject(lines->map, (uint32_t)id, false);
  if (subject < 0)
    return bad(why, "a change of subject %" JSON_INTEGER_FORMAT ", which is not known", id);
  lines->seq = seq;
  change->subject = (size_t)subject;
  enum health_line result = judge(lines->map, change->subject, json, &change->families, why);
  return result == HEALTH_LINE_NONE ? HEALTH_LINE_CHANGE : result;
}

static enum health_line read_beat(struct health_lines *lines, const json_t *json, char *why) {
  json_int_t seq;
  if (lines->phase == PHASE_HELLO || !number_of(json, "seq", &seq))
    return bad(why, "a heartbeat that is none");
  if (lines->phase == PHASE_LIVE && seq != lines->seq)
    return bad(
        why, "a gap: the checker is at %" JSON_INTEGER_FORMAT ", here it is %" JSON_INTEGER_FORMAT,
        seq, lines->seq);
  return HEALTH_LINE_NONE;
}

static enum health_line read_object(struct health_lines *lines, const json_t *json,
                                    struct health_line_change *change, char *why) {
  const char *type = json_string_value(json_object_get(json, "t"));
  if (type == NULL)
    return bad(why, "a line without a type");
  if (strcmp(type, "hello") == 0)
    return read_hello(lines, json, why);
  if (lines->phase == PHASE_HELLO)
    return bad(why, "it does not begin with a hello");
  if (strcmp(type, "begin") == 0)
    return read_begin(lines, json, why);
  if (strcmp(type, "subject") == 0)
    return read_subject(lines, json, why);
  if (strcmp(type, "end") == 0)
    return read_end(lines, json, why);
  if (strcmp(type, "change") == 0)
    return read_change(lines, json, change, why);
  if (strcmp(type, "beat") == 0)
    return read_beat(lines, json, why);
  return HEALTH_LINE_NONE; /* of a newer checker */
}

enum health_line health_lines_read(struct health_lines *lines, const char *line, size_t len,
                                   struct health_line_change *change, char *why) {
  json_error_t error;
  json_t *json = json_loadb(line, len, 0, &error);
  if (json == NULL)
    return bad(why, "what it sends is no JSON: %.100s", error.text);
  enum health_line result = read_object(lines, json, change, why);
  json_decref(json);
  return result;
}
