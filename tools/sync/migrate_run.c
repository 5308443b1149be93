/* SPDX-License-Identifier: Apache-2.0 */
/* A zone at its providers, for the steps of a migration. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "tools/cli.h"
#include "tools/machine.h"
#include "tools/sync/lock.h"
#include "tools/sync/migrate.h"
#include "tools/sync/nameset.h"

enum { SHOWN = 3 };

bool migrate_fail(struct migrate_job *job, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(job->why, sizeof job->why, format, arguments);
  va_end(arguments);
  return false;
}

/* Of these it may be that the provider is not there at all, and something else replies for it. */
static bool is_silent(enum provider_failure failure) {
  return failure == PROVIDER_UNREACHABLE || failure == PROVIDER_DENIED ||
         failure == PROVIDER_GARBAGE;
}

bool migrate_fail_provider(struct migrate_job *job, const char *provider,
                           const struct provider_error *error) {
  snprintf(job->silent, sizeof job->silent, "%s", is_silent(error->failure) ? provider : "");
  job->silent_api = true;
  job->passing = error->failure == PROVIDER_UNREACHABLE || error->failure == PROVIDER_THROTTLED ||
                 error->failure == PROVIDER_CONFLICT;
  return migrate_fail(job, "%s", error->text);
}

void migrate_todo(struct migrate_job *job, const char *format, ...) {
  size_t at = strlen(job->todo);
  va_list arguments;
  va_start(arguments, format);
  if (at > 0 && at + 1 < sizeof job->todo)
    job->todo[at++] = '\n';
  vsnprintf(job->todo + at, sizeof job->todo - at, format, arguments);
  va_end(arguments);
}

void migrate_host_close(struct migrate_host *host) {
  free(host->name);
  free(host->servers);
  json_decref(host->texts);
  *host = (struct migrate_host){0};
}

void migrate_job_close(struct migrate_job *job) {
  for (size_t i = 0; i < job->host_count; i++)
    migrate_host_close(&job->hosts[i]);
  free(job->hosts);
  migrate_host_close(&job->parent);
  migrate_close(&job->state);
  json_decref(job->names);
  json_decref(job->up);
}

/* ---- open ----------------------------------------------------------------------------------- */

/* Without the server, what was set by hand is not known and would be undone. */
static bool knows_enough(struct migrate_job *job, const struct sync_run *run) {
  struct machine machine;
  if (run->facts || job->as_configured)
    return true;
  if (!machine_read(&machine, job->options.settings))
    return migrate_fail(job, "the machine's settings cannot be read");
  char *path = machine.state ? fs_join(machine.state, "store.db") : NULL;
  bool kept = path && access(path, F_OK) == 0;
  free(path);
  machine_close(&machine);
  if (kept)
    return migrate_fail(job,
                        "weights and statuses that were set by hand are not known (%.400s); with "
                        "--as-configured the configuration's are used",
                        run->note);
  return true;
}

static bool is_defined(const struct sync_run *run, const char *provider) {
  return strcmp(provider, "sluice") == 0 ||
         json_object_get(json_object_get(run->model->settings, "providers"), provider);
}

static bool check_defined(struct migrate_job *job, const struct sync_run *run,
                          const char *provider) {
  const char *candidates[64];
  size_t count = 0;
  const char *key;
  json_t *value;
  if (is_defined(run, provider))
    return true;
  json_object_foreach(json_object_get(run->model->settings, "providers"), key, value) {
    if (count < 64)
      candidates[count++] = key;
  }
  return migrate_fail(job, "defaults.yaml has no provider %.200s%s", provider,
                      cli_did_you_mean(provider, candidates, count));
}

bool migrate_is_listed(const struct sync_run *run, const char *provider) {
  size_t i;
  const json_t *item;
  json_array_foreach(run->zones[0].zone->providers, i, item) {
    if (json_is_string(item) && strcmp(json_string_value(item), provider) == 0)
      return true;
  }
  return false;
}

