/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which authorities are trusted, and in which words a certificate is refused.
 *
 * A file of authorities is parsed once and shared by all who name it; it is read again when it has
 * changed.  While a changed file cannot be read, what it held before goes on being used: a renewal
 * that is half done must not take endpoints out.
 */
#ifndef SLUICE_BASE_TLS_TRUST_H
#define SLUICE_BASE_TLS_TRUST_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

enum { TLS_TRUST_WHY = 160 };

struct tls_trust;

struct tls_trust *tls_trust_open(void); /* NULL without memory */
void tls_trust_close(struct tls_trust *trust);

/* The authorities of a PEM file, or the system's for NULL.  Borrowed until the next call; NULL with
 * one line in `why` (TLS_TRUST_WHY octets). */
X509_STORE *tls_trust_get(struct tls_trust *trust, const char *ca_file, char *why);

/* What is known of a certificate that was refused. */
struct tls_refusal {
  int error; /* one of X509_V_ERR_; 0: none */
  int depth; /* 0: the server's own */
  char day[16];
};

/* Makes `context` trust `store` only; `refusal` (outlives the context) is filled in when a
 * certificate is refused. */
void tls_trust_use(SSL_CTX *context, X509_STORE *store, struct tls_refusal *refusal);

/* In a callback of SSL_CTX_set_cert_verify_callback(): false, with `refusal` filled in, if it is
 * refused. */
bool tls_trust_verify(X509_STORE_CTX *context, struct tls_refusal *refusal);

/* "certificate expired on 2026-01-02", ... */
void tls_refusal_text(const struct tls_refusal *refusal, char *to, size_t size);

#endif
