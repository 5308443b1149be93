/* SPDX-License-Identifier: Apache-2.0 */
#include "server/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct tls_session {
  SSL *ssl;
  const uint8_t *in; /* what is left of the octets that are being taken */
  size_t in_left;
  struct tls_output *out; /* of the call that is running */
  bool failed;
  unsigned long error;    /* of OpenSSL, when it failed */
  struct tls_check check; /* of the client's side */
};

/* ---- between OpenSSL and the buffers of the caller --------------------------------------------
 */

static int bio_read(BIO *bio, char *to, int size) {
  struct tls_session *session = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  if (size <= 0)
    return 0;
  size_t n = session->in_left < (size_t)size ? session->in_left : (size_t)size;
  if (n == 0) {
    BIO_set_retry_read(bio);
    return -1;
  }
  memcpy(to, session->in, n);
  session->in += n;
  session->in_left -= n;
  return (int)n;
}

static int bio_write(BIO *bio, const char *from, int size) {
  struct tls_session *session = BIO_get_data(bio);
  struct tls_output *out = session->out;
  BIO_clear_retry_flags(bio);
  if (size <= 0)
    return 0;
  if (out == NULL || out->capacity - out->length < (size_t)size)
    return -1; /* more than any honest peer can cause: the session fails */
  memcpy(out->data + out->length, from, (size_t)size);
  out->length += (size_t)size;
  return size;
}

static long bio_control(BIO *bio, int command, long number, void *pointer) {
  (void)bio;
  (void)number;
  (void)pointer;
  return command == BIO_CTRL_FLUSH; /* all else: not supported */
}

static BIO_METHOD *method;

static void make_method(void) {
  method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "octets");
  if (method == NULL)
    return;
  BIO_meth_set_read(method, bio_read);
  BIO_meth_set_write(method, bio_write);
  BIO_meth_set_ctrl(method, bio_control);
}

static BIO *make_bio(struct tls_session *session) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_method);
  BIO *bio = method != NULL ? BIO_new(method) : NULL;
  if (bio == NULL)
    return NULL;
  BIO_set_data(bio, session);
  BIO_set_init(bio, 1);
  return bio;
}

/* ---- sessions ---------------------------------------------------------------------------------
 */

/* Connects the new session with its buffers; ends it and returns NULL without memory. */
static struct tls_session *with_buffers(struct tls_session *session) {
  BIO *bio = session->ssl != NULL ? make_bio(session) : NULL;
  if (bio == NULL) {
    tls_session_close(session);
    return NULL;
  }
  SSL_set_bio(session->ssl, bio, bio);
  return session;
}

struct tls_session *tls_session_open(struct tls_server *server, uint64_t now_ms) {
  struct tls_session *session = calloc(1, sizeof *session);
  if (session == NULL)
    return NULL;
  session->ssl = tls_server_accept(server, now_ms);
  session = with_buffers(session);
  if (session != NULL)
    SSL_set_accept_state(session->ssl);
  return session;
}

struct tls_session *tls_session_connect(struct tls_client *client) {
  struct tls_session *session = calloc(1, sizeof *session);
  if (session == NULL)
    return NULL;
  session->ssl = tls_client_connect(client, &session->check);
  session = with_buffers(session);
  if (session != NULL)
    SSL_set_connect_state(session->ssl);
  return session;
}

void tls_session_close(struct tls_session *session) {
  if (session == NULL)
    return;
  SSL_free(session->ssl);
  free(session);
}

enum tls_result tls_session_receive(struct tls_session *session, const uint8_t *data, size_t length,
                                    uint8_t *plain, size_t *plain_length, struct tls_output *out) {
  size_t capacity = length + TLS_RECORD_MAX;
  size_t got = 0, n;
  session->in = data;
  session->in_left = length;
  session->out = out;
  ERR_clear_error();
  while (got < capacity && SSL_read_ex(session->ssl, plain + got, capacity - got, &n) == 1)
    got += n;
  int why = got < capacity ? SSL_get_error(session->ssl, 0) : SSL_ERROR_SSL;
  session->in = NULL;
  session->in_left = 0;
  session->out = NULL;
  *plain_length = got;
  if (why == SSL_ERROR_WANT_READ)
    return TLS_OPEN;
  if (why == SSL_ERROR_ZERO_RETURN)
    return TLS_ENDED;
  session->failed = true;
  session->error = ERR_peek_error();
  ERR_clear_error();
  return TLS_FAILED;
}

bool tls_session_send(struct tls_session *session, const uint8_t *plain, size_t length,
                      struct tls_output *out) {
  size_t done = 0;
  session->out = out;
  ERR_clear_error();
  bool ok = !session->failed &&
            (length == 0 || SSL_write_ex(session->ssl, plain, length, &done) == 1) &&
            done == length;
  session->out = NULL;
  session->failed = !ok;
  return ok;
}

void tls_session_end(struct tls_session *session, struct tls_output *out) {
  if (session->failed || !SSL_is_init_finished(session->ssl))
    return;
  session->out = out;
  ERR_clear_error();
  SSL_shutdown(session->ssl);
  session->out = NULL;
}

bool tls_session_is_established(const struct tls_session *session) {
  return SSL_is_init_finished(session->ssl);
}

bool tls_session_speaks_dot(const struct tls_session *session) {
  return tls_client_speaks_dot(session->ssl);
}

void tls_session_why(const struct tls_session *session, char *to, size_t size) {
  tls_client_why(&session->check, session->error, to, size);
}

bool tls_session_fits_transfer(const struct tls_session *session) {
  return SSL_version(session->ssl) >= TLS1_3_VERSION;
}
