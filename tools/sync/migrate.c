/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice sync migrate`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "tools/cli.h"
#include "tools/client.h"
#include "tools/machine.h"
#include "tools/sync/migrate.h"
#include "tools/sync/nameset.h"
#include "tools/times.h"
#include "tools/wrap.h"

struct flags {
  struct sync_options options;
  const char *from, *to, *ns, *parent, *state, *settle, *down, *up;
  bool back, forward, as_is, once, status, plan, dry_run, yes, json, delete_old;
  bool leave_records, take_over, allow_large, as_configured;
};

/* ---- beginning ------------------------------------------------------------------------------ */

static char *state_folder(const struct flags *f) {
  struct machine machine;
  if (f->state)
    return strdup(f->state);
  if (!machine_read(&machine, f->options.settings))
    return NULL;
  char *folder = machine.state ? fs_join(machine.state, "migrate") : NULL;
  machine_close(&machine);
  if (!folder)
    cli_error("the machine's settings do not say where state is kept (`state:`); name a folder by "
              "--state DIR");
  return folder;
}

static int begin(struct migrate_job *job, const struct flags *f) {
  struct migrate_state *s = &job->state;
  migrate_close(s);
  if (!f->from || !f->to)
    return cli_usage("no migration of %s is under way; begin one with --from A --to B", job->zone);
  if (f->back || f->forward || f->as_is)
    return cli_usage("no migration of %s is under way, so there is no way back", job->zone);
  if (strcmp(f->from, f->to) == 0)
    return cli_usage("--from and --to are the same provider");
  if (strpbrk(f->from, ",/ ") || strpbrk(f->to, ",/ ") || strlen(f->from) + strlen(f->to) > 250)
    return cli_usage("--from and --to take one provider each");
  if (!migrate_open(s))
    return CLI_FAILED;
  s->zone = strdup(job->zone);
  s->from = strdup(f->from);
  s->to = strdup(f->to);
  s->started = migrate_now();
  return s->zone && s->from && s->to ? CLI_DONE : CLI_FAILED;
}

/* The parts of "A,B" as texts; NULL: there is an empty one, or no memory. */
static json_t *read_list(const char *text) {
  json_t *list = json_array();
  while (list && text) {
    size_t len = strcspn(text, ",");
    if (len == 0 || len > MIGRATE_PROVIDER - 1 ||
        json_array_append_new(list, json_stringn(text, len)) != 0) {
      json_decref(list);
      list = NULL;
    }
    text = list && text[len] == ',' ? text + len + 1 : NULL;
  }
  return list;
}

/* Who is down, and who is there again. */
static int take_down(struct migrate_job *job, const struct flags *f) {
  struct migrate_state *s = &job->state;
  json_t *down = read_list(f->down);
  int status = down ? CLI_DONE : cli_usage("--down takes providers: NAME,...");
  job->up = read_list(f->up);
  if (down && !job->up)
    status = cli_usage("--up takes providers: NAME,...");
  for (size_t i = 0; status == CLI_DONE && i < json_array_size(down); i++) {
    const char *name = json_string_value(json_array_get(down, i));
    if (s->phase != MIGRATE_DONE && !migrate_set_down(s, name))
      status = cli_usage("%s gets the zone, so it cannot be done without; %s goes back to %s", name,
                         s->back ? "--forward" : "--back", migrate_out_provider(s));
  }
  json_decref(down);
  return status;
}

/* Of a state that is there: a name that is none is not to be kept in it. */
static int check_down(struct migrate_job *job) {
  struct sync_run run;
  bool ok = migrate_run_begin(job, &run, NULL, NULL);
  migrate_run_close(&run);
  if (!ok)
    cli_error("%s", job->why);
  return ok ? CLI_DONE : CLI_FAILED;
}

static int take_options(struct migrate_job *job, const struct flags *f) {
  int64_t seconds;
  if (f->settle && strcmp(f->settle, "0") == 0) {
    job->state.settle = 0;
  } else if (f->settle) {
    if (!times_read_span(f->settle, &seconds) || seconds > INT32_MAX)
      return cli_usage("--settle takes a time such as 90s, 30m or 2h (or 0)");
    job->state.settle = (uint32_t)seconds;
  }
  if (f->parent)
    json_array_clear(job->state.parents);
  for (const char *at = f->parent; at;) {
    size_t len = strcspn(at, ",");
    if (len == 0 || len > 255 ||
        json_array_append_new(job->state.parents, json_stringn(at, len)) != 0)
      return cli_usage("--parent takes name servers: ADDRESS[@PORT],...");
    at = at[len] == ',' ? at + len + 1 : NULL;
  }
  if (!f->ns)
    return CLI_DONE;
  json_decref(job->names);
  job->names = nameset_parse(f->ns);
  if (!job->names)
    return cli_usage("--ns takes host names of name servers: NAME,...");
  return CLI_DONE;
}

/* A state that is there goes on, if it is of the same migration. */
static int resume(struct migrate_job *job, const struct flags *f) {
  struct migrate_state *s = &job->state;
  bool same = (!f->from || strcmp(f->from, s->from) == 0) && (!f->to || strcmp(f->to, s->to) == 0);
  bool over = s->phase == MIGRATE_DONE;
  if (over && f->from && f->to && !f->back && !f->forward && (!same || s->back)) {
    if (same) /* after the way back its apex does not tell them any more */
      job->names = json_deep_copy(s->new);
    return begin(job, f);
  }
  if (!same)
    return cli_usage("a migration of %s from %s to %s is under way (%s); let it end, or go back by "
                     "--back",
                     job->zone, s->from, s->to, migrate_phase_name(s->phase));
  if (f->back && s->deleted)
    return cli_usage("%s has been deleted at %s: there is no way back; begin one with --from %s "
                     "--to %s",
                     job->zone, s->from, s->to, s->from);
  bool turned = (f->back || f->forward) && f->back != s->back; /* a repetition goes on */
  if (turned || f->as_is)
    migrate_turn(s, f->as_is ? s->back : f->back);
  return CLI_DONE;
}

static bool ask(const struct migrate_job *job) {
  char line[16] = "";
  fprintf(stderr, "Move %s from %s to %s? (yes or no) ", job->zone, job->state.from, job->state.to);
  fflush(stderr);
  if (fgets(line, sizeof line, stdin) && (strcmp(line, "yes\n") == 0 || strcmp(line, "y\n") == 0))
    return true;
  cli_error("nothing was changed");
  return false;
}

/* Shows what is to come, and gets the consent for it. */
static int consent(struct migrate_job *job, const struct flags *f) {
  bool only = f->plan || f->dry_run;
  job->dry = true;
  bool ok = migrate_do_check(job);
  job->dry = false;
  if (!ok) {
    migrate_show_failure(job);
    return CLI_FAILED;
  }
  migrate_show_plan(job);
  if (!cli_flush())
    return CLI_FAILED;
  if (only)
    return CLI_DONE;
  if (!f->yes && !isatty(STDIN_FILENO)) {
    cli_error("nothing was changed: without a terminal, --yes says that this is wanted");
    return CLI_FAILED;
  }
  return f->yes || ask(job) ? CLI_DONE : CLI_FAILED;
}

static int delete_old(struct migrate_job *job, const char *path) {
  if (job->state.back || job->state.deleted)
    return CLI_DONE;
  if (!migrate_do_delete(job)) {
    cli_error("%s", job->why);
    return job->changed ? CLI_PARTIAL : CLI_FAILED;
  }
  job->state.deleted = true;
  wrap_print("", 13, "The zone was deleted at %s.", job->state.from);
  if (migrate_keep(job, path))
    return CLI_DONE;
  cli_error("%s", job->why);
  return CLI_PARTIAL;
}

static int go(struct migrate_job *job, const struct flags *f, const char *path) {
  int status = migrate_walk(job, path, f->once);
  if (status == CLI_DONE && f->delete_old)
    status = delete_old(job, path);
  if (status == CLI_DONE)
    migrate_show_end(job);
  return status;
}

/* ---- the command ---------------------------------------------------------------------------- */

static int show_status(const struct migrate_job *job, const struct flags *f, bool found) {
  if (!found) {
    cli_error("no migration of %s is under way", job->zone);
    return CLI_FAILED;
  }
  if (!f->json) {
    migrate_show_status(&job->state, migrate_now());
    return cli_flush() ? CLI_DONE : CLI_FAILED;
  }
  json_t *document = migrate_status_json(&job->state, migrate_now());
  bool ok = document && cli_print_json(document);
  json_decref(document);
  return ok && cli_flush() ? CLI_DONE : CLI_FAILED;
}

static int work(struct migrate_job *job, const struct flags *f, const char *path) {
  char why[MIGRATE_WHY];
  bool found = false;
  if (!migrate_open(&job->state) || !migrate_load(&job->state, path, &found, why)) {
    cli_error("%s", found ? why : "out of memory");
    return CLI_FAILED;
  }
  if (f->status)
    return show_status(job, f, found);
  bool consented = found && job->state.phase == MIGRATE_CHECK;
  int status = found ? resume(job, f) : begin(job, f);
  bool fresh = status == CLI_DONE && job->state.phase == MIGRATE_CHECK && !consented;
  if (status == CLI_DONE)
    status = take_options(job, f);
  if (status == CLI_DONE)
    status = take_down(job, f);
  if (status == CLI_DONE && !fresh && f->down)
    status = check_down(job);
  if (status == CLI_DONE && !fresh && (f->plan || f->dry_run)) {
    migrate_show_status(&job->state, migrate_now());
    return cli_flush() ? CLI_DONE : CLI_FAILED;
  }
  if (status == CLI_DONE && fresh)
    status = consent(job, f);
  return status == CLI_DONE && !f->plan && !f->dry_run ? go(job, f, path) : status;
}

static bool take_zone(struct migrate_job *job, const char *text) {
  uint8_t wire[NAME_BUF];
  uint8_t lower[NAME_BUF];
  const char *why;
  if (name_from_text(wire, text, strlen(text), NULL, &why) == 0)
    return false;
  name_copy_lower(lower, wire);
  name_to_text(job->zone, lower);
  return true;
}

static int migrate(const struct flags *f, const char *zone) {
  struct migrate_job job = {.options = f->options,
                            .leave_records = f->leave_records,
                            .take_over = f->take_over,
                            .allow_large = f->allow_large,
                            .as_configured = f->as_configured};
  char why[FS_WHY];
  char reason[MIGRATE_WHY];
  if (!take_zone(&job, zone))
    return cli_usage("%s is no name of a zone", zone);
  char *folder = state_folder(f);
  char *path = folder ? migrate_path(folder, job.zone) : NULL;
  int lock = -1;
  int status = CLI_FAILED;
  bool look_only = f->status || f->plan || f->dry_run;
  if (path && !look_only && !fs_make_dirs(folder, why))
    cli_error("%s", why);
  else if (path && !look_only && (lock = migrate_lock(path, reason)) < 0)
    cli_error("%s", reason);
  else if (path)
    status = work(&job, f, path);
  if (lock >= 0)
    close(lock);
  free(path);
  free(folder);
  migrate_job_close(&job);
  return status;
}

static int check(struct flags *f) {
  if (!f->options.git != !f->options.commit)
    return cli_usage("--git and --commit go together; give both");
  if (f->options.git && f->options.config)
    return cli_usage("--config and --git exclude each other; give one");
  if (f->back + f->forward + f->as_is > 1)
    return cli_usage("--back, --forward and --as-is exclude each other; give one");
  if (f->delete_old && f->back)
    return cli_usage("--delete-old and --back exclude each other; give one");
  return CLI_DONE;
}

int sync_migrate_command(int argc, char **argv) {
  struct flags f = {0};
  const struct cli_option options[] = {
      {"from", "PROVIDER", "the provider that has the zone", &f.from, NULL},
      {"to", "PROVIDER", "the provider that gets it", &f.to, NULL},
      {"plan", NULL, "show all steps, change nothing", NULL, &f.plan},
      {"dry-run", NULL, "the same", NULL, &f.dry_run},
      {"status", NULL, "show where it is, and what comes next and when", NULL, &f.status},
      {"yes", NULL, "do not ask before it begins", NULL, &f.yes},
      {"once", NULL, "do what can be done now; exit status 3 if\nthere is more to come, and when",
       NULL, &f.once},
      {"back", NULL, "go back to the first provider, step by step", NULL, &f.back},
      {"forward", NULL, "turn forward again after --back", NULL, &f.forward},
      {"down", "PROVIDER[,...]",
       "this provider is down: go on without it, it is\nneither asked nor written (remembered)",
       &f.down, NULL},
      {"up", "PROVIDER[,...]", "it is there again: write what it has missed,\ngo on with it", &f.up,
       NULL},
      {"as-is", NULL, "go on from the NS records as they are now,\nwhoever changed them", NULL,
       &f.as_is},
      {"delete-old", NULL, "at the end delete the zone at the first\nprovider", NULL,
       &f.delete_old},
      {"ns", "NAME[,NAME...]", "the name servers of the new provider, where\nthey are not known",
       &f.ns, NULL},
      {"parent", "ADDR[@PORT][,...]", "name servers of the parent zone (default:\nas found)",
       &f.parent, NULL},
      {"settle", "TIME",
       "the pause between two name servers of a step\n(default: their TTL, at most "
       "1h)",
       &f.settle, NULL},
      {"leave-records", NULL, "leave behind what the configuration does\nnot have", NULL,
       &f.leave_records},
      {"take-over", NULL, "also change records that somebody else made\nat the new provider", NULL,
       &f.take_over},
      {"allow-large", NULL, "also change more than 30 % of a zone that is\nthere already", NULL,
       &f.allow_large},
      {"as-configured", NULL,
       "without a server that tells what was set by\nhand: use the "
       "configuration's weights",
       NULL, &f.as_configured},
      {"state", "DIR", "where its state is kept (default: migrate/ in\n`state:` of the settings)",
       &f.state, NULL},
      {"config", "DIR", "the configuration directory (default: the\ncommit of the current build)",
       &f.options.config, NULL},
      {"git", "REPO", "the configuration in this git repository", &f.options.git, NULL},
      {"commit", "REV", "which commit of it", &f.options.commit, NULL},
      {"settings", "FILE", MACHINE_HELP, &f.options.settings, NULL},
      {"socket", "PATH", CLIENT_SOCKET_HELP, &f.options.socket, NULL},
      {"json", NULL, "print JSON (with --status)", NULL, &f.json},
  };
  const struct cli_spec spec = {
      .usage = "sluice sync migrate ZONE --from A --to B [--yes] [--once]\n"
               "sluice sync migrate ZONE [--once | --status | --back]",
      .about = "Moves a zone from one provider to another without a failed lookup: makes it at B\n"
               "and verifies B's answers, then moves the NS records one by one, first those of\n"
               "the apex, then the delegation in the parent zone, waits as long as resolvers may\n"
               "know the old ones, and takes A's out in the same way.  What it is doing is told\n"
               "from what name servers answer, so it may be stopped at any time; without --from\n"
               "and --to it goes on.  Anything unexpected stops it before the next change.\n"
               "Where A is down (--down A), B is filled and verified from the configuration, and\n"
               "its NS records take the place of A's at once.\n"
               "Exit status: 3 if it is not at its end.",
      .examples = "sluice sync migrate tm.example.com --from dns-a --to dns-b --plan\n"
                  "sluice sync migrate tm.example.com --from dns-a --to dns-b\n"
                  "sluice sync migrate tm.example.com --from dns-a --to dns-b --down dns-a\n"
                  "sluice sync migrate tm.example.com --once\n"
                  "sluice sync migrate tm.example.com --status\n"
                  "sluice sync migrate tm.example.com --back",
      .options = options,
      .option_count = CLI_COUNT(options),
      .min_args = 1,
      .max_args = 1,
  };
  size_t args;
  enum cli_next next = cli_parse(&spec, argc, argv, &args);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  int status = check(&f);
  return status == CLI_DONE ? migrate(&f, argv[1]) : status;
}
