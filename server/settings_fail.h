/* SPDX-License-Identifier: Apache-2.0 */
/* The one line about a slip in the machine's settings. */
#ifndef SLUICE_SERVER_SETTINGS_FAIL_H
#define SLUICE_SERVER_SETTINGS_FAIL_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "server/settings_place.h"
#include "zones/yaml_tree.h"

enum { SETTINGS_FAIL_WHY = 512 };

static inline struct settings_place settings_place_of(const struct yaml_node *node) {
  return (struct settings_place){node->line, node->column};
}

/* Puts as much of `reason` as there is room for after the `used` octets that are in `why`. */
static inline void settings_fail_append(char *why, int used, const char *reason) {
  size_t at = (size_t)used < SETTINGS_FAIL_WHY - 1 ? (size_t)used : SETTINGS_FAIL_WHY - 1;
  size_t len = strnlen(reason, SETTINGS_FAIL_WHY - 1 - at);
  memcpy(why + at, reason, len);
  why[at + len] = '\0';
}

/* Writes "path:line:column: `key`: reason" to `why` (SETTINGS_FAIL_WHY octets); returns false. */
static inline bool settings_fail_at(const char *path, struct settings_place at, const char *key,
                                    const char *reason, char *why) {
  settings_fail_append(
      why,
      snprintf(why, SETTINGS_FAIL_WHY, "%.180s:%u:%u: `%.40s`: ", path, at.line, at.column, key),
      reason);
  return false;
}

static inline bool settings_fail(const char *path, const struct yaml_node *at, const char *key,
                                 const char *reason, char *why) {
  return settings_fail_at(path, settings_place_of(at), key, reason, why);
}

#endif
