/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes a list into use.  What is checked as before goes on as if nothing had happened; what has
 * other settings keeps its state; the rest ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "healthcheck/engine_private.h"
#include "healthcheck/index.h"

enum { FEW = 10, FEW_MS = 250 };

/* A list on its way into use. */
struct installation {
  struct engine *engine;
  struct list *list;
  struct slot **slots;
  struct told *told;
  bool *kept; /* by the old list's probes */
  struct index old;
  uint32_t added;
};

static uint64_t hash_probe(const struct index *index, uint8_t family, const char *text,
                           const char *id) {
  uint64_t hash = index_hash(index, text, strlen(text));
  return index_mix(hash, index_hash(index, id, LIST_ID - 1) ^ family);
}

struct slot_key {
  const struct engine *engine;
  const struct list_probe *probe;
};

static bool same_slot(const void *arg, uint32_t position) {
  const struct slot_key *key = arg;
  const struct slot *slot = key->engine->slots[position];
  return slot->target.family == key->probe->target.family &&
         strcmp(slot->check->id, key->probe->check->id) == 0 &&
         strcmp(slot->text, list_probe_text(key->probe)) == 0;
}

static uint32_t old_count(const struct engine *engine) {
  return engine->list != NULL ? engine->list->probe_count : 0;
}

static bool index_old(struct installation *in) {
  index_open(&in->old);
  for (uint32_t i = 0; i < old_count(in->engine); i++) {
    const struct slot *slot = in->engine->slots[i];
    uint64_t hash = hash_probe(&in->old, slot->target.family, slot->text, slot->check->id);
    if (!index_add(&in->old, hash, i))
      return false;
  }
  return true;
}

/* Finds the slots of what is checked as before. */
static void keep_slots(struct installation *in) {
  for (uint32_t i = 0; i < in->list->probe_count; i++) {
    struct list_probe *probe = &in->list->probes[i];
    struct slot_key key = {.engine = in->engine, .probe = probe};
    uint64_t hash =
        hash_probe(&in->old, probe->target.family, list_probe_text(probe), probe->check->id);
    uint32_t found = index_find(&in->old, hash, same_slot, &key);
    if (found == INDEX_NONE)
      continue;
    in->slots[i] = in->engine->slots[found];
    in->kept[found] = true;
  }
}

/* What was known of checks that end: those that replace them go on from it. */
static struct state_file *ended(const struct installation *in) {
  struct state_file *file = state_file_new();
  for (uint32_t i = 0; file != NULL && i < old_count(in->engine); i++) {
    const struct slot *slot = in->engine->slots[i];
    struct state_saved saved;
    if (in->kept[i] || slot->machine.state == MACHINE_UNKNOWN)
      continue;
    slot_saved(slot, &saved);
    if (state_file_put(file, slot->text, &saved))
      continue;
    state_file_free(file);
    return NULL;
  }
  return file;
}

/* What is known from before: on disk, at the start; of checks that end, later. */
static struct state_file *known_before(const struct installation *in, char *why) {
  struct engine *engine = in->engine;
  struct state_file *file;
  char damaged[STATE_FILE_WHY];
  if (engine->list != NULL) {
    file = ended(in);
    if (file == NULL)
      snprintf(why, ENGINE_WHY, "out of memory");
    return file;
  }
  file = state_file_read(engine->settings->state, damaged, why);
  if (damaged[0] != '\0')
    log_error("state of checks: %s; all checks begin anew", damaged);
  return file;
}

static bool make_slots(struct installation *in, struct state_file *before, char *why) {
  const struct list *list = in->list;
  const struct state_saved **exact = calloc((size_t)list->probe_count + 1, sizeof *exact);
  bool ok = exact != NULL;
  /* All that are exactly known first, so that what changed does not take theirs. */
  for (uint32_t i = 0; ok && i < list->probe_count; i++)
    if (in->slots[i] == NULL)
      exact[i] = state_file_take(before, &list->probes[i]);
  for (uint32_t i = 0; ok && i < list->probe_count; i++) {
    if (in->slots[i] != NULL)
      continue;
    const struct state_saved *saved =
        exact[i] != NULL ? exact[i] : state_file_similar(before, &list->probes[i]);
    in->slots[i] = slot_open(in->engine, &list->probes[i], saved, exact[i] != NULL);
    ok = in->slots[i] != NULL;
  }
  free(exact);
  if (!ok)
    snprintf(why, ENGINE_WHY, "out of memory");
  return ok;
}

static bool is_old(const struct installation *in, const struct slot *slot) {
  return slot->probe < old_count(in->engine) && in->engine->slots[slot->probe] == slot;
}

