/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "tools/cli.h"
#include "tools/client.h"
#include "tools/commands.h"
#include "tools/deploy.h"
#include "tools/machine.h"
#include "tools/wrap.h"

enum { INDENT = 6, DEFAULT_LIMIT = 20, MOST = 1000000, STATUS_WAIT = 10 /* seconds */ };

/* ---- which repository -------------------------------------------------------------------------
 */

static bool is_repository(const char *path) {
  char *head = fs_join(path, "HEAD");
  bool found = head && access(head, F_OK) == 0;
  free(head);
  return found;
}

/* The mirror of a machine that follows another one, if this is one. */
static char *find_mirror(const struct machine *machine) {
  const struct deploy_place place = {.data = machine->deploy.data ? machine->deploy.data
                                             : machine->data      ? machine->data
                                                                  : NULL};
  char *mirror = place.data ? deploy_file(&place, "mirror.git") : NULL;
  if (mirror && is_repository(mirror))
    return mirror;
  free(mirror);
  return NULL;
}

bool deploy_place_find(struct deploy_place *place, const char *given, const char *settings) {
  char why[DEPLOY_WHY];
  struct machine machine = {0};
  char *path = given ? strdup(given) : NULL;
  if (!given && !machine_read(&machine, settings))
    return false;
  if (!path && machine.deploy.repository)
    path = strdup(machine.deploy.repository);
  if (!path)
    path = find_mirror(&machine);
  machine_close(&machine);
  if (!path) {
    cli_error(
        "which repository? Name it, or write `deploy: {repository: PATH}` into " MACHINE_SETTINGS);
    return false;
  }
  bool ok = deploy_place_read(place, path, why);
  if (!ok)
    cli_error("%s", why);
  free(path);
  return ok;
}

/* ---- the list ---------------------------------------------------------------------------------
 */

/* The first line of a commit's message; "" if there is none. */
static void subject_of(git_repository *repo, const char *id, char out[DEPLOY_RECORD_TEXT]) {
  git_oid oid;
  git_commit *commit = NULL;
  out[0] = 0;
  if (git_oid_fromstr(&oid, id) == 0 && git_commit_lookup(&commit, repo, &oid) == 0) {
    const char *summary = git_commit_summary(commit);
    deploy_record_text(out, summary ? summary : "");
  }
  git_commit_free(commit);
}

/* Zones that are other in `record` than in `before` (NULL: than nothing). */
static json_t *changed_zones(const struct deploy_record *record,
                             const struct deploy_record *before) {
  json_t *list = json_array();
  const char *name;
  json_t *entry;
  json_object_foreach(record->zones, name, entry) {
    if (!before || !json_equal(entry, json_object_get(before->zones, name)))
      json_array_append_new(list, json_string(name));
  }
  if (before)
    json_object_foreach(before->zones, name, entry) if (!json_object_get(record->zones, name))
        json_array_append_new(list, json_string(name));
  return list;
}

static json_t *deploy_json(git_repository *repo, const struct deploy_record *record,
                           const struct deploy_record *before, bool live) {
  char subject[DEPLOY_RECORD_TEXT];
  subject_of(repo, record->commit, subject);
  bool rollback = record->kind == DEPLOY_ROLLBACK;
  return json_pack("{s:I, s:b, s:s, s:s, s:I, s:s, s:s?, s:s, s:o, s:s, s:o, s:O}", "deploy",
                   (json_int_t)record->number, "live", (int)live, "commit", record->commit,
                   "subject", subject, "at", (json_int_t)record->at, "who", record->who, "origin",
                   record->origin[0] ? record->origin : NULL, "kind",
                   rollback ? "rollback" : "push", "of",
                   rollback ? json_integer(record->of) : json_null(), "build", record->build,
                   "changed", changed_zones(record, before), "zones", record->zones);
}

/* The newest `limit` deploys, newest first; NULL with `why`. */
static json_t *list_deploys(const struct deploy *deploy, long limit, char *why) {
  char current[17];
  json_t *list = json_array();
  struct deploy_record record = {0};
  git_oid id = deploy->last_id;
  git_oid next;
  bool first = true;
  build_current(deploy->place->data, current);
  bool ok = !deploy->has_last || deploy_log_read(deploy->repo, &id, &record, &next, &first, why);
  for (long i = 0; ok && record.zones && i < limit; i++) {
    struct deploy_record before = {0};
    git_oid after_next = next;
    bool was_first = first;
    if (!first)
      ok = deploy_log_read(deploy->repo, &next, &before, &after_next, &first, why);
    /* Only the newest can be live; an earlier one with the same build was live then. */
    bool live = i == 0 && !strcmp(current, record.build);
    if (ok)
      json_array_append_new(list,
                            deploy_json(deploy->repo, &record, was_first ? NULL : &before, live));
    deploy_record_close(&record);
    record = before;
    next = after_next;
  }
  deploy_record_close(&record);
  if (ok)
    return list;
  json_decref(list);
  return NULL;
}

static const char *text(const json_t *object, const char *key) {
  const char *value = json_string_value(json_object_get(object, key));
  return value ? value : "";
}

static long long number(const json_t *object, const char *key) {
  return (long long)json_integer_value(json_object_get(object, key));
}

