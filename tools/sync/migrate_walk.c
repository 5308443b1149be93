/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a migration, one after the other, with the waits between them. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/cli.h"
#include "tools/sync/migrate.h"
#include "tools/sync/nameset.h"
#include "tools/times.h"
#include "tools/wrap.h"

enum {
  TRIES = 4,     /* of a step that fails for a reason that may pass */
  POLL_MS = 200, /* the first look for a change; each later than the one before, up to: */
  POLL_MOST_MS = 10000,
  LEVEL_MS = 60000,   /* how often steered names are brought level while it waits */
  UNSEEN_MS = 300000, /* a change of ours that is not seen for so long has failed */
  UNSEEN_ONCE_MS = 10000,
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
  (void)number;
  interrupted = 1;
}

int64_t migrate_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void sleep_ms(int64_t ms) {
  if (ms > 0 && !interrupted)
    poll(NULL, 0, ms < INT32_MAX ? (int)ms : INT32_MAX);
}

/* ---- one step ------------------------------------------------------------------------------- */

enum outcome {
  WENT_ON,
  WAITS, /* until `until` */
  TOLD,  /* until somebody does what `todo` says */
  ENDED,
  FAILED,
};

struct runner {
  struct migrate_job *job;
  const char *path;
  bool once;
  int64_t until;
  unsigned odd; /* looks in a row that saw NS records that nobody of us made */
};

bool migrate_keep(struct migrate_job *job, const char *path) {
  char why[MIGRATE_WHY];
  return migrate_save(&job->state, path, why) ||
         migrate_fail(job, "the state cannot be kept: %s", why);
}

/* The name servers are looked for once in a run; the configuration may be another one later. */
static bool know_servers(struct migrate_job *job) {
  struct sync_run run;
  if (job->host_count > 0)
    return true;
  bool ok = migrate_run_begin(job, &run, job->state.apex, NULL) && migrate_find(job, &run);
  migrate_run_close(&run);
  return ok;
}

/* What is seen, taken over into the state.  NS records that nobody of us made may be an answer of
 * an older state, where several servers are behind an address: it may pass. */
static bool look(struct runner *r, struct migrate_view *view) {
  struct migrate_job *job = r->job;
  char why[MIGRATE_WHY];
  bool changed = false;
  const char *skip = job->state.phase == MIGRATE_FILL ? migrate_in_provider(&job->state) : NULL;
  *view = (struct migrate_view){0};
  bool rebase = job->state.rebase;
  if (!know_servers(job) ||
      !(rebase ? migrate_look_twice(job, skip, view) : migrate_look(job, skip, view)))
    return false;
  view->now = migrate_now();
  bool ours = migrate_note(&job->state, view, &changed, why);
  r->odd = ours ? 0 : r->odd + 1;
  job->passing = !ours;
  if (!ours)
    return migrate_fail(job, "%s", why);
  return !changed || migrate_keep(r->job, r->path);
}

/* Looks until the change is seen everywhere. */
static enum outcome wait_seen(struct runner *r, const char *name) {
  struct migrate_job *job = r->job;
  int64_t begun = migrate_now();
  int64_t level = begun; /* it may take days until somebody has set it */
  bool told = job->todo[0] != '\0';
  int64_t most = r->once ? UNSEEN_ONCE_MS : UNSEEN_MS;
  for (int64_t pause = POLL_MS; !interrupted;
       pause = pause * 2 < POLL_MOST_MS ? pause * 2 : POLL_MOST_MS) {
    struct migrate_view view;
    bool ok = look(r, &view);
    bool passing = job->passing;
    migrate_view_close(&view);
    if (!ok && (!passing || r->odd >= TRIES))
      return FAILED;
    if (ok && migrate_has_moved(&job->state, name))
      return WENT_ON;
    if (told && r->once)
      return TOLD;
    if (!told && migrate_now() - begun > most)
      return ok ? (migrate_fail(job,
                                "%.255s was set, but is not seen at all name servers yet; run "
                                "this again later",
                                name),
                   FAILED)
                : FAILED;
    sleep_ms(pause);
    if (migrate_now() - level < LEVEL_MS)
      continue;
    level = migrate_now();
    if (!migrate_do_level(job))
      cli_error("%s", job->why);
  }
  return WENT_ON;
}

