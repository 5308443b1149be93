/* SPDX-License-Identifier: Apache-2.0 */
/* `sluice sync plan`, `apply` and `drift`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "tools/cli.h"
#include "tools/client.h"
#include "tools/endpoints/level.h"
#include "tools/machine.h"
#include "tools/sync/lock.h"
#include "tools/sync/run.h"
#include "tools/sync/saved.h"

enum { DIGEST_LEAST = 12, WAIT_MOST_S = 3600 };

/* What the three commands are asked for. */
struct flags {
  struct sync_options options;
  bool json, verbose;
  bool take_over, ns_change, last, large;
  const char *out;                  /* plan */
  const char *digest, *plan, *wait; /* apply */
  bool yes, as_configured;
  json_t *saved; /* of `plan` */
};

#define COMMON_OPTIONS(f)                                                                          \
  {"config", "DIR", "the configuration directory (default: the\ncommit of the current build)",     \
   &(f)->options.config, NULL},                                                                    \
      {"git", "REPO", "the configuration in this git repository", &(f)->options.git, NULL},        \
      {"commit", "REV", "which commit of it", &(f)->options.commit, NULL},                         \
      {"provider", "P[,P...]", "only these providers", &(f)->options.provider, NULL},              \
      {"settings", "FILE", MACHINE_HELP, &(f)->options.settings, NULL},                            \
      {"socket", "PATH", CLIENT_SOCKET_HELP, &(f)->options.socket, NULL},                          \
      {"verbose", NULL, "list every record that is left alone", NULL, &(f)->verbose}, {            \
    "json", NULL, "print JSON", NULL, &(f)->json                                                   \
  }

#define CONSENT_OPTIONS(f)                                                                         \
  {"take-over", NULL, "also change records that somebody else\nmade, and mark them as ours", NULL, \
   &(f)->take_over},                                                                               \
      {"allow-ns-change", NULL, "also change the NS records of the apex", NULL, &(f)->ns_change},  \
      {"allow-last", NULL, "also delete the last steered name of a zone", NULL, &(f)->last}, {     \
    "allow-large", NULL, "also update or delete more than 30 % of a\nzone's records", NULL,        \
        &(f)->large                                                                                \
  }

/* ---- what they share ------------------------------------------------------------------------ */

static int check(struct flags *f, char **argv, size_t args) {
  struct sync_options *o = &f->options;
  if (!o->git != !o->commit)
    return cli_usage("--git and --commit go together; give both");
  if (o->git && o->config)
    return cli_usage("--config and --git exclude each other; give one");
  o->args = argv + 1;
  o->arg_count = args;
  o->consents = (f->take_over ? (unsigned)SYNC_TAKE_OVER : 0) |
                (f->ns_change ? (unsigned)SYNC_NS_CHANGE : 0) |
                (f->last ? (unsigned)SYNC_LAST : 0) | (f->large ? (unsigned)SYNC_LARGE : 0);
  return CLI_DONE;
}

static bool print_json(const struct sync_run *run, const char *kind) {
  json_t *document = sync_json(run, kind);
  if (!document)
    cli_error("out of memory");
  bool ok = document && cli_print_json(document);
  json_decref(document);
  return ok;
}

/* The first error of each provider on stderr, where stdout is for a program. */
static void print_errors(const struct sync_run *run) {
  if (*run->warning)
    cli_error("warning: %s", run->warning);
  for (size_t i = 0; i < run->target_count; i++)
    if (run->targets[i].state == SYNC_FAILED || run->targets[i].state == SYNC_PARTIAL)
      cli_error("%s", run->targets[i].error.text);
}

/* Reads the arguments, opens a run, and lets `work` give the exit status. */
static int run_command(const struct cli_spec *spec, struct flags *f, int argc, char **argv,
                       int (*begin)(struct flags *f),
                       int (*work)(struct sync_run *run, struct flags *f)) {
  size_t args;
  enum cli_next next = cli_parse(spec, argc, argv, &args);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  int status = check(f, argv, args);
  if (status == CLI_DONE && begin)
    status = begin(f);
  if (status != CLI_DONE)
    return status;
  struct sync_run run;
  status = sync_run_open(&run, &f->options);
  if (status == CLI_DONE) {
    status = work(&run, f);
    print_errors(&run);
  }
  sync_run_close(&run);
  return status;
}

