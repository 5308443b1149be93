/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/config_read.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "zones/host_name.h"

enum { MAX_HINTS = 200 }; /* problems with a hint in one run */

struct diag_pos config_pos(const struct config_file *file, const struct yaml_node *node) {
  return (struct diag_pos){file->path, node->line, node->column};
}

const char *config_show(const struct yaml_node *node, char *out) {
  if (node->kind != YAML_SCALAR) {
    snprintf(out, CONFIG_SHOW, "%s", node->kind == YAML_LIST ? "a list" : "a map");
    return out;
  }
  if (node->len == 0) {
    snprintf(out, CONFIG_SHOW, "%s", node->quoted ? "an empty text" : "nothing");
    return out;
  }
  size_t n = node->len;
  const size_t room = CONFIG_SHOW - 8;
  if (n <= room) {
    snprintf(out, CONFIG_SHOW, "`%s`", node->text);
    return out;
  }
  n = room;
  while (n > 0 && ((unsigned char)node->text[n] & 0xc0) == 0x80)
    n--;
  snprintf(out, CONFIG_SHOW, "`%.*s...`", (int)n, node->text);
  return out;
}

static void report(const struct config_file *file, const struct yaml_node *node, bool error,
                   const char *format, va_list args) {
  char *text = NULL;
  if (vasprintf(&text, format, args) < 0) {
    file->problems->failed = true;
    file->problems->errors++;
    return;
  }
  if (error)
    diag_error(file->problems, config_pos(file, node), "%s", text);
  else
    diag_warning(file->problems, config_pos(file, node), "%s", text);
  free(text);
}

void config_error(const struct config_file *file, const struct yaml_node *node, const char *format,
                  ...) {
  va_list args;
  va_start(args, format);
  report(file, node, true, format, args);
  va_end(args);
}

void config_warning(const struct config_file *file, const struct yaml_node *node,
                    const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(file, node, false, format, args);
  va_end(args);
}

const char *config_hint(const struct config_file *file, const char *word, const char *const *words,
                        size_t count, char *out) {
  /* Each takes time, and nobody reads so many: a hostile file would have millions. */
  bool enough = file->problems->errors > MAX_HINTS;
  const char *nearest = enough ? NULL : diag_nearest(word, words, count);
  out[0] = '\0';
  if (nearest != NULL && strlen(nearest) < CONFIG_SHOW - 20)
    snprintf(out, CONFIG_SHOW, " (did you mean `%s`?)", nearest);
  return out;
}

bool config_is_map(const struct config_file *file, const struct yaml_node *node, const char *what) {
  char show[CONFIG_SHOW];
  if (node->kind == YAML_MAP)
    return true;
  config_error(file, node, "%s must be a map (`key: value` lines), this is %s", what,
               config_show(node, show));
  return false;
}

bool config_keys(const struct config_file *file, const struct yaml_node *node, const char *what,
                 const char *const *keys, size_t count) {
  if (!config_is_map(file, node, what))
    return false;
  bool ok = true;
  for (size_t i = 0; i < node->count; i++) {
    const struct yaml_node *key = node->pairs[i].key;
    bool known = false;
    for (size_t k = 0; k < count && !known; k++)
      known = strcmp(key->text, keys[k]) == 0;
    if (known)
      continue;
    char show[CONFIG_SHOW];
    const char *nearest = diag_nearest(key->text, keys, count);
    ok = false;
    if (nearest != NULL) {
      config_error(file, key, "unknown key %s in %s (did you mean `%s`?)", config_show(key, show),
                   what, nearest);
      continue;
    }
    char all[512] = "";
    size_t at = 0;
    for (size_t k = 0; k < count && at < sizeof all - 40; k++)
      at += (size_t)snprintf(all + at, sizeof all - at, "%s`%.30s`", k == 0 ? "" : ", ", keys[k]);
    config_error(file, key, "unknown key %s in %s; known are %s", config_show(key, show), what,
                 all);
  }
  return ok;
}

bool config_text(const struct config_file *file, const struct yaml_node *node, const char *what) {
  char show[CONFIG_SHOW];
  if (node->kind == YAML_SCALAR && node->len > 0)
    return true;
  config_error(file, node, "%s must be a text, this is %s", what, config_show(node, show));
  return false;
}

bool config_line(const struct config_file *file, const struct yaml_node *node, const char *what) {
  if (!config_text(file, node, what))
    return false;
  for (size_t i = 0; i < node->len; i++) {
    unsigned char c = (unsigned char)node->text[i];
    /* C0, DEL, and C1 in UTF-8, which some terminals obey too */
    if (c >= 0x20 && c != 0x7f && !(c == 0xc2 && (unsigned char)node->text[i + 1] < 0xa0))
      continue;
    config_error(file, node, "%s must be one line without control characters", what);
    return false;
  }
  return true;
}

