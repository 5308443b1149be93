/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

Test(diag, sorted_printed_and_counted) {
  struct diag_list list;
  diag_init(&list);
  diag_error(&list, (struct diag_pos){"b", 2, 1}, "two");
  diag_error(&list, (struct diag_pos){"b", 1, 9}, "one %d", 9);
  diag_warning(&list, (struct diag_pos){"a", 0, 0}, "whole file");
  diag_error(&list, (struct diag_pos){"b", 2, 1}, "two");
  diag_error(&list, (struct diag_pos){"b", 10, 1}, "line\nbreak");
  cr_expect_eq(list.errors, 4);
  diag_sort(&list);
  cr_expect_eq(list.errors, 3);
  cr_expect_eq(list.count, 4);
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  diag_print(&list, out);
  fclose(out);
  cr_expect_str_eq(text,
                   "a:1:1: warning: whole file\nb:1:9: one 9\nb:2:1: two\nb:10:1: line?break\n");
  free(text);
  diag_close(&list);
}

Test(diag, distance) {
  cr_expect_eq(diag_distance("weight", "weight"), 0);
  cr_expect_eq(diag_distance("WEIGHT", "weight"), 0);
  cr_expect_eq(diag_distance("wieght", "weight"), 1);
  cr_expect_eq(diag_distance("weigt", "weight"), 1);
  cr_expect_eq(diag_distance("weightt", "weight"), 1);
  cr_expect_eq(diag_distance("", "abc"), 3);
  cr_expect_eq(diag_distance("kitten", "sitting"), 3);
}

Test(diag, nearest) {
  static const char *const words[] = {"ttl", "endpoints", "regions", "health"};
  char *longest = malloc(10001);
  memset(longest, 'x', 10000);
  longest[10000] = '\0';
  cr_expect_str_eq(diag_nearest("endpoint", words, 4), "endpoints");
  cr_expect_str_eq(diag_nearest("Regoins", words, 4), "regions");
  cr_expect_str_eq(diag_nearest("tll", words, 4), "ttl");
  cr_expect_null(diag_nearest("colour", words, 4));
  cr_expect_null(diag_nearest("", words, 4));
  cr_expect_null(diag_nearest("x", words, 0));
  cr_expect_null(diag_nearest(longest, words, 4));
  free(longest);
}
