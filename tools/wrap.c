/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/wrap.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Columns of a word: its characters, not its octets (RFC 3629: 10xxxxxx continues one). */
static unsigned columns_of(const char *word, size_t len) {
  unsigned columns = 0;
  for (size_t i = 0; i < len; i++)
    columns += (word[i] & 0xc0) != 0x80;
  return columns;
}

static void put_word(FILE *out, const char *word, size_t len) {
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)word[i];
    fputc(c < 0x20 || c == 0x7f ? '?' : c, out);
  }
}

static void print_words(FILE *out, const char *text, unsigned indent) {
  unsigned at = indent;
  for (;;) {
    text += strspn(text, " ");
    if (!*text)
      break;
    size_t len = strcspn(text, " ");
    unsigned columns = columns_of(text, len);
    bool first = at == indent;
    if (!first && at + 1 + columns > WRAP_COLUMNS) {
      fprintf(out, "\n%*s", (int)indent, "");
      at = indent;
    } else if (!first) {
      fputc(' ', out);
      at++;
    }
    put_word(out, text, len);
    at += columns;
    text += len;
  }
  fputc('\n', out);
}

static void print_all(FILE *out, const char *label, unsigned indent, const char *format,
                      va_list args) {
  char *text = NULL;
  if (vasprintf(&text, format, args) < 0)
    text = NULL;
  unsigned used = columns_of(label, strlen(label));
  put_word(out, label, strlen(label));
  fprintf(out, "%*s", used < indent ? (int)(indent - used) : 0, "");
  print_words(out, text ? text : "?", indent > used ? indent : used);
  free(text);
}

void wrap_print(const char *label, unsigned indent, const char *format, ...) {
  va_list args;
  va_start(args, format);
  print_all(stdout, label, indent, format, args);
  va_end(args);
}

void wrap_to(FILE *out, const char *label, unsigned indent, const char *format, ...) {
  va_list args;
  va_start(args, format);
  print_all(out, label, indent, format, args);
  va_end(args);
}
