/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/git_repo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool git_repo_fail(char *why, const char *what) {
  const git_error *error = git_error_last();
  char text[300];
  snprintf(text, sizeof text, "%s", error && error->message ? error->message : "unknown error");
  for (char *p = text; *p; p++)
    if ((unsigned char)*p < 0x20)
      *p = ' ';
  snprintf(why, GIT_REPO_WHY, "cannot %.180s: %s", what, text);
  return false;
}

static bool add_objects(git_odb *odb, const char *path, char *why) {
  return git_odb_add_disk_alternate(odb, path) == 0 ||
         git_repo_fail(why, "read the pushed objects");
}

/* The folders of a list "a:b", as git has them in the environment. */
static bool add_list(git_odb *odb, const char *list, char *why) {
  char *copy = strdup(list);
  char *rest = copy;
  bool ok = copy != NULL;
  if (!ok)
    snprintf(why, GIT_REPO_WHY, "out of memory");
  for (char *path; ok && (path = strsep(&rest, ":")) != NULL;)
    if (*path != '\0')
      ok = add_objects(odb, path, why);
  free(copy);
  return ok;
}

static bool add_quarantine(git_repository *repo, char *why) {
  const char *own = getenv("GIT_OBJECT_DIRECTORY");
  const char *more = getenv("GIT_ALTERNATE_OBJECT_DIRECTORIES");
  if (own == NULL && more == NULL)
    return true;
  git_odb *odb = NULL;
  if (git_repository_odb(&odb, repo) != 0)
    return git_repo_fail(why, "read the repository's objects");
  bool ok = own == NULL || *own == '\0' || add_objects(odb, own, why);
  ok = ok && (more == NULL || add_list(odb, more, why));
  git_odb_free(odb);
  return ok;
}

bool git_repo_open(const char *path, git_repository **repo, char *why) {
  char what[200];
  *repo = NULL;
  git_libgit2_init();
  /* That the repository is another user's (root installs a hook, say) is no danger here: nothing
   * that its configuration names is run. */
  git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0);
  git_libgit2_opts(GIT_OPT_ENABLE_FSYNC_GITDIR, 1); /* a deploy that was told is there for good */
  snprintf(what, sizeof what, "open the repository %.150s", path);
  bool ok = git_repository_open_ext(repo, path, GIT_REPOSITORY_OPEN_NO_SEARCH, NULL) == 0 ||
            git_repo_fail(why, what);
  ok = ok && add_quarantine(*repo, why);
  if (!ok) {
    git_repo_close(*repo);
    *repo = NULL;
  }
  return ok;
}

void git_repo_close(git_repository *repo) {
  git_repository_free(repo);
  git_libgit2_shutdown();
}

bool git_repo_commit(git_repository *repo, const char *revision, git_commit **commit, char *why) {
  git_object *object = NULL;
  git_object *peeled = NULL;
  char what[200];
  snprintf(what, sizeof what, "find the commit %.150s", revision);
  bool ok = git_revparse_single(&object, repo, revision) == 0 &&
            git_object_peel(&peeled, object, GIT_OBJECT_COMMIT) == 0;
  if (!ok)
    git_repo_fail(why, what);
  git_object_free(object);
  *commit = (git_commit *)peeled;
  return ok;
}

bool git_repo_ref(git_repository *repo, const char *name, git_oid *id, bool *exists, char *why) {
  char what[200];
  int rc = git_reference_name_to_id(id, repo, name);
  *exists = rc == 0;
  if (rc == 0 || rc == GIT_ENOTFOUND)
    return true;
  snprintf(what, sizeof what, "read %.150s", name);
  return git_repo_fail(why, what);
}