/* ---- plan ----------------------------------------------------------------------------------- */

static int plan_work(struct sync_run *run, struct flags *f) {
  sync_run_plan(run);
  int status = sync_run_status(run);
  if (f->out && !sync_saved_write(run, f->out))
    return CLI_FAILED;
  if (f->json && !print_json(run, "plan"))
    status = CLI_FAILED;
  if (!f->json)
    sync_show_plan(run, f->verbose);
  return cli_flush() ? status : CLI_FAILED;
}

int sync_plan_command(int argc, char **argv) {
  struct flags f = {0};
  const struct cli_option options[] = {
      {"out", "FILE", "save the plan, for `sync apply --plan FILE`", &f.out, NULL},
      COMMON_OPTIONS(&f),
      CONSENT_OPTIONS(&f),
  };
  const struct cli_spec spec = {
      .usage = "sluice sync plan [ZONE|DOMAIN...] [--provider P,...] [--config DIR]",
      .about = "Reads what each provider holds and shows what would change there: record sets\n"
               "with old and new values, shares of answers before and after, what the provider\n"
               "cannot express, and a digest for `sluice sync apply --digest`.  Sends no request\n"
               "that writes.  Exit status: 3 if a provider could not be read, or if something\n"
               "would be held back.",
      .examples = "sluice sync plan\n"
                  "sluice sync plan tm.example.com --provider dns-a\n"
                  "sluice sync plan --out monday.plan\n"
                  "sluice sync plan cdn --config . --json",
      .options = options,
      .option_count = CLI_COUNT(options),
      .max_args = (size_t)argc,
  };
  return run_command(&spec, &f, argc, argv, NULL, plan_work);
}

/* ---- apply ---------------------------------------------------------------------------------- */

static size_t to_do(const struct sync_run *run) {
  size_t count = 0;
  for (size_t i = 0; i < run->target_count; i++)
    for (size_t k = 0; run->targets[i].state == SYNC_PLANNED && k < run->targets[i].plan.count; k++)
      count += run->targets[i].plan.items[k].held == 0;
  return count;
}

/* What is not as in the file, for people or programs; the message follows. */
static void show_stale(const struct sync_run *run, const struct flags *f) {
  json_t *differences = sync_saved_compare(f->saved, run);
  json_t *all = f->json && differences
                    ? json_pack("{s:i, s:s, s:O}", "v", 1, "kind", "stale", "changes", differences)
                    : NULL;
  if (all)
    cli_print_json(all);
  else if (differences && json_array_size(differences) > 0) {
    printf("What is not as in %s:\n", f->plan);
    sync_saved_show(differences);
  }
  cli_flush();
  json_decref(all);
  json_decref(differences);
}

/* True if the digest is that of the plan: whole, or its beginning. */
static bool digest_fits(const struct sync_run *run, const struct flags *f, const char *given) {
  char digest[SYNC_DIGEST] = "";
  size_t len = strlen(given);
  if (!sync_run_digest(run, digest))
    return false;
  if (len >= DIGEST_LEAST && strncmp(digest, given, len) == 0)
    return true;
  if (f->saved) {
    show_stale(run, f);
    cli_error("nothing was changed: %.200s does not hold any more, its digest is %.12s and that of "
              "what would be done now is %s; make and look at it again with `sluice sync plan "
              "--out`",
              f->plan, given, digest);
  } else {
    cli_error("nothing was changed: the plan is not the one that was seen, its digest is now %s; "
              "look at `sluice sync plan` again",
              digest);
  }
  return false;
}

static bool ask(size_t count) {
  char line[16] = "";
  fprintf(stderr, "Make %zu change%s? (yes or no) ", count, cli_s((long long)count));
  fflush(stderr);
  if (fgets(line, sizeof line, stdin) && (strcmp(line, "yes\n") == 0 || strcmp(line, "y\n") == 0))
    return true;
  cli_error("nothing was changed");
  return false;
}

