/* SPDX-License-Identifier: Apache-2.0 */
/* The chi-square distribution against tables, and how often the tests raise a false alarm. */
#include <criterion/criterion.h>
#include <math.h>

#include "tools/sync/chi_square.h"

#define NEAR(a, b, relative) cr_assert_lt(fabs((a) / (b)-1), relative, "%.10g is not %.10g", a, b)

Test(chi_square, critical_values) {
  /* NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.6.7.4. */
  static const struct {
    double x, p;
    unsigned df;
  } rows[] = {
      {2.706, .10, 1},      {3.841, .05, 1},   {6.635, .01, 1},    {10.828, .001, 1},
      {5.991, .05, 2},      {9.210, .01, 2},   {7.815, .05, 3},    {11.070, .05, 5},
      {18.307, .05, 10},    {23.209, .01, 10}, {29.588, .001, 10}, {31.410, .05, 20},
      {43.773, .05, 30},    {67.505, .05, 50}, {86.661, .001, 50}, {124.342, .05, 100},
      {149.449, .001, 100},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    NEAR(chi_square_tail(rows[i].x, rows[i].df), rows[i].p, 3e-3);
}

Test(chi_square, closed_forms) {
  for (double x = 0.01; x < 700; x *= 1.7) {
    NEAR(chi_square_tail(x, 2), exp(-x / 2), 1e-9);
    NEAR(chi_square_tail(x, 4), exp(-x / 2) * (1 + x / 2), 1e-9);
    NEAR(chi_square_tail(x, 1), erfc(sqrt(x / 2)), 1e-9);
  }
  cr_assert_eq(chi_square_tail(0, 3), 1);
  cr_assert_eq(chi_square_tail(-1, 3), 1);
}

static double log_choose(double n, double k) {
  return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1);
}

/* Chance that the test of two cells calls right shares wrong, summed over all outcomes. */
static double false_alarm(unsigned draws, double share, double alpha) {
  const double shares[] = {share, 1 - share};
  double sum = 0;
  for (unsigned k = 0; k <= draws; k++) {
    const uint64_t counts[] = {k, draws - k};
    if (chi_square_test(shares, counts, 2) < alpha)
      sum += exp(log_choose(draws, k) + k * log(share) + (draws - k) * log1p(-share));
  }
  return sum;
}

Test(chi_square, false_alarms_of_two_cells) {
  static const double shares[] = {.5, .3, .1, .03, .01, .003, .0024, .001, 1e-5};
  static const double alphas[] = {1e-5, 1e-7, 1e-9, 1e-11};
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
      cr_expect_lt(false_alarm(2000, shares[i], alphas[a]), 4 * alphas[a], "%g at %g", shares[i],
                   alphas[a]);
      cr_expect_lt(false_alarm(100, shares[i], alphas[a]), 4 * alphas[a], "%g at %g", shares[i],
                   alphas[a]);
    }
}

Test(chi_square, false_alarms_of_three_cells) {
  static const double rows[][3] = {{.5, .3, .2}, {.9, .09, .01}, {.98, .01, .01}, {.97, .02, .01}};
  enum { DRAWS = 300 };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    double sum = 0;
    for (unsigned x = 0; x <= DRAWS; x++)
      for (unsigned y = 0; x + y <= DRAWS; y++) {
        const uint64_t counts[] = {x, y, DRAWS - x - y};
        if (chi_square_test(rows[i], counts, 3) < 1e-8)
          sum += exp(log_choose(DRAWS, x) + log_choose(DRAWS - x, y) + x * log(rows[i][0]) +
                     y * log(rows[i][1]) + (DRAWS - x - y) * log(rows[i][2]));
      }
    cr_expect_lt(sum, 4e-8, "row %zu: %g", i, sum);
  }
}

Test(chi_square, what_differs_is_seen) {
  const double shares[] = {.75, .25};
  const uint64_t right[] = {1500, 500};
  const uint64_t wrong[] = {1300, 700};
  cr_assert_gt(chi_square_test(shares, right, 2), .99);
  cr_assert_lt(chi_square_test(shares, wrong, 2), 1e-9);
  /* A small share that is large is not hidden in the cell it is counted with. */
  const double small[] = {.999, .0005, .0005};
  const uint64_t large[] = {1900, 100, 0};
  cr_assert_lt(chi_square_test(small, large, 3), 1e-30);
  /* Many small differences add up. */
  double even[50];
  uint64_t uneven[50];
  for (size_t i = 0; i < 50; i++) {
    even[i] = 1 / 50.0;
    uneven[i] = i % 2 ? 52 : 28;
  }
  cr_assert_lt(chi_square_test(even, uneven, 50), 1e-9);
}

Test(chi_square, borders) {
  const double shares[] = {1, 0};
  const uint64_t none[] = {0, 0};
  const uint64_t first[] = {5, 0};
  const uint64_t second[] = {5, 1};
  cr_assert_eq(chi_square_test(shares, none, 2), 1);
  cr_assert_eq(chi_square_test(shares, first, 2), 1);
  cr_assert_eq(chi_square_test(shares, second, 2), 0);
  cr_assert_eq(chi_square_test(NULL, NULL, 0), 1);
}

Test(chi_square, one_share_between_two_bounds) {
  cr_assert_eq(chi_square_share(50, 100, .4, .6), 1);
  cr_assert_eq(chi_square_share(0, 100, 0, .1), 1);
  cr_assert_eq(chi_square_share(1, 100, 0, 0), 0);
  cr_assert_eq(chi_square_share(99, 100, 1, 1), 0);
  cr_assert_eq(chi_square_share(0, 0, .5, .5), 1);
  NEAR(chi_square_share(10, 10, .5, .5), 2 * pow(.5, 10), 1e-9);
  NEAR(chi_square_share(0, 10, .5, .5), 2 * pow(.5, 10), 1e-9);
  NEAR(chi_square_share(9, 10, .1, .5), 2 * 11 * pow(.5, 10), 1e-9);
}
