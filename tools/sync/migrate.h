/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of `sluice sync migrate` share: a job is one run of the command on one zone.
 * Everything belongs to the main thread.  Functions that may fail put one line into `job->why`.
 */
#ifndef SLUICE_TOOLS_SYNC_MIGRATE_H
#define SLUICE_TOOLS_SYNC_MIGRATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/sync/ask.h"
#include "tools/sync/migrate_state.h"
#include "tools/sync/run.h"

enum { MIGRATE_JOB_WHY = 2048, MIGRATE_PROVIDER = 256 };

/* The name servers of one provider, or of the parent zone. */
struct migrate_host {
  char *name;
  json_t *texts; /* what ask_resolve() was given */
  struct ask_server *servers;
  size_t count;
};

/* Who has the delegation. */
enum migrate_parent {
  MIGRATE_REGISTRY, /* somebody else: told what to set */
  MIGRATE_OURS,     /* a zone of the configuration, at the providers of its zone.yaml */
};

struct migrate_job {
  struct sync_options options; /* where the configuration is */
  char zone[NAME_MAX_TEXT];
  json_t *names; /* name servers of `to` that the command line names; or NULL */
  json_t *up;    /* providers that the command line says to be there again; or NULL */
  bool leave_records, take_over, allow_large, as_configured;
  bool dry;     /* only look: nothing is made or changed */
  bool keep_ns; /* no NS record of the apex is changed */

  struct migrate_state state;
  struct migrate_host *hosts; /* every provider of the zone */
  size_t host_count;
  struct migrate_host parent;
  enum migrate_parent parent_kind;
  char parent_zone[NAME_MAX_TEXT]; /* "" if it is not known */
  bool listed;                     /* zone.yaml names the provider that gets the zone */

  bool changed;                  /* something was changed by this run */
  bool passing;                  /* what failed may be over soon */
  char silent[MIGRATE_PROVIDER]; /* the provider of which that is that does not answer, or "" */
  bool silent_api;               /* not one of its name servers, but what changes it */
  char why[MIGRATE_JOB_WHY];
  char todo[MIGRATE_JOB_WHY]; /* what somebody has to do elsewhere, in lines; or "" */
};

