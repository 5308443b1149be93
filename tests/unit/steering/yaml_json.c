/* SPDX-License-Identifier: Apache-2.0 */
#include "yaml_json.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

static json_t *scalar(const char *text) {
  if (text[0] && strspn(text, "0123456789") == strlen(text))
    return json_integer(atoll(text));
  return json_string(text);
}

static json_t *convert(yaml_document_t *document, int index) {
  yaml_node_t *node = yaml_document_get_node(document, index);
  json_t *json = NULL;
  if (node->type == YAML_SCALAR_NODE)
    return scalar((const char *)node->data.scalar.value);
  if (node->type == YAML_SEQUENCE_NODE) {
    json = json_array();
    yaml_node_item_t *item = node->data.sequence.items.start;
    for (; item < node->data.sequence.items.top; item++)
      json_array_append_new(json, convert(document, *item));
    return json;
  }
  json = json_object();
  yaml_node_pair_t *pair = node->data.mapping.pairs.start;
  for (; pair < node->data.mapping.pairs.top; pair++) {
    yaml_node_t *key = yaml_document_get_node(document, pair->key);
    json_object_set_new(json, (const char *)key->data.scalar.value, convert(document, pair->value));
  }
  return json;
}

json_t *yaml_json(const char *text) {
  yaml_parser_t parser;
  yaml_document_t document;
  json_t *json = NULL;
  if (!yaml_parser_initialize(&parser))
    return NULL;
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
  if (yaml_parser_load(&parser, &document)) {
    if (yaml_document_get_root_node(&document))
      json = convert(&document, 1);
    yaml_document_delete(&document);
  }
  yaml_parser_delete(&parser);
  return json;
}
