/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/deploy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "tools/client.h"

enum { RELOAD_WAIT = 120 /* seconds */ };

/* ---- the place --------------------------------------------------------------------------------
 */

static char *get_text(const git_config *config, const char *key) {
  git_buf text = {0};
  char *out = NULL;
  if (git_config_get_string_buf(&text, config, key) == 0)
    out = strdup(text.ptr);
  git_buf_dispose(&text);
  return out;
}

/* The configuration of the repository alone: what users have in their own does not count. */
static bool open_config(const char *repository, git_repository **repo, git_config **own,
                        char *why) {
  git_config *all = NULL;
  if (!git_repo_open(repository, repo, why))
    return false;
  bool ok = (git_repository_config(&all, *repo) == 0 &&
             git_config_open_level(own, all, GIT_CONFIG_LEVEL_LOCAL) == 0) ||
            git_repo_fail(why, "read the repository's configuration");
  git_config_free(all);
  if (!ok)
    git_repo_close(*repo);
  return ok;
}

bool deploy_place_read(struct deploy_place *place, const char *repository, char *why) {
  git_repository *repo = NULL;
  git_config *config = NULL;
  git_config *snapshot = NULL;
  *place = (struct deploy_place){0};
  if (!open_config(repository, &repo, &config, why))
    return false;
  place->repository = realpath(git_repository_path(repo), NULL);
  if (git_config_snapshot(&snapshot, config) == 0) {
    place->branch = get_text(snapshot, "sluice.branch");
    place->data = get_text(snapshot, "sluice.data");
    place->socket = get_text(snapshot, "sluice.socket");
    place->system = get_text(snapshot, "sluice.system");
  }
  git_config_free(snapshot);
  git_config_free(config);
  git_repo_close(repo);
  if (place->repository && place->data)
    return true;
  snprintf(why, DEPLOY_WHY, "%.300s does not deploy; run `sluice hook install %.300s` first",
           repository, repository);
  deploy_place_free(place);
  return false;
}

static bool put_text(git_config *config, const char *key, const char *text) {
  if (text)
    return git_config_set_string(config, key, text) == 0;
  int rc = git_config_delete_entry(config, key);
  return rc == 0 || rc == GIT_ENOTFOUND;
}

bool deploy_place_write(const struct deploy_place *place, char *why) {
  git_repository *repo = NULL;
  git_config *config = NULL;
  if (!open_config(place->repository, &repo, &config, why))
    return false;
  bool ok = (put_text(config, "sluice.branch", place->branch) &&
             put_text(config, "sluice.data", place->data) &&
             put_text(config, "sluice.socket", place->socket) &&
             put_text(config, "sluice.system", place->system)) ||
            git_repo_fail(why, "write the repository's configuration");
  git_config_free(config);
  git_repo_close(repo);
  return ok;
}

void deploy_place_free(struct deploy_place *place) {
  free(place->repository);
  free(place->branch);
  free(place->data);
  free(place->socket);
  free(place->system);
  *place = (struct deploy_place){0};
}

