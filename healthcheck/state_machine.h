/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a check is judged as, from the results of its probes: healthy after `rise` successes in a
 * row, unhealthy after `fall` failures in a row.  Pure: time comes from outside (monotonic ms).
 *
 * Damping: where the judgement changed `changes` times within `within` ms, it is held down:
 * whatever the results say, it counts as unhealthy for `hold` ms.  Changes that go on below the
 * hold begin it anew.
 */
#ifndef SLUICE_HEALTHCHECK_STATE_MACHINE_H
#define SLUICE_HEALTHCHECK_STATE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "healthcheck/check.h"

enum machine_state { MACHINE_UNKNOWN, MACHINE_UP, MACHINE_DOWN };

struct machine {
  uint8_t state;     /* enum machine_state: what the results say */
  uint16_t run;      /* results in a row that were equal, at most UINT16_MAX */
  bool run_ok;       /* what they were */
  uint64_t held_to;  /* ms; 0: not held */
  uint64_t *changes; /* ring of the times of the last changes, made when needed */
  uint32_t change_count, change_at;
};

/* A machine that knows nothing, or (`state` not unknown) goes on from what is known. */
void machine_open(struct machine *machine, enum machine_state state);
void machine_close(struct machine *machine);

/* Other settings: the state stays, counting begins anew. */
void machine_settle(struct machine *machine);

/* Held down until then, as known from before. */
void machine_hold(struct machine *machine, uint64_t until);

/* Takes a result in. */
void machine_result(struct machine *machine, const struct check *check, bool ok, uint64_t now);

/* The judgement: what is told to others. */
enum machine_state machine_judge(const struct machine *machine, uint64_t now);

/* True while it is held down by damping. */
bool machine_is_held(const struct machine *machine, uint64_t now);

/* "unknown", "up", "down". */
const char *machine_state_name(enum machine_state state);

#endif
