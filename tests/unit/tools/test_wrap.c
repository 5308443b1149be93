/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "tools/wrap.h"

TestSuite(wrap, .init = cr_redirect_stdout);

static void expect(const char *text) {
  fflush(stdout);
  cr_assert_stdout_eq_str(text);
}

Test(wrap, short_text) {
  wrap_print("zones", 11, "%d", 3);
  expect("zones      3\n");
}

Test(wrap, no_text) {
  wrap_print("zones", 11, "%s", "");
  expect("zones      \n");
}

Test(wrap, a_line_is_filled_up_to_the_last_column) {
  char word[41];
  memset(word, 'x', 40);
  word[40] = 0;
  wrap_print("", 4, "%.35s %.40s", word, word); /* 4 + 35 + 1 + 40 = 80 */
  wrap_print("", 4, "%.36s %.40s", word, word);
  expect("    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"
         "    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"
         "    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n");
}

Test(wrap, a_long_word_stays_whole) {
  char word[101];
  char wanted[128];
  memset(word, 'x', 100);
  word[100] = 0;
  snprintf(wanted, sizeof wanted, "a b\n  %s\n  c\n", word);
  wrap_print("a", 2, "b %s c", word);
  expect(wanted);
}

Test(wrap, characters_count_not_octets) {
  char text[161];
  char wanted[170];
  for (int i = 0; i < 76; i++)
    memcpy(text + 2 * i, "\xc3\xa9", 2);
  text[152] = 0;
  snprintf(wanted, sizeof wanted, "%s foo\n", text);
  wrap_print("", 0, "%s foo", text); /* 76 + 1 + 3 = 80 */
  expect(wanted);
}

Test(wrap, a_terminal_is_not_driven) {
  wrap_print("\033", 3, "a\033[31m\tb\nc");
  expect("?  a?[31m?b?c\n");
}

Test(wrap, a_label_may_be_wider_than_its_column) {
  wrap_print("secondary ", 4, "x");
  expect("secondary x\n");
}
