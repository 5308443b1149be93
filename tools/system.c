/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "tools/config.h"
#include "zones/arena.h"
#include "zones/yaml_tree.h"

static void check_domain(const struct model_domain *domain, const char *system,
                         const struct yaml_node *defined, struct diag_list *problems) {
  const char *endpoint;
  json_t *health;
  json_object_foreach(domain->health, endpoint, health) {
    const char *type = json_string_value(json_object_get(health, "type"));
    const char *check = json_string_value(json_object_get(health, "check"));
    if (!type || !check || strcmp(type, "exec") || (defined && yaml_get(defined, check)))
      continue;
    diag_error(problems, (struct diag_pos){.path = domain->path},
               "endpoint `%s`: %s defines no check `%s`; add it there under `checks:`", endpoint,
               system, check);
  }
}

static void check_model(const struct model *model, const char *system,
                        const struct yaml_node *settings, struct diag_list *problems) {
  const struct yaml_node *defined = yaml_get(settings, "checks");
  if (defined && defined->kind != YAML_MAP)
    defined = NULL;
  for (size_t z = 0; z < model->zone_count; z++)
    for (size_t d = 0; d < model->zones[z].domain_count; d++)
      check_domain(&model->zones[z].domains[d], system, defined, problems);
}

void config_check_programs(const struct model *model, const char *system,
                           struct diag_list *problems) {
  uint8_t *text;
  size_t len;
  char why[FS_WHY];
  if (!fs_read(system, YAML_MAX_BYTES, &text, &len, why)) {
    diag_error(problems, (struct diag_pos){.path = system}, "%s", why);
    return;
  }
  struct arena arena;
  arena_init(&arena);
  struct yaml_node *settings = yaml_tree_read(system, text, len, &arena, problems);
  if (settings && settings->kind != YAML_MAP)
    diag_error(problems, (struct diag_pos){.path = system}, "must be a map of settings");
  else if (settings)
    check_model(model, system, settings, problems);
  arena_close(&arena);
  free(text);
}
