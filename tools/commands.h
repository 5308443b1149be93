/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of `sluice`, one file each.  argv[0] is the command's own name; the result is the
 * exit status.
 */
#ifndef SLUICE_TOOLS_COMMANDS_H
#define SLUICE_TOOLS_COMMANDS_H

int command_check(int argc, char **argv);
int command_build(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_status(int argc, char **argv);
int command_reload(int argc, char **argv);
int command_stop(int argc, char **argv);
int command_health(int argc, char **argv);
int command_hook(int argc, char **argv);
int command_hook_install(int argc, char **argv);
int command_deploys(int argc, char **argv);
int command_rollback(int argc, char **argv);
int command_follow(int argc, char **argv);
int command_endpoints(int argc, char **argv);
int command_sync(int argc, char **argv);

#endif
