/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a master file (RFC 1035 section 5.1), entry by entry.
 *
 * Comments, parentheses and line ends are resolved here; escapes stay in the words, because their
 * meaning depends on the field.  The words point into the text, which must outlive them.
 */
#ifndef SLUICE_ZONES_MASTER_TOKEN_H
#define SLUICE_ZONES_MASTER_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct master_word {
  const char *text; /* without the quotes of a quoted text */
  size_t len;
  bool quoted;
  unsigned line;          /* from 1 */
  const char *line_start; /* for the column, which is counted only for a message */
};

struct master_entry {
  struct master_word *words;
  size_t count;
  bool owner_omitted; /* the entry starts with a space or tab */
};

struct master_text {
  const char *at;
  const char *end;
  const char *line_start;
  unsigned line;
  bool single; /* one entry, in a YAML value: no comments; a line end is a space */
  struct master_word *words;
  size_t cap;
};

enum master_result { MASTER_ENTRY, MASTER_END, MASTER_BAD };

void master_text_init(struct master_text *text, const char *data, size_t len);
void master_text_close(struct master_text *text);

/*
 * Reads the next entry that is not empty.  The words hold until the next call.  MASTER_BAD sets
 * *why (static text) and *where; reading goes on behind the line if it is called again.
 */
enum master_result master_text_next(struct master_text *text, struct master_entry *entry,
                                    struct master_word *where, const char **why);

/* Column of a word in characters, from 1. */
unsigned master_column(const struct master_word *word);

#endif
