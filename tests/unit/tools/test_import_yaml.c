/* SPDX-License-Identifier: Apache-2.0 */
/* What the YAML writer writes is read back by zones/yaml_tree.h as the very same text. */
#include "tools/sync/import_yaml.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zones/yaml_tree.h"

/* One scalar in all places that there are: key and value, block and flow. */
static void write(struct buf *out, const char *text, size_t len) {
  struct yaml_out *yaml = yaml_out_open(out);
  cr_assert_not_null(yaml);
  yaml_out_map(yaml, false);
  yaml_out_text(yaml, "block");
  yaml_out_octets(yaml, text, len);
  yaml_out_text(yaml, "list");
  yaml_out_list(yaml, true);
  yaml_out_octets(yaml, text, len);
  yaml_out_octets(yaml, text, len);
  yaml_out_end_list(yaml);
  yaml_out_text(yaml, "map");
  yaml_out_map(yaml, true);
  yaml_out_octets(yaml, text, len);
  yaml_out_octets(yaml, text, len);
  yaml_out_end_map(yaml);
  yaml_out_text(yaml, "keys");
  yaml_out_map(yaml, false);
  yaml_out_octets(yaml, text, len);
  yaml_out_list(yaml, false);
  yaml_out_octets(yaml, text, len);
  yaml_out_end_list(yaml);
  yaml_out_end_map(yaml);
  yaml_out_end_map(yaml);
  cr_assert(yaml_out_close(yaml));
}

static void expect(const struct yaml_node *node, const char *text, size_t len) {
  cr_assert_not_null(node);
  cr_assert_eq(node->kind, YAML_SCALAR);
  cr_assert_eq(node->len, len, "%zu octets, %zu were written: %s", node->len, len, text);
  cr_assert_eq(memcmp(node->text, text, len), 0, "read %s, written %s", node->text, text);
}

static void check(const char *text, size_t len) {
  struct buf out;
  struct arena arena;
  struct diag_list problems;
  buf_init(&out);
  arena_init(&arena);
  diag_init(&problems);
  write(&out, text, len);
  const struct yaml_node *root = yaml_tree_read("x", out.data, out.len, &arena, &problems);
  cr_assert(root && problems.errors == 0, "%s in: %.*s",
            problems.count ? problems.items[0].message : "", (int)out.len, (char *)out.data);
  expect(yaml_get(root, "block"), text, len);
  expect(yaml_get(root, "list")->items[1], text, len);
  expect(yaml_get(root, "map")->pairs[0].key, text, len);
  expect(yaml_get(root, "map")->pairs[0].value, text, len);
  expect(yaml_get(root, "keys")->pairs[0].key, text, len);
  expect(yaml_get(root, "keys")->pairs[0].value->items[0], text, len);
  diag_close(&problems);
  arena_close(&arena);
  buf_close(&out);
}

Test(import_yaml, texts_of_all_sorts) {
  static const char *const texts[] = {
      "",
      "a",
      " ",
      " a",
      "a ",
      "no",
      "NO",
      "y",
      "on",
      "null",
      "~",
      "1e3",
      "0x10",
      "012",
      "1:30",
      "1_000",
      "-1",
      ".5",
      ".inf",
      "2001-01-01",
      ": ",
      ":",
      "#",
      "a #b",
      "a: b",
      "a:b",
      "*x",
      "&x",
      "!x",
      "@x",
      "`x",
      "%x",
      "|",
      ">",
      "-",
      "- a",
      "?",
      "? a",
      "[",
      "]",
      "{a}",
      "a,b",
      "'",
      "''",
      "\"",
      "it's \"so\"",
      "\\",
      "\\n",
      "---",
      "...",
      "--- a",
      "a\nb",
      "\na",
      "a\n",
      "a\n\n  b",
      "a\r\nb",
      "\t",
      "a\tb",
      "\x01\x7f\x1b[31m",
      "\u00fcn\u00efc\u00f6de",
      "\xc2\x85\u2028\u2029\ufeff",
      "\xef\xbf\xbe\xef\xbf\xbf",
      "\U0001f600",
      "192.0.2.1",
      "192.0.2.0/24",
      "2001:db8::",
      "v=spf1 -all",
      "<<",
      "=",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    check(texts[i], strlen(texts[i]));
}

Test(import_yaml, every_octet_and_long_texts) {
  char text[5000];
  for (int c = 1; c < 0x80; c++) {
    for (size_t n = 1; n < 4; n++) { /* alone, between, doubled at the end */
      char some[4] = {n == 2 ? 'a' : (char)c, n == 1 ? '\0' : (char)c, n == 2 ? '\0' : (char)c, 0};
      check(some, strlen(some));
    }
  }
  for (size_t i = 0; i < sizeof text; i++)
    text[i] = i % 70 == 69 ? ' ' : 'x';
  check(text, 200);
  check(text, 1000);
}

/* The first and last characters of each length, and those that YAML does not print. */
Test(import_yaml, characters) {
  static const uint32_t points[] = {0x80,   0x9f,   0xa0,   0x7ff,  0x800,   0xd7ff,  0xe000,
                                    0xfdd0, 0xfeff, 0xfffd, 0xfffe, 0x10000, 0x1f600, 0x10ffff};
  for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
    uint32_t p = points[i];
    char text[8] = {0};
    size_t n = p < 0x800 ? 2 : p < 0x10000 ? 3 : 4;
    for (size_t k = n; k-- > 1; p >>= 6)
      text[k] = (char)(0x80 | (p & 0x3f));
    text[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | p);
    check(text, n);
  }
}

Test(import_yaml, what_cannot_be_written) {
  static const struct {
    const char *text;
    size_t len;
  } texts[] = {{"\xff", 1},     {"a\xc3", 2}, {"\xed\xa0\x80", 3},
               {"\xc0\xaf", 2}, {"a\0b", 3},  {"\xf4\x90\x80\x80", 4},
               {"\x80", 1},     {"\xc3(", 2}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct buf out;
    buf_init(&out);
    cr_expect_not(yaml_out_can(texts[i].text, texts[i].len));
    struct yaml_out *yaml = yaml_out_open(&out);
    yaml_out_map(yaml, false);
    yaml_out_text(yaml, "a");
    yaml_out_octets(yaml, texts[i].text, texts[i].len);
    yaml_out_end_map(yaml);
    cr_expect_not(yaml_out_close(yaml));
    buf_close(&out);
  }
  cr_expect_not(yaml_out_can("\xc3\xbc", 1)); /* whose rest stands behind its end */
}

Test(import_yaml, looks_as_people_write_it) {
  struct buf out;
  buf_init(&out);
  struct yaml_out *yaml = yaml_out_open(&out);
  yaml_out_map(yaml, false);
  yaml_out_text(yaml, "ttl");
  yaml_out_number(yaml, 30);
  yaml_out_text(yaml, "no");
  yaml_out_map(yaml, true);
  yaml_out_text(yaml, "A");
  yaml_out_list(yaml, true);
  yaml_out_text(yaml, "192.0.2.1");
  yaml_out_text(yaml, "2001:db8::1");
  yaml_out_end_list(yaml);
  yaml_out_text(yaml, "on-air");
  yaml_out_bool(yaml, true);
  yaml_out_end_map(yaml);
  yaml_out_end_map(yaml);
  cr_assert(yaml_out_close(yaml));
  cr_expect_str_eq(buf_text(&out),
                   "ttl: 30\n'no': {A: [192.0.2.1, '2001:db8::1'], on-air: true}\n");
  buf_close(&out);
}