static void print_deploy(const json_t *d) {
  char when[DEPLOY_TIME];
  char label[32];
  char what[64] = "";
  size_t changed = json_array_size(json_object_get(d, "changed"));
  snprintf(label, sizeof label, "#%lld", number(d, "deploy"));
  if (!strcmp(text(d, "kind"), "rollback"))
    snprintf(what, sizeof what, ", rollback to #%lld", number(d, "of"));
  const char *origin = text(d, "origin");
  wrap_print(label, INDENT, "%s by %s%s%s%s%s", deploy_time(number(d, "at"), when), text(d, "who"),
             *origin ? ", " : "", origin, what,
             json_is_true(json_object_get(d, "live")) ? "  (LIVE)" : "");
  wrap_print("", INDENT, "%.12s %s", text(d, "commit"), text(d, "subject"));
  const char *zone = json_string_value(json_array_get(json_object_get(d, "changed"), 0));
  const char *serial_of = zone;
  const json_t *entry = json_object_get(json_object_get(d, "zones"), serial_of ? serial_of : "");
  if (changed == 1 && entry)
    wrap_print("", INDENT, "%s serial %lld", zone, number(entry, "serial"));
  else if (changed == 1)
    wrap_print("", INDENT, "%s removed", zone);
  else
    wrap_print("", INDENT, "%zu zones changed", changed);
}

/* The build that the server serves; "" if it cannot be asked. */
static void ask_server(const struct deploy_place *place, char build[17]) {
  char why[CLIENT_WHY];
  json_t *reply = NULL;
  json_t *request = json_pack("{s:s}", "command", "status");
  const char *path = client_socket(place->socket, place->system);
  build[0] = 0;
  if (path && request && client_try(path, request, STATUS_WAIT, &reply, why) == CLIENT_ANSWERED) {
    const char *id = json_string_value(json_object_get(json_object_get(reply, "build"), "id"));
    snprintf(build, 17, "%.16s", id ? id : "");
  }
  json_decref(reply);
  json_decref(request);
}

/* What is wrong, if the newest deploy is not live. */
static bool warn_pending(const struct deploy *deploy) {
  char why[DEPLOY_WHY];
  char build[17];
  ask_server(deploy->place, build); /* a start of it may have mended what had failed */
  char *problem = deploy_problem(deploy->place, *build ? build : NULL, why);
  if (!problem)
    return false;
  cli_error("%s", problem);
  free(problem);
  return true;
}

static int show(struct deploy_place *place, long limit, bool json) {
  char why[DEPLOY_WHY];
  struct deploy deploy;
  if (!deploy_open(&deploy, place, false, why)) {
    cli_error("%s", why);
    return CLI_FAILED;
  }
  json_t *list = list_deploys(&deploy, limit, why);
  bool ok = list;
  if (!ok)
    cli_error("%s", why);
  size_t i;
  json_t *item;
  if (ok && json) {
    ok = cli_print_json(list);
  } else if (ok) {
    json_array_foreach(list, i, item) print_deploy(item);
    if (json_array_size(list) == 0)
      puts("nothing was deployed yet");
    ok = cli_flush();
  }
  bool pending = ok && warn_pending(&deploy);
  json_decref(list);
  deploy_close(&deploy);
  return !ok ? CLI_FAILED : pending ? CLI_PARTIAL : CLI_DONE;
}

static int retry(struct deploy_place *place) {
  char why[DEPLOY_WHY];
  if (!place->branch) {
    cli_error("this machine follows another one; `sluice follow` tries again by itself");
    return CLI_FAILED;
  }
  if (deploy_branch(place, why))
    return CLI_DONE;
  cli_error("NOT DEPLOYED: %s", why);
  return CLI_PARTIAL;
}

static bool read_limit(const char *text_of, long *limit) {
  size_t digits = text_of ? strspn(text_of, "0123456789") : 0;
  *limit = text_of ? strtol(text_of, NULL, 10) : DEFAULT_LIMIT;
  return !text_of || (digits > 0 && digits < 8 && !text_of[digits] && *limit > 0 && *limit <= MOST);
}

int command_deploys(int argc, char **argv) {
  const char *limit_text = NULL, *settings = NULL;
  bool json = false, again = false;
  long limit;
  const struct cli_option options[] = {
      {"limit", "N", "list so many, the newest first (default 20)", &limit_text, NULL},
      {"retry", NULL, "make the branch's newest commit live, when a push\nsaid NOT DEPLOYED", NULL,
       &again},
      {"settings", "FILE", MACHINE_HELP, &settings, NULL},
      {"json", NULL, "print JSON", NULL, &json},
  };
  const struct cli_spec spec = {
      .usage = "sluice deploys [REPO] [--limit N] [--json]\n"
               "sluice deploys [REPO] --retry",
      .about = "Lists what was deployed when, by whom and from where, and the zones that it\n"
               "changed.  REPO is the repository that is pushed to (default: `deploy:` of the\n"
               "machine's settings, else what this machine follows).\n"
               "Exit status: 3 if the newest commit of the branch is not live.",
      .examples = "sluice deploys\n"
                  "sluice deploys /srv/git/dns.git --limit 3\n"
                  "sluice deploys --retry",
      .options = options,
      .option_count = CLI_COUNT(options),
      .max_args = 1,
  };
  size_t count;
  enum cli_next next = cli_parse(&spec, argc, argv, &count);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  if (!read_limit(limit_text, &limit))
    return cli_usage("--limit must be a number from 1 to %d", MOST);
  struct deploy_place place;
  if (!deploy_place_find(&place, count ? argv[1] : NULL, settings))
    return CLI_FAILED;
  int status = again ? retry(&place) : show(&place, limit, json);
  deploy_place_free(&place);
  return status;
}
