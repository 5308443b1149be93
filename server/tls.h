/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TLS state of one connection, of either side: octets in, octets out.  No sockets, no clock;
 * everything goes through buffers of the caller, so that an idle session holds no more than
 * OpenSSL's own state.
 *
 * A session belongs to one thread.
 */
#ifndef SLUICE_SERVER_TLS_H
#define SLUICE_SERVER_TLS_H

#include <stddef.h>

#include "server/tls_client.h"
#include "server/tls_server.h"

enum {
  TLS_RECORD_MAX = 16384, /* plain text of a record, RFC 8446 section 5.1 */
  /* What a record adds: header, explicit nonce, tag, type; and it may be a short one. */
  TLS_RECORD_EXTRA = 64,
  /* Room for anything but plain text: a flight of the handshake with a chain from a file of
   * TLS_FILE_MAX, or answers to what comes in one read. */
  TLS_OUT_EXTRA = 128 << 10,
};

/* Octets of output that tls_session_send() needs for `length` octets of plain text. */
#define TLS_OUT_MAX(length)                                                                        \
  ((length) + ((length) / TLS_RECORD_MAX + 1) * TLS_RECORD_EXTRA + TLS_OUT_EXTRA)

/* Where a session puts what is to be sent; it appends. */
struct tls_output {
  uint8_t *data;
  size_t length;
  size_t capacity;
};

enum tls_result {
  TLS_OPEN,
  TLS_ENDED,  /* the peer sends no more (close_notify) */
  TLS_FAILED, /* no TLS, or not ours: send the output (an alert) and close */
};

struct tls_session;

/* `now_ms` as in tls_server_accept(); NULL without memory. */
struct tls_session *tls_session_open(struct tls_server *server, uint64_t now_ms);

/* The client's side; tls_session_receive() without octets makes it say the first word.  NULL
 * without memory. */
struct tls_session *tls_session_connect(struct tls_client *client);
void tls_session_close(struct tls_session *session); /* NULL is allowed */

/*
 * Takes all `length` octets that have arrived.  What they say goes to `plain`, which has room for
 * `length + TLS_RECORD_MAX` octets, and *plain_length tells how much; it may come with TLS_ENDED
 * and TLS_FAILED too.
 */
enum tls_result tls_session_receive(struct tls_session *session, const uint8_t *data, size_t length,
                                    uint8_t *plain, size_t *plain_length, struct tls_output *out);

/* Encrypts all of `plain`; false if the session is broken.  Not before it is established. */
bool tls_session_send(struct tls_session *session, const uint8_t *plain, size_t length,
                      struct tls_output *out);

/* Says that nothing more will be sent (close_notify), if the session is in a state to say it. */
void tls_session_end(struct tls_session *session, struct tls_output *out);

/* True once the handshake is done. */
bool tls_session_is_established(const struct tls_session *session);

/* Of the client's side: true if DNS over TLS was agreed on (ALPN "dot"). */
bool tls_session_speaks_dot(const struct tls_session *session);

/* Of the client's side, after TLS_FAILED: why, in words. */
void tls_session_why(const struct tls_session *session, char *to, size_t size);

/* True if it is of TLS 1.3 or later, which zone transfers need (RFC 9103 section 7.2). */
bool tls_session_fits_transfer(const struct tls_session *session);

#endif
