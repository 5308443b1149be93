/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Location data: from MaxMind DB files to one lookup per query.
 *
 * A `geo_db` holds the contents of a location file (GeoIP2 schema or the flat `country_code` one,
 * recognised by the data) and optionally of an AS number file.  It is read whole, checked and
 * closed at load, so that nothing done to the file afterwards (truncation, replacement) can hurt.
 *
 * A `geo_table` is layer 1 flattened for one distinct set of (region, atoms): address -> outcome.
 * Domains whose regions are the same share a table.  Tables and databases are immutable; any number
 * of threads may read them.
 */
#ifndef SLUICE_STEERING_GEO_H
#define SLUICE_STEERING_GEO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "steering/model.h"

struct geo_db;
struct geo_table;

/* An address as layer 1 sees it: IPv4-mapped IPv6 is already IPv4 (see geo_address_set6()). */
struct geo_address {
  uint8_t family; /* 4 or 6 */
  bool mapped;    /* came as ::ffff:a.b.c.d: scopes are reported plus 96 */
  uint8_t octets[16];
};

void geo_address_set4(struct geo_address *a, const uint8_t octets[4]);
void geo_address_set6(struct geo_address *a, const uint8_t octets[16]); /* unwraps mapped ones */

/* Where an address is.  Codes are lower case and empty when unknown. */
struct geo_location {
  char continent[4];
  char country[4];
  char subdivisions[2][8]; /* "gb-eng", "gb-wbk"; first level first */
  unsigned subdivision_count;
  uint32_t asn; /* 0: unknown */
};

/*
 * Loads the files (either may be NULL).  False with a one-line reason in `why` (512 bytes) when one
 * cannot be read, is damaged, or has neither schema.  The result is freed by geo_db_free().
 */
bool geo_db_load(const char *geo_path, const char *asn_path, struct geo_db **db, char *why);
void geo_db_free(struct geo_db *db);

/* The same from the contents of files (either may be NULL); they are copied.  For tests and
 * fuzzing. */
bool geo_db_load_memory(const void *geo, size_t geo_len, const void *asn, size_t asn_len,
                        struct geo_db **db, char *why);

/* When the location file was built (Unix time), 0 if there is none. */
uint64_t geo_db_build_epoch(const struct geo_db *db);

/* True if the location file has IPv6 data; an IPv4-only file leaves IPv6 clients unplaced. */
bool geo_db_has_ipv6(const struct geo_db *db);

/* Looks one address up, for explain and tests; all fields empty where unknown.  `db` may be NULL.
 */
void geo_db_locate(const struct geo_db *db, const struct geo_address *address,
                   struct geo_location *location);

/* A decision of layer 1.  The scope is the coarsest correct one for ECS, in bits of the address's
 * own family: 0 if the domain has only one region. */
struct geo_outcome {
  uint16_t region; /* index into the domain's regions */
  uint8_t scope;
};

/*
 * Builds the table for the regions of `domain`; NULL without memory.  `db` may be NULL: then only
 * net atoms and global decide.
 */
struct geo_table *geo_table_build(const struct geo_db *db, const struct steer_domain *domain);
void geo_table_free(struct geo_table *table);

/* Bytes held, for status. */
size_t geo_table_memory(const struct geo_table *table);

/* Two domains with equal keys may share a table (regions in the same order with the same atoms). */
bool geo_table_same_key(const struct steer_domain *a, const struct steer_domain *b);
uint64_t geo_table_key_hash(const struct steer_domain *domain);

/* The lookup of the serving path: no branches on configuration, no allocation.  O(levels of a
 * trie). */
struct geo_outcome geo_table_lookup(const struct geo_table *table,
                                    const struct geo_address *address);

/* Fetches into the cache where a lookup of this address begins. */
void geo_table_prefetch(const struct geo_table *table, const struct geo_address *address);

#endif
