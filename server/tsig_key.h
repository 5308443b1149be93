/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys as server/tsig.c sees them; private to server/tsig*.c.
 */
#ifndef SLUICE_SERVER_TSIG_KEY_H
#define SLUICE_SERVER_TSIG_KEY_H

#include <openssl/evp.h>
#include <stdatomic.h>

#include "server/tsig.h"

struct tsig_key {
  atomic_uint references;
  enum tsig_algorithm algorithm;
  struct tsig_policy policy;
  uint8_t name_len;
  uint8_t algorithm_len;
  const uint8_t *algorithm_name; /* wire name */
  size_t mac_len;
  EVP_MAC_CTX *mac; /* keyed, never fed: copied for each digest */
  uint8_t name[NAME_BUF];
};

/* Adds a reference and returns the key; gives one back.  NULL is allowed. */
const struct tsig_key *tsig_key_hold(const struct tsig_key *key);
void tsig_key_drop(const struct tsig_key *key);

#endif
