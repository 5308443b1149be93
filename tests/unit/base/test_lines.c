/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/lines.h"

static void feed(struct lines *lines, const char *text) {
  size_t room;
  size_t n = strlen(text);
  char *to = lines_room(lines, n, &room);
  cr_assert(to && room >= n);
  memcpy(to, text, n);
  lines_added(lines, n);
}

static void expect(struct lines *lines, const char *text) {
  char *line;
  size_t len;
  cr_assert_eq(lines_next(lines, &line, &len), LINES_LINE, "no line, wanted %s", text);
  cr_expect_str_eq(line, text);
  cr_expect_eq(len, strlen(text));
}

static void expect_none(struct lines *lines) {
  char *line;
  size_t len;
  cr_expect_eq(lines_next(lines, &line, &len), LINES_NONE);
}

Test(lines, pieces) {
  struct lines lines;
  lines_init(&lines, 100);
  expect_none(&lines);
  feed(&lines, "one\ntw");
  expect(&lines, "one");
  expect_none(&lines);
  feed(&lines, "o");
  expect_none(&lines);
  feed(&lines, "\n\nthree\nf");
  expect(&lines, "two");
  expect(&lines, "");
  feed(&lines, "our\n"); /* with a line that was not given out yet */
  expect(&lines, "three");
  expect(&lines, "four");
  expect_none(&lines);
  lines_close(&lines);
}

Test(lines, limit) {
  struct lines lines;
  char *line;
  size_t len;
  lines_init(&lines, 5);
  feed(&lines, "12345\n12345");
  expect(&lines, "12345");
  expect_none(&lines);
  feed(&lines, "6");
  cr_expect_eq(lines_next(&lines, &line, &len), LINES_TOO_LONG);
  lines_close(&lines);
  lines_init(&lines, 5);
  feed(&lines, "1\n123456\n");
  expect(&lines, "1");
  cr_expect_eq(lines_next(&lines, &line, &len), LINES_TOO_LONG);
  lines_close(&lines);
}

Test(lines, octet_by_octet) {
  struct lines lines;
  lines_init(&lines, 1 << 20);
  char one[2] = "x";
  for (int i = 0; i < 100000; i++)
    feed(&lines, one);
  expect_none(&lines);
  feed(&lines, "\n");
  char *line;
  size_t len;
  cr_assert_eq(lines_next(&lines, &line, &len), LINES_LINE);
  cr_expect_eq(len, 100000);
  lines_close(&lines);
}
