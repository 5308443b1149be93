/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/yaml_json.h"

json_t *yaml_to_json(const struct yaml_node *node) {
  if (node->kind == YAML_SCALAR)
    return json_string(node->text);
  json_t *out = node->kind == YAML_MAP ? json_object() : json_array();
  for (size_t i = 0; out != NULL && i < node->count; i++) {
    int rc = node->kind == YAML_MAP ? json_object_set_new(out, node->pairs[i].key->text,
                                                          yaml_to_json(node->pairs[i].value))
                                    : json_array_append_new(out, yaml_to_json(node->items[i]));
    if (rc == 0)
      continue;
    json_decref(out);
    return NULL;
  }
  return out;
}
