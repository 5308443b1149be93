/* SPDX-License-Identifier: Apache-2.0 */
#include "server/tsig_key.h"

#include <openssl/core_names.h>
#include <openssl/params.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

struct tsig_keys {
  struct tsig_policy policy;
  size_t count;
  struct tsig_key **list; /* by canonical order of the names */
};

/* RFC 8945 section 6. */
static const struct algorithm {
  const char *text;
  const char *wire;
  const char *digest; /* as OpenSSL calls it */
  uint8_t mac_len;
} ALGORITHMS[TSIG_ALGORITHMS] = {
    [TSIG_HMAC_MD5] = {"hmac-md5", "\010hmac-md5\007sig-alg\003reg\003int", "MD5", 16},
    [TSIG_HMAC_SHA1] = {"hmac-sha1", "\011hmac-sha1", "SHA1", 20},
    [TSIG_HMAC_SHA224] = {"hmac-sha224", "\013hmac-sha224", "SHA224", 28},
    [TSIG_HMAC_SHA256] = {"hmac-sha256", "\013hmac-sha256", "SHA256", 32},
    [TSIG_HMAC_SHA384] = {"hmac-sha384", "\013hmac-sha384", "SHA384", 48},
    [TSIG_HMAC_SHA512] = {"hmac-sha512", "\013hmac-sha512", "SHA512", 64},
};
static const char MD5_LONG_TEXT[] = "hmac-md5.sig-alg.reg.int";

const char *tsig_algorithm_text(enum tsig_algorithm algorithm) {
  return ALGORITHMS[algorithm].text;
}

struct tsig_keys *tsig_keys_new(const struct tsig_policy *policy) {
  struct tsig_keys *keys = calloc(1, sizeof *keys);
  if (keys != NULL)
    keys->policy = *policy;
  return keys;
}

const struct tsig_key *tsig_key_hold(const struct tsig_key *key) {
  if (key != NULL)
    atomic_fetch_add_explicit(&((struct tsig_key *)(uintptr_t)key)->references, 1,
                              memory_order_relaxed);
  return key;
}

void tsig_key_drop(const struct tsig_key *key) {
  struct tsig_key *k = (struct tsig_key *)(uintptr_t)key;
  if (k == NULL || atomic_fetch_sub_explicit(&k->references, 1, memory_order_acq_rel) != 1)
    return;
  EVP_MAC_CTX_free(k->mac); /* wipes the secret */
  free(k);
}

void tsig_keys_free(struct tsig_keys *keys) {
  if (keys == NULL)
    return;
  for (size_t i = 0; i < keys->count; i++)
    tsig_key_drop(keys->list[i]);
  free(keys->list);
  free(keys);
}

/* Where a name is in the list, or would be. */
static size_t key_position(const struct tsig_keys *keys, const uint8_t *name, bool *found) {
  size_t low = 0, high = keys->count;
  *found = false;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = name_compare(keys->list[middle]->name, name);
    if (order == 0)
      *found = true;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

const struct tsig_key *tsig_keys_find(const struct tsig_keys *keys, const uint8_t *name) {
  bool found;
  size_t at = key_position(keys, name, &found);
  return found ? keys->list[at] : NULL;
}

const struct tsig_key *tsig_keys_at(const struct tsig_keys *keys, size_t index) {
  return index < keys->count ? keys->list[index] : NULL;
}

const uint8_t *tsig_key_name(const struct tsig_key *key) {
  return key->name;
}

enum tsig_algorithm tsig_key_algorithm(const struct tsig_key *key) {
  return key->algorithm;
}

static bool text_is(const char *text, const char *want) {
  size_t len = strlen(want);
  return strncasecmp(text, want, len) == 0 && (text[len] == '\0' || strcmp(text + len, ".") == 0);
}

static bool algorithm_parse(const char *text, enum tsig_algorithm *algorithm) {
  for (unsigned i = 0; i < TSIG_ALGORITHMS; i++) {
    if (text_is(text, ALGORITHMS[i].text)) {
      *algorithm = (enum tsig_algorithm)i;
      return true;
    }
  }
  *algorithm = TSIG_HMAC_MD5;
  return text_is(text, MD5_LONG_TEXT);
}

bool tsig_algorithm_known(const char *text) {
  enum tsig_algorithm algorithm;
  return algorithm_parse(text, &algorithm);
}

static bool is_base64(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
         c == '/';
}

/* Decodes base64 (RFC 4648 section 4); returns the length, or 0 with *wrong set. */
static size_t secret_parse(const char *text, uint8_t out[TSIG_SECRET_MAX + 3], const char **wrong) {
  size_t len = strlen(text), padding = 0;
  while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
    padding++;
  *wrong = "the secret is not base64 (letters, digits, + and /, padded with = to a multiple of 4)";
  if (len % 4 != 0)
    return 0;
  for (size_t i = 0; i < len - padding; i++) {
    if (!is_base64(text[i]))
      return 0;
  }
  *wrong = "the secret is empty";
  if (len == 0)
    return 0;
  *wrong = "the secret is longer than 512 octets";
  if (len / 4 * 3 - padding > TSIG_SECRET_MAX)
    return 0;
  *wrong = NULL;
  EVP_DecodeBlock(out, (const unsigned char *)text, (int)len);
  return len / 4 * 3 - padding;
}

/* A keyed HMAC that digests are copied from, or NULL. */
static EVP_MAC_CTX *mac_keyed(const char *digest, const uint8_t *secret, size_t len) {
  char name[16];
  snprintf(name, sizeof name, "%s", digest);
  OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
                         OSSL_PARAM_construct_end()};
  EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
  EVP_MAC_CTX *ctx = hmac != NULL ? EVP_MAC_CTX_new(hmac) : NULL;
  EVP_MAC_free(hmac); /* the context keeps its own reference */
  if (ctx != NULL && EVP_MAC_init(ctx, secret, len, params) == 1)
    return ctx;
  EVP_MAC_CTX_free(ctx);
  return NULL;
}

