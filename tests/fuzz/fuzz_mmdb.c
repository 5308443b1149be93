/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as a location file and as an AS number file; what loads must also flatten and answer. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "steering/fence.h"
#include "steering/layers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const struct geo_db *db, const struct steer_domain *d, const uint8_t *key) {
  struct geo_table *table = geo_table_build(db, d);
  if (!table)
    return;
  for (int family = 4; family <= 6; family += 2) {
    struct geo_address address;
    struct geo_location at;
    if (family == 4)
      geo_address_set4(&address, key);
    else
      geo_address_set6(&address, key);
    geo_db_locate(db, &address, &at);
    if (geo_table_lookup(table, &address).region != fence_match(d, &at, &address))
      abort();
  }
  geo_table_free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char name[] = "r";
  static struct steer_atom atoms[] = {{.kind = ATOM_GLOBAL},
                                      {.kind = ATOM_CONTINENT, .code = "na"},
                                      {.kind = ATOM_COUNTRY, .code = "ca"},
                                      {.kind = ATOM_SUBDIVISION, .code = "ca-qc"},
                                      {.kind = ATOM_ASN, .asn = 64500},
                                      {.kind = ATOM_NET, .net_family = 4, .net_bits = 1}};
  enum { COUNT = sizeof atoms / sizeof *atoms };
  struct steer_region regions[COUNT];
  memset(regions, 0, sizeof regions);
  for (size_t i = 0; i < COUNT; i++)
    regions[i] = (struct steer_region){.name = name, .atom_count = 1, .atoms = &atoms[i]};
  struct steer_domain domain = {.region_count = COUNT, .regions = regions};
  uint8_t key[16] = {198, 51, 100, 1};
  if (size >= sizeof key)
    memcpy(key, data, sizeof key);
  for (int as_asn = 0; as_asn < 2; as_asn++) {
    struct geo_db *db;
    char why[512];
    bool ok = as_asn ? geo_db_load_memory(NULL, 0, data, size, &db, why)
                     : geo_db_load_memory(data, size, NULL, 0, &db, why);
    if (ok)
      look(db, &domain, key);
    geo_db_free(ok ? db : NULL);
  }
  return 0;
}