static void show_todo(struct migrate_job *job) {
  if (job->todo[0])
    for (char *line = strtok(job->todo, "\n"); line; line = strtok(NULL, "\n"))
      wrap_print("", 13, "%s", line);
  cli_flush();
}

static enum outcome move(struct runner *r, const struct migrate_action *action,
                         const struct migrate_view *view) {
  struct migrate_job *job = r->job;
  const struct migrate_state *s = &job->state;
  bool apex = action->act == MIGRATE_DO_APEX;
  bool in = migrate_adds(s) || migrate_hurries(s);
  char name[NAME_MAX_TEXT];
  const struct migrate_seen *seen = apex ? &view->apex : &view->parent;
  snprintf(name, sizeof name, "%s", action->name);
  json_t *wanted = migrate_wanted(s, seen, name);
  migrate_show_action(job, action);
  cli_flush();
  const char *missing = in ? NULL : nameset_first_missing(migrate_in(s), seen->all);
  bool ok = wanted ? true : migrate_fail(job, "out of memory");
  if (ok && missing)
    ok = migrate_fail(job,
                      "%.255s is not among the NS records, so none of the others goes; --as-is "
                      "adds it again",
                      missing);
  job->todo[0] = '\0';
  ok = ok && (apex ? migrate_do_apex(job, wanted) : migrate_do_parent(job, wanted));
  json_decref(wanted);
  if (!ok)
    return FAILED;
  show_todo(job);
  enum outcome outcome = wait_seen(r, name);
  if (outcome == WENT_ON && !interrupted)
    wrap_print("", 13, "seen everywhere");
  return outcome;
}

static bool do_phase(struct runner *r, enum migrate_act act) {
  struct migrate_view view = {0};
  bool ok = act == MIGRATE_DO_CHECK || look(r, &view);
  migrate_view_close(&view);
  if (!ok)
    return false;
  switch (act) {
  case MIGRATE_DO_CHECK:
    return migrate_do_check(r->job);
  case MIGRATE_DO_FILL:
    return migrate_do_fill(r->job);
  default:
    return migrate_do_verify(r->job);
  }
}

static enum outcome advance(const struct runner *r) {
  migrate_advance(&r->job->state);
  return migrate_keep(r->job, r->path) ? WENT_ON : FAILED;
}

/* What a phase of NS records wants, by what is seen. */
static enum outcome step_moves(struct runner *r) {
  struct migrate_view view;
  struct migrate_action action;
  enum outcome outcome = FAILED;
  if (look(r, &view)) {
    migrate_next(&r->job->state, &view, view.now, &action);
    r->until = action.until;
    outcome = action.act == MIGRATE_DO_NEXT   ? advance(r)
              : action.act == MIGRATE_DO_WAIT ? WAITS
                                              : move(r, &action, &view);
  }
  migrate_view_close(&view);
  return outcome;
}

static enum outcome step(struct runner *r) {
  struct migrate_job *job = r->job;
  struct migrate_action action;
  job->why[0] = '\0';
  job->passing = false;
  job->silent[0] = '\0';
  migrate_next(&job->state, NULL, migrate_now(), &action);
  r->until = action.until;
  switch (action.act) {
  case MIGRATE_DO_CHECK:
  case MIGRATE_DO_FILL:
  case MIGRATE_DO_VERIFY:
    migrate_show_action(job, &action);
    cli_flush();
    return do_phase(r, action.act) ? advance(r) : FAILED;
  case MIGRATE_DO_WAIT:
    return WAITS;
  case MIGRATE_DO_NOTHING:
    return ENDED;
  case MIGRATE_DO_NEXT:
    if (job->state.phase == MIGRATE_WAIT_IN || job->state.phase == MIGRATE_WAIT_OUT)
      return advance(r);
    return step_moves(r);
  default:
    return step_moves(r);
  }
}

/* ---- all steps ------------------------------------------------------------------------------ */

/* Waits, and brings the new provider level where nobody else does. */
static void wait_until(struct runner *r) {
  struct migrate_action action = {.act = MIGRATE_DO_WAIT, .until = r->until};
  migrate_show_action(r->job, &action);
  cli_flush();
  for (int64_t now = migrate_now(); now < r->until && !interrupted; now = migrate_now()) {
    bool level = !r->job->listed && r->until - now > LEVEL_MS;
    sleep_ms(level ? LEVEL_MS : r->until - now);
    if (level && !interrupted && !migrate_do_level(r->job))
      cli_error("%s", r->job->why);
  }
}

