/* SPDX-License-Identifier: Apache-2.0 */
#include "server/tls_pair.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fs.h"

void tls_pair_close(struct tls_pair *pair) {
  X509_free(pair->leaf);
  sk_X509_pop_free(pair->chain, X509_free);
  EVP_PKEY_free(pair->key);
  *pair = (struct tls_pair){.leaf = NULL};
}

/* OpenSSL would ask on the terminal. */
static int no_password(char *buffer, int size, int writing, void *arg) {
  (void)buffer;
  (void)size;
  (void)writing;
  *(bool *)arg = true;
  return -1;
}

static bool read_chain(BIO *bio, struct tls_pair *pair) {
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

static bool read_text(const char *path, uint8_t **text, size_t *length, char *why) {
  char reason[FS_WHY];
  if (fs_read(path, TLS_FILE_MAX, text, length, reason))
    return true;
  snprintf(why, TLS_WHY, "%.400s; name a PEM file that this program may read", reason);
  return false;
}

bool tls_pair_read(struct tls_pair *pair, const char *cert_path, const char *key_path,
                   enum tls_blame *blame, char *why) {
  uint8_t *text = NULL;
  size_t length = 0;
  bool asked = false;
  *blame = TLS_BLAME_CERT;
  if (!read_text(cert_path, &text, &length, why))
    return false;
  BIO *bio = BIO_new_mem_buf(text, (int)length);
  bool ok = bio != NULL && read_chain(bio, pair);
  BIO_free(bio);
  free(text);
  if (!ok) {
    snprintf(why, TLS_WHY,
             "%.300s is not a certificate (chain) in PEM form; it must hold whole "
             "`-----BEGIN CERTIFICATE-----` blocks",
             cert_path);
    return false;
  }
  *blame = TLS_BLAME_KEY;
  if (!read_text(key_path, &text, &length, why))
    return false;
  bio = BIO_new_mem_buf(text, (int)length);
  if (bio != NULL)
    pair->key = PEM_read_bio_PrivateKey(bio, NULL, no_password, &asked);
  BIO_free(bio);
  OPENSSL_cleanse(text, length);
  free(text);
  if (pair->key == NULL)
    snprintf(why, TLS_WHY, "%.300s %s", key_path,
             asked ? "is encrypted; store the key without a password"
                   : "is not a private key in PEM form; it must hold a whole "
                     "`-----BEGIN PRIVATE KEY-----` block");
  return pair->key != NULL;
}

bool tls_pair_use(const struct tls_pair *pair, SSL_CTX *context) {
  return SSL_CTX_use_cert_and_key(context, pair->leaf, pair->key, pair->chain, 1) == 1;
}

void tls_pair_explain(const struct tls_pair *pair, const char *cert_path, const char *key_path,
                      enum tls_blame *blame, char *why) {
  char reason[128] = "unknown reason";
  unsigned long error = ERR_peek_last_error();
  if (X509_check_private_key(pair->leaf, pair->key) != 1) {
    *blame = TLS_BLAME_KEY;
    snprintf(why, TLS_WHY,
             "the key in %.180s is not that of the certificate in %.180s; name two files that "
             "belong together",
             key_path, cert_path);
    return;
  }
  *blame = TLS_BLAME_CERT;
  if (ERR_reason_error_string(error) != NULL)
    snprintf(reason, sizeof reason, "%s", ERR_reason_error_string(error));
  snprintf(why, TLS_WHY, "%.180s and %.180s cannot be used: %s", cert_path, key_path, reason);
}
