/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sync/chi_square.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { STEPS = 100000 };

/* ---- the distribution ----------------------------------------------------------------------- */

/* log(x^a e^-x / Gamma(a)) */
static double log_front(double a, double x) {
  int sign;
  return a * log(x) - x - lgamma_r(a, &sign);
}

/* Regularised lower incomplete gamma function, by its series (x < a + 1). */
static double gamma_below(double a, double x) {
  double term = 1 / a;
  double sum = term;
  for (int i = 1; i < STEPS && term > sum * 1e-17; i++) {
    term *= x / (a + i);
    sum += term;
  }
  return sum * exp(log_front(a, x));
}

/* The upper one, by its continued fraction (Lentz's method). */
static double gamma_above(double a, double x) {
  const double tiny = 1e-300;
  double b = x + 1 - a;
  double c = 1 / tiny;
  double d = 1 / b;
  double h = d;
  for (int i = 1; i < STEPS; i++) {
    double an = -i * (i - a);
    b += 2;
    d = an * d + b;
    d = 1 / (fabs(d) < tiny ? tiny : d);
    c = b + an / c;
    c = fabs(c) < tiny ? tiny : c;
    h *= d * c;
    if (fabs(d * c - 1) < 1e-15)
      break;
  }
  return h * exp(log_front(a, x));
}

double chi_square_tail(double x, unsigned df) {
  double a = df / 2.0;
  if (!(x > 0))
    return 1;
  x /= 2;
  return x < a + 1 ? 1 - gamma_below(a, x) : gamma_above(a, x);
}

/* ---- several shares ------------------------------------------------------------------------- */

struct cell {
  double share;
  uint64_t count;
};

static int by_share(const void *a, const void *b) {
  const struct cell *x = a;
  const struct cell *y = b;
  return (x->share > y->share) - (x->share < y->share);
}

/* Small cells together until they are large enough; returns how many are left. */
static size_t merge(struct cell *cells, size_t count, double draws) {
  size_t out = 0;
  qsort(cells, count, sizeof *cells, by_share);
  for (size_t i = 0; i < count; i++) {
    if (out > 0 && cells[out - 1].share * draws < CHI_SQUARE_LEAST) {
      cells[out - 1].share += cells[i].share;
      cells[out - 1].count += cells[i].count;
    } else {
      cells[out++] = cells[i];
    }
  }
  return out;
}

static double statistic(const struct cell *cells, size_t count, double draws) {
  double sum = 0;
  double inverse = 0;
  for (size_t i = 0; i < count; i++) {
    double observed = (double)cells[i].count;
    if (cells[i].count > 0)
      sum += observed * log(observed / (cells[i].share * draws));
    inverse += 1 / cells[i].share;
  }
  return 2 * sum / (1 + (inverse - 1) / (6 * draws * (double)(count - 1)));
}

/* The smallest chance among the small cells, for as many tests as there are; `merge` hides them. */
static double small_cells(const struct cell *cells, size_t count, double draws) {
  double least = 1;
  size_t tests = 0;
  for (size_t i = 0; i < count; i++) {
    if (cells[i].share * draws >= CHI_SQUARE_LEAST)
      continue;
    double p = chi_square_share(cells[i].count, (uint64_t)draws, cells[i].share, cells[i].share);
    least = p < least ? p : least;
    tests++;
  }
  return tests > 0 ? least * (double)tests : -1;
}

static double test_cells(struct cell *cells, size_t count, double draws) {
  double small = small_cells(cells, count, draws);
  count = merge(cells, count, draws);
  double p = count > 1 ? chi_square_tail(statistic(cells, count, draws), (unsigned)count - 1) : 1;
  if (small < 0)
    return p;
  p = 2 * (small < p ? small : p);
  return p < 1 ? p : 1;
}

double chi_square_test(const double *shares, const uint64_t *counts, size_t cells) {
  struct cell *list = calloc(cells + 1, sizeof *list);
  size_t used = 0;
  double draws = 0;
  bool impossible = false;
  if (!list)
    return -1;
  for (size_t i = 0; i < cells; i++) {
    draws += (double)counts[i];
    impossible = impossible || (!(shares[i] > 0) && counts[i] > 0);
    if (shares[i] > 0)
      list[used++] = (struct cell){shares[i], counts[i]};
  }
  double p = impossible ? 0 : 1;
  if (!impossible && draws > 0 && used > 1)
    p = test_cells(list, used, draws);
  free(list);
  return p;
}

/* ---- one share ------------------------------------------------------------------------------ */

static double log_binomial(double n, double k, double p) {
  int sign;
  return lgamma_r(n + 1, &sign) - lgamma_r(k + 1, &sign) - lgamma_r(n - k + 1, &sign) +
         (k > 0 ? k * log(p) : 0) + (n - k > 0 ? (n - k) * log1p(-p) : 0);
}

/* Chance of `from` or more (`up`) or less hits: terms fall from there, since it is beyond the mean.
 */
static double tail(uint64_t from, uint64_t draws, double p, bool up) {
  double sum = 0;
  for (uint64_t k = from;; k += up ? 1 : UINT64_MAX) {
    double term = exp(log_binomial((double)draws, (double)k, p));
    sum += term;
    if (term <= sum * 1e-17 || k == (up ? draws : 0))
      return sum;
  }
}

double chi_square_share(uint64_t hits, uint64_t draws, double low, double high) {
  double share = draws > 0 ? (double)hits / (double)draws : low;
  double p = 1;
  if (share > high)
    p = high > 0 ? 2 * tail(hits, draws, high, true) : 0;
  else if (share < low)
    p = low < 1 ? 2 * tail(hits, draws, low, false) : 0;
  return p < 1 ? p : 1;
}
