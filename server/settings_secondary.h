/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section `secondary:` of the machine's settings: zones that are transferred from a primary.
 *
 *   secondary:
 *     - zone: example.net
 *       primaries: [192.0.2.1, "2001:db8::1@5353"]
 *       tls: to-primary           # of `tls:`; for all primaries that have none of their own
 *       tsig: key-name            # of `keys:`; requests are signed and answers must be
 *       max-records: 2000000      # of one transfer
 *       max-octets: 536870912
 *     - zone: example.org
 *       primaries: [{address: 192.0.2.1, tls: to-primary}, {address: 192.0.2.2, tls: to-other}]
 */
#ifndef SLUICE_SERVER_SETTINGS_SECONDARY_H
#define SLUICE_SERVER_SETTINGS_SECONDARY_H

#include "base/name.h"
#include "server/address.h"
#include "server/settings_tls_peers.h"
#include "server/tsig.h"
#include "zones/yaml_tree.h"

enum {
  SETTINGS_SECONDARY_ZONES = 100000,
  SETTINGS_SECONDARY_PRIMARIES = 16,
  SETTINGS_SECONDARY_RECORDS = 2000000,
  SETTINGS_SECONDARY_OCTETS = 512 << 20,
};

struct settings_primary {
  struct address address;
  const struct settings_tls_peer *tls; /* NULL: in clear text */
};

struct settings_secondary_zone {
  uint8_t apex[NAME_BUF];   /* lower case, padded */
  struct settings_place at; /* of its name */
  struct settings_primary *primaries;
  size_t primary_count;
  uint8_t key[NAME_BUF]; /* wire name of the TSIG key */
  bool has_key;
  struct settings_place key_at;
  uint64_t max_records;
  uint64_t max_octets;
};

struct settings_secondary {
  const char *path;                      /* the settings file */
  struct settings_place at;              /* of the section */
  struct settings_secondary_zone *zones; /* sorted by apex */
  size_t count;
};

/*
 * Reads the value of `secondary:` in the file `path`; `peers` are those of `tls:`, and both must
 * live as long.  False with one line in `why` (512 octets): "path:line:column: what".
 * settings_secondary_close() is needed in every case.
 */
bool settings_secondary_read(struct settings_secondary *secondary,
                             const struct settings_tls_peers *peers, const char *path,
                             const struct yaml_node *value, char *why);
void settings_secondary_close(struct settings_secondary *secondary);

/* Once all is read: the key that signs for a zone, NULL for none.  False with one line in `why` if
 * `keys` does not have it. */
bool settings_secondary_key(const struct settings_secondary *secondary,
                            const struct settings_secondary_zone *zone,
                            const struct tsig_keys *keys, const struct tsig_key **key, char *why);

/* Zones are kept in `state:`, the folder `state` (NULL: not set).  False with one line in `why`. */
bool settings_secondary_has_state(const struct settings_secondary *secondary, const char *state,
                                  char *why);

#endif
