/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "zones/yaml_json.h"

/* Reads YAML and compares what becomes of it with a JSON text. */
static void expect_json(const char *yaml, const char *expected) {
  struct arena arena;
  struct diag_list problems;
  arena_init(&arena);
  diag_init(&problems);
  const struct yaml_node *root =
      yaml_tree_read("f", (const uint8_t *)yaml, strlen(yaml), &arena, &problems);
  cr_assert_not_null(root, "%s", yaml);
  cr_assert_eq(problems.errors, 0, "%s", yaml);
  json_t *json = yaml_to_json(root);
  diag_close(&problems);
  arena_close(&arena); /* a copy: it does not need the tree */
  char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
  cr_expect_str_eq(text, expected);
  free(text);
  json_decref(json);
}

Test(yaml_json, scalars_stay_text) {
  expect_json("[no, 012, 1e3, ~, true, 'a', \"b\"]",
              "[\"no\",\"012\",\"1e3\",\"~\",\"true\",\"a\",\"b\"]");
  expect_json("just text", "\"just text\"");
  expect_json("a:\n", "{\"a\":\"\"}");
}

Test(yaml_json, maps_and_lists) {
  expect_json("{}", "{}");
  expect_json("[]", "[]");
  expect_json("", "{}"); /* an empty file is an empty map */
  expect_json("z: {file: /x}\na: [1, {b: [[], {}]}]\n",
              "{\"z\":{\"file\":\"/x\"},\"a\":[\"1\",{\"b\":[[],{}]}]}");
}

Test(yaml_json, characters) {
  expect_json("\"ü\\\"\\n\": ☃\n", "{\"ü\\\"\\n\":\"☃\"}");
}

Test(yaml_json, aliases_are_copies) {
  expect_json("[&a {k: v}, *a]", "[{\"k\":\"v\"},{\"k\":\"v\"}]");
}
