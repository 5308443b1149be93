/* SPDX-License-Identifier: Apache-2.0 */
#include "server/overrides.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/name.h"
#include "server/migrate.h"
#include "server/override_json.h"
#include "server/override_target.h"
#include "server/overrides_private.h"

/* ---- what is to be changed --------------------------------------------------------------------
 */

void plan_add(struct plan *plan, struct fact_change change) {
  if (plan->count == plan->room) {
    size_t room = plan->room * 2 + 64;
    struct fact_change *changes = realloc(plan->changes, room * sizeof *changes);
    if (changes == NULL) {
      plan->failed = true;
      return;
    }
    plan->changes = changes;
    plan->room = room;
  }
  plan->changes[plan->count++] = change;
}

void overrides_tell(const struct overrides *o) {
  if (o->options.changed != NULL)
    o->options.changed(o->options.arg);
}

int64_t overrides_now(const struct overrides *o) {
  return o->options.now_ms() / 1000;
}

static void note_expiry(struct overrides *o, const struct store_override *override) {
  if (override->expires_at != 0 && (o->next_expiry == 0 || override->expires_at < o->next_expiry))
    o->next_expiry = override->expires_at;
}

bool overrides_is_over(const struct overrides *o, const struct store_override *override) {
  return override->expires_at != 0 && override->expires_at <= overrides_now(o);
}

/* ---- loading ----------------------------------------------------------------------------------
 */

struct loading {
  struct overrides *overrides;
  struct override_table table;
  bool failed;
};

static bool load_one(void *arg, const struct store_override *from) {
  struct loading *loading = arg;
  struct override *copy = override_copy(from);
  if (copy == NULL || !override_table_reserve(&loading->table, from->key.domain, 1)) {
    free(copy);
    loading->failed = true;
    return false;
  }
  if (overrides_is_over(loading->overrides, from))
    copy->state = OVERRIDE_EXPIRED;
  free(override_table_put(&loading->table, copy));
  return true;
}

bool overrides_load(struct overrides *o, struct override_table *table, char *why) {
  struct loading loading = {.overrides = o};
  bool ok = override_table_init(&loading.table);
  loading.failed = !ok;
  ok = ok && store_load(o->store, NULL, load_one, &loading, why);
  if (ok && !loading.failed) {
    *table = loading.table;
    return true;
  }
  if (loading.failed)
    snprintf(why, STORE_WHY, "out of memory, or the state store holds what is no domain name");
  override_table_close(&loading.table);
  return false;
}

static bool count_one(void *arg, const struct override_domain *domain, struct override *override) {
  struct overrides *o = arg;
  (void)domain;
  if (override->state != OVERRIDE_IN_FORCE)
    o->idle++;
  else
    note_expiry(o, &override->data);
  return true;
}

void overrides_recount(struct overrides *o) {
  o->idle = 0;
  o->next_expiry = 0;
  override_table_visit(&o->table, count_one, o);
}

static bool force_one(void *arg, const struct override_domain *domain, struct override *override) {
  struct overrides *o = arg;
  const struct store_key *key = &override->data.key;
  if (override->state != OVERRIDE_IN_FORCE || key->kind == STORE_WEIGHT)
    return true;
  uint8_t field = key->kind == STORE_STATUS ? FACT_MANUAL
                  : key->family == 4        ? FACT_FORCED4
                                            : FACT_FORCED6;
  return facts_force(o->options.facts, domain->owner, key->endpoint, field,
                     (uint8_t) override->data.value);
}

static bool open_all(struct overrides *o, char *why) {
  char *path = o->options.state != NULL ? fs_join(o->options.state, "store.db") : NULL;
  if (o->options.state != NULL && path == NULL) {
    snprintf(why, STORE_WHY, "out of memory");
    return false;
  }
  o->store = store_open(path, why);
  free(path);
  if (o->store == NULL || !migrate_status_file(o->options.state, o->store, why) ||
      !overrides_load(o, &o->table, why))
    return false;
  if (store_read_only(o->store))
    log_warning("the state store in %s cannot be written: what was set stays in force, nothing can "
                "be changed",
                o->options.state);
  overrides_recount(o);
  if (override_table_visit(&o->table, force_one, o))
    return true;
  snprintf(why, STORE_WHY, "out of memory");
  return false;
}