/* Without server and store, what was set by hand is not known and would be undone at the providers:
 * only where the machine keeps no such state, or if that is wanted. */
static bool knows_enough(const struct sync_run *run, const struct flags *f) {
  struct machine machine;
  if (run->facts || f->as_configured)
    return true;
  if (!machine_read(&machine, f->options.settings))
    return false;
  char *path = machine.state ? fs_join(machine.state, "store.db") : NULL;
  bool kept = path && access(path, F_OK) == 0;
  free(path);
  machine_close(&machine);
  if (kept)
    cli_error("nothing was changed: weights and statuses that were set by hand are not known "
              "(%.400s); with --as-configured the configuration's are used",
              run->note);
  return !kept;
}

/* True if another run keeps one of the targets. */
static bool is_kept_out(const struct sync_run *run) {
  for (size_t i = 0; i < run->target_count; i++)
    if (run->targets[i].error.failure != PROVIDER_OK)
      return true;
  return false;
}

/* The rest of apply once it is clear that it may; `digest` or NULL. */
static int apply_locked(struct sync_run *run, struct flags *f, const char *digest, bool shown) {
  if (!sync_run_lock(run) || !knows_enough(run, f) || (digest && is_kept_out(run)))
    return CLI_FAILED; /* a part of that plan would be another one */
  sync_run_plan(run);
  if (digest && !digest_fits(run, f, digest))
    return CLI_FAILED;
  if (!f->json && !shown)
    sync_show_plan(run, f->verbose);
  if (!cli_flush())
    return CLI_FAILED;
  sync_run_apply(run);
  level_retry(run->options.settings);
  int status = sync_run_status(run);
  if (f->json && !print_json(run, "apply"))
    status = CLI_PARTIAL;
  if (!f->json)
    sync_show_result(run);
  if (!cli_flush() && status == CLI_DONE)
    status = CLI_PARTIAL;
  return status;
}

/* Nobody is kept waiting while somebody thinks: what was answered holds for that plan only. */
static int apply_asked(struct sync_run *run, struct flags *f) {
  char digest[SYNC_DIGEST];
  sync_run_plan(run);
  size_t count = to_do(run);
  sync_show_plan(run, f->verbose);
  if (!cli_flush() || !sync_run_digest(run, digest) || (count > 0 && !ask(count)))
    return CLI_FAILED;
  sync_run_close(run);
  int status = sync_run_open(run, &f->options);
  return status == CLI_DONE ? apply_locked(run, f, digest, true) : status;
}

static int apply_work(struct sync_run *run, struct flags *f) {
  if (!knows_enough(run, f))
    return CLI_FAILED;
  if (!f->yes && !f->digest && !f->saved)
    return apply_asked(run, f);
  return apply_locked(run, f, f->saved ? sync_saved_digest(f->saved) : f->digest, false);
}

static int take_wait(struct flags *f) {
  f->options.lock_wait_ms = SYNC_LOCK_WAIT_MS;
  if (!f->wait)
    return CLI_DONE;
  size_t len = strlen(f->wait);
  long seconds = len > 0 && len < 6 && strspn(f->wait, "0123456789") == len ? atol(f->wait) : -1;
  if (seconds < 0 || seconds > WAIT_MOST_S)
    return cli_usage("--wait must be seconds from 0 to %d", WAIT_MOST_S);
  f->options.lock_wait_ms = (unsigned)seconds * 1000;
  return CLI_DONE;
}

static int take_plan(struct flags *f) {
  char why[SYNC_SAVED_WHY];
  if (f->digest || f->options.arg_count > 0 || f->options.provider || f->options.consents)
    return cli_usage("the plan's file says which zones, providers and consents; leave them out, "
                     "and --digest too");
  f->saved = sync_saved_read(f->plan, why);
  if (f->saved && sync_saved_options(f->saved, &f->options))
    return CLI_DONE;
  cli_error("nothing was changed: %s", f->saved ? "out of memory" : why);
  return CLI_FAILED;
}

