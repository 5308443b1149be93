/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the TSIG tests share: key tables and messages in hex.
 */
#ifndef SLUICE_TESTS_TSIG_HELPER_H
#define SLUICE_TESTS_TSIG_HELPER_H

#include <criterion/criterion.h>
#include <stdio.h>

#include "server/tsig.h"
#include "tsig_vectors.h"

enum { MESSAGE_MAX = 4096 };

struct message {
  size_t len;
  uint8_t octets[MESSAGE_MAX];
};

static inline struct message message_of(const char *hex) {
  struct message m = {.len = strlen(hex) / 2};
  cr_assert_leq(m.len, MESSAGE_MAX);
  for (size_t i = 0; i < m.len; i++) {
    unsigned octet = 0;
    cr_assert_eq(sscanf(hex + 2 * i, "%2x", &octet), 1);
    m.octets[i] = (uint8_t)octet;
  }
  return m;
}

/* A table with one key of the vectors' secret. */
static inline struct tsig_keys *keys_with(struct tsig_policy policy, const char *name,
                                          const char *algorithm) {
  char why[TSIG_WHY] = "";
  struct tsig_keys *keys = tsig_keys_new(&policy);
  cr_assert_not_null(keys);
  bool added = tsig_keys_add(keys, name, algorithm, VECTOR_SECRET, why);
  cr_assert_eq(added, true, "%s", why);
  return keys;
}

static inline struct tsig_keys *keys_of(const char *algorithm) {
  return keys_with((struct tsig_policy){.allow_md5 = true}, "Transfer.Example.", algorithm);
}

static inline const struct tsig_key *key_in(const struct tsig_keys *keys, const char *name) {
  uint8_t wire[NAME_BUF];
  const char *why = NULL;
  cr_assert_gt(name_from_text(wire, name, strlen(name), NULL, &why), 0u);
  return tsig_keys_find(keys, wire);
}

/* The message with its ending TSIG cut off, so that it can be signed again. */
static inline struct message unsigned_of(const struct message *m, size_t stripped_len) {
  struct message out = *m;
  out.len = stripped_len;
  out.octets[11]--;
  return out;
}

#endif
