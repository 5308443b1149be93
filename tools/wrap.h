/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output for people: lines that fit a terminal of 80 columns.
 */
#ifndef SLUICE_TOOLS_WRAP_H
#define SLUICE_TOOLS_WRAP_H

#include <stdio.h>

enum { WRAP_COLUMNS = 80 };

/*
 * Prints `label` padded to `indent` columns, then the text, broken between words; the lines after
 * the first begin with `indent` spaces.  A word that is too long for a line is not broken, so that
 * it can be copied.  Control characters of the text are replaced.
 */
void wrap_print(const char *label, unsigned indent, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same to `out`. */
void wrap_to(FILE *out, const char *label, unsigned indent, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
