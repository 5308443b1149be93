/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sync/import_yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "base/utf8.h"

struct yaml_out {
  yaml_emitter_t emitter;
  struct buf *out;
  bool failed;
};

static int take(void *arg, unsigned char *data, size_t len) {
  struct yaml_out *yaml = arg;
  buf_add(yaml->out, data, len);
  return !yaml->out->failed;
}

/* Takes the event over, also if it could not be made. */
static void emit(struct yaml_out *yaml, yaml_event_t *event, int made) {
  if (!made) {
    yaml->failed = true;
    return;
  }
  if (yaml->failed)
    yaml_event_delete(event);
  else if (!yaml_emitter_emit(&yaml->emitter, event))
    yaml->failed = true;
}

struct yaml_out *yaml_out_open(struct buf *out) {
  yaml_event_t event;
  struct yaml_out *yaml = calloc(1, sizeof *yaml);
  if (!yaml)
    return NULL;
  if (!yaml_emitter_initialize(&yaml->emitter)) {
    free(yaml);
    return NULL;
  }
  yaml->out = out;
  yaml_emitter_set_output(&yaml->emitter, take, yaml);
  yaml_emitter_set_encoding(&yaml->emitter, YAML_UTF8_ENCODING);
  yaml_emitter_set_unicode(&yaml->emitter, 1);
  yaml_emitter_set_width(&yaml->emitter, -1); /* a fold is one more thing to read wrong */
  emit(yaml, &event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING));
  emit(yaml, &event, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1));
  return yaml;
}

bool yaml_out_close(struct yaml_out *yaml) {
  yaml_event_t event;
  emit(yaml, &event, yaml_document_end_event_initialize(&event, 1));
  emit(yaml, &event, yaml_stream_end_event_initialize(&event));
  bool ok = !yaml->failed && !yaml->out->failed;
  yaml_emitter_delete(&yaml->emitter);
  free(yaml);
  return ok;
}

/* ---- maps and lists ------------------------------------------------------------------------- */

void yaml_out_map(struct yaml_out *yaml, bool flow) {
  yaml_event_t event;
  emit(yaml, &event,
       yaml_mapping_start_event_initialize(
           &event, NULL, NULL, 1, flow ? YAML_FLOW_MAPPING_STYLE : YAML_BLOCK_MAPPING_STYLE));
}

void yaml_out_end_map(struct yaml_out *yaml) {
  yaml_event_t event;
  emit(yaml, &event, yaml_mapping_end_event_initialize(&event));
}

void yaml_out_list(struct yaml_out *yaml, bool flow) {
  yaml_event_t event;
  emit(yaml, &event,
       yaml_sequence_start_event_initialize(
           &event, NULL, NULL, 1, flow ? YAML_FLOW_SEQUENCE_STYLE : YAML_BLOCK_SEQUENCE_STYLE));
}

void yaml_out_end_list(struct yaml_out *yaml) {
  yaml_event_t event;
  emit(yaml, &event, yaml_sequence_end_event_initialize(&event));
}

/* ---- scalars -------------------------------------------------------------------------------- */

bool yaml_out_can(const char *text, size_t len) {
  const unsigned char *at = (const unsigned char *)text;
  if (memchr(text, '\0', len))
    return false;
  for (const unsigned char *end = at + len; at < end;) {
    unsigned char last[5] = {0}; /* ended, wherever the text ends */
    size_t left = (size_t)(end - at);
    memcpy(last, at, left < 4 ? left : 4);
    size_t n = utf8_sequence(last);
    if (n == 0 || n > left)
      return false;
    at += n;
  }
  return true;
}

/* Words that YAML 1.1 or 1.2 takes for truths and nothing. */
static bool is_word(const char *text, size_t len) {
  static const char *const words[] = {"y",    "n",     "yes",  "no",   "on",  "off",
                                      "true", "false", "null", ".inf", ".nan"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strlen(words[i]) == len && strncasecmp(text, words[i], len) == 0)
      return true;
  return false;
}

/* Letters, digits, and marks that begin nothing in YAML; not what reads as a number (all of whose
 * forms begin with a digit, a sign or a point). */
static bool is_plain(const char *text, size_t len) {
  static const char inside[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
  if (len == 0 || len > 255 || is_word(text, len))
    return false;
  for (size_t i = 0; i < len; i++)
    if (!strchr(inside, text[i]))
      return false;
  if (text[0] == '-' || text[0] == '.')
    return false;
  if (text[0] < '0' || text[0] > '9')
    return true;
  /* An address or a prefix has two points or more, which no number has. */
  size_t points = 0;
  for (size_t i = 0; i < len; i++)
    points += text[i] == '.';
  return points >= 2;
}

static void scalar(struct yaml_out *yaml, const char *text, size_t len, yaml_scalar_style_t style) {
  yaml_event_t event;
  emit(yaml, &event,
       len <= INT32_MAX && yaml_out_can(text, len) &&
           yaml_scalar_event_initialize(&event, NULL, NULL,
                                        (yaml_char_t *)(uintptr_t)(const void *)text, (int)len, 1,
                                        1, style));
}

void yaml_out_octets(struct yaml_out *yaml, const char *text, size_t len) {
  bool line = true;
  for (size_t i = 0; i < len; i++)
    line = line && (unsigned char)text[i] >= ' ' && text[i] != 0x7f;
  scalar(yaml, text, len,
         is_plain(text, len) ? YAML_PLAIN_SCALAR_STYLE
         : line              ? YAML_SINGLE_QUOTED_SCALAR_STYLE
                             : YAML_DOUBLE_QUOTED_SCALAR_STYLE);
}

void yaml_out_text(struct yaml_out *yaml, const char *text) {
  yaml_out_octets(yaml, text, strlen(text));
}

void yaml_out_number(struct yaml_out *yaml, uint64_t number) {
  char text[24];
  int len = snprintf(text, sizeof text, "%llu", (unsigned long long)number);
  scalar(yaml, text, (size_t)len, YAML_PLAIN_SCALAR_STYLE);
}

void yaml_out_bool(struct yaml_out *yaml, bool value) {
  const char *text = value ? "true" : "false";
  scalar(yaml, text, strlen(text), YAML_PLAIN_SCALAR_STYLE);
}
