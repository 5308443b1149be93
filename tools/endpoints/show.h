/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A domain as `endpoints get` shows it: as text of at most 80 columns, and as JSON.
 */
#ifndef SLUICE_TOOLS_ENDPOINTS_SHOW_H
#define SLUICE_TOOLS_ENDPOINTS_SHOW_H

#include <jansson.h>
#include <stdio.h>

#include "tools/endpoints/effect.h"
#include "tools/endpoints/state.h"

struct show {
  const struct state *state;
  const struct effect *effect;
  const char *owner; /* the team, or NULL */
  int64_t now;       /* Unix seconds */
  bool colour;
  bool offline; /* no server runs: what it will do */
};

void show_text(FILE *out, const struct show *show);

/* A new reference, or NULL without memory. */
json_t *show_json(const struct show *show);

/* "weight 5", "disabled", "health forced down for IPv6"; `out` holds SHOW_OVERRIDE octets. */
enum { SHOW_OVERRIDE = 64 };
const char *show_override_text(const struct store_override *override, char *out);

/* "by ann (ssh 192.0.2.7), since TIME (5 min ago), until TIME: reason", appended to `out`. */
void show_author(struct buf *out, const struct store_override *override, int64_t now);

/* An override as JSON, a new reference. */
json_t *show_override_json(const struct store_override *override);

#endif
