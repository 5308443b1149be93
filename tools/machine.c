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

static bool take_deploy(struct machine_deploy *deploy, const char *path,
                        const struct yaml_node *root) {
  static const char *const keys[] = {"repository", "branch", "data", "follow"};
  char **places[] = {&deploy->repository, &deploy->branch, &deploy->data, &deploy->follow};
  const struct yaml_node *section = yaml_get(root, "deploy");
  if (!section)
    return true;
  if (section->kind != YAML_MAP) {
    cli_error("%s:%u:%u: `deploy` must be a map", path, section->line, section->column);
    return false;
  }
  for (size_t i = 0; i < section->count; i++) {
    const struct yaml_node *key = section->pairs[i].key;
    size_t k = 0;
    while (k < CLI_COUNT(keys) && strcmp(keys[k], key->text) != 0)
      k++;
    if (k == CLI_COUNT(keys)) {
      cli_error("%s:%u:%u: unknown key `%.100s` in `deploy`%s", path, key->line, key->column,
                key->text, cli_did_you_mean(key->text, keys, CLI_COUNT(keys)));
      return false;
    }
    if (!take(path, section, keys[k], places[k]))
      return false;
  }
  return true;
}

static bool take_all(struct machine *machine, const char *path, const struct yaml_node *root) {
  const struct yaml_node *healthd = yaml_get(root, "healthd");
  const struct yaml_node *syncd = yaml_get(root, "syncd");
  machine->has_syncd = syncd != NULL;
  if (root->kind == YAML_MAP)
    return take(path, root, "control", &machine->control) &&
           take_deploy(&machine->deploy, path, root) &&
           take(path, root, "state", &machine->state) && take(path, root, "data", &machine->data) &&
           take(path, root, "geo", &machine->geo) && take(path, root, "asn", &machine->asn) &&
           (!healthd || take(path, healthd, "control", &machine->healthd)) &&
           (!syncd || (take(path, syncd, "control", &machine->syncd) &&
                       take(path, syncd, "locks", &machine->syncd_locks) &&
                       take(path, syncd, "config", &machine->syncd_config)));
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
  free(machine->geo);
  free(machine->asn);
  free(machine->deploy.repository);
  free(machine->deploy.branch);
  free(machine->deploy.data);
  free(machine->deploy.follow);
  free(machine->healthd);
  free(machine->syncd);
  free(machine->syncd_config);
  free(machine->syncd_locks);
  *machine = (struct machine){0};
}
