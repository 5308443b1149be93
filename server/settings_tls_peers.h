/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section `tls:` of the machine's settings: how primaries are reached over TLS, by name.
 *
 *   tls:
 *     to-primary:
 *       hostname: ns1.example.net            # in its certificate
 *       ca_file: /etc/sluice/primary-ca.pem  # the system's authorities unless given
 *       pins: [BASE64]                       # SHA-256 of its public key; beside or instead
 *       cert_file: /etc/sluice/our.pem       # what we show, if it wants to know us
 *       key_file: /etc/sluice/our.key
 */
#ifndef SLUICE_SERVER_SETTINGS_TLS_PEERS_H
#define SLUICE_SERVER_SETTINGS_TLS_PEERS_H

#include "server/settings_place.h"
#include "server/tls_client.h"
#include "zones/yaml_tree.h"

enum { SETTINGS_TLS_PEERS = 1000, SETTINGS_TLS_PINS = 16 };

struct settings_tls_peer {
  char *name;
  struct tls_peer peer;
  struct settings_place at, ca_at, cert_at, key_at; /* of the name and of these files */
};

struct settings_tls_peers {
  const char *path;                /* the settings file */
  struct settings_tls_peer *items; /* in the order of the file */
  size_t count;
};

/*
 * Reads the value of `tls:` in the file `path`, which must live as long as `peers`; the files that
 * it names are left alone.  False with one line in `why` (512 octets): "path:line:column: what".
 * settings_tls_peers_close() is needed in every case.
 */
bool settings_tls_peers_read(struct settings_tls_peers *peers, const char *path,
                             const struct yaml_node *value, char *why);
void settings_tls_peers_close(struct settings_tls_peers *peers);

/* Puts before the reason in `why` (512 octets) what it is about, a file of a peer:
 * "path:line:column: tls `name`: key: reason". */
void settings_tls_peers_blame(const struct settings_tls_peers *peers,
                              const struct settings_tls_peer *peer, enum tls_blame file, char *why);

/* NULL if there is none of this name. */
const struct settings_tls_peer *settings_tls_peers_find(const struct settings_tls_peers *peers,
                                                        const char *name);

#endif
