/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/state_machine.h"

#include <stdlib.h>

const char *machine_state_name(enum machine_state state) {
  static const char *const names[] = {
      [MACHINE_UNKNOWN] = "unknown", [MACHINE_UP] = "up", [MACHINE_DOWN] = "down"};
  return names[state];
}

void machine_open(struct machine *machine, enum machine_state state) {
  *machine = (struct machine){.state = (uint8_t)state};
}

void machine_close(struct machine *machine) {
  free(machine->changes);
  machine->changes = NULL;
}

void machine_settle(struct machine *machine) {
  machine->run = 0;
  machine->held_to = 0;
  machine->change_count = machine->change_at = 0;
  machine_close(machine);
}

void machine_hold(struct machine *machine, uint64_t until) {
  machine->held_to = until;
}

bool machine_is_held(const struct machine *machine, uint64_t now) {
  return machine->held_to > now;
}

enum machine_state machine_judge(const struct machine *machine, uint64_t now) {
  return machine_is_held(machine, now) ? MACHINE_DOWN : (enum machine_state)machine->state;
}

/* Notes a change, and holds if it is the last of too many.  Without memory there is no damping. */
static void count_change(struct machine *machine, const struct check *check, uint64_t now) {
  uint32_t limit = check->damping.changes;
  if (limit == 0)
    return;
  if (machine->changes == NULL)
    machine->changes = calloc(limit, sizeof *machine->changes);
  if (machine->changes == NULL)
    return;
  machine->changes[machine->change_at] = now;
  machine->change_at = (machine->change_at + 1) % limit;
  if (machine->change_count < limit)
    machine->change_count++;
  /* With a full ring, the oldest is where the next one goes. */
  if (machine->change_count == limit &&
      now - machine->changes[machine->change_at] <= check->damping.within)
    machine->held_to = now + check->damping.hold;
}

void machine_result(struct machine *machine, const struct check *check, bool ok, uint64_t now) {
  if (machine->run == 0 || machine->run_ok != ok)
    machine->run = 0;
  machine->run_ok = ok;
  if (machine->run < UINT16_MAX)
    machine->run++;
  if (machine->held_to <= now)
    machine->held_to = 0;
  enum machine_state wanted = ok ? MACHINE_UP : MACHINE_DOWN;
  if (machine->state == wanted || machine->run < (ok ? check->rise : check->fall))
    return;
  bool first = machine->state == MACHINE_UNKNOWN;
  machine->state = (uint8_t)wanted;
  if (!first)
    count_change(machine, check, now);
}
