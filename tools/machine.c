/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/machine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "tools/cli.h"
#include "zones/yaml_tree.h"

/* False after an error was printed. */
static bool take(const char *path, const struct yaml_node *root, const char *key, char **out) {
  const struct yaml_node *value = yaml_get(root, key);
  if (!value)
    return true;
  if (value->kind != YAML_SCALAR || value->len == 0) {
    cli_error("%s:%u:%u: `%s` must be a single text", path, value->line, value->column, key);
    return false;
  }
  *out = strdup(value->text);
  if (!*out)
    cli_error("out of memory");
  return *out;
}

static bool take_all(struct machine *machine, const char *path, const struct yaml_node *root) {
  if (root->kind == YAML_MAP)
    return take(path, root, "control", &machine->control) &&
           take(path, root, "state", &machine->state) && take(path, root, "data", &machine->data);
  cli_error("%s:%u:%u: must be a map of settings", path, root->line, root->column);
  return false;
}

bool machine_read(struct machine *machine, const char *path) {
  uint8_t *text;
  size_t len;
  char why[FS_WHY];
  *machine = (struct machine){0};
  if (!path && access(MACHINE_SETTINGS, F_OK) != 0)
    return true;
  if (!path)
    path = MACHINE_SETTINGS;
  if (!fs_read(path, YAML_MAX_BYTES, &text, &len, why)) {
    cli_error("%s", why);
    return false;
  }
  struct arena arena;
  struct diag_list problems;
  arena_init(&arena);
  diag_init(&problems);
  const struct yaml_node *root = yaml_tree_read(path, text, len, &arena, &problems);
  bool ok = root && problems.errors == 0 && !problems.failed;
  if (!ok && problems.count > 0)
    cli_error("%s:%u:%u: %s", path, problems.items[0].line, problems.items[0].column,
              problems.items[0].message);
  else if (!ok)
    cli_error("%s: out of memory", path);
  ok = ok && take_all(machine, path, root);
  if (!ok)
    machine_close(machine);
  diag_close(&problems);
  arena_close(&arena);
  free(text);
  return ok;
}

void machine_close(struct machine *machine) {
  free(machine->control);
  free(machine->state);
  free(machine->data);
  *machine = (struct machine){0};
}
