/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deploys of a repository: a chain of commits in refs/sluice/deploys, one for each deploy.
 *
 * Each has the deploy before as its first parent, and the commit that was deployed as its last, so
 * that what was ever deployed stays in the repository, also after a forced push, and comes along
 * with a fetch of this one reference.  Its tree has one file, deploy.json (zones/deploy_record.h).
 *
 * Functions return false with a one-line reason in `why` (GIT_REPO_WHY octets).
 */
#ifndef SLUICE_ZONES_DEPLOY_LOG_H
#define SLUICE_ZONES_DEPLOY_LOG_H

#include "zones/deploy_record.h"
#include "zones/git_repo.h"

#define DEPLOY_LOG_REF "refs/sluice/deploys"

/* The newest deploy, and the id of its commit; `exists` false if there is none yet. */
bool deploy_log_last(git_repository *repo, const char *ref, struct deploy_record *record,
                     git_oid *id, bool *exists, char *why);

/* One deploy by the id of its commit; `before` gets the id of the deploy before, `first` tells that
 * there is none. */
bool deploy_log_read(git_repository *repo, const git_oid *id, struct deploy_record *record,
                     git_oid *before, bool *first, char *why);

/* Adds a deploy after `last` (NULL: the first one); fails if `last` is not the newest any more.
 * Only who holds the deploys' lock (tools/deploy.h) may call it. */
bool deploy_log_add(git_repository *repo, const struct deploy_record *record, const git_oid *last,
                    git_oid *id, char *why);

#endif
