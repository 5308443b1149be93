/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of the control socket (server/control.h), without the socket.
 */
#ifndef SLUICE_SERVER_COMMANDS_H
#define SLUICE_SERVER_COMMANDS_H

#include <jansson.h>
#include <sys/types.h>

#include "server/server.h"

enum command_result {
  COMMAND_DONE,   /* *reply is set */
  COMMAND_RELOAD, /* the reply follows: server_reload(), then command_reload_reply() */
  COMMAND_STOP,   /* *reply is set; the server stops once it was sent */
};

/* Does one request from the user `uid`.  *reply is a new object, NULL without memory. */
enum command_result command_run(struct server *server, const json_t *request, uid_t uid,
                                json_t **reply);

/* Index of the steered domain that `request` names; -1 with *error set. */
long command_find_domain(const struct server *server, const json_t *request, json_t **error);

/* {"connected", "age"} of the health feed. */
json_t *command_health(const struct server *server);

/* What a reload replies; `why` is NULL if it succeeded. */
json_t *command_reload_reply(const struct server *server, const char *why, const char *warning);

/* {"ok": false, ...}; `code` is the exit status for the command line tool. */
json_t *command_error(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
