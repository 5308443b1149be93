/* SPDX-License-Identifier: Apache-2.0 */
/* Where the machine keeps the secrets of providers. */
#include <stdlib.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/secret.h"
#include "tools/cli.h"
#include "tools/machine.h"
#include "tools/sync/run.h"
#include "zones/yaml_json.h"
#include "zones/yaml_tree.h"

static bool take(const char *path, const struct yaml_node *root, json_t **out) {
  char why[SECRET_WHY] = "out of memory";
  const struct yaml_node *node = yaml_get(root, "secrets");
  if (!node)
    return true;
  *out = yaml_to_json(node);
  if (*out && secret_check(*out, why))
    return true;
  cli_error("%s:%u:%u: secrets: %s", path, node->line, node->column, why);
  json_decref(*out);
  *out = NULL;
  return false;
}

bool sync_secrets_read(const char *settings, json_t **out) {
  const char *path = settings ? settings : MACHINE_SETTINGS;
  uint8_t *text;
  size_t len;
  char why[FS_WHY];
  *out = NULL;
  if (!settings && access(path, F_OK) != 0)
    return true;
  if (!fs_read(path, YAML_MAX_BYTES, &text, &len, why)) {
    cli_error("%s", why);
    return false;
  }
  struct arena arena;
  struct diag_list problems;
  arena_init(&arena);
  diag_init(&problems);
  const struct yaml_node *root = yaml_tree_read(path, text, len, &arena, &problems);
  bool ok = root && problems.errors == 0 && root->kind == YAML_MAP;
  if (!ok)
    cli_error("%s: %s", path,
              problems.count > 0 ? problems.items[0].message : "must be a map of settings");
  ok = ok && take(path, root, out);
  diag_close(&problems);
  arena_close(&arena);
  free(text);
  return ok;
}
