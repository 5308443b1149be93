/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "tools/config.h"
#include "zones/arena.h"
#include "zones/yaml_tree.h"

static void judge(const struct model_domain *domain, const char *endpoint, const char *check,
                  const char *system, const struct yaml_node *defined, struct diag_list *problems) {
  struct diag_pos pos = {.path = domain->path};
  if (!system)
    diag_warning(problems, pos,
                 "endpoint `%s`: whether the machine defines the check `%s` is not known here; "
                 "--system FILE looks it up",
                 endpoint, check);
  else if (!defined || defined->kind != YAML_MAP || !yaml_get(defined, check))
    diag_error(problems, pos,
               "endpoint `%s`: %s defines no check `%s`; add it there under `checks:`", endpoint,
               system, check);
}

static void judge_all(const struct model *model, const char *system,
                      const struct yaml_node *defined, struct diag_list *problems) {
  for (size_t z = 0; z < model->zone_count; z++)
    for (size_t d = 0; d < model->zones[z].domain_count; d++) {
      const struct model_domain *domain = &model->zones[z].domains[d];
      const char *endpoint;
      json_t *health;
      json_object_foreach(domain->health, endpoint, health) {
        const char *type = json_string_value(json_object_get(health, "type"));
        const char *check = json_string_value(json_object_get(health, "check"));
        if (type && check && !strcmp(type, "exec"))
          judge(domain, endpoint, check, system, defined, problems);
      }
    }
}

void config_check_programs(const struct model *model, const char *system,
                           struct diag_list *problems) {
  if (!system) {
    judge_all(model, NULL, NULL, problems);
    return;
  }
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
    judge_all(model, system, yaml_get(settings, "checks"), problems);
  arena_close(&arena);
  free(text);
}
