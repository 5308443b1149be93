/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer 4: the chance of each item to be in the answer.
 *
 * One answer: weight / total.  Several: draws without replacement, where the chance has no closed
 * form.  Small tables go over all subsets (exact but for rounding).  Large ones use that drawing
 * without replacement is the same as a race: item i finishes at an exponential time of rate w_i,
 * and the first n finishers are the answer.  So P(i) = integral over t of  w_i exp(-w_i t) P(fewer
 * than n of the others have finished by t) which is smooth and is summed by the exp-sinh rule (its
 * error falls exponentially; tests compare both ways).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "steering/layers.h"

enum { SUBSET_MAX = 14 };

static void by_subsets(const struct draw_table *table, size_t want, double *out) {
  size_t sets = (size_t)1 << table->count;
  double *chance = calloc(sets, sizeof *chance);
  if (!chance) {
    for (size_t i = 0; i < table->count; i++)
      out[i] = NAN;
    return;
  }
  chance[0] = 1;
  for (size_t set = 0; set < sets; set++) {
    size_t size = (size_t)__builtin_popcountll(set);
    if (size >= want) {
      for (size_t i = 0; size == want && i < table->count; i++)
        out[i] += set >> i & 1 ? chance[set] : 0;
      continue;
    }
    uint32_t left = table->total;
    for (size_t i = 0; i < table->count; i++)
      left -= set >> i & 1 ? table->items[i].weight : 0;
    for (size_t i = 0; i < table->count; i++)
      if (!(set >> i & 1))
        chance[set | (size_t)1 << i] += chance[set] * table->items[i].weight / left;
  }
  free(chance);
}

/* Adds one item that has finished with chance `p` to the distribution of how many have. */
static void count_add(double *count, const double *before, size_t want, double p) {
  for (size_t k = want; k-- > 0;)
    count[k] = before[k] * (1 - p) + (k > 0 ? before[k - 1] * p : 0);
}

/* Adds the integrand at time t, times `step`, to all items.  `after` has (count + 1) * want places:
 * row i is the distribution of how many of the items from i on have finished. */
static void race_at(const struct draw_table *table, size_t want, double t, double step,
                    double *after, double *out) {
  size_t n = table->count;
  double before[STEER_MAX_ANSWERS] = {1};
  memset(&after[n * want], 0, want * sizeof *after);
  after[n * want] = 1;
  for (size_t i = n; i-- > 0;) {
    double rate = (double)table->items[i].weight / table->total;
    count_add(&after[i * want], &after[(i + 1) * want], want, -expm1(-rate * t));
  }
  for (size_t i = 0; i < n; i++) {
    double rate = (double)table->items[i].weight / table->total;
    double fewer = 0, up_to = 0;
    for (size_t k = 0; k < want; k++) {
      up_to += after[(i + 1) * want + k];
      fewer += up_to * before[want - 1 - k];
    }
    out[i] += step * rate * exp(-rate * t) * fewer;
    count_add(before, before, want, -expm1(-rate * t));
  }
}

static void by_race(const struct draw_table *table, size_t want, double *out) {
  const double half_pi = 1.57079632679489661923, h = 1.0 / 48;
  double *after = calloc(((size_t)table->count + 1) * want, sizeof *after);
  if (!after) {
    for (size_t i = 0; i < table->count; i++)
      out[i] = NAN;
    return;
  }
  for (int k = -192; k <= 192; k++) {
    double x = k * h;
    double t = exp(half_pi * sinh(x));
    race_at(table, want, t, h * t * half_pi * cosh(x), after, out);
  }
  free(after);
}

void draw_probabilities(const struct draw_table *table, double *out) {
  size_t want = table->answers < table->count ? table->answers : table->count;
  for (size_t i = 0; i < table->count; i++)
    out[i] = want == table->count ? 1.0 : 0.0;
  if (want == table->count)
    return;
  if (want == 1) {
    for (size_t i = 0; i < table->count; i++)
      out[i] = (double)table->items[i].weight / table->total;
    return;
  }
  if (table->count <= SUBSET_MAX)
    by_subsets(table, want, out);
  else
    by_race(table, want, out);
}
