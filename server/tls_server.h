/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all TLS connections of the server share: certificate, key, and the rules of DNS over TLS
 * (RFC 7858): TLS 1.2 and 1.3, ALPN "dot" or none, session tickets, neither renegotiation nor
 * compression nor early data.
 *
 * The pair can be replaced at any time; connections that are open go on with what they have.  All
 * functions may be called from any thread.
 */
#ifndef SLUICE_SERVER_TLS_SERVER_H
#define SLUICE_SERVER_TLS_SERVER_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/tls_pair.h"

enum {
  TLS_ROTATE_MS = 12 * 3600 * 1000, /* the keys of session tickets are used for so long */
};

struct tls_server;

/* Reads certificate chain (the server's own first) and key, both in PEM form.  NULL with a one-line
 * reason in `why` (TLS_WHY octets), and the file that it is about in `blame`. */
struct tls_server *tls_server_open(const char *cert_path, const char *key_path,
                                   enum tls_blame *blame, char *why);
void tls_server_close(
    struct tls_server *server); /* after all sessions were closed; NULL is allowed */

/* Reads the files again.  False with a reason: then the old pair stays in use. */
bool tls_server_reload(struct tls_server *server, enum tls_blame *blame, char *why);

/* The end of the certificate's time, in Unix seconds. */
int64_t tls_server_expires(struct tls_server *server);

/*
 * A new server side of a connection, NULL without memory.  `now_ms` is of a monotonic clock: it
 * decides when ticket keys are changed, so that a key that leaks late opens little (RFC 9325
 * section 3.4).
 */
SSL *tls_server_accept(struct tls_server *server, uint64_t now_ms);

#endif
