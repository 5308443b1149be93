/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli_group.h"

#include <stdlib.h>
#include <string.h>

#include "tools/cli_pages.h"

static const char *const exit_statuses =
    "0 done; 1 failed, nothing changed; 2 wrong usage; 3 done in part.";

static void print_lines(const char *lines) {
  while (*lines) {
    size_t n = strcspn(lines, "\n");
    printf("  %.*s\n", (int)n, lines);
    lines += n + (lines[n] == '\n');
  }
}

static int print_help(const struct cli_group *group) {
  printf("Usage:\n  %s COMMAND [ARGUMENT...]\n", group->name);
  if (group->about)
    printf("\n%s\n", group->about);
  puts("\nCommands:");
  for (size_t i = 0; i < group->count; i++)
    printf("  %-14s%s\n", group->commands[i].name, group->commands[i].about);
  printf("\nOptions:\n"
         "  --help        this text; `%s COMMAND --help` tells more\n"
         "  --version     the version\n"
         "\nExamples:\n",
         group->name);
  print_lines(group->examples);
  printf("\nExit status: %s\n", exit_statuses);
  return cli_flush() ? CLI_DONE : CLI_FAILED;
}

static int list_commands(const struct cli_group *group) {
  for (size_t i = 0; i < group->count; i++)
    printf("%s\t%s\n", group->commands[i].name, group->commands[i].about);
  return cli_flush() ? CLI_DONE : CLI_FAILED;
}

static int unknown_command(const struct cli_group *group, const char *word) {
  const char **names = calloc(group->count, sizeof *names);
  if (!names)
    return CLI_FAILED;
  for (size_t i = 0; i < group->count; i++)
    names[i] = group->commands[i].name;
  const char *near = cli_did_you_mean(word, names, group->count);
  free(names);
  if (*near)
    return cli_usage("unknown command %s%s", word, near);
  return cli_usage("unknown command %s; %s --help lists them", word, group->name);
}

static const struct cli_command *find(const struct cli_group *group, const char *word) {
  for (size_t i = 0; i < group->count; i++)
    if (!strcmp(word, group->commands[i].name))
      return &group->commands[i];
  return NULL;
}

static int page(const struct cli_group *group) {
  return cli_page_group(group) ? CLI_DONE : CLI_FAILED;
}

int cli_group_run(const struct cli_group *group, int argc, char **argv) {
  const char *word = argc < 2 ? NULL : argv[1];
  if (word && (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")))
    return print_help(group);
  if (word && !strcmp(word, "--version")) {
    puts("sluice " SLUICE_VERSION);
    return cli_flush() ? CLI_DONE : CLI_FAILED;
  }
  if (word && !strcmp(word, "--list-commands"))
    return list_commands(group);
  if (word && !strcmp(word, "--man-page"))
    return page(group);
  const struct cli_command *command = word ? find(group, word) : NULL;
  if (command)
    return command->run(argc - 1, argv + 1);
  if (group->plain && (!word || word[0] == '-'))
    return group->plain(argc, argv);
  if (!word)
    return cli_usage("no command given; %s --help lists them", group->name);
  return unknown_command(group, word);
}
