/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client side of the server's control socket (protocol: server/control.h).
 */
#ifndef SLUICE_TOOLS_CLIENT_H
#define SLUICE_TOOLS_CLIENT_H

#include <jansson.h>

#include "tools/machine.h"

/* The option table's line for --socket. */
#define CLIENT_SOCKET_HELP                                                                         \
  "the server's control socket (default:\n$SLUICE_SOCKET, `control:` of the settings,\n"           \
  "else /run/sluice/control.sock)"

enum { CLIENT_WHY = 1024, CLIENT_WAIT = 120 };

enum client_result {
  CLIENT_ANSWERED, /* the reply may still say no */
  CLIENT_ABSENT,   /* no server listens there */
  CLIENT_REFUSED,  /* nothing was sent */
  CLIENT_UNKNOWN,  /* sent, but no answer came: it may have been done or not */
};

/*
 * Sends one request to the socket at `path` and waits up to `seconds` for a byte of the reply.  On
 * CLIENT_ANSWERED *reply is a new reference to an object with `ok`; else one line is in `why`
 * (CLIENT_WHY octets).  Prints nothing.
 */
enum client_result client_try(const char *path, const json_t *request, unsigned seconds,
                              json_t **reply, char *why);

/* Where a program's control socket is said to be. */
struct client_place {
  const char *variable; /* of the environment */
  const char *(*set)(const struct machine *machine);
  const char *otherwise;
};

/*
 * The control socket's path: `given`, else that of the environment, else that of the settings file
 * (NULL: the default one, if it exists), else the default.  Static storage; NULL after an error was
 * printed (only the settings can be wrong, and only where they are needed).
 */
const char *client_find(const struct client_place *place, const char *given, const char *settings);

/* That of the server: $SLUICE_SOCKET, `control:`. */
const char *client_socket(const char *given, const char *settings);

/* The exit status that a reply asks for; prints its error. */
int client_judge(const json_t *reply);

/*
 * Sends one request and waits for the reply.  Takes the reference of `request` over (NULL means
 * that there was no memory for it).  Returns 0 and the reply in *reply (a new reference), or prints
 * a one-line error and returns the exit status.
 */
int client_call(const char *socket_path, json_t *request, json_t **reply);

/* A command of no arguments but --socket and --json, which is one request to the server. */
struct client_command {
  const char *name; /* of the request */
  const char *usage;
  const char *about;
  const char *examples;
  void (*complete)(json_t *reply, const char *settings); /* adds what others know; or NULL */
  void (*print)(const json_t *reply);                    /* for people */
  int (*judge)(const json_t *reply); /* the exit status after a good reply; or NULL */
};
int client_run(const struct client_command *command, int argc, char **argv);

/* The name of the user who runs this, for the audit: of the one who called sudo, if so.  Static
 * storage. */
const char *client_user(void);

#endif
