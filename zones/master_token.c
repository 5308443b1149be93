/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/master_token.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 1 << 17 }; /* of one entry: more than 65535 octets of data can need */

void master_text_init(struct master_text *text, const char *data, size_t len) {
  memset(text, 0, sizeof *text);
  if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark is no character */
    data += 3;
    len -= 3;
  }
  text->at = text->line_start = data;
  text->end = data + len;
  text->line = 1;
}

void master_text_close(struct master_text *text) {
  free(text->words);
  text->words = NULL;
}

unsigned master_column(const struct master_word *word) {
  unsigned column = 1;
  for (const char *p = word->line_start; p < word->text; p++)
    if (((unsigned char)*p & 0xc0) != 0x80)
      column++;
  return column - (word->quoted ? 1 : 0);
}

static bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

/* Ends a word that is not quoted. */
static bool is_delimiter(const struct master_text *t, char c) {
  return is_space(c) || c == '\n' || c == '(' || c == ')' || (c == ';' && !t->single) || c == '\0';
}

static void next_line(struct master_text *t) {
  t->at++;
  t->line++;
  t->line_start = t->at;
}

static struct master_word here(const struct master_text *t) {
  return (struct master_word){t->at, 0, false, t->line, t->line_start};
}

/* After an error: goes behind the end of the line. */
static void skip_line(struct master_text *t) {
  while (t->at < t->end && *t->at != '\n')
    t->at++;
  if (t->at < t->end)
    next_line(t);
}

/* The inside of quotes; `at` stands behind the first one.  False if it does not end on its line. */
static bool skip_quoted(struct master_text *t) {
  while (t->at < t->end && *t->at != '"') {
    if (*t->at == '\n' || *t->at == '\0')
      return false;
    if (*t->at == '\\' && t->at + 1 < t->end && t->at[1] != '\n')
      t->at++;
    t->at++;
  }
  return t->at < t->end;
}

static const char *read_word(struct master_text *t, struct master_word *word) {
  static const char unclosed[] = "the quotes are not closed on this line";
  *word = here(t);
  if (*t->at == '"') {
    t->at++;
    word->text = t->at;
    word->quoted = true;
    if (!skip_quoted(t))
      return unclosed;
    word->len = (size_t)(t->at - word->text);
    t->at++;
    return NULL;
  }
  while (t->at < t->end && !is_delimiter(t, *t->at)) {
    if (*t->at == '\\' && t->at + 1 < t->end && t->at[1] != '\n') {
      t->at++;
    } else if (*t->at == '"') {
      if (t->at[-1] != '=') /* key="value" of SVCB (RFC 9460 section 2.1) is one word */
        break;
      t->at++;
      if (!skip_quoted(t))
        return unclosed;
    }
    t->at++;
  }
  if (t->at > t->end)
    t->at = t->end;
  word->len = (size_t)(t->at - word->text);
  return NULL;
}

static bool add_word(struct master_text *t, struct master_entry *entry,
                     const struct master_word *word) {
  if (entry->count == t->cap) {
    size_t cap = t->cap == 0 ? 64 : t->cap * 2;
    struct master_word *words = realloc(t->words, cap * sizeof *words);
    if (words == NULL)
      return false;
    t->words = words;
    t->cap = cap;
  }
  t->words[entry->count++] = *word;
  entry->words = t->words;
  return true;
}

enum master_result master_text_next(struct master_text *t, struct master_entry *entry,
                                    struct master_word *where, const char **why) {
  unsigned depth = 0;
  struct master_word opened = here(t);
  *entry = (struct master_entry){t->words, 0, false};
  bool line_begins = true;
  while (t->at < t->end) {
    char c = *t->at;
    if (is_space(c)) {
      if (line_begins && c != '\r')
        entry->owner_omitted = true;
      line_begins = line_begins && c == '\r';
      t->at++;
    } else if (c == '\n') {
      next_line(t);
      if (entry->count > 0 && depth == 0 && !t->single)
        return MASTER_ENTRY;
      if (entry->count == 0 && depth == 0)
        entry->owner_omitted = false;
      line_begins = entry->count == 0 && depth == 0;
    } else if (c == ';' && !t->single) {
      while (t->at < t->end && *t->at != '\n')
        t->at++;
    } else if (c == '(') {
      if (entry->count == 0 && line_begins)
        entry->owner_omitted = false;
      line_begins = false;
      opened = here(t);
      depth++;
      t->at++;
    } else if (c == ')') {
      *where = here(t);
      t->at++;
      line_begins = false;
      if (depth == 0) {
        *why = "a `)` without a `(` before it";
        skip_line(t);
        return MASTER_BAD;
      }
      depth--;
    } else if (c == '\0') {
      *where = here(t);
      *why = "a NUL byte is not allowed; write \\000";
      skip_line(t);
      return MASTER_BAD;
    } else {
      struct master_word word;
      line_begins = false;
      *why = read_word(t, &word);
      if (*why == NULL && entry->count == MAX_WORDS)
        *why = "an entry of more than 131072 words";
      if (*why == NULL && !add_word(t, entry, &word))
        *why = "out of memory";
      if (*why != NULL) {
        *where = word;
        skip_line(t);
        return MASTER_BAD;
      }
    }
  }
  if (depth > 0) {
    *where = opened;
    *why = "the `(` is not closed before the end of the file";
    return MASTER_BAD;
  }
  return entry->count > 0 ? MASTER_ENTRY : MASTER_END;
}
