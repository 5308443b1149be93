/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/endpoints/selector.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char empty_pattern[] = "a pattern is empty";
static const char unclosed[] = "a bracket is not closed";

/* The end of a bracket expression that starts at `p` (behind its `]`), or NULL.  A `]` right after
 * the opening stands for itself, and [:alpha:] and the like are skipped whole. */
static const char *skip_expression(const char *p) {
  p++;
  if (*p == '!' || *p == '^')
    p++;
  if (*p == ']')
    p++;
  while (*p && *p != ']') {
    char mark = *p == '[' ? p[1] : 0;
    if (*p == '\\' && p[1]) {
      p += 2;
    } else if (mark == ':' || mark == '.' || mark == '=') {
      char end[3] = {mark, ']', 0};
      p = strstr(p + 2, end);
      if (!p)
        return NULL;
      p += 2;
    } else {
      p++;
    }
  }
  return *p ? p + 1 : NULL;
}

/* The end of the pattern at `p`: a comma, a `]` or the end of the text; NULL if it is malformed. */
static const char *skip_pattern(const char *p, const char **wrong) {
  while (*p && *p != ',' && *p != ']') {
    if (*p == '\\' && !p[1]) {
      *wrong = "a pattern ends with a backslash";
      return NULL;
    }
    if (*p == '[') {
      p = skip_expression(p);
      if (!p) {
        *wrong = unclosed;
        return NULL;
      }
    } else {
      p += *p == '\\' ? 2 : 1;
    }
  }
  return p;
}

const char *selector_pattern_wrong(const char *pattern) {
  const char *wrong = NULL;
  if (!*pattern)
    return empty_pattern;
  for (const char *p = pattern; *p;) {
    p = skip_pattern(p, &wrong);
    if (!p)
      return wrong;
    p += *p != 0; /* outside of a list these two stand for themselves */
  }
  return NULL;
}

/* The first `[` that is not escaped, as names of domains may be. */
static const char *find_bracket(const char *text) {
  for (; *text && *text != '['; text++)
    if (*text == '\\' && text[1])
      text++;
  return *text ? text : NULL;
}

/* Reads what follows the opening bracket; false without memory. */
static bool read_patterns(struct selector *s, const char *p) {
  for (;;) {
    const char *end = skip_pattern(p, &s->wrong);
    if (!end)
      return true;
    if (end == p)
      s->wrong = empty_pattern;
    else if (!*end)
      s->wrong = unclosed;
    else if (*end == ']' && end[1])
      s->wrong = "something follows the closing bracket";
    else if (s->count == SELECTOR_PATTERNS)
      s->wrong = "there are more than 1000 patterns";
    if (s->wrong)
      return true;
    s->patterns[s->count] = strndup(p, (size_t)(end - p));
    if (!s->patterns[s->count])
      return false;
    s->count++;
    if (*end == ']')
      return true;
    p = end + 1;
  }
}

bool selector_read(struct selector *selector, const char *text) {
  *selector = (struct selector){0};
  const char *bracket = find_bracket(text);
  selector->domain = bracket ? strndup(text, (size_t)(bracket - text)) : strdup(text);
  if (!selector->domain || !bracket)
    return selector->domain;
  selector->has_brackets = true;
  selector->patterns = calloc(SELECTOR_PATTERNS, sizeof *selector->patterns);
  return selector->patterns && read_patterns(selector, bracket + 1);
}

void selector_close(struct selector *selector) {
  for (size_t i = 0; i < selector->count; i++)
    free(selector->patterns[i]);
  free(selector->patterns);
  free(selector->domain);
  *selector = (struct selector){0};
}

/* "a, b, c", shortened to what fits; writes at most `size` octets. */
static void list_regions(const char *const *regions, size_t count, char *out, size_t size) {
  size_t n = 0;
  *out = 0;
  for (size_t i = 0; i < count; i++) {
    if (n + strlen(regions[i]) + 8 > size) {
      snprintf(out + n, size - n, ", ...");
      return;
    }
    n += (size_t)snprintf(out + n, size - n, "%s%s", i ? ", " : "", regions[i]);
  }
}

bool selector_match(const struct selector *selector, const char *const *regions, size_t count,
                    bool *picked, char *why) {
  char known[SELECTOR_WHY - 400];
  for (size_t i = 0; i < count; i++)
    picked[i] = !selector->has_brackets;
  list_regions(regions, count, known, sizeof known);
  if (selector->wrong) {
    snprintf(why, SELECTOR_WHY, "the regions in the brackets: %s; the regions are: %s",
             selector->wrong, known);
    return false;
  }
  for (size_t p = 0; p < selector->count; p++) {
    bool any = false;
    for (size_t i = 0; i < count; i++) {
      if (fnmatch(selector->patterns[p], regions[i], FNM_CASEFOLD) != 0)
        continue;
      picked[i] = true;
      any = true;
    }
    if (any)
      continue;
    snprintf(why, SELECTOR_WHY, "no region matches `%.200s`; the regions are: %s",
             selector->patterns[p], known);
    return false;
  }
  return true;
}
