/* SPDX-License-Identifier: Apache-2.0 */
/* Layer 4: draws against their probabilities.  Seeds are fixed, so a result never changes by luck.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "helper.h"

static struct draw_table *table_of(const uint16_t *weights, uint16_t count, uint8_t answers) {
  struct draw_table *t = calloc(1, sizeof *t + count * sizeof t->items[0]);
  t->count = count;
  t->level = 1;
  t->answers = answers;
  for (uint16_t i = 0; i < count; i++) {
    t->total += weights[i];
    t->items[i] = (struct draw_item){t->total, i, weights[i]};
  }
  return t;
}

static double sum_of(const double *p, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += p[i];
  return sum;
}

/* Chi-square of single draws; with fewer than 8 degrees of freedom 60 has p < 1e-9. */
static double chi_square(const struct draw_table *t, unsigned draws, uint64_t seed) {
  unsigned seen[8] = {0};
  double p[8], x = 0;
  struct rng rng;
  rng_seed(&rng, seed);
  draw_probabilities(t, p);
  for (unsigned i = 0; i < draws; i++)
    seen[draw_one(t, &rng)]++;
  for (size_t i = 0; i < t->count; i++)
    x += pow(seen[i] - draws * p[i], 2) / (draws * p[i]);
  return x;
}

Test(weight, single_draws_have_their_shares) {
  static const uint16_t sets[][4] = {
      {95, 5, 1, 1}, {1, 1, 1, 1}, {65535, 1000, 3, 65535}, {100, 1, 50, 25}};
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
    struct draw_table *t = table_of(sets[i], 4, 1);
    double x = chi_square(t, 400000, 7 + i);
    cr_expect_lt(x, 60, "set %zu: chi-square %f", i, x);
    free(t);
  }
}

Test(weight, the_largest_total_is_not_an_overflow) {
  enum { COUNT = 65535 };
  uint16_t *weights = malloc(COUNT * sizeof *weights);
  for (size_t i = 0; i < COUNT; i++)
    weights[i] = 65535;
  struct draw_table *t = table_of(weights, COUNT, 3);
  cr_expect_eq(t->total, 65535U * 65535U);
  struct rng rng;
  rng_seed(&rng, 1);
  unsigned upper = 0;
  for (unsigned i = 0; i < 200; i++) {
    uint16_t out[STEER_MAX_ANSWERS];
    cr_assert_eq(draw_many(t, &rng, out), 3);
    upper += out[0] > COUNT / 2;
  }
  cr_expect(upper > 50 && upper < 150);
  free(t);
  free(weights);
}

Test(weight, draws_without_replacement_are_different_and_have_their_chances) {
  static const uint16_t weights[] = {50, 30, 10, 5, 5, 1};
  enum { COUNT = 6, DRAWS = 300000 };
  for (uint8_t n = 2; n <= 5; n++) {
    struct draw_table *t = table_of(weights, COUNT, n);
    unsigned seen[COUNT] = {0}, first[COUNT] = {0};
    double p[COUNT];
    struct rng rng;
    rng_seed(&rng, n);
    for (unsigned i = 0; i < DRAWS; i++) {
      uint16_t out[STEER_MAX_ANSWERS];
      unsigned set = 0;
      cr_assert_eq(draw_many(t, &rng, out), n);
      for (unsigned k = 0; k < n; k++) {
        cr_assert_not(set >> out[k] & 1, "drawn twice");
        set |= 1U << out[k];
        seen[out[k]]++;
      }
      first[out[0]]++;
    }
    draw_probabilities(t, p);
    cr_expect(fabs(sum_of(p, COUNT) - n) < 1e-12);
    for (size_t i = 0; i < COUNT; i++) { /* six standard deviations: less than 1 in 10^8 */
      double sigma = sqrt(DRAWS * p[i] * (1 - p[i]));
      cr_expect_lt(fabs(seen[i] - DRAWS * p[i]), 6 * sigma + 1, "n %d item %zu", n, i);
      double q = weights[i] / 101.0;
      cr_expect_lt(fabs(first[i] - DRAWS * q), 6 * sqrt(DRAWS * q * (1 - q)));
    }
    free(t);
  }
}

