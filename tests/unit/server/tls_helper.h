/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates and keys for tests, made when they are needed. */
#ifndef SLUICE_TESTS_TLS_HELPER_H
#define SLUICE_TESTS_TLS_HELPER_H

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static inline void tls_require(bool condition) {
  if (!condition)
    abort();
}

static inline X509 *make_certificate(EVP_PKEY *key, long days) {
  X509 *cert = X509_new();
  tls_require(cert != NULL);
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert), -86400);
  X509_gmtime_adj(X509_getm_notAfter(cert), days * 86400);
  X509_NAME *name = X509_get_subject_name(cert);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"ns.test", -1, -1, 0);
  X509_set_issuer_name(cert, name);
  X509_set_pubkey(cert, key);
  tls_require(X509_sign(cert, key, EVP_sha256()) > 0);
  return cert;
}

/* Writes a new self-signed pair; `password` encrypts the key unless NULL. */
static inline void write_pair(const char *cert_path, const char *key_path, long days,
                              const char *password) {
  EVP_PKEY *key = EVP_EC_gen("P-256");
  tls_require(key != NULL);
  X509 *cert = make_certificate(key, days);
  FILE *file = fopen(cert_path, "w");
  tls_require(file != NULL && PEM_write_X509(file, cert) == 1 && fclose(file) == 0);
  file = fopen(key_path, "w");
  tls_require(file != NULL &&
              PEM_write_PrivateKey(file, key, password != NULL ? EVP_aes_128_cbc() : NULL, NULL, 0,
                                   NULL, (void *)(uintptr_t)password) == 1 &&
              fclose(file) == 0);
  X509_free(cert);
  EVP_PKEY_free(key);
}

#endif
