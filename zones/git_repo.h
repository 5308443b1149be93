/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A git repository, opened by libgit2.
 *
 * Inside a hook the objects of a push are not in the repository yet but in git's quarantine
 * (git-receive-pack(1), "Quarantine environment"); what the environment names is added, so that
 * they are seen.  Nothing is ever checked out, and no program of git runs.
 *
 * Functions return false with a one-line reason in `why` (GIT_REPO_WHY octets).
 */
#ifndef SLUICE_ZONES_GIT_REPO_H
#define SLUICE_ZONES_GIT_REPO_H

#include <git2.h>
#include <stdbool.h>
#include <stdint.h>

enum { GIT_REPO_WHY = 512, GIT_REPO_ID = GIT_OID_HEXSZ + 1 };

/* Opens a bare repository, or the one of a working tree.  git_repo_close() also ends libgit2's own
 * state, so each open has its close. */
bool git_repo_open(const char *path, git_repository **repo, char *why);
void git_repo_close(git_repository *repo);

/* Writes "cannot WHAT: what libgit2 says" to `why`; returns false. */
bool git_repo_fail(char *why, const char *what);

/* The commit that a revision (a branch, a tag, an id) means; freed by git_commit_free(). */
bool git_repo_commit(git_repository *repo, const char *revision, git_commit **commit, char *why);

/* What a reference points to; `exists` false (and true returned) if there is none. */
bool git_repo_ref(git_repository *repo, const char *name, git_oid *id, bool *exists, char *why);

#endif
