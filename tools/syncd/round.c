/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/syncd/round.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "tools/cli.h"
#include "tools/sync/lock.h"
#include "tools/sync/run.h"
#include "zones/domain_json.h"

/* Reading the configuration uses what only one thread may use. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static bool open_run(struct sync_run *run, const struct sync_options *options, char *why) {
  why[0] = '\0';
  pthread_mutex_lock(&opening);
  cli_capture(why, PROVIDER_TEXT);
  bool ok = sync_run_open(run, options) == CLI_DONE;
  cli_capture(NULL, 0);
  pthread_mutex_unlock(&opening);
  if (!ok && why[0] == '\0')
    snprintf(why, PROVIDER_TEXT, "the configuration cannot be read");
  if (ok && !run->facts) {
    snprintf(why, PROVIDER_TEXT, "what is in force is not known: %.400s", run->note);
    ok = false;
  }
  if (!ok)
    sync_run_close(run);
  return ok;
}

/* ---- bringing level -------------------------------------------------------------------------- */

static void set_error(struct round_result *result, enum provider_failure failure,
                      const char *text) {
  result->level = false;
  result->failure = failure;
  snprintf(result->error, sizeof result->error, "%s", text);
}

/* The index of a domain in its zone, or -1. */
static long find_domain(const struct sync_zone *zone, const char *name) {
  for (size_t i = 0; i < zone->zone->domain_count; i++)
    if (strcmp(zone->domains[i].name, name) == 0)
      return (long)i;
  return -1;
}

/* Why some of the domain's changes are held back; 0: none is. */
static unsigned held_for(const struct sync_target *target, const char *name) {
  unsigned held = 0;
  for (size_t i = 0; i < target->plan.count; i++)
    if (target->plan.items[i].domain && strcmp(target->plan.items[i].domain, name) == 0)
      held |= target->plan.items[i].held;
  return held;
}

static void judge(const struct sync_target *target, const char *name, size_t index,
                  struct round_result *result) {
  char text[PROVIDER_TEXT];
  unsigned held = target->state == SYNC_FAILED ? 0 : held_for(target, name);
  if (target->state != SYNC_APPLIED) {
    set_error(result, target->error.failure, target->error.text);
  } else if (held) {
    const char *why = sync_hold_text(held);
    for (size_t i = 0; (held & SYNC_LOSS) && i < target->refusal_count; i++)
      if (strcmp(target->refusals[i].domain, name) == 0)
        why = target->refusals[i].why;
    snprintf(text, sizeof text, "%.100s: %.100s is held back: %.200s; see `sluice sync plan`",
             target->provider->name, name, why);
    set_error(result, PROVIDER_REFUSED, text);
  } else {
    result->level = true;
    result->error[0] = '\0';
  }
  if (target->state != SYNC_PARTIAL && target->before) {
    json_t *holds = result->level ? target->after[index] : target->before[index];
    json_decref(result->holds);
    result->holds = json_incref(holds);
  }
}

static void judge_all(const struct sync_run *run, const char *const *domains, size_t count,
                      struct round_result *results) {
  for (size_t d = 0; d < count; d++)
    for (size_t t = 0; t < run->target_count; t++) {
      long index = find_domain(run->targets[t].zone, domains[d]);
      if (index >= 0)
        judge(&run->targets[t], domains[d], (size_t)index, &results[d]);
    }
}

void round_run(const struct syncd_settings *settings, const char *provider,
               const char *const *domains, size_t count, struct round_result *results) {
  struct sync_run run;
  char why[PROVIDER_TEXT];
  const struct sync_options options = {
      .config = settings->config,
      .settings = settings->file,
      .socket = settings->server,
      .provider = provider,
      .locks = settings->locks ? settings->locks : SYNC_LOCK_FOLDER,
      .lock_wait_ms = SYNC_LOCK_WAIT_MS,
      .server_only = true,
      .args = (char **)(uintptr_t)domains,
      .arg_count = count,
  };
  for (size_t i = 0; i < count; i++)
    set_error(&results[i], PROVIDER_LOCAL, "not in the configuration any more");
  if (!open_run(&run, &options, why)) {
    for (size_t i = 0; i < count; i++)
      set_error(&results[i], PROVIDER_LOCAL, why);
    return;
  }
  /* Outside of the mutex: one provider's lock is not to hold up another. */
  if (sync_run_lock(&run) && run.facts) {
    sync_run_plan(&run);
    sync_run_apply(&run);
    judge_all(&run, domains, count, results);
  } else {
    for (size_t i = 0; i < count; i++)
      set_error(&results[i], PROVIDER_LOCAL, "what is in force is not known any more");
  }
  sync_run_close(&run);
}

void round_results_close(struct round_result *results, size_t count) {
  for (size_t i = 0; results && i < count; i++)
    json_decref(results[i].holds);
  free(results);
}