/* Says why it failed; returns false. */
bool migrate_fail(struct migrate_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool migrate_fail_provider(struct migrate_job *job, const char *provider,
                           const struct provider_error *error);

/* Adds a line to `todo`. */
void migrate_todo(struct migrate_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void migrate_job_close(struct migrate_job *job);

/* ---- the zone at its providers (migrate_run.c) ---------------------------------------------- */

/* Reads the configuration and the facts for a run on the zone, with `apex` (NULL: as configured) as
 * the NS RRset of its apex, at all its providers or only at `provider`; migrate_run_open() plans it
 * too.  migrate_run_close() frees in each case. */
bool migrate_run_begin(struct migrate_job *job, struct sync_run *run, const json_t *apex,
                       const char *provider);
bool migrate_run_open(struct migrate_job *job, struct sync_run *run, const json_t *apex,
                      const char *provider);
void migrate_run_close(struct sync_run *run);

struct sync_target *migrate_target(const struct sync_run *run, const char *provider);

/* True if zone.yaml names the provider. */
bool migrate_is_listed(const struct sync_run *run, const char *provider);

/* A text of `run`'s options that leaves out what is down: malloc'd into *out, NULL if nothing is.
 */
bool migrate_without(struct migrate_job *job, char **out);

/* The target has all that the configuration wants, the NS RRset of the apex and steered names
 * aside: those follow by the next apply. */
bool migrate_judge(struct migrate_job *job, const struct sync_target *target);

/* The NS RRset of an owner as read: a new set, empty if it is not there; NULL without memory. */
json_t *migrate_ns_of(const struct provider_objects *objects, const char *owner);

/* The target holds nothing that the configuration does not know, or that is to stay there. */
bool migrate_judge_kept(struct migrate_job *job, const struct sync_target *target);

/* Does the changes and wants to see all of them. */
bool migrate_apply(struct migrate_job *job, struct sync_run *run);

/* ---- looking (migrate_look.c) --------------------------------------------------------------- */

/* Where the name servers of the zone's providers and of its parent are. */
bool migrate_find(struct migrate_job *job, struct sync_run *run);

/* Asks all of them (but those of provider `skip`, if not NULL) for the NS RRset and the zone's SOA.
 * False if one does not answer as it should; migrate_view_close() frees in each case. */
bool migrate_look(struct migrate_job *job, const char *skip, struct migrate_view *view);

/* The same, and both times they have to say the same: for what is to be the base of all that
 * follows, since one of several servers behind an address may answer an older state. */
bool migrate_look_twice(struct migrate_job *job, const char *skip, struct migrate_view *view);
void migrate_view_close(struct migrate_view *view);

/* The parent's NS RRset alone is asked for; and whether it says that the zone is signed. */
bool migrate_look_parent(struct migrate_job *job, struct migrate_seen *seen);
bool migrate_look_signed(struct migrate_job *job, bool *is_signed);

/* What the providers' servers answer to the zone's plain records: those of `b` as those of `a`. */
bool migrate_compare(struct migrate_job *job, const struct sync_target *target,
                     const struct migrate_host *a, const struct migrate_host *b);

struct migrate_host *migrate_host(struct migrate_job *job, const char *provider);
void migrate_host_close(struct migrate_host *host);

/* Adds the addresses of one name server (a text for ask_resolve()), or of those of a provider. */
bool migrate_host_add(struct migrate_job *job, struct migrate_host *host, const char *text);
bool migrate_host_find(struct migrate_job *job, struct sync_run *run,
                       const struct sync_provider *provider, const json_t *names, const char *zone,
                       struct migrate_host *host);

/* Adds what one server says; false without memory. */
bool migrate_seen_add(struct migrate_seen *seen, const json_t *set, uint32_t ttl);

/* ---- the parent (migrate_parent.c) ---------------------------------------------------------- */

/* Finds whose the parent is, and its name servers. */
bool migrate_find_parent(struct migrate_job *job, struct sync_run *run);

/* Sets the delegation to `wanted` where it is ours; else says in `todo` what to set where.  `run`
 * tells the addresses of name servers in the zone. */
bool migrate_set_parent(struct migrate_job *job, const struct sync_run *run, const json_t *wanted);

/* The delegation as the providers of the parent zone hold it. */
bool migrate_read_parent(struct migrate_job *job, struct migrate_seen *seen);

/* Name servers below the zone need addresses in the parent (glue, RFC 1034 section 4.2.1). */
bool migrate_check_glue(struct migrate_job *job, const struct sync_run *run, const json_t *names);

/* ---- steps (migrate_check.c, migrate_do.c) -------------------------------------------------- */

/* Makes the zone at a target where it is not there, if the provider can. */
bool migrate_make_zone(struct migrate_job *job, struct sync_run *run,
                       const struct sync_target *target, bool *made);

bool migrate_do_check(struct migrate_job *job);
bool migrate_do_fill(struct migrate_job *job);
bool migrate_do_verify(struct migrate_job *job);
bool migrate_do_apex(struct migrate_job *job, const json_t *wanted);
bool migrate_do_parent(struct migrate_job *job, const json_t *wanted);

/* The provider is known, and its kind lets the NS records of the apex be changed: only then can it
 * have the zone beside another one. */
bool migrate_check_provider(struct migrate_job *job, const struct sync_target *target);

/* Adds to `todo` what has to be deployed for such NS records at the run's targets. */
void migrate_tell_deploys(struct migrate_job *job, const struct sync_run *run,
                          const json_t *wanted);

/* A provider that was down gets what is in force by now: its records and the NS records of the apex
 * and of the delegation.  Something in `todo`: that has to be done first. */
bool migrate_do_rejoin(struct migrate_job *job, const char *provider);

/* Brings the steered names level where sluice-syncd does not. */
bool migrate_do_level(struct migrate_job *job);

/* Deletes the zone at the provider that was left, once nobody is led there. */
bool migrate_do_delete(struct migrate_job *job);

/* ---- one after the other (migrate_walk.c) ---------------------------------------------------- */

/* All steps from where the state is, until the end or (`once`) the first wait; the state is kept at
 * `path` after each change.  SIGINT and SIGTERM end it between two requests.  Returns the status of
 * the command; what is wrong was printed. */
int migrate_walk(struct migrate_job *job, const char *path, bool once);

/* Keeps the state. */
bool migrate_keep(struct migrate_job *job, const char *path);

/* Milliseconds since 1970, UTC. */
int64_t migrate_now(void);

/* ---- output (migrate_show.c) ---------------------------------------------------------------- */

void migrate_show_plan(const struct migrate_job *job);
void migrate_show_status(const struct migrate_state *state, int64_t now);
json_t *migrate_status_json(const struct migrate_state *state, int64_t now);
void migrate_show_end(const struct migrate_job *job);

/* Prints `why`, and what to do about a provider that does not answer. */
void migrate_show_failure(const struct migrate_job *job);

/* Prints what is gone on without; NOTE: of a state that has none, nothing. */
void migrate_show_down(const struct migrate_state *state);
void migrate_show_action(const struct migrate_job *job, const struct migrate_action *action);

int sync_migrate_command(int argc, char **argv);

#endif