Test(weight, fewer_than_wanted_gives_all) {
  static const uint16_t weights[] = {1, 2, 3};
  struct draw_table *t = table_of(weights, 3, 16);
  double p[3];
  draw_probabilities(t, p);
  cr_expect(p[0] == 1 && p[1] == 1 && p[2] == 1);
  struct rng rng;
  rng_seed(&rng, 1);
  uint16_t out[STEER_MAX_ANSWERS];
  cr_expect_eq(draw_many(t, &rng, out), 3);
  cr_expect_eq(1 << out[0] | 1 << out[1] | 1 << out[2], 7);
  free(t);
}

/* The chance of two draws in closed form: first, or second after any other. */
Test(weight, chances_of_two_draws_in_closed_form) {
  for (uint16_t count = 3; count <= 40; count++) { /* by subsets, then by the race */
    uint16_t weights[40];
    double p[40], total = 0;
    for (uint16_t i = 0; i < count; i++) {
      weights[i] = (uint16_t)(i == 0 ? 65535 : 1 + i * i * 37);
      total += weights[i];
    }
    struct draw_table *t = table_of(weights, count, 2);
    draw_probabilities(t, p);
    for (uint16_t i = 0; i < count; i++) {
      double want = weights[i] / total;
      for (uint16_t j = 0; j < count; j++)
        want += j == i ? 0 : weights[j] / total * weights[i] / (total - weights[j]);
      cr_expect_lt(fabs(p[i] - want), 1e-10, "%d items, item %d: %.15f, not %.15f", count, i, p[i],
                   want);
    }
    free(t);
  }
}

/* 16 items, too many for the way over subsets of the code under test, done here over subsets. */
Test(weight, chances_of_several_draws_over_all_subsets) {
  enum { COUNT = 16, SETS = 1 << COUNT };
  static const uint16_t weights[COUNT] = {1,  2,  3,   5,    8,     13,    21,    34,
                                          55, 89, 500, 4000, 20000, 65535, 65535, 7};
  for (uint8_t n = 3; n <= 15; n = (uint8_t)(n + 4)) {
    struct draw_table *t = table_of(weights, COUNT, n);
    double *chance = calloc(SETS, sizeof *chance), want[COUNT] = {0}, got[COUNT];
    chance[0] = 1;
    for (unsigned set = 0; set < SETS; set++) {
      double left = 0;
      for (unsigned i = 0; i < COUNT; i++)
        left += set >> i & 1 ? 0 : weights[i];
      for (unsigned i = 0; i < COUNT; i++) {
        if (__builtin_popcount(set) == n)
          want[i] += set >> i & 1 ? chance[set] : 0;
        else if (__builtin_popcount(set) < n && !(set >> i & 1))
          chance[set | 1U << i] += chance[set] * weights[i] / left;
      }
    }
    draw_probabilities(t, got);
    for (unsigned i = 0; i < COUNT; i++)
      cr_expect_lt(fabs(got[i] - want[i]), 1e-10, "n %d item %u: %.15f, not %.15f", n, i, got[i],
                   want[i]);
    free(chance);
    free(t);
  }
}

Test(weight, large_tables_sum_to_the_answers) {
  static uint16_t weights[2000];
  static double p[2000];
  for (size_t i = 0; i < 2000; i++)
    weights[i] = (uint16_t)(1 + i * i % 65521);
  for (uint8_t n = 2; n <= 16; n = (uint8_t)(n + 7)) {
    struct draw_table *t = table_of(weights, 2000, n);
    draw_probabilities(t, p);
    cr_expect_lt(fabs(sum_of(p, 2000) - n), 1e-9);
    free(t);
  }
  for (size_t i = 0; i < 30; i++) /* equal weights: n / count */
    weights[i] = 9;
  struct draw_table *t = table_of(weights, 30, 16);
  draw_probabilities(t, p);
  for (size_t i = 0; i < 30; i++)
    cr_expect_lt(fabs(p[i] - 16.0 / 30), 1e-12);
  free(t);
}
