/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/build_kept.h"

#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "zones/domain_list.h"

static const char zone_key[] = "\"zone\": \"";
enum { ZONE_KEY = sizeof zone_key - 1 };

const char *kept_zone_name(const uint8_t *apex, char *out, size_t size) {
  char text[NAME_MAX_TEXT];
  json_t *name = json_string(name_to_text(text, apex));
  size_t n = name ? json_dumpb(name, out, size, JSON_ENCODE_ANY) : 0;
  json_decref(name);
  if (n < 2 || n >= size) {
    out[0] = 0;
    return out;
  }
  memmove(out, out + 1, n - 2); /* without the quotes */
  out[n - 2] = 0;
  return out;
}

bool kept_line_is_of(const struct kept_line *line, const char *zone) {
  return strlen(zone) == line->zone_len && !memcmp(zone, line->zone, line->zone_len);
}

/* The names of the kept zones, as a set; NULL without memory. */
static json_t *kept_names(const struct model *model) {
  json_t *names = json_object();
  char name[DOMAIN_LIST_KEY];
  for (size_t i = 0; names && i < model->zone_count; i++)
    if (model->zones[i].kept &&
        json_object_set_new(names, kept_zone_name(model->zones[i].apex, name, sizeof name),
                            json_true()) != 0) {
      json_decref(names);
      names = NULL;
    }
  return names;
}

/* Finds the zone at the end of a line; keys are sorted, so it is the last one. */
static bool read_line(struct kept_line *line) {
  while (line->len > 0 && strchr(",]\r", line->text[line->len - 1]))
    line->len--;
  if (line->len < ZONE_KEY + 3 || line->text[0] != '{' ||
      memcmp(line->text + line->len - 2, "\"}", 2) != 0)
    return false;
  const char *end = line->text + line->len - 2;
  const char *least = end - line->text > DOMAIN_LIST_KEY ? end - DOMAIN_LIST_KEY : line->text;
  for (const char *p = end - ZONE_KEY; p >= least; p--)
    if (*p == '"' && !memcmp(p, zone_key, ZONE_KEY)) {
      line->zone = p + ZONE_KEY;
      line->zone_len = (size_t)(end - line->zone);
      return line->zone_len < DOMAIN_LIST_KEY;
    }
  return false;
}

static bool add(struct kept_lines *lines, size_t *cap, const struct kept_line *line) {
  if (lines->count == *cap) {
    size_t more = *cap ? *cap * 2 : 1024;
    struct kept_line *items = realloc(lines->items, more * sizeof *items);
    if (!items)
      return false;
    lines->items = items;
    *cap = more;
  }
  lines->items[lines->count++] = *line;
  return true;
}

static bool is_wanted(const json_t *names, const struct kept_line *line) {
  char name[DOMAIN_LIST_KEY];
  memcpy(name, line->zone, line->zone_len);
  name[line->zone_len] = 0;
  return json_object_get(names, name);
}

bool kept_lines_find(struct kept_lines *lines, const struct model *model, const struct buf *list) {
  *lines = (struct kept_lines){0};
  json_t *names = kept_names(model);
  size_t cap = 0;
  bool ok = names;
  const char *at = (const char *)list->data;
  const char *end = at ? at + list->len : at;
  while (ok && at < end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    struct kept_line line = {.text = at, .len = (size_t)((stop ? stop : end) - at)};
    if (read_line(&line) && is_wanted(names, &line))
      ok = add(lines, &cap, &line);
    at = stop ? stop + 1 : end;
  }
  json_decref(names);
  if (!ok)
    kept_lines_free(lines);
  return ok;
}

void kept_lines_free(struct kept_lines *lines) {
  free(lines->items);
  *lines = (struct kept_lines){0};
}
