/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "tools/cli.h"
#include "tools/deploy.h"

/* ---- what is not live -------------------------------------------------------------------------
 */

/* The reason of the last failure, "" without one; malloc'd. */
static char *read_note(const struct deploy_place *place) {
  char why[FS_WHY];
  uint8_t *text = NULL;
  size_t len = 0;
  char *path = deploy_file(place, DEPLOY_FAILED_FILE);
  json_t *root = NULL;
  if (path && fs_read(path, 65536, &text, &len, why))
    root = json_loadb((const char *)text, len, 0, NULL);
  const char *reason = json_string_value(json_object_get(root, "why"));
  char *out = strdup(reason ? reason : "");
  json_decref(root);
  free(text);
  free(path);
  return out;
}

static char *describe(const struct deploy_place *place, const char *what, const char *commit) {
  char *note = read_note(place);
  char *out = NULL;
  const char *reason = note && *note ? note : "it was interrupted";
  if (asprintf(&out, "NOT DEPLOYED: %s %.12s: %.700s", what, commit, reason) < 0)
    out = NULL;
  free(note);
  return out;
}

static bool tip_of(const struct deploy *deploy, char tip[GIT_REPO_ID], char *why) {
  char ref[512];
  git_oid id;
  bool exists = false;
  tip[0] = 0;
  if (!deploy->place->branch)
    return true;
  snprintf(ref, sizeof ref, "refs/heads/%.490s", deploy->place->branch);
  if (!git_repo_ref(deploy->repo, ref, &id, &exists, why))
    return false;
  if (exists)
    git_oid_tostr(tip, GIT_REPO_ID, &id);
  return true;
}

static char *find_problem(const struct deploy *deploy, const char *served, char *why) {
  char tip[GIT_REPO_ID];
  char current[17];
  struct deploy_record push;
  bool exists;
  if (!tip_of(deploy, tip, why) || !deploy_last_push(deploy, &push, &exists, why))
    return NULL;
  bool behind = *tip && (!exists || strcmp(push.commit, tip) != 0);
  if (exists)
    deploy_record_close(&push);
  if (behind)
    return describe(deploy->place, "the branch's newest commit", tip);
  /* What failed then may have been mended by a start of the server.  (A follower's note may be of
   * what it could not take over.) */
  if (deploy->place->branch && deploy->has_last && served && !strcmp(served, deploy->last.build))
    return NULL;
  char *note = read_note(deploy->place);
  bool failed = note && *note;
  free(note);
  build_current(deploy->place->data, current);
  /* A follower may have made another build of the same deploy (its sluice is another version). */
  bool same = !deploy->place->branch || (!strcmp(current, deploy->last.build) && !served);
  if (deploy->has_last && (failed || !same))
    return describe(deploy->place, "the commit", deploy->last.commit);
  return NULL;
}

char *deploy_problem(struct deploy_place *place, const char *served, char *why) {
  struct deploy deploy;
  why[0] = 0;
  if (!deploy_open(&deploy, place, false, why))
    return NULL;
  char *problem = find_problem(&deploy, served, why);
  deploy_close(&deploy);
  return problem;
}

/* What is known of where a data folder's deploys come from; malloc'd, NULL if nothing is. */
static char *find_origin(const char *data, const char *key) {
  const struct deploy_place place = {.data = (char *)(uintptr_t)data};
  char why[FS_WHY];
  uint8_t *text = NULL;
  size_t len = 0;
  char *path = deploy_file(&place, "origin.json");
  json_t *root = NULL;
  if (path && fs_read(path, 65536, &text, &len, why))
    root = json_loadb((const char *)text, len, 0, NULL);
  const char *value = json_string_value(json_object_get(root, key));
  char *out = value ? strdup(value) : NULL;
  json_decref(root);
  free(text);
  free(path);
  return out;
}

char *deploy_followed(const char *data) {
  return find_origin(data, "follow");
}

int deploy_status(const char *data, const char *served) {
  char why[DEPLOY_WHY] = "";
  struct deploy_place place;
  char *repository = find_origin(data, "repository");
  if (!repository)
    return CLI_DONE;
  char *problem = NULL;
  if (deploy_place_read(&place, repository, why)) {
    problem = deploy_problem(&place, served, why);
    deploy_place_free(&place);
  }
  free(repository);
  if (problem)
    cli_error("%s", problem);
  else if (why[0])
    cli_error("whether all that was pushed is live cannot be told: %s", why);
  int status = problem ? CLI_PARTIAL : CLI_DONE;
  free(problem);
  return status;
}