/* A few new checks are probed soon: they make no burst. */
static bool start_slots(struct installation *in, char *why) {
  uint32_t undecided = 0;
  bool ok = true;
  for (uint32_t i = 0; i < in->list->probe_count; i++)
    undecided += !is_old(in, in->slots[i]) && slot_is_undecided(in->slots[i]);
  uint32_t soon = undecided < FEW ? undecided * FEW_MS : 0;
  for (uint32_t i = 0; ok && i < in->list->probe_count; i++) {
    if (is_old(in, in->slots[i]))
      continue;
    ok = slot_start(in->slots[i], soon);
    in->added++;
  }
  if (!ok)
    snprintf(why, ENGINE_WHY, "out of memory");
  return ok;
}

/* Undoes what make_slots() and start_slots() have done. */
static void drop_new_slots(struct installation *in) {
  for (uint32_t i = 0; in->slots != NULL && i < in->list->probe_count; i++)
    if (in->slots[i] != NULL && !is_old(in, in->slots[i]))
      slot_close(in->slots[i]);
}

static bool prepare(struct installation *in, char *why) {
  size_t probes = (size_t)in->list->probe_count + 1;
  size_t subjects = (size_t)in->list->subject_count + 1;
  in->slots = calloc(probes, sizeof *in->slots);
  in->told = calloc(subjects, sizeof *in->told);
  in->kept = calloc((size_t)old_count(in->engine) + 1, sizeof *in->kept);
  if (in->slots == NULL || in->told == NULL || in->kept == NULL || !index_old(in)) {
    snprintf(why, ENGINE_WHY, "out of memory");
    return false;
  }
  keep_slots(in);
  struct state_file *before = known_before(in, why);
  bool ok = before != NULL && make_slots(in, before, why) && start_slots(in, why);
  state_file_free(before);
  return ok;
}

static void recount(struct engine *engine) {
  engine->seen = engine->failing = 0;
  for (uint32_t i = 0; i < engine->list->probe_count; i++) {
    engine->slots[i]->probe = i;
    engine->seen += engine->slots[i]->seen;
    engine->failing += engine->slots[i]->failing_since != 0;
  }
}

/* More probes than may start make all of them late: somebody should know. */
static void warn_of_rate(const struct engine *engine) {
  double wanted = 0;
  for (uint32_t i = 0; i < engine->list->probe_count; i++)
    wanted += 1000.0 / engine->list->probes[i].check->check->interval;
  if (wanted > engine->settings->rate)
    log_warning("the checks want %.0f probes in a second, --rate allows %u: they will be late",
                wanted, engine->settings->rate);
}

/* The alerts keep using the old domains when they do not like the new ones. */
static void configure_alerts(struct engine *engine) {
  const struct list *list = engine->list;
  char why[ALERTS_WHY];
  struct alerts_domain *domains = calloc((size_t)list->domain_count + 1, sizeof *domains);
  if (domains == NULL) {
    log_error("alerts: out of memory; they go on with the old configuration");
    return;
  }
  for (uint32_t i = 0; i < list->domain_count; i++)
    domains[i] = (struct alerts_domain){.steer = list->domains[i].steer,
                                        .owner = list->domains[i].owner,
                                        .alerts = list->domains[i].alerts};
  if (alerts_configure(engine->alerts, list->routes, domains, list->domain_count, why))
    engine->alerts_list = engine->list;
  else
    log_error("alerts: %s; they go on with the old configuration", why);
  free(domains);
}

/* From here on nothing can fail. */
static void switch_over(struct installation *in, const char *build) {
  struct engine *engine = in->engine;
  struct list *old_list = engine->list;
  struct list *old_alerts = engine->alerts_list;
  uint32_t removed = 0;
  for (uint32_t i = 0; i < old_count(engine); i++) {
    if (in->kept[i])
      continue;
    slot_close(engine->slots[i]);
    removed++;
  }
  free(engine->slots);
  free(engine->told);
  engine->slots = in->slots;
  engine->told = in->told;
  engine->list = in->list;
  snprintf(engine->build, sizeof engine->build, "%s", build);
  recount(engine);
  configure_alerts(engine);
  engine_tell_all(engine);
  if (old_list != engine->alerts_list)
    list_free(old_list);
  if (old_alerts != engine->alerts_list && old_alerts != old_list)
    list_free(old_alerts);
  engine->dirty = true;
  log_info("checks of build %s: %u checks, %u of them new, %u ended; %u domains", build,
           engine->list->probe_count, in->added, removed, engine->list->domain_count);
  warn_of_rate(engine);
}

bool engine_install(struct engine *engine, struct list *list, const char *build, char *why) {
  struct installation in = {.engine = engine, .list = list};
  bool ok = prepare(&in, why);
  if (ok) {
    switch_over(&in, build);
  } else {
    drop_new_slots(&in);
    free(in.slots);
    free(in.told);
    list_free(list);
  }
  free(in.kept);
  index_close(&in.old);
  return ok;
}
