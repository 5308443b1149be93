/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section `secondary:` of the machine's settings: zones that are transferred from a primary.
 *
 *   secondary:
 *     - zone: example.net
 *       primaries: [192.0.2.1, "2001:db8::1@5353"]
 *       tsig: key-name            # of `keys:`; requests are signed and answers must be
 *       max-records: 2000000      # of one transfer
 *       max-octets: 536870912
 */
#ifndef SLUICE_SERVER_SETTINGS_SECONDARY_H
#define SLUICE_SERVER_SETTINGS_SECONDARY_H

#include "base/name.h"
#include "server/address.h"
#include "zones/yaml_tree.h"

enum {
  SETTINGS_SECONDARY_ZONES = 100000,
  SETTINGS_SECONDARY_PRIMARIES = 16,
  SETTINGS_SECONDARY_RECORDS = 2000000,
  SETTINGS_SECONDARY_OCTETS = 512 << 20,
};

struct settings_secondary_zone {
  uint8_t apex[NAME_BUF]; /* lower case, padded */
  struct address *primaries;
  size_t primary_count;
  uint8_t key[NAME_BUF]; /* wire name of the TSIG key */
  bool has_key;
  uint64_t max_records;
  uint64_t max_octets;
};

struct settings_secondary {
  struct settings_secondary_zone *zones; /* sorted by apex */
  size_t count;
};

/*
 * Reads the value of `secondary:` in the file `path`.  False with one line in `why` (512 octets):
 * "path:line:column: what".  settings_secondary_close() is needed in every case.
 */
bool settings_secondary_read(struct settings_secondary *secondary, const char *path,
                             const struct yaml_node *value, char *why);
void settings_secondary_close(struct settings_secondary *secondary);

#endif
