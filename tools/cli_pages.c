/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli_pages.h"

#include <ctype.h>
#include <string.h>

enum { NAME_LEN = 100 };

/* ---- text for man(7) ------------------------------------------------------------------------ */

/* One line of running text; `-` and what roff gives a meaning to are written out. */
static void put_roff(const char *text, size_t len) {
  for (size_t i = 0; i < len; i++) {
    char c = text[i];
    if (i == 0 && (c == '.' || c == '\''))
      fputs("\\&", stdout);
    if (c == '\\')
      fputs("\\e", stdout);
    else if (c == '-')
      fputs("\\-", stdout);
    else if (c == '`')
      fputs("\\(ga", stdout);
    else if ((unsigned char)c < 0x20)
      fputc(' ', stdout);
    else
      fputc(c, stdout);
  }
}

static void put_lines(const char *lines, const char *before, const char *after) {
  while (*lines) {
    size_t n = strcspn(lines, "\n");
    fputs(before, stdout);
    put_roff(lines, n);
    fputs(after, stdout);
    lines += n + (lines[n] == '\n');
  }
}

/* An empty line starts a paragraph. */
static void put_paragraphs(const char *text) {
  while (*text) {
    size_t n = strcspn(text, "\n");
    if (n == 0)
      fputs(".PP", stdout);
    else
      put_roff(text, n);
    fputc('\n', stdout);
    text += n + (text[n] == '\n');
  }
}

/* The words of the usage that name the command: "sluice build" of "sluice build [DIR] ...". */
static void command_name(const char *usage, char separator, char out[NAME_LEN]) {
  size_t n = 0;
  while (n < NAME_LEN - 1 && (islower((unsigned char)usage[n]) ||
                              (usage[n] == ' ' && islower((unsigned char)usage[n + 1]))))
    n++;
  for (size_t i = 0; i < n; i++)
    out[i] = usage[i] == ' ' ? separator : usage[i];
  out[n] = '\0';
}

/* The first sentence of the description, as the page's one-line summary. */
static void put_summary(const char *about) {
  for (size_t i = 0; about[i]; i++) {
    bool ends = about[i] == '.' && (isspace((unsigned char)about[i + 1]) || !about[i + 1]);
    if (ends || (about[i] == '\n' && about[i + 1] == '\n'))
      break;
    char c = i == 0 ? (char)tolower((unsigned char)about[i]) : about[i];
    put_roff(&c, 1);
  }
}

static void put_heading(const char *name) {
  printf(".TH \"%s\" \"1\" \"\" \"sluice %s\" \"sluice\"\n.nh\n.SH NAME\n%s \\- ", name,
         SLUICE_VERSION, name);
}

static void put_option(const struct cli_option *option) {
  fputs(".TP\n\\fB\\-\\-", stdout);
  put_roff(option->name, strlen(option->name));
  fputs("\\fR", stdout);
  if (option->value) {
    fputs(" \\fI", stdout);
    put_roff(option->value, strlen(option->value));
    fputs("\\fR", stdout);
  }
  fputc('\n', stdout);
  put_lines(option->help, "", "\n");
}

bool cli_page_man(const struct cli_spec *spec) {
  char name[NAME_LEN];
  command_name(spec->usage, '-', name);
  put_heading(name);
  put_summary(spec->about);
  fputs("\n.SH SYNOPSIS\n.nf\n", stdout);
  put_lines(spec->usage, "", "\n");
  fputs(".fi\n.SH DESCRIPTION\n", stdout);
  put_paragraphs(spec->about);
  fputs("\n.SH OPTIONS\n", stdout);
  for (size_t i = 0; i < spec->option_count; i++)
    put_option(&spec->options[i]);
  fputs(".TP\n\\fB\\-\\-help\\fR\nusage, options and examples\n.SH EXIT STATUS\n"
        "0 done; 1 failed, nothing changed; 2 wrong usage; 3 done in part.\n"
        ".SH EXAMPLES\n.nf\n",
        stdout);
  put_lines(spec->examples, "", "\n");
  fputs(".fi\n.SH SEE ALSO\n.BR sluice (1),\n.BR sluice.yaml (5),\n.BR sluice\\-config (5)\n",
        stdout);
  return cli_flush();
}

static void put_command(const struct cli_command *command, const char *page) {
  fputs(".TP\n\\fB", stdout);
  put_roff(command->name, strlen(command->name));
  fputs("\\fR\n", stdout);
  put_roff(command->about, strlen(command->about));
  printf(": see\n.BR %s\\-%s (1)\n", page, command->name);
}

bool cli_page_group(const struct cli_group *group) {
  char name[NAME_LEN];
  command_name(group->name, '-', name);
  put_heading(name);
  put_summary(group->about ? group->about : group->name);
  fputs("\n.SH SYNOPSIS\n.B ", stdout);
  put_roff(group->name, strlen(group->name));
  fputs("\n.I COMMAND\n[\n.I ARGUMENT\n\\&...]\n.SH DESCRIPTION\n", stdout);
  put_paragraphs(group->about ? group->about : "");
  fputs("\n.SH COMMANDS\n", stdout);
  for (size_t i = 0; i < group->count; i++)
    put_command(&group->commands[i], name);
  fputs(".SH EXIT STATUS\n0 done; 1 failed, nothing changed; 2 wrong usage; 3 done in part.\n"
        ".SH EXAMPLES\n.nf\n",
        stdout);
  put_lines(group->examples, "", "\n");
  fputs(".fi\n.SH SEE ALSO\n.BR sluiced (8),\n.BR sluice\\-healthd (8),\n"
        ".BR sluice.yaml (5),\n.BR sluice\\-config (5)\n",
        stdout);
  return cli_flush();
}

/* ---- completion ----------------------------------------------------------------------------- */

bool cli_page_options(const struct cli_spec *spec) {
  for (size_t i = 0; i < spec->option_count; i++) {
    const struct cli_option *option = &spec->options[i];
    printf("--%s%s\t", option->name, option->value ? "=" : "");
    for (const char *p = option->help; *p; p++)
      fputc(*p == '\n' || *p == '\t' ? ' ' : *p, stdout);
    fputc('\n', stdout);
  }
  puts("--help\tusage, options and examples");
  return cli_flush();
}