char *deploy_file(const struct deploy_place *place, const char *name) {
  char *path = NULL;
  return asprintf(&path, "%s/deploy/%s", place->data, name) < 0 ? NULL : path;
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static bool take_lock(struct deploy *deploy, char *why) {
  char *folder = deploy_file(deploy->place, "");
  char *path = deploy_file(deploy->place, "lock");
  mode_t mask = umask(022);
  bool ok = folder && path && fs_make_dirs(folder, why);
  if (ok) {
    deploy->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    while (deploy->lock >= 0 && (ok = flock(deploy->lock, LOCK_EX) == 0) == false && errno == EINTR)
      continue;
    if (deploy->lock < 0 || !ok) {
      snprintf(why, DEPLOY_WHY, "cannot lock %.300s: %s", path, strerror(errno));
      ok = false;
    }
  }
  umask(mask);
  free(folder);
  free(path);
  return ok;
}

bool deploy_open(struct deploy *deploy, struct deploy_place *place, bool lock, char *why) {
  *deploy = (struct deploy){.place = place, .lock = -1};
  if ((lock && !take_lock(deploy, why)) || !git_repo_open(place->repository, &deploy->repo, why) ||
      !deploy_log_last(deploy->repo, DEPLOY_LOG_REF, &deploy->last, &deploy->last_id,
                       &deploy->has_last, why)) {
    deploy_close(deploy);
    return false;
  }
  return true;
}

void deploy_close(struct deploy *deploy) {
  deploy_record_close(&deploy->last);
  if (deploy->repo)
    git_repo_close(deploy->repo);
  if (deploy->lock >= 0)
    close(deploy->lock); /* and the lock goes with it */
  *deploy = (struct deploy){.lock = -1};
}

/* ---- who --------------------------------------------------------------------------------------
 */

void deploy_who(char who[DEPLOY_RECORD_TEXT], char origin[DEPLOY_RECORD_TEXT]) {
  static const char *const names[] = {"SLUICE_USER", "GL_USER", "REMOTE_USER"};
  const char *name = NULL;
  for (size_t i = 0; !name && i < sizeof names / sizeof *names; i++) {
    name = getenv(names[i]);
    if (name && !*name)
      name = NULL;
  }
  deploy_record_text(who, name ? name : client_user());
  const char *ssh = getenv("SSH_CONNECTION");
  char peer[64];
  char host[64] = "";
  if (ssh && *ssh) {
    snprintf(peer, sizeof peer, "ssh from %.*s", (int)(strcspn(ssh, " ") & 63), ssh);
    deploy_record_text(origin, peer);
    return;
  }
  if (gethostname(host, sizeof host - 1) != 0)
    host[0] = 0;
  deploy_record_text(origin, host);
}

const char *deploy_time(int64_t when, char out[DEPLOY_TIME]) {
  time_t t = (time_t)when;
  struct tm tm;
  if (!gmtime_r(&t, &tm) || !strftime(out, DEPLOY_TIME, "%Y-%m-%d %H:%M:%S UTC", &tm))
    snprintf(out, DEPLOY_TIME, "%lld", (long long)when);
  return out;
}

/* ---- recording --------------------------------------------------------------------------------
 */

static void fill_record(struct deploy_record *record, const struct deploy *deploy,
                        const struct deploy_wish *wish, const struct deploy_build *build) {
  *record = (struct deploy_record){
      .number = deploy->has_last ? deploy->last.number + 1 : 1,
      .at = (int64_t)time(NULL),
      .kind = wish->kind,
      .of = wish->of,
      .zones = json_incref(build->result.serials),
      .retired = json_incref(build->result.retired),
  };
  memcpy(record->commit, build->commit, sizeof record->commit);
  memcpy(record->build, build->result.id, sizeof record->build);
  deploy_who(record->who, record->origin);
}

bool deploy_record_new(struct deploy *deploy, const struct deploy_wish *wish, char *why) {
  struct deploy_build build;
  struct deploy_record record;
  git_oid id;
  if (!deploy_build_load(deploy, wish->commit, &build) &&
      !deploy_build_make(deploy->place, deploy->repo, wish->commit,
                         deploy->has_last ? &deploy->last : NULL, false, &build, why))
    return false;
  fill_record(&record, deploy, wish, &build);
  deploy_build_free(&build);
  bool ok =
      deploy_log_add(deploy->repo, &record, deploy->has_last ? &deploy->last_id : NULL, &id, why);
  if (!ok) {
    deploy_record_close(&record);
    return false;
  }
  deploy_record_close(&deploy->last);
  deploy->last = record;
  deploy->last_id = id;
  deploy->has_last = true;
  return true;
}

/* ---- going live -------------------------------------------------------------------------------
 */

static bool reload(const struct deploy_place *place, const char *build, char *why) {
  const char *path = client_socket(place->socket, place->system);
  json_t *request = json_pack("{s:s}", "command", "reload");
  json_t *reply = NULL;
  if (!path || !request) {
    snprintf(why, DEPLOY_WHY, path ? "out of memory" : "the server's socket is not known");
    json_decref(request);
    return false;
  }
  enum client_result result = client_try(path, request, RELOAD_WAIT, &reply, why);
  json_decref(request);
  if (result != CLIENT_ANSWERED)
    return false;
  const char *error = json_string_value(json_object_get(reply, "error"));
  const char *id = json_string_value(json_object_get(json_object_get(reply, "build"), "id"));
  bool ok = json_is_true(json_object_get(reply, "ok"));
  if (!ok)
    snprintf(why, DEPLOY_WHY, "the server did not load the build: %.400s", error ? error : "?");
  else if (!id || strcmp(id, build) != 0) {
    snprintf(why, DEPLOY_WHY, "the server at %.200s serves another folder of builds than %.200s",
             path, place->data);
    ok = false;
  }
  json_decref(reply);
  return ok;
}

static bool switch_build(const struct deploy_place *place, const char *build, char *why) {
  mode_t mask = umask(022);
  bool ok = build_publish(place->data, build, why);
  umask(mask);
  return ok;
}

/* The build that the record names, or, when it is gone or another version of sluice made it, the
 * same made anew with the same serials. */
static bool publish(struct deploy *deploy, char build[17], char *why) {
  struct deploy_build made;
  snprintf(build, 17, "%s", deploy->last.build);
  if (switch_build(deploy->place, build, why))
    return true;
  if (!deploy_build_make(deploy->place, deploy->repo, deploy->last.commit, &deploy->last, true,
                         &made, why))
    return false;
  snprintf(build, 17, "%s", made.result.id);
  deploy_build_free(&made);
  return switch_build(deploy->place, build, why);
}

void deploy_clear_failure(const struct deploy_place *place) {
  char *path = deploy_file(place, DEPLOY_FAILED_FILE);
  if (path)
    unlink(path);
  free(path);
}

bool deploy_finish(struct deploy *deploy, char *why) {
  char build[17];
  if (!publish(deploy, build, why) || !reload(deploy->place, build, why))
    return false;
  deploy_clear_failure(deploy->place);
  return true;
}

void deploy_note_failure(const struct deploy_place *place, const char *commit, const char *reason) {
  char why[FS_WHY];
  char text[DEPLOY_WHY];
  snprintf(text, sizeof text, "%s", reason);
  json_t *root =
      json_pack("{s:I, s:s?, s:s}", "at", (json_int_t)time(NULL), "commit", commit, "why", text);
  if (!root) /* the reason is not UTF-8 */
    root =
        json_pack("{s:I, s:s?, s:s}", "at", (json_int_t)time(NULL), "commit", commit, "why", "?");
  char *dump = root ? json_dumps(root, JSON_COMPACT) : NULL;
  char *path = deploy_file(place, DEPLOY_FAILED_FILE);
  /* On a full disk there is no note either; then what is live differs from what is recorded. */
  if (dump && path)
    fs_write_atomic(path, dump, strlen(dump), 0644, why);
  free(path);
  free(dump);
  json_decref(root);
}

bool deploy_last_push(const struct deploy *deploy, struct deploy_record *record, bool *exists,
                      char *why) {
  git_oid id = deploy->last_id;
  git_oid before;
  bool first = !deploy->has_last;
  *exists = false;
  while (!first) {
    if (!deploy_log_read(deploy->repo, &id, record, &before, &first, why))
      return false;
    *exists = record->kind == DEPLOY_PUSH;
    if (*exists)
      return true;
    deploy_record_close(record);
    id = before;
  }
  return true;
}