/* Reads digits; false if there are none, a leading zero, or more than fits 63 bits. */
static bool digits(const char *text, size_t len, uint64_t *out) {
  if (len == 0 || len > 18 || (len > 1 && text[0] == '0'))
    return false;
  uint64_t v = 0;
  for (size_t i = 0; i < len; i++) {
    if (text[i] < '0' || text[i] > '9')
      return false;
    v = v * 10 + (uint64_t)(text[i] - '0');
  }
  *out = v;
  return true;
}

bool config_number(const struct config_file *file, const struct yaml_node *node, const char *what,
                   uint32_t min, uint32_t max, uint32_t *out) {
  uint64_t v;
  char show[CONFIG_SHOW];
  if (node->kind != YAML_SCALAR || !digits(node->text, node->len, &v) || v < min || v > max) {
    config_error(file, node,
                 "%s must be a whole number from %u to %u (decimal digits, no leading zeros), this "
                 "is %s",
                 what, min, max, config_show(node, show));
    return false;
  }
  *out = (uint32_t)v;
  return true;
}

/* Milliseconds of "30", "30s", "5m"...; `ms` only if allowed. */
static bool duration(const struct yaml_node *node, bool ms_allowed, uint64_t *out) {
  if (node->kind != YAML_SCALAR || node->len == 0)
    return false;
  size_t n = node->len;
  uint64_t unit = 1000;
  if (ms_allowed && n > 2 && memcmp(node->text + n - 2, "ms", 2) == 0) {
    unit = 1;
    n -= 2;
  } else {
    switch (node->text[n - 1]) {
    case 's':
      n--;
      break;
    case 'm':
      unit *= 60;
      n--;
      break;
    case 'h':
      unit *= 3600;
      n--;
      break;
    case 'd':
      unit *= 86400;
      n--;
      break;
    case 'w':
      unit *= 604800;
      n--;
      break;
    default:
      break;
    }
  }
  uint64_t v;
  if (!digits(node->text, n, &v) || v > (UINT64_C(1) << 40))
    return false;
  *out = v * unit;
  return true;
}

bool config_seconds(const struct config_file *file, const struct yaml_node *node, const char *what,
                    uint32_t *out) {
  uint64_t ms;
  char show[CONFIG_SHOW];
  if (!duration(node, false, &ms) || ms / 1000 > CONFIG_MAX_TTL) {
    config_error(file, node, "%s must be 0 to 2147483647 seconds, as 30, 30s, 5m or 1h; this is %s",
                 what, config_show(node, show));
    return false;
  }
  *out = (uint32_t)(ms / 1000);
  return true;
}

bool config_milliseconds(const struct config_file *file, const struct yaml_node *node,
                         const char *what, uint32_t max_seconds, uint64_t *out) {
  uint64_t ms;
  char show[CONFIG_SHOW];
  if (!duration(node, true, &ms) || ms == 0 || ms > (uint64_t)max_seconds * 1000) {
    config_error(file, node, "%s must be a time from 1ms to %us, as 500ms, 10s or 5m; this is %s",
                 what, max_seconds, config_show(node, show));
    return false;
  }
  *out = ms;
  return true;
}

bool config_bool(const struct config_file *file, const struct yaml_node *node, const char *what,
                 bool *out) {
  char show[CONFIG_SHOW];
  if (node->kind == YAML_SCALAR && strcmp(node->text, "true") == 0) {
    *out = true;
    return true;
  }
  if (node->kind == YAML_SCALAR && strcmp(node->text, "false") == 0) {
    *out = false;
    return true;
  }
  config_error(file, node, "%s must be `true` or `false`, this is %s", what,
               config_show(node, show));
  return false;
}

int config_choice(const struct config_file *file, const struct yaml_node *node, const char *what,
                  const char *const *words, size_t count) {
  for (size_t i = 0; node->kind == YAML_SCALAR && i < count; i++)
    if (strcmp(node->text, words[i]) == 0)
      return (int)i;
  char show[CONFIG_SHOW];
  char all[256] = "";
  size_t at = 0;
  for (size_t i = 0; i < count && at < sizeof all - 40; i++)
    at += (size_t)snprintf(all + at, sizeof all - at, "%s`%.30s`", i == 0 ? "" : ", ", words[i]);
  config_error(file, node, "%s must be one of %s; this is %s", what, all, config_show(node, show));
  return -1;
}

bool config_name(const struct config_file *file, const struct yaml_node *node, const char *what) {
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  char show[CONFIG_SHOW];
  if (node->kind == YAML_SCALAR && node->len >= 1 && node->len <= 63 &&
      strspn(node->text, allowed) == node->len)
    return true;
  config_error(file, node, "%s must be 1 to 63 of A-Z a-z 0-9 . _ -, this is %s", what,
               config_show(node, show));
  return false;
}

bool config_host(const struct config_file *file, const struct yaml_node *node, const char *what,
                 uint8_t *out) {
  char why[HOST_NAME_WHY];
  char show[CONFIG_SHOW];
  if (!config_text(file, node, what))
    return false;
  if (host_name_read(out, node->text, node->len, why))
    return true;
  config_error(file, node, "%s: %s is not a host name: %s", what, config_show(node, show), why);
  return false;
}
