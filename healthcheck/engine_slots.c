/* SPDX-License-Identifier: Apache-2.0 */
/* One check: its probes, and what their results change. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/utf8.h"
#include "healthcheck/engine_private.h"

enum { NO_ENTRY = UINT32_MAX };

/* ---- numbers in the schedule ------------------------------------------------------------------
 */

static bool take_entry(struct engine *engine, struct slot *slot) {
  uint32_t entry = engine->entry_free;
  while (entry < engine->entry_cap && engine->entries[entry] != NULL)
    entry++;
  if (entry == engine->entry_cap) {
    uint32_t cap = engine->entry_cap > 0 ? engine->entry_cap * 2 : 64;
    struct slot **more = realloc(engine->entries, cap * sizeof *more);
    if (more == NULL)
      return false;
    memset(more + engine->entry_cap, 0, (cap - engine->entry_cap) * sizeof *more);
    engine->entries = more;
    engine->entry_cap = cap;
  }
  engine->entries[entry] = slot;
  engine->entry_free = entry + 1;
  slot->entry = entry;
  return true;
}

static void free_entry(struct slot *slot) {
  struct engine *engine = slot->engine;
  if (slot->entry == NO_ENTRY)
    return;
  schedule_remove(engine->schedule, slot->entry);
  engine->entries[slot->entry] = NULL;
  if (slot->entry < engine->entry_free)
    engine->entry_free = slot->entry;
  slot->entry = NO_ENTRY;
}

/* ---- slots ------------------------------------------------------------------------------------
 */

static void set_why(struct slot *slot, const char *text) {
  if (slot->why != NULL && strcmp(slot->why, text) == 0)
    return;
  char *copy = strdup(text);
  if (copy == NULL)
    return;
  utf8_repair(copy);
  free(slot->why);
  slot->why = copy;
}

struct slot *slot_open(struct engine *engine, const struct list_probe *probe,
                       const struct state_saved *saved, bool exact) {
  struct slot *slot = calloc(1, sizeof *slot);
  char *text = strdup(list_probe_text(probe));
  if (slot == NULL || text == NULL) {
    free(slot);
    free(text);
    return NULL;
  }
  *slot = (struct slot){.engine = engine,
                        .check = probe->check,
                        .target = probe->target,
                        .text = text,
                        .entry = NO_ENTRY,
                        .since = engine_clock()};
  list_check_ref(slot->check);
  if (slot->target.family == 0)
    slot->target.host = text;
  machine_open(&slot->machine, MACHINE_UNKNOWN);
  if (saved == NULL)
    return slot;
  machine_open(&slot->machine, (enum machine_state)saved->state);
  uint64_t now = engine_now(engine);
  if (exact && saved->held > 0)
    machine_hold(&slot->machine, now + saved->held);
  slot->judged = (uint8_t)machine_judge(&slot->machine, now);
  slot->held = machine_is_held(&slot->machine, now);
  slot->since = saved->since;
  set_why(slot, saved->why);
  return slot;
}

void slot_close(struct slot *slot) {
  if (slot == NULL)
    return;
  if (slot->running != NULL)
    probe_cancel(slot->running);
  free_entry(slot);
  machine_close(&slot->machine);
  list_check_unref(slot->check);
  free(slot->why);
  free(slot->text);
  free(slot);
}

bool slot_is_undecided(const struct slot *slot) {
  return slot->machine.state == MACHINE_UNKNOWN;
}

bool slot_start(struct slot *slot, uint32_t soon) {
  struct engine *engine = slot->engine;
  const struct check *check = slot->check->check;
  const struct schedule_timing timing = {.interval = check->interval,
                                         .tries =
                                             check->rise > check->fall ? check->rise : check->fall,
                                         .soon = soon};
  if (!take_entry(engine, slot))
    return false;
  if (schedule_add(engine->schedule, slot->entry, timing, slot_is_undecided(slot),
                   engine_now(engine)))
    return true;
  free_entry(slot);
  return false;
}

