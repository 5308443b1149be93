/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/deploy_log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_TRIES = 20, LOCK_PAUSE = 20 /* milliseconds */ };

static const char file_name[] = "deploy.json";
static const char email[] = "sluice@localhost"; /* git wants one */

/* ---- reading ----------------------------------------------------------------------------------
 */

static bool read_blob(git_repository *repo, const git_oid *id, struct deploy_record *record,
                      char *why) {
  git_blob *blob = NULL;
  if (git_blob_lookup(&blob, repo, id) != 0)
    return git_repo_fail(why, "read a deploy record");
  size_t size = (size_t)git_blob_rawsize(blob);
  bool ok = size <= DEPLOY_RECORD_LIMIT;
  if (!ok)
    snprintf(why, GIT_REPO_WHY, "a deploy record is larger than %d octets", DEPLOY_RECORD_LIMIT);
  ok = ok && deploy_record_read(record, git_blob_rawcontent(blob), size, why);
  git_blob_free(blob);
  return ok;
}

/* The commit must be the one that the record names: it is what a fetch brings along. */
static bool check_parent(git_commit *commit, const struct deploy_record *record, char *why) {
  char id[GIT_REPO_ID] = "";
  unsigned count = git_commit_parentcount(commit);
  if (count > 0)
    git_oid_tostr(id, sizeof id, git_commit_parent_id(commit, count - 1));
  if (count > 0 && count <= 2 && !strcmp(id, record->commit))
    return true;
  snprintf(why, GIT_REPO_WHY, "deploy %lld does not have the commit %.12s as its parent",
           (long long)record->number, record->commit);
  return false;
}

bool deploy_log_read(git_repository *repo, const git_oid *id, struct deploy_record *record,
                     git_oid *before, bool *first, char *why) {
  git_commit *commit = NULL;
  git_tree *tree = NULL;
  if (git_commit_lookup(&commit, repo, id) != 0 || git_commit_tree(&tree, commit) != 0) {
    git_repo_fail(why, "read a deploy");
    git_commit_free(commit);
    return false;
  }
  const git_tree_entry *entry = git_tree_entry_byname(tree, file_name);
  bool ok = entry && git_tree_entry_type(entry) == GIT_OBJECT_BLOB;
  if (!ok)
    snprintf(why, GIT_REPO_WHY, "a deploy has no file %s", file_name);
  ok = ok && read_blob(repo, git_tree_entry_id(entry), record, why);
  if (ok && !check_parent(commit, record, why)) {
    deploy_record_close(record);
    ok = false;
  }
  if (ok) {
    *first = git_commit_parentcount(commit) == 1;
    if (!*first)
      *before = *git_commit_parent_id(commit, 0);
  }
  git_tree_free(tree);
  git_commit_free(commit);
  return ok;
}

bool deploy_log_last(git_repository *repo, const char *ref, struct deploy_record *record,
                     git_oid *id, bool *exists, char *why) {
  git_oid before;
  bool first;
  *record = (struct deploy_record){0};
  if (!git_repo_ref(repo, ref, id, exists, why))
    return false;
  return !*exists || deploy_log_read(repo, id, record, &before, &first, why);
}

/* ---- adding -----------------------------------------------------------------------------------
 */

static bool write_tree(git_repository *repo, const struct deploy_record *record, git_oid *tree,
                       char *why) {
  struct buf text;
  git_oid blob;
  git_treebuilder *builder = NULL;
  buf_init(&text);
  bool ok = deploy_record_write(record, &text);
  if (!ok)
    snprintf(why, GIT_REPO_WHY, "out of memory");
  ok = ok && ((git_blob_create_from_buffer(&blob, repo, text.data, text.len) == 0 &&
               git_treebuilder_new(&builder, repo, NULL) == 0 &&
               git_treebuilder_insert(NULL, builder, file_name, &blob, GIT_FILEMODE_BLOB) == 0 &&
               git_treebuilder_write(tree, builder) == 0) ||
              git_repo_fail(why, "write a deploy record"));
  git_treebuilder_free(builder);
  buf_close(&text);
  return ok;
}

static bool write_commit(git_repository *repo, const struct deploy_record *record,
                         const git_oid *tree_id, const git_oid *last, git_oid *id, char *why) {
  char message[128];
  git_oid deployed;
  git_tree *tree = NULL;
  git_commit *parents[2] = {NULL, NULL};
  git_signature *who = NULL;
  size_t count = 0;
  snprintf(message, sizeof message, "deploy %lld: %s %.12s\n", (long long)record->number,
           record->kind == DEPLOY_ROLLBACK ? "rollback to" : "push of", record->commit);
  bool ok = git_oid_fromstr(&deployed, record->commit) == 0 &&
            git_tree_lookup(&tree, repo, tree_id) == 0 &&
            git_signature_new(&who, record->who, email, record->at, 0) == 0;
  if (ok && last)
    ok = git_commit_lookup(&parents[count++], repo, last) == 0;
  ok = ok && git_commit_lookup(&parents[count++], repo, &deployed) == 0;
  ok = ok && git_commit_create(id, repo, NULL, who, who, NULL, message, tree, count,
                               (const git_commit **)parents) == 0;
  if (!ok)
    git_repo_fail(why, "write a deploy record");
  git_signature_free(who);
  git_tree_free(tree);
  git_commit_free(parents[0]);
  git_commit_free(parents[1]);
  return ok;
}

static int point_to(git_repository *repo, const git_oid *last, const git_oid *id) {
  git_reference *ref = NULL;
  int rc = last ? git_reference_create_matching(&ref, repo, DEPLOY_LOG_REF, id, 1, last, NULL)
                : git_reference_create(&ref, repo, DEPLOY_LOG_REF, id, 0, NULL);
  git_reference_free(ref);
  return rc;
}

/* git holds the lock of a reference for milliseconds (when it packs references); one that stays was
 * left by a deploy that was killed, since who writes here holds the deploys' own lock. */
static void remove_lock(git_repository *repo) {
  char path[4096];
  snprintf(path, sizeof path, "%s" DEPLOY_LOG_REF ".lock", git_repository_commondir(repo));
  unlink(path);
}

bool deploy_log_add(git_repository *repo, const struct deploy_record *record, const git_oid *last,
                    git_oid *id, char *why) {
  const struct timespec pause = {.tv_nsec = LOCK_PAUSE * 1000000};
  git_oid tree;
  int rc;
  if (!write_tree(repo, record, &tree, why) || !write_commit(repo, record, &tree, last, id, why))
    return false;
  for (int i = 0; (rc = point_to(repo, last, id)) == GIT_ELOCKED && i < LOCK_TRIES; i++)
    nanosleep(&pause, NULL);
  if (rc == GIT_ELOCKED) {
    remove_lock(repo);
    rc = point_to(repo, last, id);
  }
  return rc == 0 || git_repo_fail(why, "write " DEPLOY_LOG_REF);
}
