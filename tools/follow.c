/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "tools/cli.h"
#include "tools/client.h"
#include "tools/commands.h"
#include "tools/deploy.h"
#include "tools/follow_fetch.h"
#include "tools/machine.h"

enum { FETCH_SECONDS = 120, DEFAULT_INTERVAL = 10, MOST_INTERVAL = 86400 };

struct follower {
  struct deploy_place place; /* of the mirror */
  const char *url;
  bool stoppable;  /* SIGTERM and SIGINT are blocked, and end it */
  bool checked;    /* what is recorded was made live by this process */
  char told[1024]; /* the last error, which is told once */
};

/* ---- the mirror -------------------------------------------------------------------------------
 */

static bool init_mirror(const char *path, char *why) {
  git_repository *repo = NULL;
  git_libgit2_init();
  bool ok = git_repository_init(&repo, path, 1) == 0 || git_repo_fail(why, "make the mirror");
  git_repository_free(repo);
  git_libgit2_shutdown();
  return ok;
}

static bool write_origin(const struct deploy_place *place, const char *url, char *why) {
  json_t *root = json_pack("{s:s, s:s}", "repository", place->repository, "follow", url);
  char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
  char *path = deploy_file(place, "origin.json");
  mode_t mask = umask(022);
  bool ok = text && path;
  if (!ok)
    snprintf(why, DEPLOY_WHY, "out of memory");
  ok = ok && fs_write_atomic(path, text, strlen(text), 0644, why);
  umask(mask);
  free(path);
  free(text);
  json_decref(root);
  return ok;
}

static bool set_up(struct follower *f, char *why) {
  char *folder = deploy_file(&f->place, "");
  f->place.repository = deploy_file(&f->place, "mirror.git");
  mode_t mask = umask(022);
  bool ok = folder && f->place.repository;
  if (!ok)
    snprintf(why, DEPLOY_WHY, "out of memory");
  ok = ok && fs_make_dirs(folder, why) && init_mirror(f->place.repository, why) &&
       deploy_place_write(&f->place, why) && write_origin(&f->place, f->url, why);
  umask(mask);
  free(folder);
  return ok;
}

/* ---- one round --------------------------------------------------------------------------------
 */

/* Takes what was fetched over, if it goes on from what was there: a deploy, once it was told, stays
 * as it is. */
static bool accept(struct deploy *deploy, const git_oid *id, struct deploy_record *record,
                   char *why) {
  git_reference *ref = NULL;
  if (deploy->has_last && git_graph_descendant_of(deploy->repo, id, &deploy->last_id) != 1) {
    snprintf(
        why, DEPLOY_WHY,
        "the deploys of the followed repository were rewritten; if that was meant, remove %.300s",
        deploy->place->repository);
    return false;
  }
  if (deploy->has_last && record->number <= deploy->last.number) {
    snprintf(why, DEPLOY_WHY,
             "the followed repository counts its deploys backwards: %lld after %lld",
             (long long)record->number, (long long)deploy->last.number);
    return false;
  }
  int rc = git_reference_create(&ref, deploy->repo, DEPLOY_LOG_REF, id, 1, NULL);
  git_reference_free(ref);
  return rc == 0 || git_repo_fail(why, "write " DEPLOY_LOG_REF " of the mirror");
}

/* *news tells that there was another deploy than before. */
static bool take_fetched(struct deploy *deploy, bool *news, char *why) {
  struct deploy_record record;
  git_oid id;
  bool exists = false;
  *news = false;
  if (!deploy_log_last(deploy->repo, FOLLOW_FETCHED, &record, &id, &exists, why) || !exists)
    return false;
  *news = !deploy->has_last || !git_oid_equal(&id, &deploy->last_id);
  if (!*news || !accept(deploy, &id, &record, why)) {
    deploy_record_close(&record);
    return !*news;
  }
  deploy_record_close(&deploy->last);
  deploy->last = record;
  deploy->last_id = id;
  deploy->has_last = true;
  return true;
}

static bool make_live(struct follower *f, struct deploy *deploy, char *why) {
  char when[DEPLOY_TIME];
  if (!deploy_finish(deploy, why))
    return false;
  f->checked = true;
  f->told[0] = 0;
  fprintf(stderr, "sluice: deploy %lld is live: %.12s, of %s by %s\n",
          (long long)deploy->last.number, deploy->last.commit, deploy_time(deploy->last.at, when),
          deploy->last.who);
  return true;
}

static int apply(struct follower *f, char *why) {
  struct deploy deploy;
  bool news = false;
  if (!deploy_open(&deploy, &f->place, true, why))
    return CLI_FAILED;
  int status = CLI_DONE;
  if (!take_fetched(&deploy, &news, why)) {
    status = CLI_FAILED;
  } else if ((news || !f->checked) && !make_live(f, &deploy, why)) {
    f->checked = false;
    status = CLI_PARTIAL;
  }
  const char *commit = deploy.has_last ? deploy.last.commit : NULL;
  if (status != CLI_DONE)
    deploy_note_failure(&f->place, commit, why);
  else
    deploy_clear_failure(&f->place);
  deploy_close(&deploy);
  return status;
}

static void tell(struct follower *f, const char *why) {
  if (!strcmp(f->told, why))
    return;
  snprintf(f->told, sizeof f->told, "%s", why);
  cli_error("%s", why);
}

