/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of steering/ share: domains from a few words, locations, test files.
 */
#ifndef SLUICE_TESTS_STEERING_HELPER_H
#define SLUICE_TESTS_STEERING_HELPER_H

#include <jansson.h>

#include "steering/layers.h"

/* An absolute path below tests/, from the environment or the build; a few may be in use at once. */
const char *helper_path(const char *relative);

/*
 * A domain from JSON of these members (all but "endpoints" and "regions" optional):
 *   endpoints: {name: ["192.0.2.1", "2001:db8::1"] | "host.example." | {addresses, enabled}}
 *   regions:   {name: [level...]}, a level is {endpoint: weight}; a name is an atom or is in
 * `defined` types, answers, ttl, draw_per `defined`: {name: [atom...]} or NULL.  Fails the test on
 * anything wrong.
 */
struct steer_domain *helper_domain(const json_t *json, const json_t *defined);

/* The same from text with ' for ". */
struct steer_domain *helper_domain_text(const char *text);

void helper_address(struct geo_address *address, const char *text);
struct geo_db *helper_db(const char *geo, const char *asn); /* relative to tests/, may be NULL */

#endif
