/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that only has commands below it: `sluice`, `sluice endpoints`, `sluice hook`.  Answers
 * --help, --version, --list-commands (for the completion of shells) and --man-page, offers the
 * nearest name for one that it does not know, and runs the others.
 */
#ifndef SLUICE_TOOLS_CLI_GROUP_H
#define SLUICE_TOOLS_CLI_GROUP_H

#include "tools/cli.h"

struct cli_command {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *about; /* half a line, without a full stop */
};

struct cli_group {
  const char *name;  /* "sluice endpoints" */
  const char *about; /* one sentence, for the manual page and the help; NULL: none */
  const struct cli_command *commands;
  size_t count;
  const char *examples; /* lines */
  /* What runs when the first argument is no command, for a group that does something by itself
   * (`sluice health`); else NULL. */
  int (*plain)(int argc, char **argv);
};

/* argv[0] is the group's own name; returns the exit status. */
int cli_group_run(const struct cli_group *group, int argc, char **argv);

#endif
