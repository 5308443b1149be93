/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is made from the description of a command beside its help: its manual page, and the list of
 * options that the completion of shells asks for.  Both come from the same cli_spec as --help, so
 * that none of them can say something else.
 *
 *   sluice COMMAND --man-page        the page, for man(7); packaging/ makes files of them
 *   sluice GROUP --list-commands     a line for each command: "build<TAB>what it does"
 *   sluice COMMAND --list-options    a line for each option: "--out=<TAB>folder of the builds"
 * (with
 *                                    "=" when it takes a value)
 *
 * None is shown by --help.
 */
#ifndef SLUICE_TOOLS_CLI_PAGES_H
#define SLUICE_TOOLS_CLI_PAGES_H

#include "tools/cli.h"
#include "tools/cli_group.h"

/* All print on stdout; false (with the error printed) if that fails. */
bool cli_page_man(const struct cli_spec *spec);
bool cli_page_options(const struct cli_spec *spec);
bool cli_page_group(const struct cli_group *group);

#endif
