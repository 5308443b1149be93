/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS over TLS as the main thread sees it: its addresses, its files and its thread.  Without
 * `tls-listen` in the settings everything here does nothing.
 */
#ifndef SLUICE_SERVER_SERVER_TLS_H
#define SLUICE_SERVER_SERVER_TLS_H

#include <jansson.h>

#include "server/settings.h"
#include "server/tcp.h"
#include "server/tls_server.h"

struct server_tls {
  const struct settings *settings;
  struct tls_server *files; /* certificate and key; NULL without TLS */
  struct tcp *tcp;          /* NULL without TLS */
  char warning[TLS_WHY];    /* of the last reload: why the old pair is still used; or empty */
};

/* Binds the addresses.  False with a one-line reason in `why` (512 octets), as the next two;
 * server_tls_stop() and server_tls_close() are needed in every case. */
bool server_tls_open(struct server_tls *tls, const struct settings *settings, char *why);

/* Reads the files, as the user that is to read them again later. */
bool server_tls_load(struct server_tls *tls, char *why);

/* Starts to answer; arguments as tcp_start(). */
bool server_tls_start(struct server_tls *tls, const struct view *_Atomic *view,
                      const struct query_config *config, const struct tcp_limits *limits,
                      char *why);

/* Reads the files again; `warning` (TLS_WHY octets) tells why the old ones are still used, or is
 * empty.  From any thread, one at a time. */
void server_tls_reload(const struct server_tls *tls, char *warning);

/* Answers what has arrived and ends the thread. */
void server_tls_stop(struct server_tls *tls);
void server_tls_close(struct server_tls *tls);

/* {"listen": [...], "certificate": PATH, "expires": Unix seconds, "warning": text or null}, or null
 * without TLS. */
json_t *server_tls_json(const struct server_tls *tls);

#endif