static int begin_apply(struct flags *f) {
  int status = take_wait(f);
  if (status == CLI_DONE && f->plan)
    status = take_plan(f);
  if (status == CLI_DONE && !f->yes && !f->digest && !f->plan && (!isatty(STDIN_FILENO) || f->json))
    return cli_usage("nobody can be asked here; give --digest of the plan that was seen, --plan "
                     "FILE, or --yes");
  return status;
}

int sync_apply_command(int argc, char **argv) {
  struct flags f = {0};
  const struct cli_option options[] = {
      {"yes", NULL, "do not ask", NULL, &f.yes},
      {"digest", "HEX", "only if the plan is the one with this digest\n(or its first 12 digits)",
       &f.digest, NULL},
      {"plan", "FILE", "only if it is the plan that `sync plan --out`\nhas saved", &f.plan, NULL},
      {"wait", "SECONDS", "how long to wait for another run at the same\nprovider (default 10)",
       &f.wait, NULL},
      CONSENT_OPTIONS(&f),
      {"as-configured", NULL,
       "without a server or its store that tells what\nwas set by hand: use the configuration's\n"
       "weights",
       NULL, &f.as_configured},
      COMMON_OPTIONS(&f),
  };
  const struct cli_spec spec = {
      .usage = "sluice sync apply [ZONE|DOMAIN...] [--provider P,...] [--yes | --digest HEX]\n"
               "sluice sync apply --plan FILE",
      .about = "Plans as `sluice sync plan`, asks, makes the changes at all providers at once,\n"
               "and reads them again: only what is then seen there counts as done.  What fails\n"
               "at one provider does not stop the others; run it again when the cause is gone.\n"
               "Changes that need a consent that was not given are held back.  Two runs on one\n"
               "machine never change a zone at the same provider at the same time.\n"
               "Exit status: 3 if not all could be done, or something is held back.",
      .examples = "sluice sync apply\n"
                  "sluice sync apply tm.example.com --yes\n"
                  "sluice sync apply --digest 5f2c8e1b90aa --allow-ns-change\n"
                  "sluice sync apply --plan monday.plan",
      .options = options,
      .option_count = CLI_COUNT(options),
      .max_args = (size_t)argc,
  };
  int status = run_command(&spec, &f, argc, argv, begin_apply, apply_work);
  if (f.saved)
    free(f.options.args);
  json_decref(f.saved);
  return status;
}

/* ---- drift ---------------------------------------------------------------------------------- */

static int drift_status(const struct sync_run *run) {
  size_t failed = 0;
  size_t differ = 0;
  for (size_t i = 0; i < run->target_count; i++) {
    const struct sync_plan *plan = &run->targets[i].plan;
    failed += run->targets[i].state == SYNC_FAILED;
    differ += plan->creates + plan->updates + plan->deletes > 0;
  }
  if (failed == run->target_count)
    return CLI_FAILED;
  return failed + differ > 0 ? CLI_PARTIAL : CLI_DONE;
}

static int drift_work(struct sync_run *run, struct flags *f) {
  sync_run_plan(run);
  int status = drift_status(run);
  if (f->json && !print_json(run, "drift"))
    status = CLI_FAILED;
  if (!f->json)
    sync_show_drift(run, f->verbose);
  return cli_flush() ? status : CLI_FAILED;
}

int sync_drift_command(int argc, char **argv) {
  struct flags f = {0};
  const struct cli_option options[] = {COMMON_OPTIONS(&f)};
  const struct cli_spec spec = {
      .usage = "sluice sync drift [ZONE|DOMAIN...] [--provider P,...] [--config DIR]",
      .about = "Compares what each provider holds with the configuration, and the providers with\n"
               "one another.  Changes nothing.\n"
               "Exit status: 3 if anything differs or a provider could not be read.",
      .examples = "sluice sync drift\n"
                  "sluice sync drift cdn --json",
      .options = options,
      .option_count = CLI_COUNT(options),
      .max_args = (size_t)argc,
  };
  return run_command(&spec, &f, argc, argv, NULL, drift_work);
}
