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

static void put_word(const char *word, size_t len) {
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)word[i];
    putchar(c < 0x20 || c == 0x7f ? '?' : c);
  }
}

static void print_words(const char *text, unsigned indent) {
  unsigned at = indent;
  for (;;) {
    text += strspn(text, " ");
    if (!*text)
      break;
    size_t len = strcspn(text, " ");
    unsigned columns = columns_of(text, len);
    bool first = at == indent;
    if (!first && at + 1 + columns > WRAP_COLUMNS) {
      printf("\n%*s", (int)indent, "");
      at = indent;
    } else if (!first) {
      putchar(' ');
      at++;
    }
    put_word(text, len);
    at += columns;
    text += len;
  }
  putchar('\n');
}

void wrap_print(const char *label, unsigned indent, const char *format, ...) {
  va_list args;
  char *text = NULL;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0)
    text = NULL;
  va_end(args);
  unsigned used = columns_of(label, strlen(label));
  put_word(label, strlen(label));
  printf("%*s", used < indent ? (int)(indent - used) : 0, "");
  print_words(text ? text : "?", indent > used ? indent : used);
  free(text);
}
