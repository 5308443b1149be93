/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deploys: what a push, a rollback and a follower do to make a commit live (docs/deploy.md).
 *
 * A deploy has these steps: build the commit aside, record the deploy in the repository, switch
 * DATA/current, tell the server.  The record decides: whatever ends the process between two steps,
 * deploy_finish() of the same record later does the rest, with the same serials.  All of it runs
 * under one lock for each data folder, which the kernel drops when the process ends.
 *
 * Files in DATA/deploy: lock, prepared.json (the build that a push made aside, to be used by its
 * second half), failed.json (why the last deploy is not live), origin.json (where deploys come
 * from), mirror.git (of a follower).
 *
 * Functions return false with a one-line reason in `why` (DEPLOY_WHY octets).
 */
#ifndef SLUICE_TOOLS_DEPLOY_H
#define SLUICE_TOOLS_DEPLOY_H

#include "zones/build.h"
#include "zones/deploy_log.h"

enum { DEPLOY_WHY = 1024 };

#define DEPLOY_FAILED_FILE "failed.json"

/* Where deploys of a repository go.  `hook install` keeps it in the repository's own configuration:
 * sluice.branch, sluice.data, sluice.socket, sluice.system. */
struct deploy_place {
  char *repository; /* absolute path; of a follower its mirror */
  char *branch;     /* without refs/heads/; NULL of a follower */
  char *data;
  char *socket; /* NULL: as for every command */
  char *system; /* the machine's settings, to look exec checks up; or NULL */
};

/* Reads what `hook install` has left in the repository. */
bool deploy_place_read(struct deploy_place *place, const char *repository, char *why);
/* As deploy_place_read(), of `given`, else of the machine's settings at `settings` (NULL: the
 * default ones).  False after an error was printed. */
bool deploy_place_find(struct deploy_place *place, const char *given, const char *settings);
bool deploy_place_write(const struct deploy_place *place, char *why);
void deploy_place_free(struct deploy_place *place);

/* An open repository with the lock, and the newest deploy. */
struct deploy {
  struct deploy_place *place;
  git_repository *repo;
  int lock; /* -1 without */
  struct deploy_record last;
  git_oid last_id;
  bool has_last;
};

/* Without `lock` for looking only; with it, waits for a deploy that is under way. */
bool deploy_open(struct deploy *deploy, struct deploy_place *place, bool lock, char *why);
void deploy_close(struct deploy *deploy);

/* The path of a file in DATA/deploy; malloc'd, NULL without memory. */
char *deploy_file(const struct deploy_place *place, const char *name);

/* ---- building (tools/deploy_build.c) ---- */

struct deploy_build {
  char commit[GIT_REPO_ID];
  struct build_result result; /* serials and retired are the caller's to free */
};

/*
 * Makes the build of a commit aside.  Its serials follow those of `last` (NULL: none yet), or are
 * exactly those (`final`).  Problems of the configuration are printed, errors and warnings, then
 * `why` counts them.
 */
bool deploy_build_make(const struct deploy_place *place, git_repository *repo, const char *commit,
                       const struct deploy_record *last, bool final, struct deploy_build *build,
                       char *why);
void deploy_build_free(struct deploy_build *build);

/* Keeps what deploy_build_make() made for the second half of a push. */
bool deploy_build_save(const struct deploy *deploy, const struct deploy_build *build, char *why);

/* Takes it up again, if it is of this commit, and neither a deploy nor a build has come between. */
bool deploy_build_load(const struct deploy *deploy, const char *commit, struct deploy_build *build);

/* ---- deploying ---- */

struct deploy_wish {
  const char *commit;
  enum deploy_kind kind;
  int64_t of;
};

/* Records a new deploy; it becomes `deploy->last`.  Its build is made unless it was prepared. */
bool deploy_record_new(struct deploy *deploy, const struct deploy_wish *wish, char *why);

/* Makes `deploy->last` live: builds it if need be, switches, tells the server.  Clears the note of
 * a failure. */
bool deploy_finish(struct deploy *deploy, char *why);

/* Makes the tip of the branch live, unless it was rolled back on purpose; says so on stderr, and
 * keeps a note after a failure. */
bool deploy_branch(struct deploy_place *place, char *why);

/* Writes the note that this deploy is not live, for `sluice status`. */
void deploy_note_failure(const struct deploy_place *place, const char *commit, const char *reason);
void deploy_clear_failure(const struct deploy_place *place);

/* Why what should be live is not: malloc'd text, NULL if all is well.  Reads the repository and the
 * data folder; `served` is the build that the server says it serves, NULL if unknown.  `why` gets
 * the reason if that cannot be told (and NULL is returned); else it is "". */
char *deploy_problem(struct deploy_place *place, const char *served, char *why);

/* The URL that `sluice follow` brings the builds of this folder from; malloc'd, NULL if none. */
char *deploy_followed(const char *data);

/* For `sluice status`: prints what is not live of the deploys that go to a data folder; the exit
 * status. */
int deploy_status(const char *data, const char *served);

/* The newest deploy that was a push: `deploy->last`, or what rollbacks since have undone.  `exists`
 * false if there is none. */
bool deploy_last_push(const struct deploy *deploy, struct deploy_record *record, bool *exists,
                      char *why);

/* Who runs this, for the record: SLUICE_USER, else GL_USER (gitolite), REMOTE_USER (a web server),
 * else the user, through sudo as well.  And from where: the peer of ssh, else this machine. */
void deploy_who(char who[DEPLOY_RECORD_TEXT], char origin[DEPLOY_RECORD_TEXT]);

/* "2026-11-30 01:02:03 UTC" */
enum { DEPLOY_TIME = 32 };
const char *deploy_time(int64_t when, char out[DEPLOY_TIME]);

#endif
