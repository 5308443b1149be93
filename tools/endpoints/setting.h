/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `endpoints set` would make of a level in the regions that were picked, and whether that may
 * be done without --force.  All here is pure.
 */
#ifndef SLUICE_TOOLS_ENDPOINTS_SETTING_H
#define SLUICE_TOOLS_ENDPOINTS_SETTING_H

#include "base/buf.h"
#include "tools/endpoints/state.h"
#include "tools/endpoints/weights.h"

enum { SETTING_WHY = 1200 };

struct setting {
  int32_t *weights; /* entry_count: those of the state, with the new ones */
  bool *touched;    /* entry_count: gets a weight from the request */
};

/*
 * Computes it; false with one line in `why` (SETTING_WHY octets): a level or an endpoint that some
 * region does not have, named with these regions, or arithmetic that is refused.  setting_close()
 * frees in any case.
 */
bool setting_compute(struct setting *setting, const struct state *state, const bool *picked,
                     uint32_t level, const struct weights *weights, char *why);
void setting_close(struct setting *setting);

/*
 * Appends to `refusal` why it needs --force, and what would be served: levels left without a weight
 * above 0, as a whole or for a type.  Appends to `warnings` lines about what is so already, and
 * about endpoints that alone have a type, so that no weight moves it.  False without memory.
 */
bool setting_judge(const struct setting *setting, const struct state *state, const bool *picked,
                   uint32_t level, struct buf *refusal, struct buf *warnings);

#endif
