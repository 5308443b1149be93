/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client side of the checker's control socket (protocol: healthcheck/control.h), and how
 * checks are shown.
 */
#ifndef SLUICE_TOOLS_HEALTH_CLIENT_H
#define SLUICE_TOOLS_HEALTH_CLIENT_H

#include <jansson.h>

/* The option table's line for --socket. */
#define HEALTH_SOCKET_HELP                                                                         \
  "the checker's control socket (default:\n$SLUICE_HEALTHD_SOCKET, `control:` in section\n"        \
  "`healthd:` of the settings, else\n/run/sluice/healthd.sock)"

/* As client_socket(), that of the checker. */
const char *health_socket(const char *given, const char *settings);

/* As client_call(), to the checker at that path. */
int health_call(const char *path, json_t *request, json_t **reply);

/* The text of a member, or `otherwise`. */
const char *health_text(const json_t *object, const char *key, const char *otherwise);

/* "http, port 8080, /ping" of a check; at most `size` octets with the NUL. */
void health_what(const json_t *check, char *out, size_t size);

#endif
