/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is it the endpoints, or is it us?  When nearly all checks begin to fail within a short time, on
 * several machines, the checker itself has most likely lost its network.
 */
#include <string.h>

#include "base/log.h"
#include "healthcheck/engine_private.h"

enum {
  LEAST_CHECKS = 10,
  LEAST_TARGETS = 3,
  BEGIN_PERCENT = 90, /* of the checks with a result fail */
  END_PERCENT = 80,
  RECENT_MS = 30000, /* or two intervals: so long ago at most they began to fail */
};

static bool is_recent(const struct slot *slot, uint64_t now) {
  uint64_t reach = 2 * (uint64_t)slot->check->check->interval;
  if (reach < RECENT_MS)
    reach = RECENT_MS;
  return slot->failing_since != 0 && now - slot->failing_since <= reach;
}

/* True if at least half of all checks began to fail recently, and not only on a few machines. */
static bool failed_together(const struct engine *engine, uint64_t now) {
  const char *targets[LEAST_TARGETS];
  uint32_t recent = 0, different = 0;
  for (uint32_t i = 0; i < engine->list->probe_count; i++) {
    const struct slot *slot = engine->slots[i];
    if (!is_recent(slot, now))
      continue;
    recent++;
    bool is_new = true;
    for (uint32_t t = 0; t < different; t++)
      is_new = is_new && strcmp(targets[t], slot->text) != 0;
    if (is_new && different < LEAST_TARGETS)
      targets[different++] = slot->text;
  }
  return recent >= LEAST_CHECKS && recent >= engine->list->probe_count / 2 &&
         different == LEAST_TARGETS;
}

void engine_isolation_tick(struct engine *engine, uint64_t now) {
  if (engine->list == NULL)
    return;
  uint64_t percent = engine->seen > 0 ? (uint64_t)engine->failing * 100 / engine->seen : 0;
  bool isolated = engine->isolated;
  if (isolated)
    isolated = engine->seen > 0 && percent >= END_PERCENT;
  else
    isolated = engine->seen >= LEAST_CHECKS && engine->seen >= engine->list->probe_count / 2 &&
               percent >= BEGIN_PERCENT && failed_together(engine, now);
  if (isolated == engine->isolated)
    return;
  engine->isolated = isolated;
  if (isolated)
    log_warning("%u of %u checks fail together: this checker seems to be cut off from its network",
                engine->failing, engine->seen);
  else
    log_notice("the checks do not fail together any more");
  if (engine->alerts != NULL)
    alerts_isolated(engine->alerts, isolated);
}
