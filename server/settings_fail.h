/* SPDX-License-Identifier: Apache-2.0 */
/* The one line about a slip in the machine's settings. */
#ifndef SLUICE_SERVER_SETTINGS_FAIL_H
#define SLUICE_SERVER_SETTINGS_FAIL_H

#include <stdio.h>

#include "zones/yaml_tree.h"

enum { SETTINGS_FAIL_WHY = 512 };

/* Writes "path:line:column: `key`: reason" to `why` (SETTINGS_FAIL_WHY octets); returns false. */
static inline bool settings_fail(const char *path, const struct yaml_node *at, const char *key,
                                 const char *reason, char *why) {
  snprintf(why, SETTINGS_FAIL_WHY, "%.180s:%u:%u: `%.40s`: %.200s", path, at->line, at->column, key,
           reason);
  return false;
}

#endif
