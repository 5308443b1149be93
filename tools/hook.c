/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "tools/cli_group.h"
#include "tools/commands.h"
#include "tools/deploy.h"

enum { LINE_LIMIT = 65536, SHORT = 12 };

/* ---- what git tells a hook --------------------------------------------------------------------
 */

/* One line of a hook's input: "OLD NEW REF". */
struct update {
  char *line;
  const char *new_id;
  const char *ref;
};

static bool is_zero(const char *id) {
  return strspn(id, "0") == strlen(id);
}

/* The next line; false at the end of the input.  *bad tells that it is none of git's. */
static bool next_update(struct update *update, bool *bad) {
  size_t cap = 0;
  update->line = NULL;
  ssize_t n = getline(&update->line, &cap, stdin);
  if (n <= 0) {
    free(update->line);
    return false;
  }
  if (update->line[n - 1] == '\n')
    update->line[n - 1] = 0;
  char *first = strchr(update->line, ' ');
  char *second = first ? strchr(first + 1, ' ') : NULL;
  *bad = n > LINE_LIMIT || !second;
  if (*bad) {
    free(update->line);
    return false;
  }
  *second = 0;
  update->new_id = first + 1;
  update->ref = second + 1;
  return true;
}

static bool is_branch(const struct deploy_place *place, const char *ref) {
  static const char heads[] = "refs/heads/";
  return !strncmp(ref, heads, sizeof heads - 1) && !strcmp(ref + sizeof heads - 1, place->branch);
}

/* The place of the repository in argv[1], for a hook. */
static bool open_place(const struct cli_spec *spec, int argc, char **argv,
                       struct deploy_place *place, int *status) {
  char why[DEPLOY_WHY];
  size_t count;
  enum cli_next next = cli_parse(spec, argc, argv, &count);
  *status = next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  if (next != CLI_GO_ON)
    return false;
  *status = CLI_FAILED;
  if (!deploy_place_read(place, argv[1], why)) {
    cli_error("%s", why);
    return false;
  }
  if (place->branch)
    return true;
  cli_error("%s is a mirror of `sluice follow`, where nothing is pushed", argv[1]);
  deploy_place_free(place);
  return false;
}

/* ---- pre-receive ------------------------------------------------------------------------------
 */

static bool is_empty_commit(git_repository *repo, const char *id, bool *empty, char *why) {
  git_commit *commit = NULL;
  git_tree *tree = NULL;
  if (!git_repo_commit(repo, id, &commit, why))
    return false;
  bool ok = git_commit_tree(&tree, commit) == 0 || git_repo_fail(why, "read the pushed commit");
  if (ok)
    *empty = git_tree_entrycount(tree) == 0;
  git_tree_free(tree);
  git_commit_free(commit);
  return ok;
}

/* Checks and builds a commit of the quarantine; nothing of it goes live here. */
static bool check_commit(struct deploy_place *place, const char *id) {
  char why[DEPLOY_WHY] = "";
  struct deploy deploy;
  struct deploy_build build;
  bool empty = false;
  if (!deploy_open(&deploy, place, false, why)) {
    cli_error("refused: %s", why);
    return false;
  }
  bool ok = is_empty_commit(deploy.repo, id, &empty, why);
  if (ok && empty) {
    snprintf(why, sizeof why, "the commit %.*s is empty, so all names would be refused", SHORT, id);
    ok = false;
  }
  ok = ok && deploy_build_make(place, deploy.repo, id, deploy.has_last ? &deploy.last : NULL, false,
                               &build, why);
  if (ok) {
    ok = deploy_build_save(&deploy, &build, why);
    deploy_build_free(&build);
  }
  if (!ok)
    cli_error("refused: %s; nothing has changed", why);
  deploy_close(&deploy);
  return ok;
}

static bool judge_update(struct deploy_place *place, const struct update *update) {
  if (!strncmp(update->ref, "refs/sluice/", 12)) {
    cli_error("refused: %s belongs to sluice, pushes may not touch it; push `%s` alone",
              update->ref, place->branch);
    return false;
  }
  if (!is_branch(place, update->ref))
    return true;
  if (!is_zero(update->new_id))
    return check_commit(place, update->new_id);
  cli_error("refused: `%s` is what is served, it cannot be deleted", place->branch);
  return false;
}

static int pre_receive(int argc, char **argv) {
  const struct cli_spec spec = {
      .usage = "sluice hook pre-receive REPO",
      .about = "What git runs before a push is accepted (installed by `sluice hook install`): a\n"
               "commit that fails the check is refused.  Reads lines `OLD NEW REF`.",
      .examples = "sluice hook pre-receive /srv/git/dns.git",
      .min_args = 1,
      .max_args = 1,
  };
  struct deploy_place place;
  struct update update;
  int status;
  bool bad = false;
  if (!open_place(&spec, argc, argv, &place, &status))
    return status;
  bool ok = true;
  while (ok && next_update(&update, &bad)) {
    ok = judge_update(&place, &update);
    free(update.line);
  }
  if (bad)
    cli_error("the input is not what git gives a hook; expected lines `OLD NEW REF`");
  deploy_place_free(&place);
  return ok && !bad ? CLI_DONE : CLI_FAILED;
}

