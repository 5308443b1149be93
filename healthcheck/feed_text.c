/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/feed_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

enum {
  LINE_SOFT = FEED_LINE / 4, /* a subject's line longer than this is continued in another one */
  OVERRIDES_MAX = 1 << 20,
};

/* ---- writing ----------------------------------------------------------------------------------
 */

static void put_text(struct buf *out, const char *text) {
  buf_add_u8(out, '"');
  for (const unsigned char *s = (const unsigned char *)text; *s != 0;) {
    size_t n = utf8_sequence(s);
    if (n == 0)
      buf_add_u8(out, '?');
    else if (*s < ' ' || *s == 0x7f)
      buf_printf(out, "\\u%04x", *s);
    else if (*s == '"' || *s == '\\')
      buf_printf(out, "\\%c", *s);
    else
      buf_add(out, s, n);
    s += n != 0 ? n : 1;
  }
  buf_add_u8(out, '"');
}

static void put_verdict(struct buf *out, const struct feed_verdict *verdict) {
  static const char *const states[] = {
      [FEED_UNKNOWN] = "unknown", [FEED_UP] = "up", [FEED_DOWN] = "down"};
  if (verdict->state == FEED_NONE || verdict->state > FEED_DOWN) {
    buf_add_str(out, "null");
    return;
  }
  buf_printf(out, "[\"%s\",%" PRId64 ",", states[verdict->state], verdict->since);
  put_text(out, verdict->why ? verdict->why : "");
  buf_add_u8(out, ']');
}

static void put_verdicts(struct buf *out, const struct feed_verdict verdicts[2]) {
  buf_add_str(out, ",\"v4\":");
  put_verdict(out, &verdicts[0]);
  buf_add_str(out, ",\"v6\":");
  put_verdict(out, &verdicts[1]);
  buf_add_str(out, "}\n");
}

void feed_text_hello(struct buf *out, const char *session) {
  buf_add_str(out, "{\"t\":\"hello\",\"format\":1,\"session\":");
  put_text(out, session);
  buf_printf(out, ",\"beat\":%d}\n", FEED_BEAT_MS);
}

void feed_text_mark(struct buf *out, const char *type, uint64_t seq) {
  buf_printf(out, "{\"t\":\"%s\",\"seq\":%" PRIu64 "}\n", type, seq);
}

void feed_text_subject(struct buf *out, uint32_t id, const char *const (*targets)[2], size_t count,
                       const struct feed_verdict verdicts[2]) {
  size_t i = 0;
  do {
    size_t start = out->len;
    buf_printf(out, "{\"t\":\"subject\",\"id\":%" PRIu32 ",\"targets\":[", id);
    for (size_t n = 0; i < count && n < FEED_TARGETS && out->len - start < LINE_SOFT; i++, n++) {
      buf_add_str(out, n > 0 ? ",[" : "[");
      put_text(out, targets[i][0]);
      buf_add_u8(out, ',');
      put_text(out, targets[i][1]);
      buf_add_u8(out, ']');
    }
    buf_add_u8(out, ']');
    put_verdicts(out, verdicts);
  } while (i < count && !out->failed);
}

void feed_text_change(struct buf *out, uint64_t seq, uint32_t id,
                      const struct feed_verdict verdicts[2]) {
  buf_printf(out, "{\"t\":\"change\",\"seq\":%" PRIu64 ",\"id\":%" PRIu32, seq, id);
  put_verdicts(out, verdicts);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static enum feed_input_result bad(char *why, const char *text) {
  snprintf(why, FEED_WHY, "%.200s", text);
  return FEED_INPUT_BAD;
}

static bool is_number(const json_t *json, const char *key, json_int_t least, json_int_t most) {
  const json_t *value = json_object_get(json, key);
  return json_is_integer(value) && json_integer_value(value) >= least &&
         json_integer_value(value) <= most;
}

static bool is_text_or_null(const json_t *value) {
  return !value || json_is_null(value) || json_is_string(value);
}

static bool is_number_or_null(const json_t *json, const char *key, json_int_t most) {
  const json_t *value = json_object_get(json, key);
  return !value || json_is_null(value) || is_number(json, key, 0, most);
}

static bool is_override(const json_t *json) {
  const char *kind = json_string_value(json_object_get(json, "kind"));
  return kind &&
         (strcmp(kind, "weight") == 0 || strcmp(kind, "status") == 0 ||
          strcmp(kind, "health") == 0) &&
         json_is_string(json_object_get(json, "domain")) &&
         json_is_string(json_object_get(json, "endpoint")) &&
         is_text_or_null(json_object_get(json, "region")) &&
         is_number_or_null(json, "level", UINT16_MAX) && is_number_or_null(json, "family", 6) &&
         is_number(json, "value", 0, UINT16_MAX);
}

static enum feed_input_result take_overrides(struct feed_input *input, const json_t *json,
                                             char *why) {
  json_t *list = json_object_get(json, "list");
  const json_t *more = json_object_get(json, "more");
  if (!json_is_array(list))
    return bad(why, "overrides without a list");
  for (size_t i = 0; i < json_array_size(list); i++)
    if (!is_override(json_array_get(list, i)))
      return bad(why, "an override that is none");
  if (!input->overrides)
    input->overrides = json_array();
  if (json_array_size(input->overrides) + json_array_size(list) > OVERRIDES_MAX)
    return bad(why, "too many overrides");
  if (!input->overrides || json_array_extend(input->overrides, list) != 0)
    return bad(why, "not enough memory for the overrides");
  return json_is_true(more) ? FEED_INPUT_NONE : FEED_INPUT_OVERRIDES;
}

enum feed_input_result feed_input_line(struct feed_input *input, const char *line, size_t len,
                                       char *why) {
  json_error_t error;
  json_t *json = json_loadb(line, len, 0, &error);
  const char *type = json_string_value(json_object_get(json, "t"));
  enum feed_input_result result = FEED_INPUT_NONE; /* of another type: from a newer server */
  if (!json)
    result = bad(why, error.text);
  else if (!type)
    result = bad(why, "a line without a type");
  else if (strcmp(type, "overrides") == 0)
    result = take_overrides(input, json, why);
  json_decref(json);
  return result;
}

void feed_input_clear(struct feed_input *input) {
  json_decref(input->overrides);
  input->overrides = NULL;
}
