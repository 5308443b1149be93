/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NEAREST_MAX = 255 }; /* longer words have no nearest candidate */

void diag_init(struct diag_list *list) {
  memset(list, 0, sizeof *list);
}

void diag_close(struct diag_list *list) {
  for (size_t i = 0; i < list->count; i++) {
    free(list->items[i].path);
    free(list->items[i].message);
  }
  free(list->items);
  memset(list, 0, sizeof *list);
}

/* Control characters of hostile input would garble a terminal or split the line. */
static void make_one_line(char *text) {
  for (; *text != '\0'; text++) {
    unsigned char c = (unsigned char)*text;
    unsigned char next = (unsigned char)text[1];
    if (c < 0x20 || c == 0x7f)
      *text = '?';
    if (c == 0xc2 && next >= 0x80 && next < 0xa0) /* C1, in UTF-8 */
      text[0] = text[1] = '?';
  }
}

static bool make_room(struct diag_list *list) {
  if (list->count < list->cap)
    return true;
  size_t cap = list->cap == 0 ? 16 : list->cap * 2;
  struct diag *items = realloc(list->items, cap * sizeof *items);
  if (items == NULL)
    return false;
  list->items = items;
  list->cap = cap;
  return true;
}

static void add(struct diag_list *list, enum diag_level level, struct diag_pos pos,
                const char *format, va_list args) {
  char *message = NULL;
  char *path = strdup(pos.path != NULL ? pos.path : "");
  if (path == NULL || vasprintf(&message, format, args) < 0 || !make_room(list)) {
    free(path);
    free(message);
    list->failed = true;
    list->errors++;
    return;
  }
  make_one_line(path);
  make_one_line(message);
  list->items[list->count++] = (struct diag){level, path, pos.line == 0 ? 1 : pos.line,
                                             pos.column == 0 ? 1 : pos.column, message};
  if (level == DIAG_ERROR)
    list->errors++;
}

const char *diag_where(struct diag_pos pos, const char *path, char *out) {
  bool same = pos.path == NULL || (path != NULL && strcmp(pos.path, path) == 0);
  snprintf(out, DIAG_WHERE, "%.250s%sline %u", same ? "" : pos.path, same ? "" : ", ", pos.line);
  return out;
}

void diag_error(struct diag_list *list, struct diag_pos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add(list, DIAG_ERROR, pos, format, args);
  va_end(args);
}

void diag_warning(struct diag_list *list, struct diag_pos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add(list, DIAG_WARNING, pos, format, args);
  va_end(args);
}

static int compare(const void *va, const void *vb) {
  const struct diag *a = va;
  const struct diag *b = vb;
  int d = strcmp(a->path, b->path);
  if (d != 0)
    return d;
  if (a->line != b->line)
    return a->line < b->line ? -1 : 1;
  if (a->column != b->column)
    return a->column < b->column ? -1 : 1;
  if (a->level != b->level)
    return a->level == DIAG_ERROR ? -1 : 1;
  return strcmp(a->message, b->message);
}

void diag_sort(struct diag_list *list) {
  if (list->count < 2)
    return;
  qsort(list->items, list->count, sizeof *list->items, compare);
  size_t kept = 1;
  for (size_t i = 1; i < list->count; i++) {
    struct diag *item = &list->items[i];
    if (compare(&list->items[kept - 1], item) != 0) {
      list->items[kept++] = *item;
      continue;
    }
    if (item->level == DIAG_ERROR)
      list->errors--;
    free(item->path);
    free(item->message);
  }
  list->count = kept;
}

void diag_print(const struct diag_list *list, FILE *out) {
  for (size_t i = 0; i < list->count; i++) {
    const struct diag *d = &list->items[i];
    fprintf(out, "%s:%u:%u: %s%s\n", d->path, d->line, d->column,
            d->level == DIAG_WARNING ? "warning: " : "", d->message);
  }
  if (list->failed)
    fputs("out of memory: some problems are not shown\n", out);
}

static unsigned min2(unsigned a, unsigned b) {
  return a < b ? a : b;
}

unsigned diag_distance(const char *a, const char *b) {
  size_t la = strlen(a);
  size_t lb = strlen(b);
  if (la > NEAREST_MAX || lb > NEAREST_MAX)
    return NEAREST_MAX;
  unsigned rows[3][NEAREST_MAX + 1];
  for (size_t j = 0; j <= lb; j++)
    rows[0][j] = (unsigned)j;
  for (size_t i = 1; i <= la; i++) {
    unsigned *now = rows[i % 3];
    const unsigned *before = rows[(i + 2) % 3];
    const unsigned *earlier = rows[(i + 1) % 3];
    now[0] = (unsigned)i;
    for (size_t j = 1; j <= lb; j++) {
      int ca = tolower((unsigned char)a[i - 1]);
      int cb = tolower((unsigned char)b[j - 1]);
      now[j] = min2(before[j - 1] + (ca != cb), min2(before[j], now[j - 1]) + 1);
      if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) &&
          cb == tolower((unsigned char)a[i - 2]))
        now[j] = min2(now[j], earlier[j - 2] + 1);
    }
  }
  return rows[la % 3][lb];
}

const char *diag_nearest(const char *word, const char *const *candidates, size_t count) {
  size_t len = strlen(word);
  if (len == 0 || len > NEAREST_MAX)
    return NULL;
  unsigned limit = len / 3 < 1 ? 1 : (unsigned)(len / 3);
  const char *best = NULL;
  for (size_t i = 0; i < count; i++) {
    unsigned d = diag_distance(word, candidates[i]);
    if (d > limit || d >= strlen(candidates[i]))
      continue;
    best = candidates[i];
    if (d == 0)
      break;
    limit = d - 1; /* only a nearer one replaces it */
  }
  return best;
}
