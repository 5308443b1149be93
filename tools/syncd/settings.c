/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/syncd/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/fs.h"
#include "tools/times.h"
#include "zones/yaml_tree.h"

enum { CHECK_MOST_S = 7 * 86400 };

struct reading {
  const char *path;
  char *why;
};

static bool fail_at(const struct reading *r, const struct yaml_node *node, const char *reason) {
  snprintf(r->why, SYNCD_SETTINGS_WHY, "%.200s:%u:%u: %.250s", r->path, node->line, node->column,
           reason);
  return false;
}

static bool take(const struct reading *r, const struct yaml_node *value, const char *name,
                 char **out) {
  char reason[128];
  if (value == NULL)
    return true;
  snprintf(reason, sizeof reason, "`%.40s` must be a single text", name);
  if (value->kind != YAML_SCALAR || value->len == 0)
    return fail_at(r, value, reason);
  free(*out);
  *out = strdup(value->text);
  return *out != NULL || fail_at(r, value, "out of memory");
}

static bool take_log(const struct reading *r, const struct yaml_node *value,
                     struct syncd_settings *settings) {
  if (value == NULL)
    return true;
  bool json = value->kind == YAML_SCALAR && strcmp(value->text, "json") == 0;
  if (!json && (value->kind != YAML_SCALAR || strcmp(value->text, "text") != 0))
    return fail_at(r, value, "`log` must be `text` or `json`");
  settings->log = json ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT;
  return true;
}

/* "10m", or "off". */
static bool take_check(const struct reading *r, const struct yaml_node *value, unsigned *out) {
  int64_t seconds = 0;
  bool off = value->kind == YAML_SCALAR && strcmp(value->text, "off") == 0;
  if (!off && (value->kind != YAML_SCALAR || !times_read_span(value->text, &seconds) ||
               seconds > CHECK_MOST_S))
    return fail_at(r, value, "`check` must be a time such as 10m, up to 7d, or `off`");
  *out = (unsigned)seconds;
  return true;
}

static bool take_repair(const struct reading *r, const struct yaml_node *value, bool *out) {
  bool yes = value->kind == YAML_SCALAR && strcmp(value->text, "true") == 0;
  if (!yes && (value->kind != YAML_SCALAR || strcmp(value->text, "false") != 0))
    return fail_at(r, value, "`repair` must be `true` or `false`");
  *out = yes;
  return true;
}

static bool take_section(const struct reading *r, const struct yaml_node *section,
                         struct syncd_settings *settings) {
  static const char *const names[] = {"control", "state", "config", "group",
                                      "locks",   "log",   "check",  "repair"};
  enum { NAMES = sizeof names / sizeof *names, LOG = 5, CHECK, REPAIR };
  char **const places[LOG] = {&settings->control, &settings->state, &settings->config,
                              &settings->group, &settings->locks};
  if (section == NULL)
    return true;
  if (section->kind != YAML_MAP)
    return fail_at(r, section, "`syncd` must be a map of settings");
  for (size_t i = 0; i < section->count; i++) {
    const struct yaml_node *key = section->pairs[i].key;
    const struct yaml_node *value = section->pairs[i].value;
    size_t k = 0;
    while (k < NAMES && strcmp(key->text, names[k]) != 0)
      k++;
    if (k < LOG && !take(r, value, names[k], places[k]))
      return false;
    if ((k == LOG && !take_log(r, value, settings)) ||
        (k == CHECK && !take_check(r, value, &settings->check)) ||
        (k == REPAIR && !take_repair(r, value, &settings->repair)))
      return false;
    if (k == NAMES) {
      char reason[256];
      const char *near = diag_nearest(key->text, names, NAMES);
      snprintf(reason, sizeof reason, "unknown key `%.60s` in `syncd`%s%s%s", key->text,
               near != NULL ? " (did you mean `" : "", near != NULL ? near : "",
               near != NULL ? "`?)" : "");
      return fail_at(r, key, reason);
    }
  }
  return true;
}

static bool take_tree(const struct reading *r, const struct yaml_node *root,
                      struct syncd_settings *settings) {
  if (root->kind != YAML_MAP)
    return fail_at(r, root, "must be a map of settings");
  return take(r, yaml_get(root, "control"), "control", &settings->server) &&
         take(r, yaml_get(root, "data"), "data", &settings->data) &&
         take(r, yaml_get(root, "group"), "group", &settings->group) &&
         take_log(r, yaml_get(root, "log"), settings) &&
         take_section(r, yaml_get(root, "syncd"), settings);
}

bool syncd_settings_read(struct syncd_settings *settings, const char *path, char *why) {
  const struct reading r = {path, why};
  uint8_t *text = NULL;
  size_t len = 0;
  *settings = (struct syncd_settings){
      .file = strdup(path),
      .server = strdup("/run/sluice/control.sock"),
      .control = strdup(SYNCD_CONTROL),
      .state = strdup(SYNCD_STATE),
      .check = SYNCD_CHECK_S,
      .repair = true,
      .log = LOG_FORMAT_TEXT,
  };
  snprintf(why, SYNCD_SETTINGS_WHY, "out of memory");
  if (!settings->file || !settings->server || !settings->control || !settings->state ||
      !fs_read(path, YAML_MAX_BYTES, &text, &len, why))
    return false;
  struct arena arena;
  struct diag_list problems;
  arena_init(&arena);
  diag_init(&problems);
  const struct yaml_node *root = yaml_tree_read(path, text, len, &arena, &problems);
  bool ok = root && problems.errors == 0 && !problems.failed;
  if (!ok && problems.count > 0)
    snprintf(why, SYNCD_SETTINGS_WHY, "%.200s:%u:%u: %.200s", path, problems.items[0].line,
             problems.items[0].column, problems.items[0].message);
  ok = ok && take_tree(&r, root, settings);
  diag_close(&problems);
  arena_close(&arena);
  free(text);
  return ok;
}

void syncd_settings_close(struct syncd_settings *settings) {
  free(settings->file);
  free(settings->server);
  free(settings->data);
  free(settings->control);
  free(settings->state);
  free(settings->config);
  free(settings->group);
  free(settings->locks);
  *settings = (struct syncd_settings){0};
}
