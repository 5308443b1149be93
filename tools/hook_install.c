/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "tools/cli.h"
#include "tools/client.h"
#include "tools/commands.h"
#include "tools/deploy.h"
#include "tools/machine.h"

enum { SCRIPT_LIMIT = 1 << 20 };

static const char default_data[] = "/var/lib/sluice";
static const char mark[] = "# Written by `sluice hook install`";
static const char *const hook_names[] = {"pre-receive", "post-receive"};

/* ---- the scripts ------------------------------------------------------------------------------
 */

/* Quotes for sh. */
static void add_quoted(struct buf *out, const char *text) {
  buf_add_u8(out, '\'');
  for (; *text; text++) {
    if (*text == '\'')
      buf_add_str(out, "'\\''");
    else
      buf_add_u8(out, (uint8_t)*text);
  }
  buf_add_u8(out, '\'');
}

/* True if there is no such hook, or one of ours. */
static bool is_free(const char *path, char *why) {
  uint8_t *text = NULL;
  size_t len = 0;
  char reason[FS_WHY];
  struct stat st;
  if (lstat(path, &st) != 0 && errno == ENOENT)
    return true;
  bool ours = fs_read(path, SCRIPT_LIMIT, &text, &len, reason) && strstr((char *)text, mark);
  free(text);
  if (!ours)
    snprintf(why, DEPLOY_WHY,
             "there is another hook at %.400s; move it away, and call it from where it is needed",
             path);
  return ours;
}

static bool write_script(const char *path, const char *program, const char *hook,
                         const char *repository, char *why) {
  struct buf out;
  buf_init(&out);
  buf_printf(
      &out,
      "#!/bin/sh\n%s, which writes it again; settings: git config --get-regexp '^sluice'\nexec ",
      mark);
  add_quoted(&out, program);
  buf_printf(&out, " hook %s ", hook);
  add_quoted(&out, repository);
  buf_add_str(&out, "\n");
  bool ok = !out.failed;
  if (!ok)
    snprintf(why, DEPLOY_WHY, "out of memory");
  ok = ok && fs_write_atomic(path, out.data, out.len, 0755, why);
  buf_close(&out);
  return ok;
}

static char *hook_path(const char *repository, const char *hook) {
  char *path = NULL;
  return asprintf(&path, "%s/hooks/%s", repository, hook) < 0 ? NULL : path;
}

static bool each_hook(const char *repository, const char *program, bool write, char *why) {
  bool ok = true;
  for (size_t i = 0; ok && i < CLI_COUNT(hook_names); i++) {
    char *path = hook_path(repository, hook_names[i]);
    ok = path;
    if (!ok)
      snprintf(why, DEPLOY_WHY, "out of memory");
    else
      ok = write ? write_script(path, program, hook_names[i], repository, why) : is_free(path, why);
    free(path);
  }
  return ok;
}

/* ---- the repository ---------------------------------------------------------------------------
 */

/* Hooks of a repository that has its hooks elsewhere would never run. */
static bool check_hooks_path(git_repository *repo, char *why) {
  git_config *config = NULL;
  git_config *snapshot = NULL;
  const char *path = NULL;
  bool other = git_repository_config(&config, repo) == 0 &&
               git_config_snapshot(&snapshot, config) == 0 &&
               git_config_get_string(&path, snapshot, "core.hooksPath") == 0;
  if (other)
    snprintf(why, DEPLOY_WHY,
             "git has core.hooksPath set to %.300s, so hooks of this repository "
             "would not run; unset it",
             path);
  git_config_free(snapshot);
  git_config_free(config);
  return !other;
}

/* A clone takes what HEAD names; git makes it `master`, whatever is pushed later. */
static void mend_head(git_repository *repo, const char *branch) {
  char ref[512];
  snprintf(ref, sizeof ref, "refs/heads/%.490s", branch);
  if (git_repository_head_unborn(repo) == 1)
    git_repository_set_head(repo, ref);
}

static bool prepare_repository(const char *given, const char *branch, char **repository,
                               char *why) {
  git_repository *repo = NULL;
  char ref[512];
  int valid = 0;
  snprintf(ref, sizeof ref, "refs/heads/%.490s", branch);
  if (git_reference_name_is_valid(&valid, ref) != 0 || !valid) {
    snprintf(why, DEPLOY_WHY, "`%.100s` is not the name of a branch", branch);
    return false;
  }
  if (!git_repo_open(given, &repo, why))
    return false;
  bool ok = git_repository_is_bare(repo);
  if (!ok)
    snprintf(why, DEPLOY_WHY,
             "%.300s is not bare; a repository to push to is made by `git init --bare`", given);
  ok = ok && check_hooks_path(repo, why);
  if (ok) {
    *repository = realpath(git_repository_path(repo), NULL);
    ok = *repository;
    if (ok)
      mend_head(repo, branch);
    else
      snprintf(why, DEPLOY_WHY, "cannot find %.300s: %s", given, strerror(errno));
  }
  git_repo_close(repo);
  return ok;
}

