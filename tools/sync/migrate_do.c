/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a migration that change something. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sync/migrate.h"
#include "tools/sync/nameset.h"
#include "tools/sync/verify.h"

enum { TEXT = 1024, SHOWN = 3 };

/* ---- the zone at a provider ----------------------------------------------------------------- */

/* Whether the zone is there: PROVIDER_GONE in `error` says that it is not, others that nobody
 * knows. */
static bool is_there(struct sync_run *run, const struct sync_target *t,
                     struct provider_error *error) {
  struct provider_objects objects;
  void *self = sync_provider_open(run, t->provider, false, error);
  provider_objects_init(&objects);
  bool ok = self && t->provider->kind->read(self, t->zone->name, &objects, error);
  provider_objects_close(&objects);
  if (self)
    t->provider->kind->close(self);
  return ok;
}

/* Makes the zone if it is not there and the provider can. */
bool migrate_make_zone(struct migrate_job *job, struct sync_run *run, const struct sync_target *t,
                       bool *made) {
  struct provider_error error;
  *made = false;
  if (t->state != SYNC_FAILED || t->error.failure != PROVIDER_GONE || job->dry ||
      !t->provider->kind || !t->provider->kind->create_zone)
    return true;
  void *self = sync_provider_open(run, t->provider, true, &error);
  bool asked = self;
  bool ok = asked && t->provider->kind->create_zone(self, t->zone->name, &error);
  if (self)
    t->provider->kind->close(self);
  if (!ok && asked) { /* perhaps it was made, and only the reply was lost */
    struct provider_error unseen = {0};
    ok = is_there(run, t, &unseen);
    job->changed = job->changed || (!ok && unseen.failure != PROVIDER_GONE);
  }
  *made = ok;
  job->changed = job->changed || ok;
  job->state.made = job->state.made || ok;
  return ok ? true : migrate_fail_provider(job, t->provider->name, &error);
}

/* Where it hurries, the NS records have to be there before it is verified. */
static bool fill_deployed(struct migrate_job *job, const struct sync_target *t,
                          const json_t *apex) {
  char set[TEXT];
  if (!migrate_judge(job, t))
    return false;
  if (!migrate_hurries(&job->state) || t->plan.count == 0)
    return true;
  return migrate_fail(job,
                      "since %s is down, %.255s has to be deployed with this in its zone.yaml (for "
                      "provider %s) before it goes on: ns: [%s]",
                      migrate_out_provider(&job->state), t->zone->name, t->provider->name,
                      nameset_text(apex, set, sizeof set));
}

static bool fill(struct migrate_job *job, struct sync_run *run, const json_t *apex) {
  struct sync_target *t = migrate_target(run, migrate_in_provider(&job->state));
  if (!t)
    return migrate_fail(job, "out of memory");
  if (t->state == SYNC_FAILED)
    return migrate_fail_provider(job, t->provider->name, &t->error);
  if (t->provider->kind->can.deployed)
    return fill_deployed(job, t, apex);
  for (size_t i = 0; i < t->plan.count; i++)
    if (t->plan.items[i].held)
      return migrate_judge(job, t);
  return migrate_judge_kept(job, t) && migrate_apply(job, run);
}

bool migrate_do_fill(struct migrate_job *job) {
  struct sync_run run = {0};
  const char *provider = migrate_in_provider(&job->state);
  bool made = false;
  json_t *apex = migrate_wanted_apex(&job->state);
  bool ok = apex ? migrate_run_open(job, &run, apex, provider) : migrate_fail(job, "out of memory");
  const struct sync_target *t = ok ? migrate_target(&run, provider) : NULL;
  ok = t && migrate_make_zone(job, &run, t, &made);
  if (ok && !made)
    ok = fill(job, &run, apex);
  migrate_run_close(&run);
  if (ok && made) {
    ok = migrate_run_open(job, &run, apex, provider) && fill(job, &run, apex);
    migrate_run_close(&run);
  }
  json_decref(apex);
  return ok;
}

/* Every provider has what the configuration wants, steered names brought level. */
static bool level_all(struct migrate_job *job, struct sync_run *run) {
  for (size_t i = 0; i < run->target_count; i++)
    if (!migrate_judge(job, &run->targets[i]))
      return false;
  return migrate_apply(job, run);
}

bool migrate_do_level(struct migrate_job *job) {
  struct sync_run run;
  if (job->listed)
    return true;
  job->keep_ns = true; /* they may be on their way */
  bool ok =
      migrate_run_open(job, &run, NULL, migrate_in_provider(&job->state)) && level_all(job, &run);
  migrate_run_close(&run);
  job->keep_ns = false;
  return ok;
}

/* ---- verify --------------------------------------------------------------------------------- */