static struct tsig_key *key_make(enum tsig_algorithm algorithm, const uint8_t *secret,
                                 size_t secret_len) {
  const struct algorithm *a = &ALGORITHMS[algorithm];
  struct tsig_key *key = calloc(1, sizeof *key);
  if (key == NULL)
    return NULL;
  atomic_init(&key->references, 1);
  key->algorithm = algorithm;
  key->algorithm_name = (const uint8_t *)a->wire;
  key->algorithm_len = (uint8_t)(strlen(a->wire) + 1);
  key->mac_len = a->mac_len;
  key->mac = mac_keyed(a->digest, secret, secret_len);
  if (key->mac != NULL)
    return key;
  free(key);
  return NULL;
}

static bool list_insert(struct tsig_keys *keys, struct tsig_key *key, size_t at) {
  struct tsig_key **list = reallocarray(keys->list, keys->count + 1, sizeof(struct tsig_key *));
  if (list == NULL)
    return false;
  memmove(list + at + 1, list + at, (keys->count - at) * sizeof(struct tsig_key *));
  list[at] = key;
  keys->list = list;
  keys->count++;
  return true;
}

__attribute__((format(printf, 3, 4))) static bool refuse(char *why, const char *name,
                                                         const char *format, ...) {
  int n = snprintf(why, TSIG_WHY, "TSIG key `%.255s`: ", name);
  va_list args;
  va_start(args, format);
  vsnprintf(why + n, TSIG_WHY - (size_t)n, format, args);
  va_end(args);
  return false;
}

bool tsig_keys_add(struct tsig_keys *keys, const char *name, const char *algorithm,
                   const char *secret, char *why) {
  uint8_t wire[NAME_BUF], octets[TSIG_SECRET_MAX + 3];
  const char *wrong = NULL;
  enum tsig_algorithm a;
  bool found;
  if (name_from_text(wire, name, strlen(name), NULL, &wrong) == 0)
    return refuse(why, name, "the name is wrong: %s", wrong);
  size_t at = key_position(keys, wire, &found);
  if (found)
    return refuse(why, name, "a key of that name is there already");
  if (!algorithm_parse(algorithm, &a))
    return refuse(why, name,
                  "unknown algorithm `%.60s`; use hmac-sha256, or hmac-sha1, -sha224, -sha384, "
                  "-sha512, -md5",
                  algorithm);
  if (a == TSIG_HMAC_MD5 && !keys->policy.allow_md5)
    return refuse(why, name, "hmac-md5 is switched off because it is weak; use hmac-sha256");
  size_t len = secret_parse(secret, octets, &wrong);
  if (len == 0)
    return refuse(why, name, "%s", wrong);
  struct tsig_key *key = key_make(a, octets, len);
  explicit_bzero(octets, sizeof octets);
  if (key == NULL)
    return refuse(why, name, "OpenSSL does not offer %s here", tsig_algorithm_text(a));
  key->policy = keys->policy;
  key->name_len = (uint8_t)name_copy_lower(key->name, wire);
  if (list_insert(keys, key, at))
    return true;
  tsig_key_drop(key);
  return refuse(why, name, "no memory");
}