/* ---- post-receive -----------------------------------------------------------------------------
 */

/* Whether the branch's tip is still to be deployed. */
static bool is_wanted(const struct deploy *deploy, const char *tip, bool *wanted, char *why) {
  struct deploy_record push;
  bool exists;
  if (!deploy_last_push(deploy, &push, &exists, why))
    return false;
  *wanted = !exists || strcmp(push.commit, tip) != 0;
  if (exists)
    deploy_record_close(&push);
  return true;
}

static void tell_rollback(const struct deploy *deploy) {
  char when[DEPLOY_TIME];
  const struct deploy_record *last = &deploy->last;
  if (deploy->has_last && last->kind == DEPLOY_ROLLBACK)
    fprintf(stderr, "sluice: note: this undoes the rollback to %.12s that %s made at %s\n",
            last->commit, last->who, deploy_time(last->at, when));
}

/* The tip of the branch, not what this push brought: of two pushes close together the later update
 * of the reference wins, whichever hook comes first. */
static bool deploy_tip(struct deploy *deploy, char tip[GIT_REPO_ID], char *why) {
  char ref[512];
  git_oid id;
  bool exists = false;
  bool wanted = false;
  snprintf(ref, sizeof ref, "refs/heads/%.490s", deploy->place->branch);
  if (!git_repo_ref(deploy->repo, ref, &id, &exists, why))
    return false;
  if (!exists) {
    snprintf(why, DEPLOY_WHY, "there is no branch `%.100s`", deploy->place->branch);
    return false;
  }
  git_oid_tostr(tip, GIT_REPO_ID, &id);
  if (!is_wanted(deploy, tip, &wanted, why))
    return false;
  if (wanted) {
    struct deploy_wish wish = {.commit = tip, .kind = DEPLOY_PUSH};
    tell_rollback(deploy);
    if (!deploy_record_new(deploy, &wish, why))
      return false;
  }
  return deploy_finish(deploy, why);
}

bool deploy_branch(struct deploy_place *place, char *why) {
  struct deploy deploy;
  char tip[GIT_REPO_ID] = "";
  bool ok = deploy_open(&deploy, place, true, why);
  if (ok) {
    ok = deploy_tip(&deploy, tip, why);
    if (ok)
      fprintf(stderr, "sluice: deploy %lld is live: %.12s%s, build %s\n",
              (long long)deploy.last.number, deploy.last.commit,
              strcmp(deploy.last.commit, tip) ? " (rolled back; the branch is ahead)" : "",
              deploy.last.build);
    deploy_close(&deploy);
  }
  if (!ok)
    deploy_note_failure(place, *tip ? tip : NULL, why);
  return ok;
}

static int post_receive(int argc, char **argv) {
  const struct cli_spec spec = {
      .usage = "sluice hook post-receive REPO",
      .about = "What git runs after a push is accepted (installed by `sluice hook install`):\n"
               "makes the tip of the branch live.  Reads lines `OLD NEW REF`.",
      .examples = "sluice hook post-receive /srv/git/dns.git",
      .min_args = 1,
      .max_args = 1,
  };
  struct deploy_place place;
  struct update update;
  int status;
  bool bad = false;
  bool wanted = false;
  char why[DEPLOY_WHY] = "";
  if (!open_place(&spec, argc, argv, &place, &status))
    return status;
  while (next_update(&update, &bad)) {
    wanted = wanted || is_branch(&place, update.ref);
    free(update.line);
  }
  bool ok = !wanted || deploy_branch(&place, why);
  if (!ok) {
    cli_error("ACCEPTED, NOT DEPLOYED: %s", why);
    cli_error("the next push tries again, and so does: sluice deploys %s --retry",
              place.repository);
  }
  deploy_place_free(&place);
  return ok ? CLI_DONE : CLI_PARTIAL;
}

int command_hook(int argc, char **argv) {
  static const struct cli_command commands[] = {
      {"install", command_hook_install, "make a bare repository deploy on push"},
      {"pre-receive", pre_receive, "check and build what is pushed (run by git)"},
      {"post-receive", post_receive, "make what was pushed live (run by git)"},
  };
  static const struct cli_group group = {
      .name = "sluice hook",
      .about = "Deploys by `git push`.",
      .commands = commands,
      .count = CLI_COUNT(commands),
      .examples = "sluice hook install /srv/git/dns.git\n"
                  "sluice hook install /srv/git/dns.git --branch live --data /var/lib/sluice",
  };
  return cli_group_run(&group, argc, argv);
}