/* ---- watching -------------------------------------------------------------------------------- */

enum { LINK_MAX = 256 };

struct watch {
  const struct syncd_settings *settings;
  struct sync_run run;
  bool open;
  bool fresh;           /* just opened: its facts are of now */
  char build[LINK_MAX]; /* that `run` is of */
};

struct watch *watch_open(const struct syncd_settings *settings) {
  struct watch *watch = calloc(1, sizeof *watch);
  if (watch)
    watch->settings = settings;
  return watch;
}

void watch_close(struct watch *watch) {
  if (watch && watch->open)
    sync_run_close(&watch->run);
  free(watch);
}

static void current_build(const struct watch *watch, char out[LINK_MAX]) {
  char *path = watch->settings->data ? fs_join(watch->settings->data, "current") : NULL;
  ssize_t len = path ? readlink(path, out, LINK_MAX - 1) : 0;
  out[len > 0 ? len : 0] = '\0';
  free(path);
}

static bool reopen(struct watch *watch, char *why) {
  char build[LINK_MAX];
  current_build(watch, build);
  if (watch->open && strcmp(build, watch->build) == 0)
    return true;
  if (watch->open)
    sync_run_close(&watch->run);
  const struct sync_options options = {.config = watch->settings->config,
                                       .settings = watch->settings->file,
                                       .socket = watch->settings->server,
                                       .server_only = true};
  watch->open = open_run(&watch->run, &options, why);
  watch->fresh = watch->open;
  memcpy(watch->build, build, sizeof build);
  return watch->open;
}

static bool read_facts(struct watch *watch, char *why) {
  struct sync_run *run = &watch->run;
  if (watch->fresh) {
    watch->fresh = false;
    return true;
  }
  for (size_t z = 0; z < run->zone_count; z++)
    for (size_t i = 0; i < run->zones[z].zone->domain_count; i++) {
      sync_facts_close(&run->zones[z].domains[i]);
      if (!sync_facts_read(&run->zones[z].domains[i], run->socket, why, PROVIDER_TEXT))
        return false;
    }
  return true;
}

static bool is_pushed(const struct sync_provider *provider) {
  const char *health = json_string_value(json_object_get(provider->settings, "health"));
  return health ? strcmp(health, "pushed") == 0 : !provider->kind || !provider->kind->can.native;
}

/* Everything that the domain's objects at the provider are made from, as a digest. */
static bool mark_of(const struct sync_provider *provider, const struct sync_domain *domain,
                    char out[SYNC_DIGEST]) {
  const struct steer_domain *steer = domain->domain->steer;
  const struct steer_status *status = is_pushed(provider) ? domain->status : domain->manual;
  json_t *weights = json_array();
  json_t *states = json_array();
  for (uint32_t i = 0; i < steer->entry_count; i++)
    json_array_append_new(weights, json_integer(domain->weights[i]));
  for (uint32_t i = 0; i < steer->endpoint_count; i++)
    json_array_append_new(
        states, json_integer(status[i].manual << 16 | status[i].health4 << 8 | status[i].health6));
  json_t *steering = domain_json_encode(steer);
  json_t *all = json_pack("{s:o?, s:O?, s:O?, s:O?, s:o, s:o}", "steer", steering, "health",
                          domain->domain->health, "options", domain->domain->providers, "provider",
                          provider->settings, "weights", weights, "status", states);
  bool ok = steering && all && sync_digest(all, out);
  json_decref(all);
  return ok;
}

static bool add_target(const struct sync_target *target, json_t *places) {
  const struct sync_provider *provider = target->provider;
  if (provider->kind && provider->kind->can.deployed)
    return true; /* one of no kind stays, so that it is told to be behind */
  json_t *mine = json_object_get(places, provider->name);
  if (!mine) {
    mine = json_object();
    if (!mine || json_object_set_new(places, provider->name, mine) != 0)
      return false;
  }
  for (size_t i = 0; i < target->zone->zone->domain_count; i++) {
    const struct sync_domain *domain = &target->zone->domains[i];
    char mark[SYNC_DIGEST];
    if (!mark_of(provider, domain, mark) ||
        json_object_set_new(mine, domain->name, json_string(mark)) != 0)
      return false;
  }
  return true;
}

json_t *watch_look(struct watch *watch, char *why) {
  snprintf(why, PROVIDER_TEXT, "out of memory");
  if (!reopen(watch, why) || !read_facts(watch, why))
    return NULL;
  json_t *places = json_object();
  bool ok = places;
  for (size_t i = 0; ok && i < watch->run.target_count; i++)
    ok = add_target(&watch->run.targets[i], places);
  if (ok)
    return places;
  json_decref(places);
  return NULL;
}
