/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in the served configuration an override has its effect.
 */
#ifndef SLUICE_SERVER_OVERRIDE_TARGET_H
#define SLUICE_SERVER_OVERRIDE_TARGET_H

#include "base/store.h"
#include "server/facts.h"

/*
 * Fills all of `change` but its value; false if there is no such target.  `owner` is the key's
 * domain in wire format.
 */
bool override_target_find(const struct served *served, const uint8_t *owner,
                          const struct store_key *key, struct fact_change *change);

/* The value of a change that puts an override into force, or (NULL) ends it. */
int32_t override_target_value(const struct store_key *key, const struct store_override *override);

/* The region as the configuration spells it, or NULL. */
const char *override_target_region(const struct served *served, const uint8_t *owner,
                                   const char *region);

/* Says what of a key does not exist, with the nearest names (STORE_WHY octets). */
void override_target_missing(const struct served *served, const uint8_t *owner,
                             const struct store_key *key, char *why);

/* The steered name that is nearest to `text`, as " (did you mean `x`?)"; else "". */
enum { OVERRIDE_NEAR = 320 };
const char *override_target_near(const struct served *served, const char *text,
                                 char out[OVERRIDE_NEAR]);

#endif
