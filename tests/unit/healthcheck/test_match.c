/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/rng.h"
#include "healthcheck/probes/match.h"

/* Feeds `stream` in pieces of `step` octets. */
static bool found(const char *text, const char *stream, size_t length, size_t limit, size_t step) {
  struct match *match = match_new(text, limit);
  cr_assert_not_null(match);
  bool was = false, is = false;
  for (size_t at = 0; at < length; at += step) {
    size_t n = length - at < step ? length - at : step;
    is = match_feed(match, stream + at, n);
    cr_assert(is || !was, "what was found stays found");
    was = is;
  }
  cr_assert_eq(match_seen(match), length < limit ? length : limit);
  match_free(match);
  return is;
}

Test(match, is_found_however_it_is_cut) {
  static const char stream[] = "ababacabababab";
  for (size_t step = 1; step <= sizeof stream; step++) {
    cr_expect(found("abababab", stream, strlen(stream), 100, step), "%zu", step);
    cr_expect(found("ababac", stream, strlen(stream), 100, step), "%zu", step);
    cr_expect_not(found("abac!", stream, strlen(stream), 100, step), "%zu", step);
  }
}

Test(match, lies_whole_in_the_limit) {
  static const char stream[] = "0123456789";
  for (size_t step = 1; step <= 10; step++) {
    cr_expect(found("789", stream, 10, 10, step));
    cr_expect_not(found("789", stream, 10, 9, step));
    cr_expect(found("678", stream, 10, 9, step));
  }
}

Test(match, octets_that_are_no_text) {
  cr_expect(found("OK", "\0\xff\0OK", 5, 100, 2));
  cr_expect(found("\xc3\xa9", "caf\xc3\xa9", 5, 100, 1));
}

Test(match, longer_than_the_limit_is_never_found) {
  cr_expect_not(found("0123456789", "0123456789", 10, 5, 3));
}

/* The same as a search of the whole, for many random texts of few letters. */
Test(match, agrees_with_a_plain_search) {
  struct rng rng;
  rng_seed(&rng, 72);
  for (int round = 0; round < 20000; round++) {
    char text[8] = {0}, stream[64];
    size_t length = 1 + rng_below(&rng, 7), total = rng_below(&rng, 64);
    for (size_t i = 0; i < length; i++)
      text[i] = (char)('a' + rng_below(&rng, 2));
    for (size_t i = 0; i < total; i++)
      stream[i] = (char)('a' + rng_below(&rng, 2));
    size_t limit = 1 + rng_below(&rng, 64), in = total < limit ? total : limit;
    bool is = memmem(stream, in, text, length) != NULL;
    cr_assert_eq(found(text, stream, total, limit, 1 + rng_below(&rng, 9)), is && total > 0);
  }
}
