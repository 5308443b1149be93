/* SPDX-License-Identifier: Apache-2.0 */
/* What was imported, and what could not be. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tools/cli.h"
#include "tools/sync/import.h"

enum { LINE = 1024 };

/* ---- gathering ------------------------------------------------------------------------------ */

static json_t *clean(const char *text) {
  char copy[LINE];
  snprintf(copy, sizeof copy, "%s", text);
  for (char *c = copy; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f)
      *c = '?';
  utf8_repair(copy);
  return json_string(copy);
}

void import_miss(struct import *import, const char *name, const char *type, bool part,
                 const char *format, ...) {
  char why[LINE];
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  if (json_array_append_new(import->unmodelled,
                            json_pack("{s:o, s:o, s:o, s:b}", "name", clean(name), "type",
                                      clean(type), "why", clean(why), "part", part)) != 0)
    import->failed = true;
}

void import_note(struct import *import, const char *format, ...) {
  char text[LINE];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (json_array_append_new(import->notes, clean(text)) != 0)
    import->failed = true;
}

struct counts {
  size_t sets, domains, yaml;
};

static struct counts count(const struct import *import) {
  struct counts c = {0};
  for (size_t i = 0; i < import->set_count; i++)
    c.sets += import->sets[i].place != IMPORT_NOWHERE;
  for (size_t i = 0; i < import->domain_count; i++)
    c.domains += !import->domains[i].dropped;
  return c;
}

/* ---- text ----------------------------------------------------------------------------------- */

static const char *text_of(const json_t *item, const char *key) {
  const char *text = json_string_value(json_object_get(item, key));
  return text ? text : "";
}

static void show_missed(const struct import *import, bool part, const char *mark,
                        const char *title) {
  size_t i;
  const json_t *item;
  size_t n = 0;
  json_array_foreach(import->unmodelled, i, item) {
    n += json_is_true(json_object_get(item, "part")) == part;
  }
  if (n == 0)
    return;
  printf("%s%s: %zu\n", mark, title, n);
  json_array_foreach(import->unmodelled, i, item) {
    if (json_is_true(json_object_get(item, "part")) != part)
      continue;
    printf("%s  ", mark);
    cli_print_text(stdout, text_of(item, "name"));
    putchar(' ');
    cli_print_text(stdout, text_of(item, "type"));
    printf(": ");
    cli_print_text(stdout, text_of(item, "why"));
    putchar('\n');
  }
}

/* Names that have the same reason share a line. */
static void show_approximate(const struct import *import, const char *mark) {
  json_t *seen = json_object();
  size_t i;
  const json_t *item;
  json_array_foreach(import->approximate, i, item) {
    char key[LINE];
    snprintf(key, sizeof key, "%s %s: %s", text_of(item, "layer"), text_of(item, "grade"),
             text_of(item, "why"));
    json_int_t n = json_integer_value(json_object_get(seen, key));
    json_object_set_new(seen, key, json_integer(n + 1));
  }
  const char *key;
  json_t *n;
  if (json_object_size(seen) > 0)
    printf("%snot exactly what clients of %s get:\n", mark, import->provider.name);
  json_object_foreach(seen, key, n) {
    printf("%s  ", mark);
    cli_print_text(stdout, key);
    printf(" (%lld steered name%s)\n", (long long)json_integer_value(n),
           cli_s((long long)json_integer_value(n)));
  }
  json_decref(seen);
}

static void show_left_out(const struct import *import, const char *mark) {
  if (import->marks + import->dnssec > 0)
    printf("%snot imported, as they are made anew: %zu mark%s of sluice, %zu record set%s of "
           "DNSSEC\n",
           mark, import->marks, cli_s((long long)import->marks), import->dnssec,
           cli_s((long long)import->dnssec));
}

void import_show(const struct import *import, bool printed) {
  const char *mark = printed ? "# " : "";
  struct counts c = count(import);
  size_t i;
  const json_t *note;
  printf("%s%s from %s (%s): %zu record set%s, %zu steered name%s%s\n", mark, import->zone,
         import->provider.name, import->provider.kind->type, c.sets, cli_s((long long)c.sets),
         c.domains, cli_s((long long)c.domains), printed ? "; nothing was written" : "");
  if (!printed)
    printf("written: %s/%s%s\n", import->out, import->directory,
           import->target ? "" : " and defaults.yaml beside it");
  show_missed(import, false, mark, "not imported");
  show_missed(import, true, mark, "imported in part");
  show_left_out(import, mark);
  show_approximate(import, mark);
  json_array_foreach(import->notes, i, note) {
    printf("%snote: ", mark);
    cli_print_text(stdout, json_string_value(note));
    putchar('\n');
  }
}

void import_print(const struct import *import) {
  for (size_t i = 0; i < import->file_count; i++) {
    const struct import_file *file = &import->files[i];
    printf("# %s\n", file->path);
    fwrite(file->text.data, 1, file->text.len, stdout);
    putchar('\n');
  }
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *files_json(const struct import *import) {
  json_t *list = json_array();
  for (size_t i = 0; list && i < import->file_count; i++) {
    const struct import_file *file = &import->files[i];
    json_t *item = json_pack("{s:s}", "path", file->path);
    if (item && !import->out)
      json_object_set_new(item, "text",
                          json_stringn((const char *)file->text.data, file->text.len));
    json_array_append_new(list, item);
  }
  return list;
}

json_t *import_json(const struct import *import, const char *error, const char *failure) {
  struct counts c = count(import);
  const char *name = import->provider.name ? import->provider.name : "";
  json_t *errors = json_array();
  if (error)
    json_array_append_new(errors, json_pack("{s:s, s:s, s:o}", "provider", name, "failure", failure,
                                            "error", clean(error)));
  return json_pack(
      "{s:i, s:s, s:s, s:s, s:s, s:s?, s:o, s:I, s:I, s:O, s:O, s:O, s:{s:I, s:I}, s:o}", "v", 1,
      "kind", "import", "provider", name, "type",
      import->provider.kind ? import->provider.kind->type : "", "zone", import->zone, "out",
      import->out, "files", error ? json_array() : files_json(import), "records",
      (json_int_t)(error ? 0 : c.sets), "domains", (json_int_t)(error ? 0 : c.domains),
      "unmodelled", import->unmodelled, "approximate", import->approximate, "notes", import->notes,
      "left_out", "marks", (json_int_t)import->marks, "dnssec", (json_int_t)import->dnssec,
      "errors", errors);
}