struct overrides *overrides_open(const struct overrides_options *options, char *why) {
  struct overrides *o = calloc(1, sizeof *o);
  if (o == NULL) {
    snprintf(why, STORE_WHY, "out of memory");
    return NULL;
  }
  o->options = *options;
  if (open_all(o, why))
    return o;
  overrides_close(o);
  return NULL;
}

void overrides_close(struct overrides *o) {
  if (o == NULL)
    return;
  override_table_close(&o->table);
  store_close(o->store);
  free(o);
}

/* ---- a new view -------------------------------------------------------------------------------
 */

static bool attach_one(void *arg, const struct override_domain *domain, struct override *override) {
  struct served *served = arg;
  struct fact_change change;
  if (override->state != OVERRIDE_IN_FORCE || override->data.key.kind != STORE_WEIGHT ||
      !override_target_find(served, domain->owner, &override->data.key, &change))
    return true;
  return facts_set_weight(served, change.domain, change.entry, override->data.value);
}

bool overrides_attach(struct overrides *o, struct served *served) {
  return override_table_visit(&o->table, attach_one, served);
}

struct search {
  struct overrides *overrides;
  const struct served *served;
};

static bool find_gone(void *arg, const struct override_domain *domain, struct override *override) {
  struct search *search = arg;
  struct fact_change change;
  if (override->state != OVERRIDE_IN_FORCE ||
      override_target_find(search->served, domain->owner, &override->data.key, &change))
    return true;
  static struct log_limit limit;
  char text[OVERRIDE_TEXT];
  override->state = OVERRIDE_GONE;
  search->overrides->idle++;
  log_limited(&limit, LOG_LEVEL_NOTICE,
              "%s, set by %s, is dropped: the configuration has no such target",
              override_text(&override->data, text), override->data.who);
  return true;
}

void overrides_published(struct overrides *o, struct served *served) {
  struct search search = {.overrides = o, .served = served};
  size_t before = o->idle;
  override_table_visit(&o->table, find_gone, &search);
  if (o->idle == before)
    return;
  overrides_clean_up(o);
  overrides_tell(o);
}

/* ---- commit -----------------------------------------------------------------------------------
 */

struct commit {
  struct overrides *overrides;
  const struct store_batch *batch;
  uint64_t *revision;
  int64_t *ids;
  bool repeated;
  enum store_result result;
};

/* The point of no return. */
static bool write_commit(void *arg, char *why) {
  struct commit *c = arg;
  c->result = store_commit(c->overrides->store, c->batch, c->revision, c->ids, &c->repeated, why);
  return c->result == STORE_DONE && !c->repeated;
}

/* Adds what a change does to facts; false if there is no such target. */
static bool plan_change(const struct overrides *o, const struct served *served,
                        struct store_change *change, struct plan *plan, char *why) {
  struct store_key *key = &change->override.key;
  const struct override_domain *domain = override_table_domain(&o->table, key->domain);
  struct fact_change fact;
  if (override_target_find(served, domain->owner, key, &fact)) {
    if (key->kind == STORE_WEIGHT)
      key->region = override_target_region(served, domain->owner, key->region);
    fact.value = override_target_value(key, change->drop ? NULL : &change->override);
    plan_add(plan, fact);
    return true;
  }
  if (change->drop && override_table_find(&o->table, key) != NULL)
    return true;
  override_target_missing(served, domain->owner, key, why);
  return false;
}

/* Makes sure that the table has the domain, but only of what is steered or was overridden. */
static bool know_domain(struct overrides *o, const struct served *served,
                        const struct store_key *key, char *why) {
  struct override_domain *domain = override_table_domain(&o->table, key->domain);
  uint8_t mixed[NAME_BUF], owner[NAME_BUF];
  const char *reason = "";
  if (domain != NULL) {
    domain->planned = 0;
    return true;
  }
  if (name_from_text(mixed, key->domain, strlen(key->domain), NULL, &reason) == 0) {
    snprintf(why, STORE_WHY, "`%.200s` is no domain name: %s", key->domain, reason);
    return false;
  }
  name_copy_lower(owner, mixed);
  if (load_find_domain(served, owner) < 0) {
    override_target_missing(served, owner, key, why);
    return false;
  }
  if (override_table_reserve(&o->table, key->domain, 0))
    return true;
  snprintf(why, STORE_WHY, "out of memory");
  return false;
}

