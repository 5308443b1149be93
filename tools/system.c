/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/fs.h"
#include "tools/config.h"

enum { SETTINGS_LIMIT = 1 << 20 /* bytes */ };

static bool is_scalar(const yaml_node_t *node, const char *text) {
  return node && node->type == YAML_SCALAR_NODE && node->data.scalar.length == strlen(text) &&
         !memcmp(node->data.scalar.value, text, node->data.scalar.length);
}

/* The value of a key of a mapping, or NULL. */
static yaml_node_t *value_of(yaml_document_t *document, const yaml_node_t *mapping,
                             const char *key) {
  if (!mapping || mapping->type != YAML_MAPPING_NODE)
    return NULL;
  for (yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
       pair < mapping->data.mapping.pairs.top; pair++)
    if (is_scalar(yaml_document_get_node(document, pair->key), key))
      return yaml_document_get_node(document, pair->value);
  return NULL;
}

static void check_domain(const struct model_domain *domain, yaml_document_t *document,
                         const yaml_node_t *programs, const char *system,
                         struct diag_list *problems) {
  const char *endpoint;
  json_t *health;
  json_object_foreach(domain->health, endpoint, health) {
    const char *type = json_string_value(json_object_get(health, "type"));
    const char *name = json_string_value(json_object_get(health, "check"));
    if (!type || strcmp(type, "exec") || !name || value_of(document, programs, name))
      continue;
    diag_error(problems, (struct diag_pos){.path = domain->path},
               "endpoint `%s`: %s defines no check `%s`; add it there under `checks:`", endpoint,
               system, name);
  }
}

static void check_all(const struct model *model, yaml_document_t *document, const char *system,
                      struct diag_list *problems) {
  yaml_node_t *programs = value_of(document, yaml_document_get_root_node(document), "checks");
  for (size_t z = 0; z < model->zone_count; z++)
    for (size_t d = 0; d < model->zones[z].domain_count; d++)
      check_domain(&model->zones[z].domains[d], document, programs, system, problems);
}

void config_check_programs(const struct model *model, const char *system,
                           struct diag_list *problems) {
  uint8_t *text;
  size_t len;
  char why[FS_WHY];
  struct diag_pos pos = {.path = system};
  if (!fs_read(system, SETTINGS_LIMIT, &text, &len, why)) {
    diag_error(problems, pos, "%s", why);
    return;
  }
  yaml_parser_t parser;
  yaml_document_t document;
  if (!yaml_parser_initialize(&parser)) {
    problems->failed = true;
    free(text);
    return;
  }
  yaml_parser_set_input_string(&parser, text, len);
  if (yaml_parser_load(&parser, &document)) {
    check_all(model, &document, system, problems);
    yaml_document_delete(&document);
  } else {
    pos.line = (unsigned)parser.problem_mark.line + 1;
    pos.column = (unsigned)parser.problem_mark.column + 1;
    diag_error(problems, pos, "%s", parser.problem ? parser.problem : "this is not YAML");
  }
  yaml_parser_delete(&parser);
  free(text);
}
