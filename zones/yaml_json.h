/* SPDX-License-Identifier: Apache-2.0 */
/* YAML as JSON, for settings that are handed on to whoever knows their keys. */
#ifndef SLUICE_ZONES_YAML_JSON_H
#define SLUICE_ZONES_YAML_JSON_H

#include <jansson.h>

#include "zones/yaml_tree.h"

/* A copy: maps are objects, lists arrays, and scalars the texts that were written.  As deep as the
 * tree, whose depth and size are limited.  NULL without memory. */
json_t *yaml_to_json(const struct yaml_node *node);

#endif