/* The exit status of a round; *stopped if a signal ended it. */
static int go_round(struct follower *f, bool *stopped) {
  char why[DEPLOY_WHY] = "";
  enum follow_fetch fetched =
      follow_fetch(f->place.repository, f->url, FETCH_SECONDS, f->stoppable, why);
  *stopped = fetched == FOLLOW_FETCH_STOPPED;
  if (*stopped)
    return CLI_DONE;
  int status = fetched == FOLLOW_FETCH_DONE ? apply(f, why) : CLI_FAILED;
  if (status != CLI_DONE)
    tell(f, why);
  return status;
}

/* ---- for long ---------------------------------------------------------------------------------
 */

/* Waits for the next round; false when the program is to end. */
static bool wait_for_next(const sigset_t *signals, long seconds) {
  const struct timespec pause = {.tv_sec = seconds};
  int number = sigtimedwait(signals, NULL, &pause);
  return number != SIGTERM && number != SIGINT;
}

static int run(struct follower *f, long interval) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGHUP);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, NULL);
  f->stoppable = true;
  bool stopped = false;
  fprintf(stderr, "sluice: following %s, every %ld s and at SIGHUP\n", f->url, interval);
  do
    go_round(f, &stopped);
  while (!stopped && wait_for_next(&signals, interval));
  return CLI_DONE;
}

static bool read_interval(const char *text, long *interval) {
  size_t digits = text ? strspn(text, "0123456789") : 0;
  *interval = text ? strtol(text, NULL, 10) : DEFAULT_INTERVAL;
  bool suffix = text && text[digits] == 's' && !text[digits + 1];
  return !text || (digits > 0 && digits < 6 && (suffix || !text[digits]) && *interval > 0 &&
                   *interval <= MOST_INTERVAL);
}

static char *absolute_or_null(const char *path) {
  if (!path)
    return NULL;
  if (*path == '/')
    return strdup(path);
  char *folder = getcwd(NULL, 0);
  char *out = folder ? fs_join(folder, path) : NULL;
  free(folder);
  return out;
}

struct follow_options {
  const char *url, *data, *settings, *system, *socket, *interval;
  bool once;
};

/* What the command line does not say the machine's settings do. */
static bool complete(struct follow_options *o, struct machine *machine) {
  if (!o->settings)
    o->settings = o->system;
  /* Settings that are broken hinder nobody who does not need them. */
  if ((!o->data || !o->url) && !machine_read(machine, o->settings))
    return false;
  if (!o->settings && access(MACHINE_SETTINGS, F_OK) == 0)
    o->settings = MACHINE_SETTINGS;
  if (!o->system)
    o->system = o->settings;
  if (!o->data)
    o->data = machine->deploy.data ? machine->deploy.data : machine->data;
  if (!o->url)
    o->url = machine->deploy.follow;
  return true;
}

static int follow(const struct follow_options *o, long interval) {
  char why[DEPLOY_WHY] = "";
  bool stopped = false;
  int status = CLI_FAILED;
  if (!o->url)
    return cli_usage(
        "which repository? Name its URL, or write `deploy: {follow: URL}` into " MACHINE_SETTINGS);
  if (!o->data)
    return cli_usage("--data is missing; name the folder of the builds with --data DIR");
  struct follower f = {.url = o->url};
  f.place.data = absolute_or_null(o->data);
  f.place.socket = absolute_or_null(o->socket);
  f.place.system = absolute_or_null(o->system);
  if (!f.place.data)
    cli_error("out of memory");
  else if (!set_up(&f, why))
    cli_error("%s", why);
  else
    status = o->once ? go_round(&f, &stopped) : run(&f, interval);
  deploy_place_free(&f.place);
  return status;
}

int command_follow(int argc, char **argv) {
  struct follow_options o = {0};
  long interval;
  const struct cli_option options[] = {
      {"data", "DIR", "folder of the builds (default: `data:` of the\nmachine's settings)", &o.data,
       NULL},
      {"interval", "SECONDS", "look so often (default 10)", &o.interval, NULL},
      {"once", NULL, "look once, and end", NULL, &o.once},
      {"settings", "FILE", MACHINE_HELP, &o.settings, NULL},
      {"system", "FILE", "look exec checks up there (default: the machine's\nsettings)", &o.system,
       NULL},
      {"socket", "PATH", CLIENT_SOCKET_HELP, &o.socket, NULL},
  };
  const struct cli_spec spec = {
      .usage = "sluice follow [URL] [--data DIR] [--interval SECONDS] [--once]\n"
               "                    [--settings FILE] [--system FILE] [--socket PATH]",
      .about = "Serves on this machine what is deployed in the repository at URL (a path,\n"
               "file://, ssh or anything else that git fetches from; default: `follow:` in\n"
               "`deploy:` of the settings), with the same serials.\n"
               "Goes on until it gets SIGTERM; SIGHUP makes it look at once.\n"
               "Exit status with --once: 1 if nothing could be fetched, 3 if what was fetched\n"
               "could not be made live.",
      .examples = "sluice follow git@primary.example.net:dns.git\n"
                  "sluice follow /srv/git/dns.git --data /var/lib/sluice --once",
      .options = options,
      .option_count = CLI_COUNT(options),
      .max_args = 1,
  };
  size_t count;
  enum cli_next next = cli_parse(&spec, argc, argv, &count);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  if (!read_interval(o.interval, &interval))
    return cli_usage("--interval must be a number of seconds from 1 to %d", MOST_INTERVAL);
  o.url = count ? argv[1] : NULL;
  struct machine machine = {0};
  if (!complete(&o, &machine))
    return CLI_FAILED;
  int status = follow(&o, interval);
  machine_close(&machine);
  return status;
}
