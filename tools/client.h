/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client side of the server's control socket (protocol: server/control.h).
 */
#ifndef SLUICE_TOOLS_CLIENT_H
#define SLUICE_TOOLS_CLIENT_H

#include <jansson.h>

/* The option table's line for --socket. */
#define CLIENT_SOCKET_HELP                                                                         \
  "the server's control socket (default:\n$SLUICE_SOCKET, else /run/sluice/control.sock)"

/*
 * Sends one request and waits for the reply.  Takes the reference of `request` over (NULL means
 * that there was no memory for it).  Returns 0 and the reply in *reply (a new reference), or prints
 * a one-line error and returns the exit status.
 */
int client_call(const char *socket_path, json_t *request, json_t **reply);

/* The name of the user who runs this, for the audit: of the one who called sudo, if so.  Static
 * storage. */
const char *client_user(void);

#endif
