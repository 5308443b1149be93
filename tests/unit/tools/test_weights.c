/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/endpoints/weights.h"

enum { MAX = 16 };

static char why[WEIGHTS_WHY];

/* Reads words that are separated by one space. */
static bool read_words(struct weights *weights, const char *text) {
  static char copy[1024];
  char *args[MAX];
  size_t count = 0;
  strcpy(copy, text);
  *why = 0;
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
    args[count++] = word;
  return weights_read(weights, args, count, why);
}

/* Applies `request` to the level "a=1 b=2 ..."; gives the weights as "1 2", with ! for each that
 * was not touched, or the message. */
static const char *apply(const char *request, const char *before) {
  static char out[WEIGHTS_WHY];
  static char names[MAX][64];
  const char *pointers[MAX];
  uint16_t weights[MAX], old[MAX];
  bool touched[MAX] = {false};
  struct weights_level level = {pointers, weights, touched, 0};
  struct weights asked;
  int used = 0;
  for (int at = 0;
       sscanf(before + at, " %63[^=]=%hu%n", names[level.count], &weights[level.count], &used) == 2;
       at += used)
    pointers[level.count] = names[level.count], level.count++;
  memcpy(old, weights, sizeof old);
  cr_assert(read_words(&asked, request), "%s: %s", request, why);
  *out = 0;
  if (weights_apply(&asked, &level, why))
    for (size_t i = 0; i < level.count; i++)
      sprintf(out + strlen(out), "%s%u%s", i ? " " : "", weights[i], touched[i] ? "" : "!");
  else
    strcpy(out, why);
  if (*why)
    cr_assert_arr_eq(weights, old, level.count * sizeof *old);
  weights_close(&asked);
  return out;
}

#define GIVES(request, before, after)                                                              \
  cr_assert_str_eq(apply(request, before), after, "%s gave %s", request, apply(request, before))

static void apply_fails(const char *request, const char *before, const char *part) {
  cr_assert(strstr(apply(request, before), part), "%s: %s", request, why);
}

static void refused(const char *text, const char *part) {
  struct weights weights;
  cr_assert_not(read_words(&weights, text), "%s", text);
  cr_assert(strstr(why, part), "%s: %s", text, why);
  weights_close(&weights);
}

Test(weights, assignments) {
  GIVES("a=5", "a=1 b=2", "5 2!");
  GIVES("b=65535 a=0", "a=1 b=2", "0 65535");
  GIVES("a=1", "a=1 b=2", "1 2!");
  apply_fails("c=1", "a=1 b=2", "no endpoint c");
}

Test(weights, b40_zero_is_a_weight) {
  GIVES("a=0", "a=7 b=2", "0 2!");
  refused("a=", "write 0 for no traffic");
  refused("a= b=1", "write 0 for no traffic");
}

Test(weights, bad_assignments) {
  refused("", "no weights");
  refused("=5", "names no endpoint");
  refused("a=65536", "0 to 65535");
  refused("a=-1", "0 to 65535");
  refused("a=+1", "0 to 65535");
  refused("a=1.5", "0 to 65535");
  refused("a=1e3", "0 to 65535");
  refused("a=0x10", "0 to 65535");
  refused("a=012", "0 to 65535");
  refused("a=10%", "0 to 65535");
  refused("a=99999999999999999999", "0 to 65535");
  refused("a=1 a=2", "two weights");
  refused("a=1 even", "a profile stands alone");
  refused("even a=1", "a profile stands alone");
  refused("even even", "a profile stands alone");
}

Test(weights, only) {
  GIVES("only[b]", "a=1 b=2 c=0", "0 100 0");
  GIVES("only[a]", "a=0", "100");
  apply_fails("only[x]", "a=1", "no endpoint x");
}

Test(weights, mostly) {
  GIVES("mostly[a]", "a=0 b=0", "95 5");
  GIVES("mostly[a]", "a=0 b=0 c=0", "95 3 2");
  GIVES("mostly[b]", "a=0 b=0 c=0 d=0", "3 95 1 1");
  GIVES("mostly[e]", "a=0 b=0 c=0 d=0 e=9", "2 1 1 1 95");
  GIVES("mostly[a]", "a=0 b=0 c=0 d=0 e=0 f=0", "95 1 1 1 1 1");
  apply_fails("mostly[a]", "a=1 b=1 c=1 d=1 e=1 f=1 g=1", "some would get 0");
  apply_fails("mostly[a]", "a=1", "no other endpoint");
}