static bool tell_difference(struct migrate_job *job, const char *provider,
                            const struct verify_report *report) {
  char list[TEXT] = "";
  size_t at = 0;
  size_t shown = 0;
  for (size_t i = 0; i < report->count && shown < SHOWN; i++) {
    const struct verify_line *line = &report->lines[i];
    if (line->verdict != VERIFY_DIFFERS && line->verdict != VERIFY_SILENT)
      continue;
    int n = snprintf(list + at, sizeof list - at, "%s%.255s %.20s%s%.60s at %.100s: %.300s",
                     shown++ ? "; " : "", line->name, line->type ? line->type : "",
                     line->region ? " in " : "", line->region ? line->region : "", line->server,
                     line->text ? line->text : "no answer");
    at = at + (size_t)n < sizeof list ? at + (size_t)n : sizeof list - 1;
  }
  job->passing = true;
  return migrate_fail(job,
                      "%s does not answer as the configuration says (%zu differ, %zu without an "
                      "answer): %s",
                      provider, report->differ, report->silent, list);
}

/* The answers of one provider against the model. */
static bool verify_one(struct migrate_job *job, const struct sync_run *run, const char *provider) {
  static const struct verify_options options = {.steered = true, .plain = true};
  struct verify_report report = {0};
  struct provider_error error = {0};
  const struct sync_target *t = migrate_target(run, provider);
  const struct migrate_host *host = migrate_host(job, provider);
  if (!t || !host)
    return migrate_fail(job, "out of memory");
  bool ok = verify_target(run, t, host->texts, &options, &report, &error);
  if (!ok)
    migrate_fail_provider(job, provider, &error);
  else if (report.differ + report.silent > 0)
    ok = tell_difference(job, provider, &report);
  if (!ok && report.differ == 0 && report.silent > 0) {
    snprintf(job->silent, sizeof job->silent, "%s", provider);
    job->silent_api = false;
  }
  verify_report_close(&report);
  return ok;
}

/* The answers of both against the model, then beside each other. */
static bool verify_both(struct migrate_job *job, const struct sync_run *run) {
  const char *in = migrate_in_provider(&job->state);
  const char *out = migrate_out_provider(&job->state);
  const struct sync_target *t = migrate_target(run, in);
  const struct migrate_host *a = migrate_host(job, out);
  const struct migrate_host *b = migrate_host(job, in);
  return verify_one(job, run, in) && verify_one(job, run, out) && t && a && b &&
         migrate_compare(job, t, a, b);
}

/* Where the one that is left is down, there is only the model; and the zone has its new NS records
 * already, which the others get once it is verified. */
bool migrate_do_verify(struct migrate_job *job) {
  struct sync_run run = {0};
  bool hurries = migrate_hurries(&job->state);
  json_t *apex = migrate_wanted_apex(&job->state);
  bool ok = apex ? true : migrate_fail(job, "out of memory");
  job->keep_ns = hurries;
  ok = ok && migrate_run_open(job, &run, apex, NULL) && level_all(job, &run) &&
       (hurries ? verify_one(job, &run, migrate_in_provider(&job->state)) : verify_both(job, &run));
  job->keep_ns = false;
  migrate_run_close(&run);
  json_decref(apex);
  return ok;
}

/* ---- NS RRsets ------------------------------------------------------------------------------ */

/* Where changes come by a deploy, somebody has to write them into the configuration. */
void migrate_tell_deploys(struct migrate_job *job, const struct sync_run *run,
                          const json_t *wanted) {
  char set[TEXT];
  for (size_t i = 0; i < run->target_count; i++) {
    const struct sync_target *t = &run->targets[i];
    if (!t->provider->kind->can.deployed || t->plan.count == 0)
      continue;
    migrate_todo(job,
                 "%s has to be deployed with this in its zone.yaml (for provider %s):\n  ns: [%s]",
                 job->zone, t->provider->name, nameset_text(wanted, set, sizeof set));
  }
}

bool migrate_do_apex(struct migrate_job *job, const json_t *wanted) {
  struct sync_run run;
  bool ok = migrate_run_open(job, &run, wanted, NULL) && level_all(job, &run);
  if (ok)
    migrate_tell_deploys(job, &run, wanted);
  migrate_run_close(&run);
  return ok;
}

bool migrate_do_parent(struct migrate_job *job, const json_t *wanted) {
  struct sync_run run;
  bool ok = migrate_run_open(job, &run, job->state.apex, NULL) && level_all(job, &run) &&
            migrate_set_parent(job, &run, wanted);
  migrate_run_close(&run);
  return ok;
}

/* ---- a provider that is there again -------------------------------------------------------- */

/* It gets what is in force; records of others at the one that is left would be lost. */
static bool refill(struct migrate_job *job, struct sync_run *run, struct sync_target *t,
                   const json_t *apex) {
  const struct migrate_state *s = &job->state;
  bool left = strcmp(t->provider->name, migrate_out_provider(s)) == 0;
  if (t->state == SYNC_FAILED)
    return migrate_fail_provider(job, t->provider->name, &t->error);
  if (left && !s->back && s->phase < MIGRATE_DONE && !migrate_judge_kept(job, t))
    return false;
  if (left && s->phase <= MIGRATE_VERIFY) /* it is verified and made level there */
    return true;
  if (t->provider->kind->can.deployed) {
    migrate_tell_deploys(job, run, apex);
    return migrate_judge(job, t);
  }
  for (size_t i = 0; i < t->plan.count; i++)
    if (t->plan.items[i].held)
      return migrate_judge(job, t);
  return migrate_apply(job, run);
}

