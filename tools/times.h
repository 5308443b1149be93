/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times as people read and write them.  Pure, but for the caller's clock.
 */
#ifndef SLUICE_TOOLS_TIMES_H
#define SLUICE_TOOLS_TIMES_H

#include <stdbool.h>
#include <stdint.h>

enum { TIMES_TEXT = 48 };

/* "3 d 2 h", "5 min", "12 s": the two largest units that matter; 0 s for what is negative. */
const char *times_span(double seconds, char out[TIMES_TEXT]);

/* "2026-11-30 01:12:05 UTC". */
const char *times_utc(int64_t when, char out[TIMES_TEXT]);

/* A length of time like 90s, 30m, 2h, 7d or 1h30m, above 0 and up to ten years, in seconds. */
bool times_read_span(const char *text, int64_t *seconds);

#endif
