/* SPDX-License-Identifier: Apache-2.0 */
#include "server/tls_server.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fs.h"

/* Forward secrecy and AEAD only (RFC 9325 section 4.2); the suites of TLS 1.3 are all so. */
#define TLS12_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

struct pair {
  X509 *leaf;
  STACK_OF(X509) * chain; /* what stands after it in the file */
  EVP_PKEY *key;
};

struct tls_server {
  char *cert_path;
  char *key_path;
  pthread_mutex_t lock; /* of all below */
  struct pair pair;
  SSL_CTX *context;
  bool dated;
  uint64_t made_at; /* of the context, once a connection has told the time */
  int64_t expires;
};

static void pair_close(struct pair *pair) {
  X509_free(pair->leaf);
  sk_X509_pop_free(pair->chain, X509_free);
  EVP_PKEY_free(pair->key);
  *pair = (struct pair){.leaf = NULL};
}

/* ---- files ------------------------------------------------------------------------------------
 */

/* OpenSSL would ask on the terminal. */
static int no_password(char *buffer, int size, int writing, void *arg) {
  (void)buffer;
  (void)size;
  (void)writing;
  *(bool *)arg = true;
  return -1;
}

static bool read_chain(BIO *bio, struct pair *pair) {
  bool asked = false;
  X509 *next;
  pair->leaf = PEM_read_bio_X509(bio, NULL, no_password, &asked);
  pair->chain = sk_X509_new_null();
  if (pair->leaf == NULL || pair->chain == NULL)
    return false;
  while ((next = PEM_read_bio_X509(bio, NULL, no_password, &asked)) != NULL) {
    if (sk_X509_push(pair->chain, next) == 0) {
      X509_free(next);
      return false;
    }
  }
  return ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE; /* the end of the file */
}

static bool read_pair(const struct tls_server *server, struct pair *pair, char *why) {
  uint8_t *text = NULL;
  size_t length = 0;
  bool asked = false;
  if (!fs_read(server->cert_path, TLS_FILE_MAX, &text, &length, why))
    return false;
  BIO *bio = BIO_new_mem_buf(text, (int)length);
  bool ok = bio != NULL && read_chain(bio, pair);
  BIO_free(bio);
  free(text);
  if (!ok) {
    snprintf(why, TLS_WHY, "%.300s is not a certificate (chain) in PEM form", server->cert_path);
    return false;
  }
  if (!fs_read(server->key_path, TLS_FILE_MAX, &text, &length, why))
    return false;
  bio = BIO_new_mem_buf(text, (int)length);
  if (bio != NULL)
    pair->key = PEM_read_bio_PrivateKey(bio, NULL, no_password, &asked);
  BIO_free(bio);
  OPENSSL_cleanse(text, length);
  free(text);
  if (pair->key == NULL)
    snprintf(why, TLS_WHY, "%.300s %s", server->key_path,
             asked ? "is encrypted; store the key without a password"
                   : "is not a private key in PEM form");
  return pair->key != NULL;
}

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

static SSL_CTX *make_context(const struct pair *pair) {
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
      SSL_CTX_set_cipher_list(context, TLS12_CIPHERS) == 1 &&
      SSL_CTX_use_cert_and_key(context, pair->leaf, pair->key, pair->chain, 1) == 1)
    return context;
  SSL_CTX_free(context);
  return NULL;
}

static void explain_pair(const struct tls_server *server, const struct pair *pair, char *why) {
  char reason[128] = "unknown reason";
  unsigned long error = ERR_peek_last_error();
  if (X509_check_private_key(pair->leaf, pair->key) != 1) {
    snprintf(why, TLS_WHY, "the key in %.200s is not that of the certificate in %.200s",
             server->key_path, server->cert_path);
    return;
  }
  if (ERR_reason_error_string(error) != NULL)
    snprintf(reason, sizeof reason, "%s", ERR_reason_error_string(error));
  snprintf(why, TLS_WHY, "%.180s and %.180s cannot be used: %s", server->cert_path,
           server->key_path, reason);
}

bool tls_server_reload(struct tls_server *server, char *why) {
  struct pair pair = {.leaf = NULL};
  int64_t expires;
  ERR_clear_error();
  if (!read_pair(server, &pair, why)) {
    pair_close(&pair);
    return false;
  }
  ERR_clear_error();
  SSL_CTX *context = make_context(&pair);
  if (context == NULL || !read_expiry(pair.leaf, &expires)) {
    explain_pair(server, &pair, why);
    SSL_CTX_free(context);
    pair_close(&pair);
    return false;
  }
  pthread_mutex_lock(&server->lock);
  struct pair old_pair = server->pair;
  SSL_CTX *old_context = server->context;
  server->pair = pair;
  server->context = context;
  server->expires = expires;
  server->dated = false;
  pthread_mutex_unlock(&server->lock);
  SSL_CTX_free(old_context); /* sessions hold references of their own */
  pair_close(&old_pair);
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

struct tls_server *tls_server_open(const char *cert_path, const char *key_path, char *why) {
  struct tls_server *server = calloc(1, sizeof *server);
  if (server == NULL || pthread_mutex_init(&server->lock, NULL) != 0) {
    free(server);
    snprintf(why, TLS_WHY, "out of memory");
    return NULL;
  }
  server->cert_path = strdup(cert_path);
  server->key_path = strdup(key_path);
  snprintf(why, TLS_WHY, "out of memory");
  if (server->cert_path != NULL && server->key_path != NULL && tls_server_reload(server, why))
    return server;
  tls_server_close(server);
  return NULL;
}

void tls_server_close(struct tls_server *server) {
  if (server == NULL)
    return;
  SSL_CTX_free(server->context);
  pair_close(&server->pair);
  pthread_mutex_destroy(&server->lock);
  free(server->cert_path);
  free(server->key_path);
  free(server);
}
