/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/name.h"
#include "tools/config.h"

enum { LIST_LIMIT = 256 << 20 /* bytes */ };

/* Cuts the next word off *at; NULL at the end of the line. */
static char *next_word(char **at) {
  char *p = *at;
  while (isspace((unsigned char)*p))
    p++;
  if (!*p || *p == '#' || *p == ';')
    return NULL;
  char *word = p;
  while (*p && !isspace((unsigned char)*p))
    p++;
  if (*p)
    *p++ = 0;
  *at = p;
  return word;
}

static char *beside(const char *list, const char *file) {
  const char *slash = strrchr(list, '/');
  if (*file == '/' || !slash)
    return strdup(file);
  char *path = NULL;
  if (asprintf(&path, "%.*s/%s", (int)(slash - list), list, file) < 0)
    return NULL;
  return path;
}

static void add_line(struct model *model, const char *list, unsigned line, char *text,
                     struct diag_list *problems) {
  struct diag_pos pos = {.path = list, .line = line, .column = 1};
  char *origin = next_word(&text);
  if (!origin)
    return;
  char *file = next_word(&text);
  if (!file || next_word(&text)) {
    diag_error(problems, pos, "a line is `origin file`: two words, such as `example.com. %s`",
               "example.com.zone");
    return;
  }
  uint8_t wire[NAME_BUF];
  const char *why;
  if (!name_from_text(wire, origin, strlen(origin), NULL, &why)) {
    diag_error(problems, pos, "the origin `%s` is not a domain name: %s", origin, why);
    return;
  }
  char *path = beside(list, file);
  if (!path) {
    problems->failed = true;
    return;
  }
  model_add_zone_file(model, path, origin, problems);
  free(path);
}

/* Standard input may be a pipe, which fs_read() refuses. */
static char *read_stdin(size_t *len) {
  char *text = NULL;
  FILE *copy = open_memstream(&text, len);
  if (!copy)
    return NULL;
  char chunk[65536];
  size_t n;
  size_t sum = 0;
  while (sum <= LIST_LIMIT && (n = fread(chunk, 1, sizeof chunk, stdin)) > 0) {
    fwrite(chunk, 1, n, copy);
    sum += n;
  }
  bool ok = !ferror(stdin) && sum <= LIST_LIMIT;
  if (fclose(copy) == 0 && ok)
    return text;
  free(text);
  return NULL;
}

void config_add_zone_list(struct model *model, const char *path, struct diag_list *problems) {
  char *text = NULL;
  size_t len = 0;
  char why[FS_WHY] = "cannot read the list of zones";
  bool from_stdin = !strcmp(path, "-");
  if (from_stdin)
    text = read_stdin(&len);
  else
    fs_read(path, LIST_LIMIT, (uint8_t **)&text, &len, why);
  struct diag_pos pos = {.path = from_stdin ? "stdin" : path};
  if (!text) {
    diag_error(problems, pos, "%s", why);
    return;
  }
  if (memchr(text, 0, len)) {
    diag_error(problems, pos, "there is a NUL character in the list; is it a text file?");
    free(text);
    return;
  }
  unsigned line = 0;
  for (char *next = text; next;) {
    char *start = next;
    next = strchr(start, '\n');
    if (next)
      *next++ = 0;
    add_line(model, pos.path, ++line, start, problems);
  }
  free(text);
}
