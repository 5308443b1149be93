/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command acts on: a domain, or some of its regions: `cdn`, `cdn[us-*,na]`.
 *
 * The patterns in the brackets are those of the shell (fnmatch, without regard to case) and are
 * matched against the names of the domain's regions as written in the configuration.  `eu` matches
 * `eu` and nothing else.  Whatever is wrong with the patterns is told by selector_match(), which
 * knows the regions that there are.  All here is pure.
 */
#ifndef SLUICE_TOOLS_ENDPOINTS_SELECTOR_H
#define SLUICE_TOOLS_ENDPOINTS_SELECTOR_H

#include <stdbool.h>
#include <stddef.h>

enum { SELECTOR_WHY = 1700, SELECTOR_PATTERNS = 1000 };

struct selector {
  char *domain;      /* as written */
  char **patterns;   /* as written */
  size_t count;      /* 0 without brackets: all regions */
  bool has_brackets; /* with patterns, or with something wrong */
  const char *wrong; /* static text, or NULL */
};

/* False without memory.  selector_close() frees in any case. */
bool selector_read(struct selector *selector, const char *text);
void selector_close(struct selector *selector);

/*
 * Sets picked[i] for the regions that are meant; false with one line in `why` (SELECTOR_WHY
 * octets) that lists the regions, when a pattern is empty or malformed or matches none.
 */
bool selector_match(const struct selector *selector, const char *const *regions, size_t count,
                    bool *picked, char *why);

/* What is wrong with a pattern (static text), or NULL. */
const char *selector_pattern_wrong(const char *pattern);

#endif
