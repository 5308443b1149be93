/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A domain as the server tells it, for the tests of tools/endpoints/.
 *
 *   cdn.example.: a and b have both families, four only IPv4
 *   global   level 1: a 100, b 0, four 0; level 2: b 1
 *   eu       level 1: a 1, b 1, four 2
 */
#ifndef SLUICE_TESTS_STATE_FIXTURE_H
#define SLUICE_TESTS_STATE_FIXTURE_H

#include "tools/endpoints/state.h"

/* `overrides` and `health` are JSON arrays with ' for ", or NULL. */
struct state *state_fixture(const char *overrides, const char *health);

/* JSON text with ' for ". */
json_t *state_fixture_json(const char *text);

#endif
