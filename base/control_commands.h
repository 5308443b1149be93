/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket (base/control_socket.h) of a service (base/service.h), as a list of commands.
 *
 * Request: {"command": NAME, ...}.  Reply: {"ok": true, ...} or {"ok": false, "error": "one line",
 * "code": 1|2|3} where code is the exit status that the command line tool should give.  Each
 * service has
 *   status    -> what it tells of itself, with "pid" and "uptime" (seconds)
 *   stop      -> replies, then the service ends
 *
 * Peers are trusted by their Unix credentials (SO_PEERCRED): root, the program's own user, and
 * members of the configured group.  A request of more than 64 KiB, or one not finished in 10 s,
 * closes the connection.
 */
#ifndef SLUICE_BASE_CONTROL_COMMANDS_H
#define SLUICE_BASE_CONTROL_COMMANDS_H

#include "base/control_socket.h"
#include "base/service.h"

struct control_commands;

struct control_command {
  const char *name;
  /* Followed by one control_reply(), now or later. */
  void (*run)(void *arg, struct control_client *client, const json_t *request);
};

struct control_commands_options {
  const char *path;    /* mode 0660 */
  const char *group;   /* whose members may use it; or NULL */
  const char *unknown; /* to who asks for another command: which ones there are */
  json_t *(*status)(void *arg, const json_t *request); /* an object, or NULL without memory */
  const struct control_command *commands;              /* the others; not copied */
  size_t count;
  bool (*gone)(void *arg, struct control_client *client, void *waits); /* as control_socket.h */
  void *arg;
};

/* Listens on the loop of the service; NULL with one line in `why` (CONTROL_SOCKET_WHY octets). */
struct control_commands *control_commands_open(struct service *service,
                                               const struct control_commands_options *options,
                                               char *why);

/* As control_socket_close(); NULL is allowed. */
void control_commands_close(struct control_commands *commands);

#endif