Test(weights, even_and_without) {
  GIVES("even", "a=0 b=77 c=1", "1 1 1");
  GIVES("without[b]", "a=3 b=77 c=1", "3! 0 1!");
}

Test(weights, shift_is_exact) {
  GIVES("shift[a:b,10]", "a=100 b=0", "90 10");
  GIVES("shift[a:b,10]", "a=2 b=1", "17 13");     /* times 10 */
  GIVES("shift[a:b,10]", "a=2 b=1 c=1", "8 7 5"); /* times 5 */
  GIVES("shift[a:b,10]", "a=5 b=5 c=10", "3 7 10!");
  GIVES("shift[a:b,50]", "a=1 b=1", "0 2");
  GIVES("shift[a:b,100]", "a=3 b=0", "0 3");
  GIVES("shift[a:b,0.01]", "a=1 b=0", "9999 1");
  GIVES("shift[a:b,2.5%]", "a=40 b=0", "39 1");
  GIVES("shift[a:b,25]", "a=60000 b=60000", "1 3"); /* 30000 and 90000 do not fit */
  apply_fails("shift[a:b,10]", "a=9 b=91", "a has 9 of 100");
  apply_fails("shift[a:b,10]", "a=0 b=0", "a has 0 of 0");
  apply_fails("shift[a:b,0.01]", "a=65535 b=65534", "no weights up to 65535");
  apply_fails("shift[a:x,10]", "a=1 b=1", "no endpoint x");
}

Test(weights, shift_there_and_back) {
  GIVES("shift[b:a,10]", "a=90 b=10", "100 0");
}

Test(weights, bad_profiles) {
  refused("only", "needs an endpoint");
  refused("only[]", "needs an endpoint");
  refused("only[a", "not closed");
  refused("only[a]b", "not closed");
  refused("[a]", "names no profile");
  refused("even[a]", "nothing in brackets");
  refused("shift", "shift[FROM:TO,POINTS]");
  refused("shift[]", "shift[FROM:TO,POINTS]");
  refused("shift[a:b]", "shift[FROM:TO,POINTS]");
  refused("shift[a,10]", "shift[FROM:TO,POINTS]");
  refused("shift[:b,10]", "shift[FROM:TO,POINTS]");
  refused("shift[a:,10]", "shift[FROM:TO,POINTS]");
  refused("shift[a:a,10]", "to itself");
  for (const char **points = (const char *[]){"0", "-1", "101", "100.01", "1.", ".5", "1.234", "x",
                                              "", "1000", "1e1", "10%%", NULL};
       *points; points++) {
    char text[64];
    snprintf(text, sizeof text, "shift[a:b,%s]", *points);
    refused(text, "percentage points");
  }
}

Test(weights, configured_profiles) {
  json_t *profiles = json_pack("{s:{s:i,s:i}, s:{s:i}, s:{s:i}}", "canary", "a", 95, "b", 0, "high",
                               "a", 65536, "low", "a", -1);
  struct weights weights;
  cr_assert(read_words(&weights, "canary"));
  cr_assert_eq(weights.kind, WEIGHTS_NAMED);
  cr_assert(weights_define(&weights, profiles, why));
  cr_assert_eq(weights.kind, WEIGHTS_ASSIGN);
  cr_assert_eq(weights.count, 2);
  cr_assert_eq(weights.items[1].weight, 0);
  cr_assert_null(weights_missing(&weights, (const char *const[]){"b", "a"}, 2));
  cr_assert_str_eq(weights_missing(&weights, (const char *const[]){"a", "c"}, 2), "b");
  weights_close(&weights);
  const char *const wrong[][2] = {{"canray", "did you mean canary?"},
                                  {"mostyl[a]", "did you mean mostly?"},
                                  {"nothing-like-it", "`endpoints profiles DOMAIN` lists them"},
                                  {"high", "not well-formed"},
                                  {"low", "not well-formed"}};
  for (size_t i = 0; i < 5; i++) {
    cr_assert(read_words(&weights, wrong[i][0]));
    cr_assert_not(weights_define(&weights, profiles, why));
    cr_assert(strstr(why, wrong[i][1]), "%s", why);
    weights_close(&weights);
  }
  cr_assert(read_words(&weights, "canary"));
  cr_assert_not(weights_define(&weights, NULL, why));
  weights_close(&weights);
  json_decref(profiles);
}
