/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this server reaches others over TLS, for zone transfers (RFC 9103): TLS 1.3 only, ALPN "dot",
 * and a peer that is authenticated by its name, by pins of its key, or by both.  Whoever is not is
 * never talked to; there is no opportunistic mode.
 *
 * The files can be read again at any time; connections that are open go on with what they have.
 * tls_client_connect() and tls_client_reload() may be called from any thread, the latter by one at
 * a time.
 */
#ifndef SLUICE_SERVER_TLS_CLIENT_H
#define SLUICE_SERVER_TLS_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/tls_trust.h"
#include "server/tls_pair.h"

enum { TLS_PIN = 32 /* octets of SHA-256 */ };

/* One of `hostname` and `pins` at least; `cert_file` and `key_file` both or none. */
struct tls_peer {
  char *hostname;           /* in the peer's certificate, and sent as SNI; or NULL: not verified */
  char *ca_file;            /* authorities that may sign for the name; NULL: the system's */
  uint8_t (*pins)[TLS_PIN]; /* SHA-256 of its SubjectPublicKeyInfo: one must be that of its key */
  size_t pin_count;         /* 0: not verified */
  char *cert_file;          /* what we show of ourselves, or NULL */
  char *key_file;
};

struct tls_client;

/* Reads the files.  NULL with a one-line reason in `why` (TLS_WHY octets), and the file that it is
 * about in `blame`.  `peer` must live as long as the client. */
struct tls_client *tls_client_open(const struct tls_peer *peer, enum tls_blame *blame, char *why);
void tls_client_close(struct tls_client *client); /* after all sessions; NULL is allowed */

/* Reads the files again.  False with a reason: then the old ones stay in use. */
bool tls_client_reload(struct tls_client *client, enum tls_blame *blame, char *why);

/* Why a peer was not accepted; of one connection. */
struct tls_check {
  const struct tls_peer *peer;
  struct tls_refusal refusal; /* by name and authorities */
  bool wrong_key;             /* by pins */
};

/* A new client side of a connection, NULL without memory.  `check` must live as long. */
SSL *tls_client_connect(struct tls_client *client, struct tls_check *check);

/* True if the protocol that was chosen is that of DNS over TLS. */
bool tls_client_speaks_dot(const SSL *ssl);

/* Why a session failed, in words, from the error that OpenSSL left (ERR_peek_error()). */
void tls_client_why(const struct tls_check *check, unsigned long error, char *to, size_t size);

#endif
