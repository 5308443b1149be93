/* SPDX-License-Identifier: Apache-2.0 */
#include "server/tls_server.h"

#include <openssl/err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Forward secrecy and AEAD only (RFC 9325 section 4.2); the suites of TLS 1.3 are all so. */
#define TLS12_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

struct tls_server {
  char *cert_path;
  char *key_path;
  pthread_mutex_t lock; /* of all below */
  struct tls_pair pair;
  SSL_CTX *context;
  bool dated;
  uint64_t made_at; /* of the context, once a connection has told the time */
  int64_t expires;
};

static bool read_expiry(const X509 *leaf, int64_t *expires) {
  struct tm tm;
  if (ASN1_TIME_to_tm(X509_get0_notAfter(leaf), &tm) != 1)
    return false;
  *expires = (int64_t)timegm(&tm);
  return true;
}

/* ---- contexts ---------------------------------------------------------------------------------
 */

/* RFC 7858 knows no ALPN; RFC 9103 section 7.1 wants "dot".  Who offers only other protocols is not
 * here for DNS (RFC 7301 section 3.2). */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_length,
                           const unsigned char *in, unsigned in_length, void *arg) {
  (void)ssl;
  (void)arg;
  for (unsigned at = 0; at < in_length; at += 1 + in[at]) {
    if (in[at] == 3 && in_length - at > 3 && memcmp(in + at + 1, "dot", 3) == 0) {
      *out = in + at + 1;
      *out_length = 3;
      return SSL_TLSEXT_ERR_OK;
    }
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static SSL_CTX *make_context(const struct tls_pair *pair) {
  SSL_CTX *context = SSL_CTX_new(TLS_server_method());
  if (context == NULL)
    return NULL;
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS); /* idle connections hold little memory */
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); /* tickets only: no state here */
  SSL_CTX_set_num_tickets(context, 1);
  SSL_CTX_set_timeout(context, TLS_ROTATE_MS / 1000);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
  if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
      SSL_CTX_set_cipher_list(context, TLS12_CIPHERS) == 1 && tls_pair_use(pair, context))
    return context;
  SSL_CTX_free(context);
  return NULL;
}

bool tls_server_reload(struct tls_server *server, enum tls_blame *blame, char *why) {
  struct tls_pair pair = {.leaf = NULL};
  int64_t expires;
  ERR_clear_error();
  if (!tls_pair_read(&pair, server->cert_path, server->key_path, blame, why)) {
    tls_pair_close(&pair);
    return false;
  }
  ERR_clear_error();
  SSL_CTX *context = make_context(&pair);
  if (context == NULL || !read_expiry(pair.leaf, &expires)) {
    tls_pair_explain(&pair, server->cert_path, server->key_path, blame, why);
    SSL_CTX_free(context);
    tls_pair_close(&pair);
    return false;
  }
  pthread_mutex_lock(&server->lock);
  struct tls_pair old_pair = server->pair;
  SSL_CTX *old_context = server->context;
  server->pair = pair;
  server->context = context;
  server->expires = expires;
  server->dated = false;
  pthread_mutex_unlock(&server->lock);
  SSL_CTX_free(old_context); /* sessions hold references of their own */
  tls_pair_close(&old_pair);
  return true;
}

SSL *tls_server_accept(struct tls_server *server, uint64_t now_ms) {
  pthread_mutex_lock(&server->lock);
  if (!server->dated) {
    server->dated = true;
    server->made_at = now_ms;
  } else if (now_ms - server->made_at >= TLS_ROTATE_MS) {
    SSL_CTX *fresh = make_context(&server->pair);
    if (fresh != NULL) { /* else without memory: the old one has to do */
      SSL_CTX_free(server->context);
      server->context = fresh;
    }
    server->made_at = now_ms;
  }
  SSL *ssl = SSL_new(server->context);
  pthread_mutex_unlock(&server->lock);
  return ssl;
}

int64_t tls_server_expires(struct tls_server *server) {
  pthread_mutex_lock(&server->lock);
  int64_t expires = server->expires;
  pthread_mutex_unlock(&server->lock);
  return expires;
}

/* ---- open and close ---------------------------------------------------------------------------
 */

struct tls_server *tls_server_open(const char *cert_path, const char *key_path,
                                   enum tls_blame *blame, char *why) {
  *blame = TLS_BLAME_NONE;
  struct tls_server *server = calloc(1, sizeof *server);
  if (server == NULL || pthread_mutex_init(&server->lock, NULL) != 0) {
    free(server);
    snprintf(why, TLS_WHY, "out of memory");
    return NULL;
  }
  server->cert_path = strdup(cert_path);
  server->key_path = strdup(key_path);
  snprintf(why, TLS_WHY, "out of memory");
  if (server->cert_path != NULL && server->key_path != NULL &&
      tls_server_reload(server, blame, why))
    return server;
  tls_server_close(server);
  return NULL;
}

void tls_server_close(struct tls_server *server) {
  if (server == NULL)
    return;
  SSL_CTX_free(server->context);
  tls_pair_close(&server->pair);
  pthread_mutex_destroy(&server->lock);
  free(server->cert_path);
  free(server->key_path);
  free(server);
}
