/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "tools/cli_pages.h"

enum { MAX_OPTIONS = 32, HELP_COLUMN = 26 };

static const char *const help_name = "help";

/* ---- output --------------------------------------------------------------------------------- */

void cli_print_text(FILE *out, const char *text) {
  for (const unsigned char *p = (const unsigned char *)text; *p; p++)
    fputc((*p < 0x20 && *p != '\n') || *p == 0x7f ? '?' : *p, out);
}

/* Where this thread's errors go instead of stderr. */
static _Thread_local char *captured;
static _Thread_local size_t captured_size;

void cli_capture(char *out, size_t size) {
  captured = out;
  captured_size = size;
}

static void print_error(const char *format, va_list args) {
  char line[2048];
  vsnprintf(line, sizeof line, format, args);
  for (char *p = line; *p; p++)
    if (*p == '\n')
      *p = ' ';
  if (captured) {
    if (!*captured) /* the first one tells the cause */
      snprintf(captured, captured_size, "%s", line);
    return;
  }
  fputs("sluice: ", stderr);
  cli_print_text(stderr, line);
  fputc('\n', stderr);
}

void cli_error(const char *format, ...) {
  va_list args;
  va_start(args, format);
  print_error(format, args);
  va_end(args);
}

int cli_usage(const char *format, ...) {
  va_list args;
  va_start(args, format);
  print_error(format, args);
  va_end(args);
  return CLI_USAGE;
}

const char *cli_did_you_mean(const char *word, const char *const *candidates, size_t count) {
  static char text[256];
  const char *near = diag_nearest(word, candidates, count);
  if (!near)
    return "";
  snprintf(text, sizeof text, "; did you mean %.200s?", near);
  return text;
}

const char *cli_s(long long n) {
  return n == 1 ? "" : "s";
}

bool cli_flush(void) {
  if (fflush(stdout) == 0 && !ferror(stdout))
    return true;
  cli_error("cannot write the output: %s", strerror(errno));
  return false;
}

bool cli_print_json(const json_t *document) {
  if (json_dumpf(document, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) != 0)
    fputs("null", stdout);
  fputc('\n', stdout);
  return cli_flush();
}

/* ---- help ----------------------------------------------------------------------------------- */

static void print_indented(const char *lines) {
  while (*lines) {
    size_t n = strcspn(lines, "\n");
    printf("  %.*s\n", (int)n, lines);
    lines += n + (lines[n] == '\n');
  }
}

static void print_option(const char *name, const char *value, const char *help) {
  char left[128];
  snprintf(left, sizeof left, "--%s%s%s", name, value ? " " : "", value ? value : "");
  printf("  %-*s", HELP_COLUMN, left);
  if (strlen(left) >= HELP_COLUMN)
    printf("\n  %-*s", HELP_COLUMN, "");
  while (*help) {
    size_t n = strcspn(help, "\n");
    printf("%.*s\n", (int)n, help);
    help += n;
    if (*help == '\n')
      printf("  %-*s", HELP_COLUMN, ""), help++;
  }
}

static bool print_help(const struct cli_spec *spec) {
  fputs("Usage:\n", stdout);
  print_indented(spec->usage);
  printf("\n%s\n", spec->about);
  fputs("\nOptions:\n", stdout);
  for (size_t i = 0; i < spec->option_count; i++)
    print_option(spec->options[i].name, spec->options[i].value, spec->options[i].help);
  print_option(help_name, NULL, "this text");
  fputs("\nExamples:\n", stdout);
  print_indented(spec->examples);
  return cli_flush();
}

/* ---- arguments ------------------------------------------------------------------------------ */

static const struct cli_option *find_option(const struct cli_spec *spec, const char *name,
                                            size_t len) {
  for (size_t i = 0; i < spec->option_count; i++)
    if (strlen(spec->options[i].name) == len && !memcmp(spec->options[i].name, name, len))
      return &spec->options[i];
  return NULL;
}

