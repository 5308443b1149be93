/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do counts follow given shares?  Tests whose far tails can be trusted, since `sync verify` makes
 * many of them and must not raise a false alarm once in a million runs.
 *
 * The statistic is the likelihood ratio G = 2 sum O ln(O/E), which follows the chi-square
 * distribution as Pearson's does, but also far out (1e-9), where Pearson's is too large with small
 * expected counts; Williams' correction (Biometrika 63, 1976) makes it a little smaller.  Pure.
 */
#ifndef SLUICE_TOOLS_SYNC_CHI_SQUARE_H
#define SLUICE_TOOLS_SYNC_CHI_SQUARE_H

#include <stddef.h>
#include <stdint.h>

/* Cells with smaller expected counts are counted together, and tested exactly one by one. */
enum { CHI_SQUARE_LEAST = 5 };

/* Chance of a value of at least `x` with `df` (1 or more) degrees of freedom. */
double chi_square_tail(double x, unsigned df);

/*
 * Chance of counts at least so far from the shares, which add up to 1.  A count where the share is
 * 0 has the chance 0; with one cell only, or nothing counted, the chance is 1.  Negative without
 * memory.
 */
double chi_square_test(const double *shares, const uint64_t *counts, size_t cells);

/* The same for one share that lies between `low` and `high`: `hits` of `draws`, exactly (binomial
 * distribution, both tails). */
double chi_square_share(uint64_t hits, uint64_t draws, double low, double high);

#endif
