/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A certificate with its chain, and its key, from PEM files.
 */
#ifndef SLUICE_SERVER_TLS_PAIR_H
#define SLUICE_SERVER_TLS_PAIR_H

#include <openssl/ssl.h>
#include <stdbool.h>

enum {
  TLS_WHY = 512,
  TLS_FILE_MAX = 64 << 10, /* of a PEM file; bounds what a handshake sends, too */
};

struct tls_pair {
  X509 *leaf;
  STACK_OF(X509) * chain; /* what stands after it in the file */
  EVP_PKEY *key;
};

/* The file that is to blame for a failure. */
enum tls_blame { TLS_BLAME_NONE, TLS_BLAME_CERT, TLS_BLAME_KEY, TLS_BLAME_CA };

/* Reads both files into a pair that is all zero.  False with a one-line reason in `why` (TLS_WHY
 * octets) and the file that it is about in `blame`; tls_pair_close() is needed in every case. */
bool tls_pair_read(struct tls_pair *pair, const char *cert_path, const char *key_path,
                   enum tls_blame *blame, char *why);
void tls_pair_close(struct tls_pair *pair);

/* Makes a context show the certificate; false if it cannot. */
bool tls_pair_use(const struct tls_pair *pair, SSL_CTX *context);

/* Why it cannot: from the error that OpenSSL left. */
void tls_pair_explain(const struct tls_pair *pair, const char *cert_path, const char *key_path,
                      enum tls_blame *blame, char *why);

#endif
