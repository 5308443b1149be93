/* SPDX-License-Identifier: Apache-2.0 */
#include "server/secondary_tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  PLAIN_MAX = 4096,      /* of what is sent at a time: one query */
  WAITING_MAX = 1 << 18, /* answers to a peer that makes us answer and reads nothing */
};

struct secondary_tls {
  struct tls_session *session;
  uv_stream_t *stream;
  bool is_established;
  struct tls_output out;
  uint8_t input[SECONDARY_TLS_READ];
  uint8_t output[TLS_OUT_MAX(PLAIN_MAX)];
};

struct secondary_tls *secondary_tls_open(struct tls_client *client, uv_stream_t *stream) {
  struct secondary_tls *tls = malloc(sizeof *tls);
  if (tls == NULL)
    return NULL;
  tls->session = tls_session_connect(client);
  tls->stream = stream;
  tls->is_established = false;
  tls->out = (struct tls_output){tls->output, 0, sizeof tls->output};
  if (tls->session != NULL)
    return tls;
  free(tls);
  return NULL;
}

void secondary_tls_close(struct secondary_tls *tls) {
  if (tls == NULL)
    return;
  tls_session_close(tls->session);
  free(tls);
}

uv_buf_t secondary_tls_buffer(struct secondary_tls *tls) {
  return uv_buf_init((char *)tls->input, sizeof tls->input);
}

/* ---- sending ----------------------------------------------------------------------------------
 */

struct sending {
  uv_write_t request;
  uint8_t octets[];
};

/* An error shows when the connection is read, too. */
static void on_sent(uv_write_t *request, int status) {
  (void)status;
  free(request->data);
}

/* Sends what TLS has put out. */
static bool flush(struct secondary_tls *tls) {
  size_t length = tls->out.length;
  tls->out.length = 0;
  if (length == 0)
    return true;
  struct sending *sending = malloc(sizeof *sending + length);
  if (sending == NULL)
    return false;
  memcpy(sending->octets, tls->output, length);
  sending->request.data = sending;
  uv_buf_t buffer = uv_buf_init((char *)sending->octets, (unsigned)length);
  if (uv_write(&sending->request, tls->stream, &buffer, 1, on_sent) == 0)
    return uv_stream_get_write_queue_size(tls->stream) <= WAITING_MAX;
  free(sending);
  return false;
}

bool secondary_tls_send(struct secondary_tls *tls, const uint8_t *plain, size_t length) {
  return length <= PLAIN_MAX && tls_session_send(tls->session, plain, length, &tls->out) &&
         flush(tls);
}

void secondary_tls_end(struct secondary_tls *tls) {
  tls_session_end(tls->session, &tls->out);
  uv_buf_t buffer = uv_buf_init((char *)tls->output, (unsigned)tls->out.length);
  if (tls->out.length > 0)
    uv_try_write(tls->stream, &buffer, 1);
  tls->out.length = 0;
}

/* ---- receiving --------------------------------------------------------------------------------
 */

static enum secondary_tls_result fail(const struct secondary_tls *tls, const char *reason,
                                      char *why) {
  snprintf(why, SECONDARY_TLS_WHY, "TLS: %s%.260s",
           tls->is_established ? "" : "no connection: ", reason);
  return SECONDARY_TLS_FAILED;
}

static enum secondary_tls_result fail_session(struct secondary_tls *tls, char *why) {
  char reason[SECONDARY_TLS_WHY];
  uv_buf_t alert = uv_buf_init((char *)tls->output, (unsigned)tls->out.length);
  if (tls->out.length > 0)
    uv_try_write(tls->stream, &alert, 1); /* so that the peer can log why */
  tls->out.length = 0;
  tls_session_why(tls->session, reason, sizeof reason);
  return fail(tls, reason, why);
}

enum secondary_tls_result secondary_tls_take(struct secondary_tls *tls, size_t length,
                                             uint8_t *plain, size_t *got, char *why) {
  enum tls_result result =
      tls_session_receive(tls->session, tls->input, length, plain, got, &tls->out);
  if (!tls->is_established && tls_session_is_established(tls->session) && result != TLS_FAILED) {
    /* RFC 9103 section 7.1: a server of something else that has the same certificate must not get
     * our queries, nor be believed. */
    if (!tls_session_speaks_dot(tls->session))
      return fail(tls, "it does not choose the protocol `dot` (ALPN)", why);
    tls->is_established = true;
  }
  if (result == TLS_FAILED)
    return fail_session(tls, why);
  if (!flush(tls))
    return fail(tls, "it does not read what is sent", why);
  if (result == TLS_ENDED)
    return SECONDARY_TLS_ENDED;
  return tls->is_established ? SECONDARY_TLS_OPEN : SECONDARY_TLS_SHAKES;
}