bool migrate_without(struct migrate_job *job, char **out) {
  size_t i;
  const json_t *item;
  size_t length = 1;
  *out = NULL;
  json_array_foreach(job->state.down, i, item) length += json_string_length(item) + 1;
  if (length == 1)
    return true;
  char *text = calloc(length, 1);
  if (!text)
    return migrate_fail(job, "out of memory");
  json_array_foreach(job->state.down, i, item) {
    if (i > 0)
      strcat(text, ",");
    strcat(text, json_string_value(item));
  }
  *out = text;
  return true;
}

static bool are_defined(struct migrate_job *job, const struct sync_run *run) {
  const struct migrate_state *s = &job->state;
  size_t i;
  const json_t *item;
  bool ok = check_defined(job, run, s->from) && check_defined(job, run, s->to);
  json_array_foreach(s->down, i, item) {
    ok = ok && check_defined(job, run, json_string_value(item));
  }
  return ok;
}

/* The set as C strings, for the options; they stay with it. */
static const char **as_texts(const json_t *set) {
  size_t n = json_array_size(set);
  const char **out = calloc(n + 1, sizeof *out);
  for (size_t i = 0; out && i < n; i++)
    out[i] = json_string_value(json_array_get(set, i));
  return out;
}

bool migrate_run_begin(struct migrate_job *job, struct sync_run *run, const json_t *apex,
                       const char *provider) {
  char beside[512];
  char *args[] = {job->zone};
  struct sync_options options = job->options;
  const struct migrate_state *s = &job->state;
  snprintf(beside, sizeof beside, "%s,%s", s->from, s->to);
  if (s->deleted)
    snprintf(beside, sizeof beside, "%s", s->to);
  char *without;
  *run = (struct sync_run){0};
  if (!migrate_without(job, &without))
    return false;
  options.without = without;
  options.beside = provider ? provider : beside;
  options.provider = provider;
  options.args = args;
  options.arg_count = 1;
  options.lock_wait_ms = SYNC_LOCK_WAIT_MS;
  options.apex_ns = apex ? as_texts(apex) : NULL;
  options.apex_ns_count = apex ? json_array_size(apex) : 0;
  /* The command is the consent to what it is for; other people's records need one. */
  options.consents = (job->keep_ns ? 0 : (unsigned)SYNC_NS_CHANGE) |
                     (job->take_over ? (unsigned)SYNC_TAKE_OVER : 0) |
                     (job->allow_large ? (unsigned)SYNC_LARGE : 0);
  job->passing = false;
  job->silent[0] = '\0';
  char captured[MIGRATE_JOB_WHY] = "";
  cli_capture(captured, sizeof captured);
  bool ok = (!apex || options.apex_ns) && sync_run_open(run, &options) == CLI_DONE;
  cli_capture(NULL, 0);
  if (!ok)
    return migrate_fail(job, "%s", *captured ? captured : "the configuration cannot be read");
  if (!are_defined(job, run) || !knows_enough(job, run))
    return false;
  job->listed = migrate_is_listed(run, migrate_in_provider(s));
  return true;
}

/* Nobody else on this machine changes the same from here until the end of the apply. */
static bool lock(struct migrate_job *job, struct sync_run *run) {
  char captured[MIGRATE_JOB_WHY] = "";
  if (job->dry || job->state.phase == MIGRATE_CHECK)
    return true;
  cli_capture(captured, sizeof captured);
  bool ok = sync_run_lock(run);
  cli_capture(NULL, 0);
  return ok ? knows_enough(job, run) : migrate_fail(job, "%s", captured);
}

bool migrate_run_open(struct migrate_job *job, struct sync_run *run, const json_t *apex,
                      const char *provider) {
  if (!migrate_run_begin(job, run, apex, provider) || !lock(job, run))
    return false;
  sync_run_plan(run);
  return true;
}

void migrate_run_close(struct sync_run *run) {
  const char *const *texts = run->options.apex_ns;
  const char *without = run->options.without;
  sync_run_close(run);
  free((void *)(uintptr_t)texts);
  free((void *)(uintptr_t)without);
}