void slot_saved(const struct slot *slot, struct state_saved *saved) {
  uint64_t now = engine_now(slot->engine);
  bool held = machine_is_held(&slot->machine, now);
  *saved = (struct state_saved){.type = (uint8_t)slot->check->check->type,
                                .state = slot->machine.state,
                                .port = slot->check->check->port,
                                .held = held ? (uint32_t)(slot->machine.held_to - now) : 0,
                                .since = slot->since,
                                .why = slot->why};
  memcpy(saved->id, slot->check->id, sizeof saved->id);
}

/* ---- results ----------------------------------------------------------------------------------
 */

static void count_result(struct slot *slot, bool ok, uint64_t now) {
  struct engine *engine = slot->engine;
  engine->seen += !slot->seen;
  engine->failing -= slot->failing_since != 0;
  slot->seen = true;
  if (ok)
    slot->failing_since = 0;
  else if (slot->failing_since == 0)
    slot->failing_since = now;
  engine->failing += slot->failing_since != 0;
}

static void log_change(const struct slot *slot, uint8_t before) {
  static struct log_limit limit;
  const struct check *check = slot->check->check;
  const char *state = machine_state_name((enum machine_state)slot->judged);
  log_limited(&limit, LOG_LEVEL_NOTICE, "check %s of %s port %u: %s%s, was %s: %s",
              check_type_name(check->type), slot->text, (unsigned)check->port, state,
              slot->held ? " (held down after too many changes)" : "",
              machine_state_name((enum machine_state)before), slot->why ? slot->why : "");
}

static void take_result(struct slot *slot, const struct probe_result *result, uint64_t now) {
  struct engine *engine = slot->engine;
  uint8_t before = slot->judged;
  bool was_held = slot->held;
  bool other_why = slot->why == NULL || strcmp(slot->why, result->reason) != 0;
  slot->ok = result->ok;
  slot->at = engine_clock();
  set_why(slot, result->reason);
  count_result(slot, result->ok, now);
  machine_result(&slot->machine, slot->check->check, result->ok, now);
  slot->judged = (uint8_t)machine_judge(&slot->machine, now);
  slot->held = machine_is_held(&slot->machine, now);
  if (slot->judged != before) {
    slot->since = slot->at;
    log_change(slot, before);
  }
  if (slot->judged != before || slot->held != was_held)
    engine->dirty = true;
  if (slot->judged != before || slot->held != was_held || other_why)
    engine_tell_slot(slot);
}

/* The checker lacks something itself: nothing is known of the peer, but people see why. */
static void note_own_fault(struct slot *slot, const struct probe_result *result) {
  static struct log_limit limit;
  slot->engine->probes_void++;
  set_why(slot, result->reason);
  log_limited(&limit, LOG_LEVEL_WARNING, "check %s of %s port %u gave no result: %s",
              check_type_name(slot->check->check->type), slot->text,
              (unsigned)slot->check->check->port, result->reason);
}

static void on_done(void *arg, const struct probe_result *result) {
  struct slot *slot = arg;
  struct engine *engine = slot->engine;
  uint64_t now = engine_now(engine);
  slot->running = NULL;
  engine->probes_done++;
  /* A deadline that passed while this process did not run says nothing of the peer. */
  if (!result->ok && slot->started < engine->stalled_to)
    engine->probes_void++;
  else if (!result->ok && result->own_fault)
    note_own_fault(slot, result);
  else
    take_result(slot, result, now);
  schedule_done(engine->schedule, slot->entry, slot_is_undecided(slot), now);
  engine_pump(engine);
}

void slot_probe(struct slot *slot) {
  struct engine *engine = slot->engine;
  slot->started = engine_now(engine);
  slot->running = probe_start(engine->probes, slot->check->check, &slot->target, on_done, slot);
  if (slot->running != NULL)
    return;
  engine->probes_void++;
  schedule_done(engine->schedule, slot->entry, slot_is_undecided(slot), slot->started);
}