/* ---- all together -----------------------------------------------------------------------------
 */

/* An absolute path of something that may not exist yet. */
static char *absolute(const char *path) {
  char *folder = NULL;
  char *out = NULL;
  if (!path || *path == '/')
    return path ? strdup(path) : NULL;
  folder = getcwd(NULL, 0);
  if (folder)
    out = fs_join(folder, path);
  free(folder);
  return out;
}

static bool make_folders(const struct deploy_place *place, char *why) {
  char *folder = deploy_file(place, "");
  char *origin = deploy_file(place, "origin.json");
  json_t *root = json_pack("{s:s, s:s}", "repository", place->repository, "branch", place->branch);
  char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
  mode_t mask = umask(022);
  bool ok = folder && origin && text;
  if (!ok)
    snprintf(why, DEPLOY_WHY, "out of memory");
  ok = ok && fs_make_dirs(folder, why) && fs_write_atomic(origin, text, strlen(text), 0644, why);
  umask(mask);
  free(text);
  json_decref(root);
  free(origin);
  free(folder);
  return ok;
}

static bool own_path(char out[4096], char *why) {
  ssize_t n = readlink("/proc/self/exe", out, 4095);
  if (n > 0) {
    out[n] = 0;
    return true;
  }
  snprintf(why, DEPLOY_WHY, "cannot find the path of this program: %s", strerror(errno));
  return false;
}

static bool install(struct deploy_place *place, const char *given, char *why) {
  char program[4096];
  return prepare_repository(given, place->branch, &place->repository, why) &&
         own_path(program, why) && each_hook(place->repository, program, false, why) &&
         make_folders(place, why) && deploy_place_write(place, why) &&
         each_hook(place->repository, program, true, why);
}

int command_hook_install(int argc, char **argv) {
  const char *branch = NULL, *data = NULL, *system = NULL, *socket = NULL;
  const struct cli_option options[] = {
      {"branch", "NAME", "what is pushed to this branch is deployed\n(default: main)", &branch,
       NULL},
      {"data", "DIR",
       "folder of the builds (default: `data:` of the\nmachine's settings, else /var/lib/sluice)",
       &data, NULL},
      {"system", "FILE",
       "the machine's settings, to look exec checks up\n(default: " MACHINE_SETTINGS
       ", if it exists)",
       &system, NULL},
      {"socket", "PATH", CLIENT_SOCKET_HELP, &socket, NULL},
  };
  const struct cli_spec spec = {
      .usage = "sluice hook install REPO [--branch NAME] [--data DIR] [--system FILE]\n"
               "                         [--socket PATH]",
      .about = "Makes a bare git repository deploy on push: what is pushed to the branch is\n"
               "checked and built before the push is accepted, and is live when `git push`\n"
               "returns.  Other branches and tags are not looked at.  May be repeated, to change\n"
               "the settings; hooks of others are not overwritten.",
      .examples = "sluice hook install /srv/git/dns.git\n"
                  "sluice hook install /srv/git/dns.git --branch live --data /var/lib/sluice",
      .options = options,
      .option_count = CLI_COUNT(options),
      .min_args = 1,
      .max_args = 1,
  };
  size_t count;
  char why[DEPLOY_WHY] = "";
  enum cli_next next = cli_parse(&spec, argc, argv, &count);
  if (next != CLI_GO_ON)
    return next == CLI_EXIT_DONE ? CLI_DONE : CLI_USAGE;
  struct machine machine = {0};
  if (!system && access(MACHINE_SETTINGS, F_OK) == 0)
    system = MACHINE_SETTINGS;
  if (!(data && socket) && !machine_read(&machine, system))
    return CLI_FAILED;
  if (!branch)
    branch = machine.deploy.branch ? machine.deploy.branch : "main";
  if (!data)
    data = machine.deploy.data ? machine.deploy.data : machine.data ? machine.data : default_data;
  struct deploy_place place = {.branch = strdup(branch),
                               .data = absolute(data),
                               .socket = absolute(socket),
                               .system = absolute(system)};
  bool ok = place.branch && place.data;
  if (!ok)
    snprintf(why, sizeof why, "out of memory");
  ok = ok && install(&place, argv[1], why);
  if (ok)
    printf("pushes to `%s` of %s are deployed to %s\n", place.branch, place.repository, place.data);
  else
    cli_error("%s", why);
  deploy_place_free(&place);
  machine_close(&machine);
  return ok && cli_flush() ? CLI_DONE : CLI_FAILED;
}
