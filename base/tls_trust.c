/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tls_trust.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/log.h"

enum {
  FILES = 64, /* of authorities at a time; the one not used for longest gives way */
  FILE_LIMIT = 16 << 20,
};

struct trust_file {
  char *path; /* NULL: the system's */
  X509_STORE *store;
  struct stat stat; /* of what was read, or failed to be read, last */
  uint64_t used;
};

struct tls_trust {
  struct trust_file files[FILES];
  size_t count;
  uint64_t uses;
};

struct tls_trust *tls_trust_open(void) {
  return calloc(1, sizeof(struct tls_trust));
}

static void clear_file(struct trust_file *file) {
  free(file->path);
  X509_STORE_free(file->store);
  memset(file, 0, sizeof *file);
}

void tls_trust_close(struct tls_trust *trust) {
  if (trust == NULL)
    return;
  for (size_t i = 0; i < trust->count; i++)
    clear_file(&trust->files[i]);
  free(trust);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static X509_STORE *make_store(void) {
  X509_STORE *store = X509_STORE_new();
  /* An intermediate authority in the file is trusted as such, as curl has it. */
  if (store != NULL)
    X509_STORE_set_flags(store, X509_V_FLAG_TRUSTED_FIRST | X509_V_FLAG_PARTIAL_CHAIN);
  return store;
}

static size_t add_certificates(X509_STORE *store, const uint8_t *pem, size_t length) {
  BIO *bio = BIO_new_mem_buf(pem, (int)length);
  size_t count = 0;
  X509 *certificate;
  while (bio != NULL && (certificate = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL)) != NULL) {
    count += X509_STORE_add_cert(store, certificate) == 1;
    X509_free(certificate);
  }
  BIO_free(bio);
  ERR_clear_error(); /* the end of the file is an error of PEM_read_bio_X509_AUX() */
  return count;
}

static X509_STORE *read_file(const char *path, char *why) {
  char problem[FS_WHY];
  uint8_t *pem = NULL;
  size_t length = 0;
  if (!fs_read(path, FILE_LIMIT, &pem, &length, problem)) {
    snprintf(why, TLS_TRUST_WHY, "ca_file: %.140s", problem);
    return NULL;
  }
  X509_STORE *store = make_store();
  if (store != NULL && add_certificates(store, pem, length) == 0) {
    X509_STORE_free(store);
    store = NULL;
    snprintf(why, TLS_TRUST_WHY, "ca_file: no certificate in %.120s", path);
  } else if (store == NULL) {
    snprintf(why, TLS_TRUST_WHY, "out of memory");
  }
  free(pem);
  return store;
}

static X509_STORE *read_system(char *why) {
  X509_STORE *store = make_store();
  if (store != NULL && X509_STORE_set_default_paths(store) == 1)
    return store;
  X509_STORE_free(store);
  ERR_clear_error();
  snprintf(why, TLS_TRUST_WHY, "the system's authorities cannot be read");
  return NULL;
}

/* ---- the cache --------------------------------------------------------------------------------
 */

static bool is_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static struct trust_file *find(struct tls_trust *trust, const char *path) {
  for (size_t i = 0; i < trust->count; i++) {
    struct trust_file *file = &trust->files[i];
    if (file->path == NULL ? path == NULL : path != NULL && strcmp(file->path, path) == 0)
      return file;
  }
  struct trust_file *file = &trust->files[0];
  if (trust->count < FILES) {
    file = &trust->files[trust->count++];
  } else {
    for (size_t i = 1; i < FILES; i++)
      if (trust->files[i].used < file->used)
        file = &trust->files[i];
    clear_file(file);
  }
  file->path = path != NULL ? strdup(path) : NULL;
  return path == NULL || file->path != NULL ? file : NULL;
}

X509_STORE *tls_trust_get(struct tls_trust *trust, const char *ca_file, char *why) {
  struct stat now;
  memset(&now, 0, sizeof now);
  struct trust_file *file = find(trust, ca_file);
  if (file == NULL) {
    snprintf(why, TLS_TRUST_WHY, "out of memory");
    return NULL;
  }
  file->used = ++trust->uses;
  /* Of the system's folder, OpenSSL looks up each authority when it is needed. */
  (void)stat(ca_file != NULL ? ca_file : X509_get_default_cert_dir(), &now);
  if (file->store != NULL && is_same(&now, &file->stat))
    return file->store;
  file->stat = now;
  X509_STORE *store = ca_file != NULL ? read_file(ca_file, why) : read_system(why);
  if (store != NULL) {
    X509_STORE_free(file->store);
    file->store = store;
  } else if (file->store != NULL) {
    log_warning("%s; the authorities read before stay in use", why);
  }
  return file->store;
}

/* ---- in a handshake ---------------------------------------------------------------------------
 */

static void note_day(const ASN1_TIME *time, struct tls_refusal *refusal) {
  struct tm tm;
  refusal->day[0] = '\0';
  if (time != NULL && ASN1_TIME_to_tm(time, &tm) == 1)
    strftime(refusal->day, sizeof refusal->day, "%Y-%m-%d", &tm);
}

bool tls_trust_verify(X509_STORE_CTX *context, struct tls_refusal *refusal) {
  if (X509_verify_cert(context) == 1)
    return true;
  refusal->error = X509_STORE_CTX_get_error(context);
  if (refusal->error == X509_V_OK)
    refusal->error = X509_V_ERR_UNSPECIFIED;
  refusal->depth = X509_STORE_CTX_get_error_depth(context);
  const X509 *certificate = X509_STORE_CTX_get_current_cert(context);
  if (certificate != NULL)
    note_day(refusal->error == X509_V_ERR_CERT_NOT_YET_VALID ? X509_get0_notBefore(certificate)
                                                             : X509_get0_notAfter(certificate),
             refusal);
  return false;
}

static int verify(X509_STORE_CTX *context, void *arg) {
  return tls_trust_verify(context, arg);
}

void tls_trust_use(SSL_CTX *context, X509_STORE *store, struct tls_refusal *refusal) {
  memset(refusal, 0, sizeof *refusal);
  /* Not as the context's own store, which libcurl fills or replaces later. */
  SSL_CTX_set1_verify_cert_store(context, store);
  SSL_CTX_set_cert_verify_callback(context, verify, refusal);
}

void tls_refusal_text(const struct tls_refusal *refusal, char *to, size_t size) {
  const char *whose = refusal->depth > 0 ? "certificate of the authority" : "certificate";
  switch (refusal->error) {
  case X509_V_ERR_CERT_HAS_EXPIRED:
    snprintf(to, size, "%s expired on %s", whose, refusal->day);
    return;
  case X509_V_ERR_CERT_NOT_YET_VALID:
    snprintf(to, size, "%s is not valid before %s", whose, refusal->day);
    return;
  case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    snprintf(to, size, "certificate not trusted: self-signed");
    return;
  case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    snprintf(to, size, "certificate not trusted: signed by an unknown authority");
    return;
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
  case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    snprintf(to, size,
             "certificate not trusted: unknown authority, or an intermediate certificate is "
             "not sent");
    return;
  default:
    snprintf(to, size, "%s not accepted: %s", whose, X509_verify_cert_error_string(refusal->error));
  }
}
