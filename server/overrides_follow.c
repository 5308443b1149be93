/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to overrides without a commit of ours: other writers, and time. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "server/override_json.h"
#include "server/override_target.h"
#include "server/overrides_private.h"

enum {
  TICK_MS = 1000,
  RETRY_SECONDS = 10, /* between attempts to clean up a store that cannot be written */
};

/* ---- other writers ----------------------------------------------------------------------------
 */

struct comparison {
  const struct served *served;
  const struct override_table *other;
  struct plan plan;
};

/* Ends what is not in the new table. */
static bool plan_end(void *arg, const struct override_domain *domain, struct override *override) {
  struct comparison *c = arg;
  struct fact_change change;
  const struct override *other = override_table_find(c->other, &override->data.key);
  if (override->state != OVERRIDE_IN_FORCE ||
      (other != NULL && other->state == OVERRIDE_IN_FORCE) ||
      !override_target_find(c->served, domain->owner, &override->data.key, &change))
    return true;
  change.value = override_target_value(&override->data.key, NULL);
  plan_add(&c->plan, change);
  return true;
}

static bool plan_put(void *arg, const struct override_domain *domain, struct override *override) {
  struct comparison *c = arg;
  struct fact_change change;
  if (override->state != OVERRIDE_IN_FORCE)
    return true;
  if (override_target_find(c->served, domain->owner, &override->data.key, &change)) {
    change.value = override->data.value;
    plan_add(&c->plan, change);
  } else {
    override->state = OVERRIDE_GONE;
  }
  return true;
}

bool overrides_refresh(struct overrides *o, struct served *served, char *why) {
  struct override_table next;
  struct comparison comparison = {.served = served, .other = &next};
  o->outdated = store_changed(o->store) || o->outdated;
  if (!o->outdated)
    return true;
  if (!overrides_load(o, &next, why))
    return false;
  override_table_visit(&o->table, plan_end, &comparison);
  override_table_visit(&next, plan_put, &comparison);
  struct plan *plan = &comparison.plan;
  bool ok =
      !plan->failed && facts_apply(o->options.facts, served, plan->changes, plan->count, NULL, why);
  if (plan->failed)
    snprintf(why, STORE_WHY, "out of memory");
  free(plan->changes);
  override_table_close(ok ? &o->table : &next);
  if (!ok)
    return false;
  o->table = next;
  o->outdated = false;
  overrides_recount(o);
  overrides_tell(o);
  return true;
}

/* ---- expiry -----------------------------------------------------------------------------------
 */

static bool plan_expiry(void *arg, const struct override_domain *domain,
                        struct override *override) {
  struct comparison *c = arg;
  struct fact_change change;
  if (override->state != OVERRIDE_EXPIRED ||
      !override_target_find(c->served, domain->owner, &override->data.key, &change))
    return true;
  change.value = override_target_value(&override->data.key, NULL);
  plan_add(&c->plan, change);
  return true;
}

static bool mark_expired(void *arg, const struct override_domain *domain,
                         struct override *override) {
  struct overrides *o = arg;
  (void)domain;
  if (override->state == OVERRIDE_IN_FORCE && overrides_is_over(o, &override->data)) {
    static struct log_limit limit;
    char text[OVERRIDE_TEXT];
    override->state = OVERRIDE_EXPIRED;
    log_limited(&limit, LOG_LEVEL_NOTICE, "%s, set by %s, has expired",
                override_text(&override->data, text), override->data.who);
  }
  return true;
}

/* The configuration's values hold again, whether the store can be written or not. */
static void expire(struct overrides *o, struct served *served) {
  static struct log_limit limit;
  struct comparison comparison = {.served = served};
  char why[FACTS_WHY] = "out of memory";
  override_table_visit(&o->table, mark_expired, o);
  override_table_visit(&o->table, plan_expiry, &comparison);
  struct plan *plan = &comparison.plan;
  bool ok =
      !plan->failed && facts_apply(o->options.facts, served, plan->changes, plan->count, NULL, why);
  free(plan->changes);
  if (!ok) { /* next_expiry stays: the next tick tries again */
    log_limited(&limit, LOG_LEVEL_ERROR, "overrides cannot be ended: %s", why);
    return;
  }
  overrides_recount(o);
  overrides_clean_up(o);
  overrides_tell(o);
}

