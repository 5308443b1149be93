/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lines.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST = 4096 };

void lines_init(struct lines *lines, size_t limit) {
  *lines = (struct lines){.limit = limit};
}

void lines_close(struct lines *lines) {
  free(lines->data);
  *lines = (struct lines){.limit = lines->limit};
}

char *lines_room(struct lines *lines, size_t want, size_t *room) {
  if (lines->start > 0) {
    memmove(lines->data, lines->data + lines->start, lines->len - lines->start);
    lines->len -= lines->start;
    lines->seen -= lines->start;
    lines->start = 0;
  }
  size_t cap = lines->cap > 0 ? lines->cap : FIRST;
  while (cap < lines->len + want)
    cap *= 2;
  if (cap > lines->cap) {
    char *more = realloc(lines->data, cap);
    if (!more)
      return NULL;
    lines->data = more;
    lines->cap = cap;
  }
  *room = lines->cap - lines->len;
  if (*room > want)
    *room = want;
  return lines->data + lines->len;
}

void lines_added(struct lines *lines, size_t n) {
  lines->len += n;
}

enum lines_result lines_next(struct lines *lines, char **line, size_t *len) {
  if (lines->seen == lines->len)
    return lines->len - lines->start > lines->limit ? LINES_TOO_LONG : LINES_NONE;
  char *end = memchr(lines->data + lines->seen, '\n', lines->len - lines->seen);
  size_t n = (end ? (size_t)(end - lines->data) : lines->len) - lines->start;
  if (n > lines->limit)
    return LINES_TOO_LONG;
  if (!end) {
    lines->seen = lines->len;
    return LINES_NONE;
  }
  *end = '\0';
  *line = lines->data + lines->start;
  *len = n;
  lines->start += n + 1;
  lines->seen = lines->start;
  return LINES_LINE;
}