struct sync_target *migrate_target(const struct sync_run *run, const char *provider) {
  for (size_t i = 0; i < run->target_count; i++)
    if (strcmp(run->targets[i].provider->name, provider) == 0)
      return &run->targets[i];
  return NULL;
}

/* ---- judging -------------------------------------------------------------------------------- */

static bool is_ns_of(const struct provider_object *object, const char *owner) {
  return strcmp(object->type, "NS") == 0 && strcmp(object->name, owner) == 0;
}

static const char *why_held(const struct sync_target *t, const struct sync_item *item) {
  for (size_t i = 0; item->held & SYNC_LOSS && i < t->refusal_count; i++)
    if (item->domain && strcmp(t->refusals[i].domain, item->domain) == 0)
      return t->refusals[i].why;
  return sync_hold_text(item->held);
}

bool migrate_judge(struct migrate_job *job, const struct sync_target *t) {
  const char *name = t->provider->name;
  bool deployed = t->provider->kind && t->provider->kind->can.deployed;
  if (t->state == SYNC_FAILED)
    return migrate_fail_provider(job, name, &t->error);
  for (size_t i = 0; i < t->plan.count; i++) {
    const struct sync_item *item = &t->plan.items[i];
    const struct provider_object *o = item->new ? item->new : item->old;
    if (is_ns_of(o, t->zone->name))
      continue;
    if (item->held & ~(unsigned)SYNC_DEPLOYED)
      return migrate_fail(job, "%s: %.255s %s is held back: %.400s", name, o->name, o->type,
                          why_held(t, item));
    if (deployed)
      return migrate_fail(job, "%s: %.255s %s is not as the configuration has it; deploy it", name,
                          o->name, o->type);
    if (!item->domain && !item->marker)
      return migrate_fail(job,
                          "%s: %.255s %s is not as the configuration has it; look at `sluice sync "
                          "drift`, bring it level by `sluice sync apply`, then go on",
                          name, o->name, o->type);
  }
  return true;
}

bool migrate_judge_kept(struct migrate_job *job, const struct sync_target *t) {
  char list[1024] = "";
  size_t at = 0;
  if (job->leave_records || t->plan.kept_count == 0)
    return true;
  for (size_t i = 0; i < t->plan.kept_count && i < SHOWN; i++) {
    const struct provider_object *o = t->plan.kept[i];
    int n = snprintf(list + at, sizeof list - at, "%s%.255s %s", i ? ", " : "", o->name, o->type);
    at = at + (size_t)n < sizeof list ? at + (size_t)n : sizeof list - 1;
  }
  return migrate_fail(job,
                      "%s has %zu record set%s that the configuration does not have, and that the "
                      "other provider would not answer: %s%s; take them into the configuration, or "
                      "leave them there by --leave-records",
                      t->provider->name, t->plan.kept_count, cli_s((long long)t->plan.kept_count),
                      list, t->plan.kept_count > SHOWN ? ", ..." : "");
}

json_t *migrate_ns_of(const struct provider_objects *objects, const char *owner) {
  for (size_t i = 0; i < objects->count; i++)
    if (is_ns_of(&objects->items[i], owner) && !objects->items[i].opaque)
      return nameset_read(json_object_get(objects->items[i].body, "values"));
  return json_array();
}

/* ---- applying ------------------------------------------------------------------------------- */

bool migrate_apply(struct migrate_job *job, struct sync_run *run) {
  if (job->dry)
    return true;
  sync_run_apply(run);
  bool ok = true;
  for (size_t i = 0; i < run->target_count; i++) {
    const struct sync_target *t = &run->targets[i];
    job->changed = job->changed || t->seen > 0 || t->state == SYNC_PARTIAL;
    if (ok && t->state != SYNC_APPLIED)
      ok = migrate_fail_provider(job, t->provider->name, &t->error);
  }
  return ok;
}
