/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections of the machine's settings that are about transfers:
 *
 *   keys:                               # TSIG keys (RFC 8945), by name
 *     transfer-key: {algorithm: hmac-sha256, secret: BASE64}
 *     other-key: {secret_file: /etc/sluice/other-key}      # hmac-sha256 unless given
 *   transfer: {allow: [192.0.2.53], tsig: transfer-key, notify: [192.0.2.53]}
 *                                       # for zones that have no `transfer:` of their own
 *
 * Secrets end up in the key table only: no message quotes them.
 */
#ifndef SLUICE_SERVER_SETTINGS_TRANSFER_H
#define SLUICE_SERVER_SETTINGS_TRANSFER_H

#include "server/settings_place.h"
#include "server/transfer_policy.h"
#include "server/tsig.h"
#include "zones/yaml_tree.h"

struct settings_transfer {
  struct tsig_keys *keys;         /* never NULL after settings_transfer_init() */
  struct transfer_policy *policy; /* for zones without one, or NULL */
  const char *path;               /* the settings file, once there is a policy */
  struct settings_place key_at;   /* of the key that the policy names */
};

enum { SETTINGS_TRANSFER_WHY = 512 };

/* No keys, no policy.  False without memory. */
bool settings_transfer_init(struct settings_transfer *transfer);

/* True if a key of the settings file belongs to this part: "keys" or "transfer". */
bool settings_transfer_knows(const char *key);

/*
 * Takes one of the two sections; `path` is the settings file, for messages.  False with a one-line
 * reason in `why` (SETTINGS_TRANSFER_WHY octets).  The texts of secrets in the tree are wiped.
 * `path` must live as long.
 */
bool settings_transfer_take(struct settings_transfer *transfer, const char *path,
                            const struct yaml_pair *section, char *why);

/* Once all is read: false with one line in `why` if `transfer:` names a key that `keys:` does not
 * have, with which nobody could sign. */
bool settings_transfer_has_key(const struct settings_transfer *transfer, char *why);

/* The key that a value `tsig:` at this place of the file names; NULL with one line in `why` if
 * there is none. */
const struct tsig_key *settings_transfer_find_key(const struct tsig_keys *keys, const uint8_t *name,
                                                  const char *path, struct settings_place at,
                                                  char *why);

void settings_transfer_close(struct settings_transfer *transfer);

#endif
