/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration in a commit of a git repository, read without any checkout.
 *
 * Only what the tree itself says counts: attributes, filters and the executable bit change nothing.
 * Entries are untrusted: names that are no file names end the listing with an error, links and
 * submodules are told as such (zones/model.h).
 */
#ifndef SLUICE_ZONES_SOURCE_GIT_H
#define SLUICE_ZONES_SOURCE_GIT_H

#include <stdint.h>

#include "zones/git_repo.h"
#include "zones/model.h"

struct source_git_commit {
  char id[GIT_REPO_ID];
  int64_t time; /* of the committer, Unix seconds */
};

/* `repository` is a path; `revision` as git understands it.  False with one line in `why` (512
 * octets). */
bool config_source_open_git(const char *repository, const char *revision,
                            struct config_source **source, struct source_git_commit *commit,
                            char *why);

/* As above, in a repository that is open already (and stays the caller's). */
bool config_source_open_commit(git_repository *repo, git_commit *commit,
                               struct config_source **source, char *why);

/* Calls visit(arg, name, id) for each entry at the root of such a source; `directory` tells what it
 * is.  False when a visit was. */
bool source_git_roots(struct config_source *source,
                      bool (*visit)(void *arg, const char *name, const char *id, bool directory),
                      void *arg);

#endif