/* Everything that may fail, before the store is asked. */
static bool prepare(struct overrides *o, const struct served *served, struct store_batch *batch,
                    struct store_change *changes, struct override **copies, struct plan *plan,
                    char *why) {
  for (size_t i = 0; i < batch->change_count; i++)
    if (!know_domain(o, served, &changes[i].override.key, why))
      return false;
  for (size_t i = 0; i < batch->change_count; i++) {
    if (!plan_change(o, served, &changes[i], plan, why))
      return false;
    if (changes[i].drop)
      continue;
    const char *name = changes[i].override.key.domain;
    struct override_domain *domain = override_table_domain(&o->table, name);
    if (!override_table_reserve(&o->table, name, ++domain->planned)) {
      snprintf(why, STORE_WHY, "out of memory");
      return false;
    }
    if (overrides_is_over(o, &changes[i].override)) {
      snprintf(why, STORE_WHY, "the time until which it shall hold is over already");
      return false;
    }
    copies[i] = override_copy(&changes[i].override);
    plan->failed = plan->failed || copies[i] == NULL;
  }
  if (plan->failed)
    snprintf(why, STORE_WHY, "out of memory");
  return !plan->failed;
}

/* After the commit: cannot fail. */
static void take_over(struct overrides *o, const struct store_batch *batch,
                      struct override **copies) {
  for (size_t i = 0; i < batch->change_count; i++) {
    struct override *old;
    if (copies[i] == NULL) {
      old = override_table_take(&o->table, &batch->changes[i].override.key);
    } else {
      note_expiry(o, &copies[i]->data);
      old = override_table_put(&o->table, copies[i]);
      copies[i] = NULL;
    }
    if (old != NULL && old->state != OVERRIDE_IN_FORCE)
      o->idle--;
    free(old);
  }
}

enum store_result overrides_commit(struct overrides *o, struct served *served,
                                   struct store_batch *batch, struct store_change *changes,
                                   uint64_t *revision, int64_t *ids, char *why) {
  struct plan plan = {.count = 0};
  struct commit commit = {
      .overrides = o, .batch = batch, .revision = revision, .ids = ids, .result = STORE_FAILED};
  struct fact_commit hook = {.run = write_commit, .arg = &commit};
  if (batch->request != NULL) { /* whatever its targets have become since */
    if (!store_find_request(o->store, batch->request, revision, ids, batch->audit_count, why))
      return STORE_FAILED;
    if (*revision != 0)
      return STORE_DONE;
  }
  struct override **copies = calloc(batch->change_count + 1, sizeof *copies);
  if (copies == NULL)
    snprintf(why, STORE_WHY, "out of memory");
  bool ok = copies != NULL && overrides_refresh(o, served, why) &&
            prepare(o, served, batch, changes, copies, &plan, why) &&
            facts_apply(o->options.facts, served, plan.changes, plan.count, &hook, why);
  if (ok) {
    take_over(o, batch, copies);
    if (batch->change_count > 0)
      overrides_tell(o);
  }
  for (size_t i = 0; copies != NULL && i < batch->change_count; i++)
    free(copies[i]);
  free(copies);
  free(plan.changes);
  return commit.result;
}

/* ---- looking ----------------------------------------------------------------------------------
 */

json_t *overrides_of_domain(const struct overrides *o, const char *name) {
  const struct override_domain *domain = override_table_domain(&o->table, name);
  json_t *list = json_array();
  for (size_t i = 0; list != NULL && domain != NULL && i < domain->count; i++)
    if (domain->items[i]->state == OVERRIDE_IN_FORCE &&
        json_array_append_new(list, override_json(&domain->items[i]->data, false)) != 0) {
      json_decref(list);
      return NULL;
    }
  return list;
}

struct listing {
  json_t *list;
  size_t most;
  bool failed;
};

static bool list_one(void *arg, const struct override_domain *domain, struct override *override) {
  struct listing *listing = arg;
  (void)domain;
  if (override->state != OVERRIDE_IN_FORCE)
    return true;
  if (json_array_append_new(listing->list, override_json(&override->data, true)) != 0) {
    listing->failed = true;
    return false;
  }
  return listing->most == 0 || json_array_size(listing->list) < listing->most;
}

json_t *overrides_list(const struct overrides *o, size_t most) {
  struct listing listing = {.list = json_array(), .most = most};
  override_table_visit(&o->table, list_one, &listing);
  if (!listing.failed)
    return listing.list;
  json_decref(listing.list);
  return NULL;
}

size_t overrides_count(const struct overrides *o) {
  return o->table.count - o->idle;
}

struct store *overrides_store(struct overrides *o) {
  return o->store;
}
