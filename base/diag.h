/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Diagnostics about input that people wrote: `path:line:column: message`.
 *
 * A list collects every problem of one run, so that an author sees them all at once.  Lines and
 * columns count from 1, columns in characters (not bytes); 0 means "the file as a whole" and prints
 * as 1.  A list belongs to one thread.
 */
#ifndef SLUICE_BASE_DIAG_H
#define SLUICE_BASE_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct diag_pos {
  const char *path; /* as shown to people; must outlive the list (the model owns it) */
  unsigned line;
  unsigned column;
};

enum diag_level { DIAG_ERROR, DIAG_WARNING };

struct diag {
  enum diag_level level;
  char *path; /* owned copy */
  unsigned line;
  unsigned column;
  char *message;
};

struct diag_list {
  struct diag *items;
  size_t count;
  size_t errors; /* items of level DIAG_ERROR */
  size_t cap;
  bool failed; /* out of memory: some problem may be missing, treat as an error */
};

void diag_init(struct diag_list *list);
void diag_close(struct diag_list *list);
void diag_error(struct diag_list *list, struct diag_pos pos, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_warning(struct diag_list *list, struct diag_pos pos, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Where another fault stands, as seen from `path`: "line 4", or "PATH, line 4" when that is another
 * file.  Writes at most DIAG_WHERE bytes to `out` and returns it. */
enum { DIAG_WHERE = 300 };
const char *diag_where(struct diag_pos pos, const char *path, char *out);

/* Orders by path, line, column; then drops exact repetitions. */
void diag_sort(struct diag_list *list);

/* Prints one line for each: `path:line:column: message` or `path:line:column: warning: message`. */
void diag_print(const struct diag_list *list, FILE *out);

/*
 * The one of `count` candidates that is nearest to `word` (edit distance at most a third of its
 * length, at least 1; case ignored), or NULL.  For "unknown key `wieght` (did you mean `weight`?)".
 */
const char *diag_nearest(const char *word, const char *const *candidates, size_t count);

/* Edit distance of two words: letters put in, left out, replaced, or two neighbours swapped; case
 * is ignored.  Words of more than 255 bytes are 255 apart. */
unsigned diag_distance(const char *a, const char *b);

#endif
