/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS on the connection to a primary (RFC 9103): what goes between its socket and the plain octets
 * of server/secondary_client.c.  In the loop's thread.
 */
#ifndef SLUICE_SERVER_SECONDARY_TLS_H
#define SLUICE_SERVER_SECONDARY_TLS_H

#include <uv.h>

#include "server/tls.h"

enum {
  SECONDARY_TLS_READ = 32768,                                /* octets of one read */
  SECONDARY_TLS_PLAIN = SECONDARY_TLS_READ + TLS_RECORD_MAX, /* and what they may say */
  SECONDARY_TLS_WHY = 300,
};

struct secondary_tls;

/* For a connection that is open; `stream` must live as long.  NULL without memory. */
struct secondary_tls *secondary_tls_open(struct tls_client *client, uv_stream_t *stream);
void secondary_tls_close(struct secondary_tls *tls); /* NULL is allowed */

/* Where the next read puts what comes. */
uv_buf_t secondary_tls_buffer(struct secondary_tls *tls);

enum secondary_tls_result {
  SECONDARY_TLS_SHAKES, /* the handshake goes on */
  SECONDARY_TLS_OPEN,   /* there may be plain octets, and octets may be sent */
  SECONDARY_TLS_ENDED,  /* the peer will send no more */
  SECONDARY_TLS_FAILED,
};

/*
 * Takes the `length` octets that a read put there, 0 to begin, and sends what TLS answers.  What
 * they say goes to `plain` (SECONDARY_TLS_PLAIN octets) and *got; it may come with ENDED and FAILED
 * too.  On FAILED, `why` (SECONDARY_TLS_WHY octets) is set.
 */
enum secondary_tls_result secondary_tls_take(struct secondary_tls *tls, size_t length,
                                             uint8_t *plain, size_t *got, char *why);

/* Sends plain octets, of which there are a few; false if the connection is broken. */
bool secondary_tls_send(struct secondary_tls *tls, const uint8_t *plain, size_t length);

/* Says that nothing more will be sent, if the socket takes it at once. */
void secondary_tls_end(struct secondary_tls *tls);

#endif
