/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/probes/match.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Knuth, Morris and Pratt: `back[i]` is the length of the longest proper prefix of the text that
 * ends its first i + 1 octets. */
struct match {
  size_t limit, seen;
  size_t length, at;
  bool found;
  const uint8_t *text;
  uint32_t back[];
};

static void make_table(struct match *match) {
  size_t k = 0;
  match->back[0] = 0;
  for (size_t i = 1; i < match->length; i++) {
    while (k > 0 && match->text[k] != match->text[i])
      k = match->back[k - 1];
    if (match->text[k] == match->text[i])
      k++;
    match->back[i] = (uint32_t)k;
  }
}

struct match *match_new(const char *text, size_t limit) {
  size_t length = strlen(text);
  struct match *match = calloc(1, sizeof *match + length * sizeof(uint32_t) + length + 1);
  if (match == NULL)
    return NULL;
  match->limit = limit;
  match->length = length;
  match->text = memcpy(&match->back[length], text, length + 1);
  match->found = length == 0;
  if (length > 0)
    make_table(match);
  return match;
}

void match_free(struct match *match) {
  free(match);
}

bool match_feed(struct match *match, const void *octets, size_t count) {
  const uint8_t *from = octets;
  if (count > match->limit - match->seen)
    count = match->limit - match->seen;
  match->seen += count;
  for (size_t i = 0; i < count && !match->found; i++) {
    if (match->at == 0) {
      const uint8_t *next = memchr(from + i, match->text[0], count - i);
      if (next == NULL)
        break;
      i = (size_t)(next - from);
    }
    while (match->at > 0 && match->text[match->at] != from[i])
      match->at = match->back[match->at - 1];
    if (match->text[match->at] == from[i])
      match->at++;
    match->found = match->at == match->length;
  }
  return match->found;
}

size_t match_seen(const struct match *match) {
  return match->seen;
}