/* Audit rows and drops for all that is out of force. */
struct cleaning {
  struct store_change *changes;
  size_t change_count;
  struct store_audit *audits;
  size_t audit_count;
  bool failed;
};

static bool clean_domain(struct cleaning *c, const struct override_domain *domain,
                         enum override_state state) {
  json_t *list = json_array();
  for (size_t i = 0; i < domain->count; i++) {
    const struct store_override *data = &domain->items[i]->data;
    if (domain->items[i]->state != state)
      continue;
    json_t *json = override_json(data, false);
    if (json == NULL || json_array_append_new(list, json) != 0)
      c->failed = true;
    c->changes[c->change_count++] = (struct store_change){.drop = true, .override = *data};
  }
  if (json_array_size(list) == 0) {
    json_decref(list);
    return !c->failed;
  }
  json_t *what = json_pack("{s:o}", "dropped", list);
  char *text = what != NULL ? json_dumps(what, JSON_COMPACT) : NULL;
  json_decref(what);
  if (text == NULL)
    return false;
  bool expired = state == OVERRIDE_EXPIRED;
  c->audits[c->audit_count++] = (struct store_audit){
      .who = "sluiced",
      .command = expired ? "expire" : "drop",
      .domain = domain->name,
      .what = text,
      .reason = expired ? "its time was over" : "the configuration has no such target any more"};
  return true;
}

static bool collect(const struct override_table *table, struct cleaning *c) {
  for (size_t i = 0; i < table->capacity; i++) {
    const struct override_domain *domain = table->slots[i];
    if (domain != NULL &&
        (!clean_domain(c, domain, OVERRIDE_EXPIRED) || !clean_domain(c, domain, OVERRIDE_GONE)))
      return false;
  }
  return true;
}

void overrides_clean_up(struct overrides *o) {
  static struct log_limit limit;
  struct cleaning c = {.changes = calloc(o->idle + 1, sizeof *c.changes),
                       .audits = calloc(o->idle + 1, sizeof *c.audits)};
  uint64_t revision;
  char why[STORE_WHY] = "out of memory";
  o->retry_at = overrides_now(o) + RETRY_SECONDS;
  bool ok = c.changes != NULL && c.audits != NULL && collect(&o->table, &c);
  const struct store_batch batch = {.at = overrides_now(o),
                                    .changes = c.changes,
                                    .change_count = c.change_count,
                                    .audits = c.audits,
                                    .audit_count = c.audit_count};
  ok = ok && store_commit(o->store, &batch, &revision, NULL, NULL, why) == STORE_DONE;
  for (size_t i = 0; ok && i < c.change_count; i++)
    free(override_table_take(&o->table, &c.changes[i].override.key));
  for (size_t i = 0; i < c.audit_count; i++)
    free((void *)(uintptr_t)c.audits[i].what);
  free(c.changes);
  free(c.audits);
  if (ok)
    o->idle = 0;
  else
    log_limited(&limit, LOG_LEVEL_ERROR,
                "%zu overrides are out of force, but cannot be taken out of the store: %s", o->idle,
                why);
}

unsigned overrides_tick(struct overrides *o, struct served *served) {
  static struct log_limit limit;
  char why[STORE_WHY];
  if (!overrides_refresh(o, served, why))
    log_limited(&limit, LOG_LEVEL_ERROR, "what another program has set is not taken over: %s", why);
  int64_t at = overrides_now(o);
  if (o->next_expiry != 0 && o->next_expiry <= at)
    expire(o, served);
  else if (o->idle > 0 && (at >= o->retry_at || o->retry_at > at + RETRY_SECONDS))
    overrides_clean_up(o);
  if (o->next_expiry == 0)
    return TICK_MS;
  int64_t left = o->next_expiry * 1000 - o->options.now_ms();
  return left > TICK_MS ? TICK_MS : left < 1 ? 1 : (unsigned)left;
}
