/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/fs.h"
#include "tools/config.h"

bool config_programs_open(struct config_programs *programs, const char *system,
                          struct diag_list *problems) {
  uint8_t *text;
  size_t len;
  char why[FS_WHY];
  arena_init(&programs->memory);
  programs->defined = programs->secrets = NULL;
  programs->syncs = false;
  if (!fs_read(system, YAML_MAX_BYTES, &text, &len, why)) {
    diag_error(problems, (struct diag_pos){.path = system}, "%s", why);
    return false;
  }
  struct diag_pos pos = {.path = system, .line = 1, .column = 1};
  const struct yaml_node *root = yaml_tree_read(system, text, len, &programs->memory, problems);
  free(text);
  if (!root)
    return false;
  if (root->kind != YAML_MAP) {
    diag_error(problems, pos, "must be a map of settings");
    return false;
  }
  programs->secrets = yaml_get(root, "secrets");
  programs->syncs = yaml_get(root, "syncd") != NULL;
  programs->defined = yaml_get(root, "checks");
  if (!programs->defined || programs->defined->kind == YAML_MAP)
    return true;
  pos.line = programs->defined->line;
  pos.column = programs->defined->column;
  diag_error(problems, pos, "`checks` must be a map from the name of a check to its settings");
  return false;
}

void config_programs_close(struct config_programs *programs) {
  arena_close(&programs->memory);
  programs->defined = programs->secrets = NULL;
}

bool config_programs_have(const void *arg, const char *name) {
  const struct config_programs *programs = arg;
  return programs->defined && yaml_get(programs->defined, name);
}

bool config_secrets_have(const void *arg, const char *name) {
  const struct config_programs *programs = arg;
  return programs->secrets && yaml_get(programs->secrets, name);
}
