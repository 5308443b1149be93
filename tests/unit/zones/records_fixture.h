/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records files for tests, made from master files; ends the test program on any mistake in them.
 */
#ifndef SLUICE_TESTS_RECORDS_FIXTURE_H
#define SLUICE_TESTS_RECORDS_FIXTURE_H

#include "zones/records.h"

struct records_fixture {
  struct model *model;
  struct buf bytes;
  struct records records;
};

/* `text` is a whole master file of the zone `origin`, its serial included. */
struct records_fixture *records_fixture_new(const char *origin, const char *text);
void records_fixture_free(struct records_fixture *fixture);

/* One record as "owner TTL type data" with the data in hex, for comparisons; static storage. */
const char *records_fixture_text(const struct records_rr *rr);

/* The checksum of a file that was changed on purpose. */
void records_fixture_seal(uint8_t *file, size_t size);

#endif