static enum cli_next unknown_option(const struct cli_spec *spec, const char *arg) {
  const char *names[MAX_OPTIONS + 1];
  size_t count = 0;
  for (size_t i = 0; i < spec->option_count && count < MAX_OPTIONS; i++)
    names[count++] = spec->options[i].name;
  names[count++] = help_name;
  char word[128];
  const char *bare = arg + strspn(arg, "-");
  snprintf(word, sizeof word, "%.*s", (int)strcspn(bare, "="), bare);
  const char *near = diag_nearest(word, names, count);
  if (near)
    cli_error("unknown option %s; did you mean --%s?", arg, near);
  else
    cli_error("unknown option %s; --help lists the options", arg);
  return CLI_EXIT_USAGE;
}

/* The options that every command has. */
static bool is_common(const struct cli_spec *spec, const char *arg, enum cli_next *next) {
  bool (*print)(const struct cli_spec *) = NULL;
  if (!strcmp(arg, "-h") || !strcmp(arg, "--help"))
    print = print_help;
  else if (!strcmp(arg, "--man-page"))
    print = cli_page_man;
  else if (!strcmp(arg, "--list-options"))
    print = cli_page_options;
  if (print)
    *next = print(spec) ? CLI_EXIT_DONE : CLI_EXIT_USAGE;
  return print != NULL;
}

/* Reads the option at argv[*at]; moves *at to the last argument that it took. */
static enum cli_next read_option(const struct cli_spec *spec, int argc, char **argv, int *at) {
  const char *arg = argv[*at];
  enum cli_next next;
  if (is_common(spec, arg, &next))
    return next;
  const char *name = arg + 2;
  if (!strcmp(arg, "-c")) /* as the daemons have it */
    name = "settings";
  else if (arg[1] != '-')
    return unknown_option(spec, arg);
  size_t len = strcspn(name, "=");
  const struct cli_option *option = find_option(spec, name, len);
  if (!option)
    return unknown_option(spec, arg);
  const char *value = name[len] == '=' ? name + len + 1 : NULL;
  if (option->flag) {
    if (value) {
      cli_error("--%s takes no value; leave out =%s", option->name, value);
      return CLI_EXIT_USAGE;
    }
    *option->flag = true;
    return CLI_GO_ON;
  }
  if (!value && *at + 1 < argc)
    value = argv[++*at];
  if (!value || !*value) {
    cli_error("--%s needs a value; write --%s %s", option->name, option->name, option->value);
    return CLI_EXIT_USAGE;
  }
  if (*option->text) {
    cli_error("--%s is given twice; give it once", option->name);
    return CLI_EXIT_USAGE;
  }
  *option->text = value;
  return CLI_GO_ON;
}

static enum cli_next check_count(const struct cli_spec *spec, char **argv, size_t count) {
  size_t line = strcspn(spec->usage, "\n");
  if (count < spec->min_args)
    cli_error("an argument is missing; usage: %.*s", (int)line, spec->usage);
  else if (count > spec->max_args)
    cli_error("unexpected argument %s; usage: %.*s", argv[spec->max_args + 1], (int)line,
              spec->usage);
  else
    return CLI_GO_ON;
  return CLI_EXIT_USAGE;
}

enum cli_next cli_parse(const struct cli_spec *spec, int argc, char **argv, size_t *count) {
  bool options_end = false;
  *count = 0;
  for (int i = 1; i < argc; i++) {
    const char *arg = argv[i];
    if (!options_end && !strcmp(arg, "--")) {
      options_end = true;
      continue;
    }
    if (options_end || arg[0] != '-' || !arg[1]) {
      argv[++*count] = argv[i];
      continue;
    }
    enum cli_next next = read_option(spec, argc, argv, &i);
    if (next != CLI_GO_ON)
      return next;
  }
  return check_count(spec, argv, *count);
}
