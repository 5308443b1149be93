/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "zones/yaml_tree.h"

struct fixture {
  struct arena arena;
  struct diag_list problems;
};

static struct yaml_node *read_bytes(struct fixture *f, const void *text, size_t len) {
  arena_init(&f->arena);
  diag_init(&f->problems);
  return yaml_tree_read("f", text, len, &f->arena, &f->problems);
}

static struct yaml_node *read_text(struct fixture *f, const char *text) {
  return read_bytes(f, text, strlen(text));
}

static void done(struct fixture *f) {
  arena_close(&f->arena);
  diag_close(&f->problems);
}

static void expect_error(const char *text, size_t len, unsigned line, unsigned column,
                         const char *words) {
  struct fixture f;
  cr_assert_null(read_bytes(&f, text, len));
  cr_assert_eq(f.problems.errors, 1);
  cr_expect_eq(f.problems.items[0].line, line, "%s: line %u", words, f.problems.items[0].line);
  cr_expect_eq(f.problems.items[0].column, column, "%s: column %u", words,
               f.problems.items[0].column);
  cr_expect_not_null(strstr(f.problems.items[0].message, words), "%s", f.problems.items[0].message);
  done(&f);
}

Test(yaml_tree, scalars_stay_text) {
  struct fixture f;
  struct yaml_node *root =
      read_text(&f, "[no, on, 012, 0x10, 1e3, 1:30, ~, null, 1_000, 'a', \"b\"]");
  const char *expected[] = {"no", "on",   "012",   "0x10", "1e3", "1:30",
                            "~",  "null", "1_000", "a",    "b"};
  cr_assert_eq(root->kind, YAML_LIST);
  cr_assert(root->flow);
  cr_assert_eq(root->count, 11);
  for (size_t i = 0; i < root->count; i++) {
    cr_expect_str_eq(root->items[i]->text, expected[i]);
    cr_expect_eq(root->items[i]->quoted, i >= 9);
  }
  done(&f);
}

Test(yaml_tree, places_count_characters) {
  struct fixture f;
  struct yaml_node *root = read_text(&f, "a: \"ü☃\"\nb:\n  é: [1, {x: y}]\n");
  struct yaml_node *b = yaml_get(root, "b");
  cr_assert_eq(root->line, 1);
  cr_assert_eq(b->line, 3);
  cr_assert_eq(b->column, 3);
  struct yaml_node *list = yaml_get(b, "é");
  cr_assert_eq(list->column, 6);
  cr_assert_eq(list->items[1]->column, 10);
  cr_assert_eq(yaml_get_key(list->items[1], "x")->column, 11);
  cr_assert_null(yaml_get(root, "c"));
  cr_assert_null(yaml_get(list, "c"));
  cr_assert_null(yaml_get(NULL, "c"));
  done(&f);
}

Test(yaml_tree, empty_files_are_empty_maps) {
  static const char *const texts[] = {"", "\n", "# comment\n", "---\n", "\xef\xbb\xbf"};
  for (size_t i = 0; i < 5; i++) {
    struct fixture f;
    struct yaml_node *root = read_text(&f, texts[i]);
    cr_assert_not_null(root);
    cr_expect_eq(root->kind, YAML_MAP);
    cr_expect_eq(root->count, 0);
    done(&f);
  }
}

Test(yaml_tree, every_duplicate_key_is_reported_and_the_first_kept) {
  struct fixture f;
  struct yaml_node *root = read_text(&f, "a: 1\nb: 2\na: 3\nc: {x: 1, x: 2}\na: 4\n");
  cr_assert_eq(f.problems.errors, 3);
  cr_assert_eq(root->count, 3);
  cr_assert_str_eq(yaml_get(root, "a")->text, "1");
  diag_sort(&f.problems);
  cr_expect_eq(f.problems.items[0].line, 3);
  cr_expect_eq(f.problems.items[1].line, 4);
  cr_expect_eq(f.problems.items[1].column, 11);
  cr_expect_eq(f.problems.items[2].line, 5);
  done(&f);
}

Test(yaml_tree, aliases_share_their_node) {
  struct fixture f;
  struct yaml_node *root = read_text(&f, "a: &x {k: v}\nb: *x\n");
  cr_assert_not_null(root);
  cr_assert_eq(yaml_get(root, "a"), yaml_get(root, "b"));
  done(&f);
}

Test(yaml_tree, hostile_files) {
  static const char nul[] = "a: b\0c\n";
  char deep[200];
  memset(deep, '[', 33);
  memset(deep + 33, ']', 33);
  expect_error("a: \xff\n", 5, 1, 4, "UTF-8");
  expect_error("a: \xc0\xaf\n", 6, 1, 4, "UTF-8");
  expect_error("a: \xed\xa0\x80\n", 7, 1, 4, "UTF-8");
  expect_error("a: \xf4\x90\x80\x80\n", 8, 1, 4, "UTF-8");
  expect_error("a: \xe2\x82", 5, 1, 4, "UTF-8");
  expect_error(nul, sizeof nul - 1, 1, 5, "control character");
  expect_error("a: \"b\\0c\"\n", 10, 1, 4, "NUL");
  expect_error(deep, 66, 1, 33, "too deep");
  expect_error("a: 1\n--- \nb: 1\n", 15, 2, 1, "several documents");
  expect_error("a: !!str 1\n", 11, 1, 4, "tags");
  expect_error("a: *b\n", 6, 1, 4, "no anchor");
  expect_error("a: &b [*b]\n", 11, 1, 8, "inside the value");
  expect_error("? [a]\n: b\n", 10, 1, 3, "a key must be plain text");
  expect_error("a: [::1]\n", 9, 1, 5, "quotes");
}

Test(yaml_tree, depth_of_32_is_allowed) {
  struct fixture f;
  char text[65] = "";
  memset(text, '[', 32);
  memset(text + 32, ']', 32);
  cr_assert_not_null(read_text(&f, text));
  done(&f);
}

Test(yaml_tree, aliases_cannot_grow_without_bound) {
  struct fixture f;
  char text[4096] = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  size_t at = strlen(text);
  for (int i = 1; i < 10; i++) {
    at += (size_t)snprintf(text + at, sizeof text - at, "a%d: &a%d [", i, i);
    for (int k = 0; k < 10; k++)
      at += (size_t)snprintf(text + at, sizeof text - at, "*a%d,", i - 1);
    at += (size_t)snprintf(text + at, sizeof text - at, "]\n");
  }
  cr_assert_null(read_text(&f, text));
  cr_assert_eq(f.problems.errors, 1);
  cr_expect_not_null(strstr(f.problems.items[0].message, "aliases"));
  done(&f);
}

Test(yaml_tree, too_large) {
  struct fixture f;
  size_t len = YAML_MAX_BYTES + 1;
  char *text = malloc(len);
  memset(text, '#', len);
  cr_assert_null(read_bytes(&f, text, len));
  cr_expect_not_null(strstr(f.problems.items[0].message, "4 MiB"));
  done(&f);
  free(text);
}
