/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sync/nameset.h"

#include <stdio.h>
#include <string.h>

#include "base/name.h"

static const char *name_at(const json_t *set, size_t i) {
  const char *name = json_string_value(json_array_get(set, i));
  return name ? name : "";
}

bool nameset_add(json_t *set, const char *name) {
  uint8_t wire[NAME_BUF];
  uint8_t lower[NAME_BUF];
  char text[NAME_MAX_TEXT];
  const char *why;
  if (!name || json_array_size(set) >= NAMESET_MAX ||
      name_from_text(wire, name, strlen(name), NULL, &why) == 0)
    return false;
  name_copy_lower(lower, wire);
  name_to_text(text, lower);
  size_t at = 0;
  while (at < json_array_size(set) && strcmp(name_at(set, at), text) < 0)
    at++;
  if (at < json_array_size(set) && strcmp(name_at(set, at), text) == 0)
    return true;
  return json_array_insert_new(set, at, json_string(text)) == 0;
}

json_t *nameset_read(const json_t *list) {
  json_t *set = json_is_array(list) ? json_array() : NULL;
  for (size_t i = 0; set && i < json_array_size(list); i++)
    if (!nameset_add(set, json_string_value(json_array_get(list, i)))) {
      json_decref(set);
      return NULL;
    }
  return set;
}

json_t *nameset_parse(const char *list) {
  char name[NAME_MAX_TEXT];
  json_t *set = json_array();
  for (const char *at = list; set && at;) {
    size_t len = strcspn(at, ",");
    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1), at);
    if (len >= sizeof name || !nameset_add(set, name)) {
      json_decref(set);
      return NULL;
    }
    at = at[len] == ',' ? at + len + 1 : NULL;
  }
  return set;
}

/* The names of `a` that are in `b`, or that are not. */
static json_t *choose(const json_t *a, const json_t *b, bool in) {
  json_t *set = json_array();
  for (size_t i = 0; set && i < json_array_size(a); i++)
    if (nameset_has(b, name_at(a, i)) == in && !nameset_add(set, name_at(a, i))) {
      json_decref(set);
      return NULL;
    }
  return set;
}

json_t *nameset_minus(const json_t *a, const json_t *b) {
  return choose(a, b, false);
}

json_t *nameset_common(const json_t *a, const json_t *b) {
  return choose(a, b, true);
}

json_t *nameset_union(const json_t *a, const json_t *b) {
  json_t *set = json_array();
  bool ok = set;
  for (size_t i = 0; ok && i < json_array_size(a); i++)
    ok = nameset_add(set, name_at(a, i));
  for (size_t i = 0; ok && i < json_array_size(b); i++)
    ok = nameset_add(set, name_at(b, i));
  if (ok)
    return set;
  json_decref(set);
  return NULL;
}

bool nameset_has(const json_t *set, const char *name) {
  for (size_t i = 0; i < json_array_size(set); i++)
    if (strcmp(name_at(set, i), name) == 0)
      return true;
  return false;
}

bool nameset_equal(const json_t *a, const json_t *b) {
  return json_array_size(a) == json_array_size(b) && !nameset_first_missing(a, b);
}

static const char *find_first(const json_t *a, const json_t *b, bool in) {
  for (size_t i = 0; i < json_array_size(a); i++)
    if (nameset_has(b, name_at(a, i)) == in)
      return name_at(a, i);
  return NULL;
}

const char *nameset_first_missing(const json_t *a, const json_t *b) {
  return find_first(a, b, false);
}

const char *nameset_first_common(const json_t *a, const json_t *b) {
  return find_first(a, b, true);
}

const char *nameset_text(const json_t *set, char *out, size_t size) {
  size_t at = 0;
  snprintf(out, size, "none");
  for (size_t i = 0; i < json_array_size(set); i++) {
    int n = snprintf(out + at, size - at, "%s%s", i ? ", " : "", name_at(set, i));
    at = at + (size_t)n < size ? at + (size_t)n : size - 1;
  }
  return out;
}
