/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The networks of the test databases as plain lists, independent of the code under test, and the
 * points between which nothing can change: enough to check regions and scopes exactly.
 */
#ifndef SLUICE_TESTS_STEERING_GEO_POINTS_H
#define SLUICE_TESTS_STEERING_GEO_POINTS_H

#include <jansson.h>

#include "steering/geo.h"

typedef unsigned __int128 u128;

struct points {
  unsigned bits; /* 32 or 128 */
  u128 *items;   /* sorted, different, the first is 0 */
  size_t count;
};

/* The first and the next-to-last address of each net of both files and of the domain's net atoms;
 * in IPv6 the IPv4 ones too, as they appear in ::/96, 6to4 and Teredo. */
void points_open(struct points *points, unsigned bits, const struct steer_domain *domain);
void points_close(struct points *points);

void points_address(const struct points *points, u128 number, struct geo_address *address);

/* What locations.json says about an address, by comparing with every net of the list. */
const json_t *points_place(const json_t *list, const struct geo_address *address);

#endif
