/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/syncd/round.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/sync/lock.h"
#include "tools/sync/run.h"

/* Reading the configuration uses what only one thread may use. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

bool round_open(struct sync_run *run, const struct sync_options *options, char *why) {
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
    if (!round_mark(target->provider, &target->zone->domains[index], result->mark))
      result->mark[0] = '\0';
  }
  if (target->state != SYNC_PARTIAL && target->before) {
    json_t *holds = result->level ? target->after[index] : target->before[index];
    json_decref(result->holds);
    result->holds = json_incref(holds);
  }
}

/* All that is not steered.  NS records of the apex that wait for a consent are told, and no
 * failure: while a zone is moved, providers differ in them for long. */
static void judge_zone(const struct sync_target *target, struct round_result *result) {
  unsigned held = 0;
  size_t servers = 0;
  for (size_t i = 0; target->state == SYNC_APPLIED && i < target->plan.count; i++) {
    unsigned mine = target->plan.items[i].marker ? 0 : target->plan.items[i].held;
    servers += mine == SYNC_NS_CHANGE;
    held |= mine == SYNC_NS_CHANGE ? 0 : mine;
  }
  if (target->state != SYNC_APPLIED) {
    set_error(result, target->error.failure, target->error.text);
  } else if (held) {
    char text[PROVIDER_TEXT];
    snprintf(text, sizeof text,
             "%.100s: records of %.100s are held back: %.200s; see `sluice sync plan`",
             target->provider->name, target->zone->name, sync_hold_text(held));
    set_error(result, PROVIDER_REFUSED, text);
  } else {
    result->level = true;
    result->held = servers;
    result->error[0] = '\0';
    if (!round_mark_zone(target, result->mark))
      result->mark[0] = '\0';
  }
}

static void judge_all(const struct sync_run *run, const char *const *keys, size_t count,
                      struct round_result *results) {
  for (size_t k = 0; k < count; k++)
    for (size_t t = 0; t < run->target_count; t++) {
      const struct sync_target *target = &run->targets[t];
      bool zone = round_is_zone(keys[k]);
      long index = zone ? -1 : find_domain(target->zone, keys[k]);
      if (zone && strcmp(target->zone->name, keys[k] + strlen(ROUND_ZONE)) == 0)
        judge_zone(target, &results[k]);
      if (index >= 0)
        judge(target, keys[k], (size_t)index, &results[k]);
    }
}

/* The names in keys of one kind: malloc'd, its texts borrowed. */
static char **names_of(const char *const *keys, size_t count) {
  char **names = calloc(count + 1, sizeof *names);
  for (size_t i = 0; names && i < count; i++)
    names[i] = (char *)(uintptr_t)keys[i] + (round_is_zone(keys[i]) ? strlen(ROUND_ZONE) : 0);
  return names;
}

bool round_is_zone(const char *key) {
  return strncmp(key, ROUND_ZONE, strlen(ROUND_ZONE)) == 0;
}

static struct sync_options options_of(const struct syncd_settings *settings, const char *provider) {
  return (struct sync_options){
      .config = settings->config,
      .settings = settings->file,
      .socket = settings->server,
      .provider = provider,
      .locks = settings->locks ? settings->locks : SYNC_LOCK_FOLDER,
      .lock_wait_ms = SYNC_LOCK_WAIT_MS,
      .server_only = true,
  };
}

static void fail_all(struct round_result *results, size_t count, const char *why) {
  for (size_t i = 0; i < count; i++)
    set_error(&results[i], PROVIDER_LOCAL, why);
}

void round_run(const struct syncd_settings *settings, const char *provider, const char *const *keys,
               size_t count, struct round_result *results) {
  struct sync_run run;
  char why[PROVIDER_TEXT];
  struct sync_options options = options_of(settings, provider);
  options.args = names_of(keys, count);
  options.arg_count = count;
  options.rest = count > 0 && round_is_zone(keys[0]);
  /* Steered names that are there change as often as the world does: when a cluster fails, all of
   * a zone's names at once.  Nothing is deleted by their rounds. */
  if (!options.rest)
    options.consents = SYNC_LARGE;
  if (!options.args) {
    fail_all(results, count, "out of memory");
    return;
  }
  if (!round_open(&run, &options, why)) {
    fail_all(results, count, why);
    free(options.args);
    return;
  }
  fail_all(results, count, "not in the configuration any more");
  /* Outside of the mutex: one provider's lock is not to hold up another. */
  if (sync_run_lock(&run) && run.facts) {
    sync_run_plan(&run);
    sync_run_apply(&run);
    judge_all(&run, keys, count, results);
  } else {
    fail_all(results, count, "what is in force is not known any more");
  }
  sync_run_close(&run);
  free(options.args);
}

void round_results_close(struct round_result *results, size_t count) {
  for (size_t i = 0; results && i < count; i++)
    json_decref(results[i].holds);
  free(results);
}

/* ---- checking -------------------------------------------------------------------------------- */

static bool is_apex_ns(const struct sync_item *item) {
  return item->held == SYNC_NS_CHANGE;
}

/* One difference at its key, unless there is one already. */
static bool note(json_t *out, const struct sync_target *target, const struct sync_item *item) {
  static const char *const what[] = {"is missing", "differs", "should not be there"};
  const struct provider_object *object = item->new ? item->new : item->old;
  char key[NAME_MAX_TEXT + sizeof ROUND_ZONE];
  bool steered = item->domain && find_domain(target->zone, item->domain) >= 0;
  snprintf(key, sizeof key, "%s%s", steered ? "" : ROUND_ZONE,
           steered ? item->domain : target->zone->name);
  return json_object_get(out, key) ||
         json_object_set_new(
             out, key,
             json_sprintf("%.255s %.20s %s", object->name, object->type, what[item->op])) == 0;
}

static bool note_all(json_t *out, const struct sync_target *target) {
  for (size_t i = 0; i < target->plan.count; i++)
    if (!target->plan.items[i].marker && !is_apex_ns(&target->plan.items[i]) &&
        !note(out, target, &target->plan.items[i]))
      return false;
  return true;
}

json_t *round_check(const struct syncd_settings *settings, const char *provider, char *why) {
  struct sync_run run;
  const struct sync_options options = options_of(settings, provider);
  if (!round_open(&run, &options, why))
    return NULL;
  sync_run_plan(&run);
  json_t *out = json_object();
  bool ok = out;
  snprintf(why, PROVIDER_TEXT, "out of memory");
  for (size_t t = 0; ok && t < run.target_count; t++) {
    ok = run.targets[t].state == SYNC_PLANNED && note_all(out, &run.targets[t]);
    if (run.targets[t].state != SYNC_PLANNED)
      snprintf(why, PROVIDER_TEXT, "%s", run.targets[t].error.text);
  }
  sync_run_close(&run);
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}
