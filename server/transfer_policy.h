/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may transfer a zone, and who is told when it changes: the `transfer:` settings of a zone, or
 * those of the machine for zones that have none.
 *
 * `allow` holds addresses and prefixes, `tsig` the name of a key; where both are given both must
 * hold, and where neither is, nobody may.  A policy is immutable, so any number of threads may read
 * it.
 */
#ifndef SLUICE_SERVER_TRANSFER_POLICY_H
#define SLUICE_SERVER_TRANSFER_POLICY_H

#include <jansson.h>
#include <stdatomic.h>

#include "base/name.h"
#include "server/address.h"
#include "server/tsig.h"

enum { TRANSFER_POLICY_WHY = 512, TRANSFER_POLICY_MAX = 1000 /* entries of a list */ };

struct transfer_net {
  uint8_t family; /* 4 or 6 */
  uint8_t bits;
  uint8_t octets[16];
};

struct transfer_policy {
  atomic_uint references; /* private */
  struct transfer_net *allow;
  size_t allow_count;
  struct address *notify;
  size_t notify_count;
  bool has_allow;
  bool has_key;
  uint8_t key[NAME_BUF]; /* wire name */
};

/*
 * Reads {"allow": [TEXT], "tsig": TEXT, "notify": [TEXT]}, each of them optional.  NULL with a
 * one-line reason in `why` (TRANSFER_POLICY_WHY octets).
 */
struct transfer_policy *transfer_policy_read(const json_t *json, char *why);

/* One more user of the policy; each calls transfer_policy_free(), in any thread.  NULL is allowed.
 */
struct transfer_policy *transfer_policy_take(struct transfer_policy *policy);
void transfer_policy_free(struct transfer_policy *policy);

/* The question; `policy` NULL allows nobody, `key` is the one that signed the request, or NULL. */
bool transfer_policy_allows(const struct transfer_policy *policy, const struct geo_address *client,
                            const struct tsig_key *key);

#endif
