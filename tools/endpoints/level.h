/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other providers of a domain: after a commit to our server they are brought level, by
 * sluice-syncd (tools/syncd/control.h), or where none runs by this process, if it may read the
 * configuration and the credentials.  What is not level then is told, and belongs into the audit
 * trail.
 */
#ifndef SLUICE_TOOLS_ENDPOINTS_LEVEL_H
#define SLUICE_TOOLS_ENDPOINTS_LEVEL_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/endpoints/state.h"
#include "tools/machine.h"

enum { LEVEL_WAIT_MS = 10000 };

/* Where to ask. */
struct level_place {
  const struct machine *machine; /* or NULL: the default places */
  const char *settings;          /* the machine's file, or NULL */
  const char *socket;            /* of our server */
};

/*
 * Brings a domain level everywhere; waits up to `wait_ms`.  A new reference: an array of {"name",
 * "level": bool, "error": TEXT|null}; empty where the domain is at no other provider.  NULL without
 * memory.  `state` is any one of the domain.
 */
json_t *level_bring(const struct level_place *place, const struct state *state, uint64_t wait_ms);

/* How it is now, as sluice-syncd knows it, with "holds" (a document of zones/domain_json.h, or
 * absent); empty where nobody knows. */
json_t *level_look(const struct level_place *place, const struct state *state);

/* Lets sluice-syncd, where one runs, look at once at what was behind: somebody else has brought it
 * level. */
void level_retry(const char *settings);

/* True if a list says that nobody could be asked. */
bool level_is_unknown(const json_t *providers);

/* Prints what differs at each provider of `providers` (of level_look()): a line for each weight,
 * and why.  Returns how many providers are not level. */
size_t level_show(FILE *out, const struct state *state, const json_t *providers);

#endif
