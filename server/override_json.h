/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One override for people and programs.
 */
#ifndef SLUICE_SERVER_OVERRIDE_JSON_H
#define SLUICE_SERVER_OVERRIDE_JSON_H

#include <jansson.h>

#include "base/store.h"

enum { OVERRIDE_TEXT = 512 };

/* "weight 5 of one at cdn.example.com. (region eu, level 1)", shortened; returns `out`. */
const char *override_text(const struct store_override *override, char out[OVERRIDE_TEXT]);

/* As `domain` of the control socket lists it (server/control.h), with "domain" if that is asked
 * for; NULL without memory. */
json_t *override_json(const struct store_override *override, bool domain);

#endif
