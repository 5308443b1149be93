/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of the control socket about state set at run time: domain, domains, commit, result,
 * history.
 */
#ifndef SLUICE_SERVER_COMMANDS_STATE_H
#define SLUICE_SERVER_COMMANDS_STATE_H

#include "server/commands.h"

/* True if `command` is one of them; then *reply is set (NULL without memory). */
bool command_state_run(struct server *server, const char *command, const json_t *request, uid_t uid,
                       json_t **reply);

#endif