static int failed(const struct runner *r) {
  const struct migrate_job *job = r->job;
  migrate_show_failure(job);
  if (job->state.phase > MIGRATE_FILL)
    cli_error("stopped at %s; the same command goes on from here, --back goes back to %s",
              migrate_phase_name(job->state.phase), migrate_out_provider(&job->state));
  return job->changed ? CLI_PARTIAL : CLI_FAILED;
}

static int later(const struct runner *r, enum outcome outcome) {
  char time[TIMES_TEXT];
  if (outcome == WAITS)
    wrap_print("next", 13, "at %s: run `sluice sync migrate %s` again",
               times_utc((r->until + 999) / 1000, time), r->job->zone);
  else
    wrap_print("next", 13, "when that is done: run `sluice sync migrate %s` again", r->job->zone);
  return CLI_PARTIAL;
}

static int run_steps(struct runner *r) {
  unsigned tries = 0;
  while (!interrupted) {
    enum outcome outcome = step(r);
    if (outcome == ENDED)
      return CLI_DONE;
    if (interrupted)
      break;
    if (outcome == FAILED && r->job->passing && !r->once && ++tries < TRIES) {
      wrap_print("", 13, "%s; tries again", r->job->why);
      cli_flush();
      sleep_ms(INT64_C(500) << tries);
      continue;
    }
    if (outcome == FAILED)
      return failed(r);
    tries = 0;
    if (outcome == TOLD || (outcome == WAITS && r->once))
      return later(r, outcome);
    if (outcome == WAITS)
      wait_until(r);
  }
  cli_error("interrupted at %s; the same command goes on from here",
            migrate_phase_name(r->job->state.phase));
  return CLI_PARTIAL;
}

/* ---- providers that are there again --------------------------------------------------------- */

/* Its name servers tell what it was given, as all others do. */
static bool wait_joined(struct runner *r) {
  struct migrate_job *job = r->job;
  int64_t most = migrate_now() + (r->once ? UNSEEN_ONCE_MS : UNSEEN_MS);
  for (int64_t pause = POLL_MS; !interrupted; pause *= 2) {
    struct migrate_view view;
    bool ok = look(r, &view);
    migrate_view_close(&view);
    if (ok || !job->passing || migrate_now() > most)
      return ok;
    sleep_ms(pause < POLL_MOST_MS ? pause : POLL_MOST_MS);
  }
  return true;
}

static enum outcome rejoin(struct runner *r, const char *provider) {
  struct migrate_job *job = r->job;
  bool moved = job->state.phase > MIGRATE_VERIFY;
  if (!migrate_is_down(&job->state, provider))
    return WENT_ON;
  wrap_print("up", 13, "%s gets what is in force by now", provider);
  cli_flush();
  if (job->state.phase > MIGRATE_CHECK && !migrate_do_rejoin(job, provider))
    return FAILED;
  if (job->todo[0]) {
    show_todo(job);
    wrap_print("next", 13, "when that is done: run `sluice sync migrate %s --up %s` again",
               job->zone, provider);
    return TOLD;
  }
  migrate_rejoin(&job->state, provider, migrate_now());
  if (!migrate_keep(job, r->path))
    return FAILED;
  return !moved || wait_joined(r) ? WENT_ON : FAILED;
}

static enum outcome rejoin_all(struct runner *r) {
  enum outcome outcome = WENT_ON;
  for (size_t i = 0; outcome == WENT_ON && i < json_array_size(r->job->up); i++)
    outcome = rejoin(r, json_string_value(json_array_get(r->job->up, i)));
  return outcome;
}

int migrate_walk(struct migrate_job *job, const char *path, bool once) {
  struct runner r = {.job = job, .path = path, .once = once};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  if (!migrate_keep(job, path)) {
    cli_error("%s", job->why);
    return CLI_FAILED;
  }
  enum outcome joined = rejoin_all(&r);
  if (joined == FAILED)
    return failed(&r);
  if (joined == TOLD)
    return CLI_PARTIAL;
  migrate_show_down(&job->state);
  return run_steps(&r);
}
