/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts of subjects, for servers and alerts. */
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "healthcheck/engine_private.h"

enum { WHY = 256 };

struct verdict {
  uint8_t state; /* enum feed_state */
  int64_t since;
  char why[WHY];
};

/* ---- one subject ------------------------------------------------------------------------------
 */

/* The text of a verdict is that of one address: of the first that is unlike healthy, if any. */
static void say_why(struct verdict *out, const struct slot *slot, uint32_t count, uint32_t down) {
  const char *why = slot->why != NULL ? slot->why : "not probed yet";
  const char *held = slot->held ? "held down after too many changes; last: " : "";
  if (count == 1)
    snprintf(out->why, sizeof out->why, "%s%s", held, why);
  else if (down == 0)
    snprintf(out->why, sizeof out->why, "%s: %s", slot->text, why);
  else
    snprintf(out->why, sizeof out->why, "%u of %u addresses down; %s: %s%s", down, count,
             slot->text, held, why);
}

/* Down when all are down, up if one is up. */
static struct verdict judge(const struct engine *engine, const uint32_t *probes, uint32_t count) {
  struct verdict out = {.state = FEED_NONE};
  uint32_t up = 0, down = 0;
  int64_t up_since = 0, down_since = 0;
  const struct slot *shown = NULL;
  for (uint32_t i = 0; i < count; i++) {
    const struct slot *slot = engine->slots[probes[i]];
    if (slot->judged == MACHINE_UP && (up++ == 0 || slot->since < up_since))
      up_since = slot->since;
    if (slot->judged == MACHINE_DOWN && (down++ == 0 || slot->since > down_since))
      down_since = slot->since;
    if (shown == NULL || (slot->judged == MACHINE_DOWN && shown->judged != MACHINE_DOWN))
      shown = slot;
  }
  if (shown == NULL)
    return out;
  out.state = up > 0 ? FEED_UP : down == count ? FEED_DOWN : FEED_UNKNOWN;
  out.since = up > 0 ? up_since : down == count ? down_since : shown->since;
  say_why(&out, shown, count, down);
  return out;
}

static void judge_subject(const struct engine *engine, const struct list_subject *subject,
                          struct verdict out[2]) {
  out[0] = judge(engine, subject->probes, subject->count4);
  out[1] =
      subject->host ? out[0] : judge(engine, subject->probes + subject->count4, subject->count6);
}

static void to_feed(const struct verdict verdicts[2], struct feed_verdict out[2]) {
  for (int i = 0; i < 2; i++)
    out[i] = (struct feed_verdict){
        .state = verdicts[i].state, .since = verdicts[i].since, .why = verdicts[i].why};
}

static enum steer_health to_health(uint8_t state) {
  return state == FEED_UP ? HEALTH_UP : state == FEED_DOWN ? HEALTH_DOWN : HEALTH_UNKNOWN;
}

static void tell_alerts(struct engine *engine, const struct list_subject *subject,
                        const struct verdict verdicts[2], bool quiet) {
  if (engine->alerts == NULL || engine->alerts_list != engine->list)
    return;
  const char *why = verdicts[verdicts[0].state != FEED_DOWN && verdicts[1].state == FEED_DOWN].why;
  if (verdicts[0].state == FEED_NONE)
    why = verdicts[1].why;
  for (uint32_t i = 0; i < subject->target_count; i++) {
    const struct list_target *target = &subject->targets[i];
    if (engine->list->domains[target->domain].alerts != NULL)
      alerts_health(engine->alerts, target->domain, target->endpoint, to_health(verdicts[0].state),
                    to_health(verdicts[1].state), why, quiet);
  }
}

/* ---- changes ----------------------------------------------------------------------------------
 */

static void remember(struct told *told, const struct verdict verdicts[2]) {
  for (int i = 0; i < 2; i++) {
    told->state[i] = verdicts[i].state;
    told->why[i] = XXH3_64bits(verdicts[i].why, strlen(verdicts[i].why));
  }
}

static void tell_subject(struct engine *engine, uint32_t index) {
  const struct list_subject *subject = &engine->list->subjects[index];
  struct told *told = &engine->told[index];
  struct told before = *told;
  struct verdict verdicts[2];
  judge_subject(engine, subject, verdicts);
  remember(told, verdicts);
  bool other = false, known = false, reason = false;
  for (int i = 0; i < 2; i++) {
    bool differs = before.state[i] != told->state[i];
    other = other || differs;
    known = known || (differs && before.state[i] != FEED_UNKNOWN);
    /* Why something is down may change while it is down; other reasons are no news. */
    reason = reason || (told->state[i] == FEED_DOWN && before.why[i] != told->why[i]);
  }
  if (!other && !reason)
    return;
  struct feed_verdict out[2];
  to_feed(verdicts, out);
  if (engine->feed != NULL)
    feed_change(engine->feed, index, out);
  if (other)
    tell_alerts(engine, subject, verdicts, !known);
}

void engine_tell_slot(struct slot *slot) {
  const struct list *list = slot->engine->list;
  for (uint32_t i = list->probe_first[slot->probe]; i < list->probe_first[slot->probe + 1]; i++)
    tell_subject(slot->engine, list->probe_subject[i]);
}

void engine_tell_all(struct engine *engine) {
  for (uint32_t i = 0; i < engine->list->subject_count; i++) {
    struct verdict verdicts[2];
    judge_subject(engine, &engine->list->subjects[i], verdicts);
    remember(&engine->told[i], verdicts);
    tell_alerts(engine, &engine->list->subjects[i], verdicts, true);
  }
}

/* ---- snapshots --------------------------------------------------------------------------------
 */

void engine_snapshot(void *arg, struct feed *feed) {
  const struct engine *engine = arg;
  const struct list *list = engine->list;
  for (uint32_t i = 0; list != NULL && i < list->subject_count; i++) {
    const struct list_subject *subject = &list->subjects[i];
    const char *targets[FEED_TARGETS][2];
    struct verdict verdicts[2];
    struct feed_verdict out[2];
    judge_subject(engine, subject, verdicts);
    to_feed(verdicts, out);
    for (uint32_t t = 0; t < subject->target_count;) {
      size_t count = 0;
      for (; count < FEED_TARGETS && t < subject->target_count; t++, count++) {
        const struct list_domain *domain = &list->domains[subject->targets[t].domain];
        targets[count][0] = domain->name;
        targets[count][1] = domain->endpoints[subject->targets[t].endpoint];
      }
      feed_subject(feed, i, targets, count, out);
    }
  }
}
