/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "zones/serial.h"

/* RFC 1982 section 5.2 has such pairs for 8 bits. */
Test(serial, order) {
  cr_expect(serial_is_greater(1, 0));
  cr_expect(!serial_is_greater(0, 1));
  cr_expect(!serial_is_greater(7, 7));
  cr_expect(serial_is_greater(0, UINT32_MAX));
  cr_expect(serial_is_greater(100, UINT32_MAX - 100));
  cr_expect(serial_is_greater(0x7fffffff, 0));
  cr_expect(!serial_is_greater(0x80000000, 0));
  cr_expect(!serial_is_greater(0, 0x80000000));
  cr_expect(serial_is_greater(0, 0x80000001));
}

Test(serial, next_is_greater) {
  const uint32_t serials[] = {0, 1, 2, 0x7fffffff, 0x80000000, UINT32_MAX - 1, UINT32_MAX};
  for (size_t i = 0; i < sizeof serials / sizeof *serials; i++) {
    cr_expect(serial_is_greater(serial_next(serials[i]), serials[i]), "%u", serials[i]);
    cr_expect(serial_next(serials[i]) != 0);
  }
}

static json_t *entry(uint32_t serial, const char *input) {
  return json_pack("{s:I, s:s}", "serial", (json_int_t)serial, "input", input);
}

static uint32_t choose(json_t *a, json_t *b, const char *input) {
  const json_t *entries[] = {a, NULL, b};
  uint32_t serial = serial_choose(entries, 3, input);
  json_decref(a);
  json_decref(b);
  return serial;
}

Test(serial, of_content) {
  cr_expect_eq(choose(NULL, NULL, "x"), 1);
  cr_expect_eq(choose(entry(5, "x"), NULL, "x"), 5);
  cr_expect_eq(choose(NULL, entry(5, "y"), "x"), 6);
  cr_expect_eq(choose(entry(UINT32_MAX, "y"), NULL, "x"), 1);
  /* The same in both places, or the greater one. */
  cr_expect_eq(choose(entry(5, "x"), entry(5, "x"), "x"), 5);
  cr_expect_eq(choose(entry(7, "x"), entry(5, "y"), "x"), 7);
  cr_expect_eq(choose(entry(7, "x"), entry(5, "y"), "y"), 8);
  cr_expect_eq(choose(entry(2, "x"), entry(UINT32_MAX, "y"), "y"), 3);
  /* One serial for two contents: neither goes on with it. */
  cr_expect_eq(choose(entry(5, "x"), entry(5, "y"), "x"), 6);
  cr_expect_eq(choose(entry(5, "x"), entry(5, "y"), "y"), 6);
}

/* Whatever comes: a changed content gets a greater serial than any that was there before. */
Test(serial, never_goes_back) {
  uint32_t serial = UINT32_MAX - 50;
  char content[16] = "0";
  srand(7);
  for (int i = 0; i < 1000; i++) {
    char next[16];
    snprintf(next, sizeof next, "%d", rand() % 3);
    uint32_t now = choose(entry(serial, content), i % 2 ? entry(serial, content) : NULL, next);
    if (strcmp(next, content) == 0)
      cr_assert_eq(now, serial);
    else
      cr_assert(serial_is_greater(now, serial));
    serial = now;
    strcpy(content, next);
  }
}

Test(serial, valid) {
  json_t *values = json_pack("[i, I, I, f, s, n, b, i]", 0, (json_int_t)UINT32_MAX,
                             (json_int_t)UINT32_MAX + 1, 1.0, "1", 1, -1);
  const bool valid[] = {true, true, false, false, false, false, false, false};
  for (size_t i = 0; i < 8; i++)
    cr_expect_eq(serial_is_valid(json_array_get(values, i)), valid[i], "%zu", i);
  cr_expect(!serial_is_valid(NULL));
  json_decref(values);
}
