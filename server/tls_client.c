/* SPDX-License-Identifier: Apache-2.0 */
#include "server/tls_client.h"

#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char DOT[] = {3, 'd', 'o', 't'}; /* RFC 9103 section 7.1 */

struct tls_client {
  const struct tls_peer *peer;
  pthread_mutex_t lock; /* of the context */
  SSL_CTX *context;
};

/* ---- who is accepted --------------------------------------------------------------------------
 */

/* RFC 7858 section 4.2: the key itself is known, whoever signed for it. */
static bool is_pinned(const struct tls_peer *peer, const X509 *leaf) {
  uint8_t digest[SHA256_DIGEST_LENGTH];
  unsigned char *spki = NULL;
  int length = leaf != NULL ? i2d_X509_PUBKEY(X509_get_X509_PUBKEY(leaf), &spki) : -1;
  bool found = false;
  if (length > 0)
    SHA256(spki, (size_t)length, digest);
  for (size_t i = 0; length > 0 && !found && i < peer->pin_count; i++)
    found = memcmp(peer->pins[i], digest, TLS_PIN) == 0;
  OPENSSL_free(spki);
  return found;
}

static int verify(X509_STORE_CTX *context, void *arg) {
  SSL *ssl = X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx());
  struct tls_check *check = SSL_get_app_data(ssl);
  (void)arg;
  if (check->peer->hostname != NULL && !tls_trust_verify(context, &check->refusal))
    return 0;
  X509_STORE_CTX_set_error(context, X509_V_OK);
  if (check->peer->pin_count == 0 || is_pinned(check->peer, X509_STORE_CTX_get0_cert(context)))
    return 1;
  check->wrong_key = true;
  X509_STORE_CTX_set_error(context, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

/* ---- contexts ---------------------------------------------------------------------------------
 */

/* The authorities as they are now; what the context holds is a reference. */
static bool trust_authorities(const struct tls_peer *peer, SSL_CTX *context, enum tls_blame *blame,
                              char *why) {
  if (peer->hostname == NULL)
    return true;
  struct tls_trust *trust = tls_trust_open();
  X509_STORE *store = trust != NULL ? tls_trust_get(trust, peer->ca_file, why) : NULL;
  bool ok = store != NULL && SSL_CTX_set1_verify_cert_store(context, store) == 1;
  if (store == NULL && peer->ca_file != NULL)
    *blame = TLS_BLAME_CA;
  tls_trust_close(trust);
  return ok;
}

static bool make_context(const struct tls_peer *peer, SSL_CTX **made, enum tls_blame *blame,
                         char *why) {
  SSL_CTX *context = *made = SSL_CTX_new(TLS_client_method());
  snprintf(why, TLS_WHY, "out of memory");
  if (context == NULL)
    return false;
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); /* each connection is verified */
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
  SSL_CTX_set_cert_verify_callback(context, verify, NULL);
  /* SSL_CTX_set_alpn_protos() returns 0 if it worked. */
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_alpn_protos(context, DOT, sizeof DOT) == 0 &&
         trust_authorities(peer, context, blame, why);
}

static bool show_pair(const struct tls_peer *peer, SSL_CTX *context, enum tls_blame *blame,
                      char *why) {
  struct tls_pair pair = {.leaf = NULL};
  if (peer->cert_file == NULL)
    return true;
  ERR_clear_error();
  bool ok = tls_pair_read(&pair, peer->cert_file, peer->key_file, blame, why);
  ERR_clear_error();
  if (ok && !tls_pair_use(&pair, context)) {
    tls_pair_explain(&pair, peer->cert_file, peer->key_file, blame, why);
    ok = false;
  }
  tls_pair_close(&pair);
  return ok;
}

bool tls_client_reload(struct tls_client *client, enum tls_blame *blame, char *why) {
  const struct tls_peer *peer = client->peer;
  SSL_CTX *context = NULL;
  *blame = TLS_BLAME_NONE;
  if (!make_context(peer, &context, blame, why) || !show_pair(peer, context, blame, why)) {
    SSL_CTX_free(context);
    return false;
  }
  pthread_mutex_lock(&client->lock);
  SSL_CTX *old = client->context;
  client->context = context;
  pthread_mutex_unlock(&client->lock);
  SSL_CTX_free(old); /* sessions hold references of their own */
  return true;
}

struct tls_client *tls_client_open(const struct tls_peer *peer, enum tls_blame *blame, char *why) {
  struct tls_client *client = calloc(1, sizeof *client);
  snprintf(why, TLS_WHY, "out of memory");
  *blame = TLS_BLAME_NONE;
  if (client == NULL || pthread_mutex_init(&client->lock, NULL) != 0) {
    free(client);
    return NULL;
  }
  client->peer = peer;
  if (tls_client_reload(client, blame, why))
    return client;
  tls_client_close(client);
  return NULL;
}

void tls_client_close(struct tls_client *client) {
  if (client == NULL)
    return;
  SSL_CTX_free(client->context);
  pthread_mutex_destroy(&client->lock);
  free(client);
}

/* ---- connections ------------------------------------------------------------------------------
 */

SSL *tls_client_connect(struct tls_client *client, struct tls_check *check) {
  const char *hostname = client->peer->hostname;
  pthread_mutex_lock(&client->lock);
  SSL *ssl = SSL_new(client->context);
  pthread_mutex_unlock(&client->lock);
  *check = (struct tls_check){.peer = client->peer};
  if (ssl == NULL)
    return NULL;
  SSL_set_app_data(ssl, check);
  /* RFC 8310 section 8.1: names in subjectAltName alone. */
  SSL_set_hostflags(ssl,
                    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  if (hostname == NULL ||
      (SSL_set1_host(ssl, hostname) == 1 && SSL_set_tlsext_host_name(ssl, hostname) == 1))
    return ssl;
  SSL_free(ssl);
  return NULL;
}

bool tls_client_speaks_dot(const SSL *ssl) {
  const unsigned char *chosen;
  unsigned length;
  SSL_get0_alpn_selected(ssl, &chosen, &length);
  return length == DOT[0] && memcmp(chosen, DOT + 1, length) == 0;
}

static const char *error_text(unsigned long error) {
  switch (ERR_GET_REASON(error)) {
  case SSL_R_UNSUPPORTED_PROTOCOL:
  case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    return "it does not speak TLS 1.3";
  case SSL_R_WRONG_VERSION_NUMBER:
  case SSL_R_PACKET_LENGTH_TOO_LONG:
  case SSL_R_BAD_PACKET_LENGTH:
  case SSL_R_HTTP_REQUEST:
    return "it does not speak TLS";
  case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
    return "it does not take the protocol `dot` (ALPN)";
  case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    return "it wants a certificate of ours (cert_file)";
  case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
  case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
  case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
  case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
  case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
  case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    return "it does not accept our certificate (cert_file)";
  default:
    return ERR_reason_error_string(error);
  }
}

void tls_client_why(const struct tls_check *check, unsigned long error, char *to, size_t size) {
  const char *text = error_text(error);
  if (check->wrong_key)
    snprintf(to, size, "its key is none of the `pins`");
  else if (check->refusal.error == X509_V_ERR_HOSTNAME_MISMATCH)
    snprintf(to, size, "its certificate is not for %.200s", check->peer->hostname);
  else if (check->refusal.error != X509_V_OK)
    tls_refusal_text(&check->refusal, to, size);
  else
    snprintf(to, size, "%s", text != NULL ? text : "the handshake failed");
}
