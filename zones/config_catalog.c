/* SPDX-License-Identifier: Apache-2.0 */
/* `catalog:` of defaults.yaml: a catalog zone of all zones (RFC 9432). */
#include <string.h>

#include "zones/catalog.h"
#include "zones/config.h"
#include "zones/host_name.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static bool read_name(struct config_catalog *catalog, const struct config_file *file,
                      const struct yaml_node *node) {
  char why[HOST_NAME_WHY];
  char show[CONFIG_SHOW];
  if (!config_text(file, node, "`zone`"))
    return false;
  size_t len = node->len;
  if (len > 1 && node->text[len - 1] == '.')
    len--;
  if (host_name_read_zone(catalog->apex, node->text, len, why))
    return true;
  config_error(file, node, "`zone`: %s is not the name of a zone: %s", config_show(node, show),
               why);
  return false;
}

bool config_catalog_read(struct config_catalog *catalog, const struct config_file *file,
                         const struct yaml_node *node) {
  static const char *const keys[] = {"zone", "members", "transfer"};
  static const char *const members[] = {"all"};
  bool ok = config_keys(file, node, "`catalog`", keys, COUNT(keys));
  if (node->kind != YAML_MAP)
    return false;
  const struct yaml_node *zone = yaml_get(node, "zone");
  const struct yaml_node *of = yaml_get(node, "members");
  const struct yaml_node *transfer = yaml_get(node, "transfer");
  if (zone == NULL) {
    config_error(file, node, "`catalog` needs `zone`, the name of the catalog zone");
    ok = false;
  } else {
    ok = read_name(catalog, file, zone) && ok;
  }
  if (of != NULL)
    ok = config_choice(file, of, "`members`", members, COUNT(members)) >= 0 && ok;
  if (transfer != NULL)
    ok = (catalog->transfer = config_zone_transfer(file, transfer)) != NULL && ok;
  catalog->pos = config_pos(file, node);
  catalog->wanted = ok;
  return ok;
}

bool config_catalog_add(struct config *config) {
  struct config_catalog *catalog = &config->defaults.catalog;
  if (!catalog->wanted)
    return true;
  json_t *transfer = catalog->transfer;
  catalog->transfer = NULL; /* catalog_add() has it now */
  return catalog_add(config->model, catalog->apex, catalog->pos, transfer, config->problems);
}