/* Others have the parent zone alone. */
static bool has_zone(const struct migrate_job *job, const struct sync_run *run,
                     const char *provider) {
  return strcmp(provider, job->state.from) == 0 || strcmp(provider, job->state.to) == 0 ||
         migrate_is_listed(run, provider);
}

/* The delegation, too, where the provider has the parent zone. */
static bool refill_parent(struct migrate_job *job) {
  struct sync_run run;
  const struct migrate_state *s = &job->state;
  bool ok = migrate_run_begin(job, &run, s->apex, NULL) && migrate_find(job, &run) &&
            (job->parent_kind != MIGRATE_OURS || migrate_set_parent(job, &run, s->parent));
  migrate_run_close(&run);
  return ok;
}

bool migrate_do_rejoin(struct migrate_job *job, const char *provider) {
  struct sync_run run = {0};
  struct migrate_state *s = &job->state;
  json_t *down = json_copy(s->down);
  json_t *apex = json_incref(s->apex);
  job->todo[0] = '\0';
  bool ok = down && migrate_set_up(s, provider);
  ok = ok && migrate_run_open(job, &run, apex, provider);
  struct sync_target *t = ok ? migrate_target(&run, provider) : NULL;
  ok = ok && t && (!has_zone(job, &run, provider) || refill(job, &run, t, apex));
  migrate_run_close(&run);
  ok = ok && (s->phase <= MIGRATE_VERIFY || refill_parent(job));
  json_decref(apex);
  if (down) { /* until the caller has all of it */
    json_decref(s->down);
    s->down = down;
  }
  return ok ? true : job->why[0] ? false : migrate_fail(job, "out of memory");
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Nobody is led to the provider any more. */
static bool is_unused(struct migrate_job *job) {
  struct migrate_view view;
  bool ok = migrate_look(job, job->state.from, &view);
  const char *name = ok ? nameset_first_common(job->state.old, view.parent.any) : NULL;
  if (ok && json_array_size(view.parent.all) == 0)
    ok = migrate_fail(
        job, "the name servers of the parent zone tell no delegation of %.255s: it is not deleted",
        job->zone);
  if (ok && !name)
    name = nameset_first_common(job->state.old, view.apex.any);
  if (name)
    ok = migrate_fail(job, "%.255s still is a name server of %.255s: the zone is not deleted", name,
                      job->zone);
  migrate_view_close(&view);
  return ok;
}

static bool delete_at(struct migrate_job *job, struct sync_run *run) {
  struct provider_error error;
  const char *from = job->state.from;
  const struct sync_target *t = migrate_target(run, from);
  if (!t || !t->provider->kind)
    return migrate_fail(job, "%s: no such provider", from);
  if (migrate_is_listed(run, from))
    return migrate_fail(job,
                        "zone.yaml of %.255s still lists %s in `providers:`; take it out, "
                        "deploy, then delete",
                        job->zone, from);
  if (!t->provider->kind->delete_zone)
    return migrate_fail(job, "%s: zones of this kind of provider are deleted there, by hand", from);
  if (t->state == SYNC_FAILED && t->error.failure == PROVIDER_GONE)
    return true;
  if (t->state == SYNC_FAILED)
    return migrate_fail_provider(job, t->provider->name, &t->error);
  if (!migrate_judge_kept(job, t) || !migrate_find(job, run) || !is_unused(job))
    return false;
  void *self = sync_provider_open(run, t->provider, true, &error);
  bool asked = self;
  bool ok = asked && t->provider->kind->delete_zone(self, t->zone->name, &error);
  if (self)
    t->provider->kind->close(self);
  if (!ok && asked) { /* the same: perhaps it is done */
    struct provider_error unseen = {0};
    bool there = is_there(run, t, &unseen);
    ok = !there && unseen.failure == PROVIDER_GONE;
    job->changed = job->changed || (!there && !ok);
  }
  job->changed = job->changed || ok;
  return ok ? true : migrate_fail_provider(job, t->provider->name, &error);
}

/* One that is down is not asked, but may lead there when it is back. */
static bool all_asked(struct migrate_job *job) {
  const char *down = json_string_value(json_array_get(job->state.down, 0));
  return !down ? true
               : migrate_fail(job,
                              "%s was not asked as long as it was down, and may still name %s; "
                              "when it is there again, --up %s, then --delete-old",
                              down, job->state.from, down);
}

bool migrate_do_delete(struct migrate_job *job) {
  struct sync_run run = {0};
  migrate_set_up(&job->state, job->state.from); /* it has to answer now */
  bool ok = all_asked(job) && migrate_run_open(job, &run, NULL, NULL) && delete_at(job, &run);
  migrate_run_close(&run);
  return ok;
}
