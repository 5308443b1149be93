/* SPDX-License-Identifier: Apache-2.0 */
/* YAML text as JSON for tests: mappings, sequences and scalars (all decimal integers are numbers
 * where they are values; keys keep their spelling).  NULL if it is not YAML. */
#ifndef SLUICE_TESTS_STEERING_YAML_JSON_H
#define SLUICE_TESTS_STEERING_YAML_JSON_H

#include <jansson.h>

json_t *yaml_json(const char *text);

#endif
