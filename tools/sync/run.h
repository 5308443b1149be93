/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What plan, apply and drift share: the configuration with the facts in force, the providers, and
 * one *target* for each zone at each provider.
 *
 * Providers run in parallel, one thread for each; what fails at one is kept in its targets and
 * never stops or changes another.  Everything else belongs to the main thread.
 */
#ifndef SLUICE_TOOLS_SYNC_RUN_H
#define SLUICE_TOOLS_SYNC_RUN_H

#include <jansson.h>
#include <stdbool.h>

#include "base/name.h"
#include "tools/providers/provider.h"
#include "tools/sync/plan.h"
#include "zones/model.h"
#include "zones/source_git.h"

struct sync_options {
  const char *config; /* directory; or NULL */
  const char *git, *commit;
  const char *settings; /* of the machine, or NULL: the default ones */
  const char *socket;   /* or NULL */
  const char *provider; /* "A,B": only these; or NULL */
  char **args;          /* zones and domains */
  size_t arg_count;
  unsigned consents;
  const char *beside;  /* "A,B": providers of defaults.yaml where the zones that were asked for are
                        * looked at too, though their zone.yaml does not name them; or NULL */
  const char *without; /* "A,B": these providers are left out, whoever names them; or NULL */
  const char *const *apex_ns; /* the NS RRset of the apex as it is to be, absolute names, instead of
                               * the configuration's; or NULL */
  size_t apex_ns_count;
  const char *locks; /* folder of the locks (tools/sync/lock.h), from who may not read the machine's
                      * settings; NULL: as these say */
  bool rest;         /* only what is beside the steered names of the configuration */
  unsigned lock_wait_ms; /* how long sync_run_lock() waits for others */
  bool server_only; /* what is in force must come from the running server, not from its store */
  const char *cut;  /* `apex_ns` is for the delegation of this name (absolute, lower case), not for
                     * the apex; or NULL */
};

/* A steered domain with the weights and statuses in force. */
struct sync_domain {
  const struct model_domain *domain;
  char name[NAME_MAX_TEXT];
  int32_t *weights;
  struct steer_status *status; /* with health, for providers to which it is pushed */
  struct steer_status *manual; /* without */
};

struct sync_zone {
  const struct model_zone *zone;
  char name[NAME_MAX_TEXT];
  struct sync_domain *domains;
  const char **names; /* that were asked for, owned texts; NULL: all */
  size_t name_count;
  const char **others; /* with `rest`: the steered names, sorted */
};

struct sync_provider {
  char *name;
  json_t *settings;
  const struct provider_kind *kind; /* NULL: see `error` */
  struct provider_error error;
  char *mark;
};

enum sync_state {
  SYNC_FAILED,  /* `error`; nothing was changed */
  SYNC_PLANNED, /* `plan` holds */
  SYNC_APPLIED, /* all that was to be done was seen afterwards */
  SYNC_PARTIAL, /* `error`, and what was done is in `seen` */
};

/* One zone at one provider. */
struct sync_target {
  struct sync_provider *provider;
  struct sync_zone *zone;
  enum sync_state state;
  struct provider_error error;
  struct provider_objects actual, desired;
  struct provider_fidelity *fidelity; /* of each domain of the zone */
  struct sync_refusal *refusals;
  size_t refusal_count;
  json_t **before, **after; /* documents of each domain; NULL: beyond the model */
  struct sync_plan plan;
  size_t asked; /* changes that were to be done */
  size_t seen;  /* of these, seen afterwards */
};

struct sync_run {
  struct sync_options options;
  struct model *model;
  struct source_git_commit commit; /* id "" when it is from a directory */
  char *socket;                    /* of our server */
  json_t *secrets;                 /* `secrets:` of the machine */
  char build[128];          /* commit of the current build, where that is the configuration */
  bool facts;               /* it is known what is in force: `note` is "", or says from where */
  char note[512];           /* why not */
  char warning[512];        /* why others cannot be kept out, or "" */
  bool locked;              /* sync_run_lock() was called */
  struct sync_lock **locks; /* that are held */
  size_t lock_count;
  struct sync_zone *zones;
  size_t zone_count;
  struct sync_provider *providers;
  size_t provider_count;
  struct sync_target *targets;
  size_t target_count;
};

/* Reads the configuration, the machine's settings and the facts.  Exit status; prints errors.
 * sync_run_close() frees in each case. */
int sync_run_open(struct sync_run *run, const struct sync_options *options);
void sync_run_close(struct sync_run *run);

/*
 * Keeps others on this machine from changing the same zones at the same providers, from here until
 * the end of sync_run_apply() (or sync_run_close()): call it before sync_run_plan() in runs that
 * will apply.  Reads again what is in force, since another run may have brought that to the
 * provider meanwhile.  Targets that another one keeps longer than `lock_wait_ms` fail with
 * PROVIDER_CONFLICT and are left out.  False after an error was printed: nothing is to be changed.
 *
 * What others do is not held up while people are asked something: plan without locks, ask, and do
 * the same in a second run with locks only if its digest is still that.
 */
bool sync_run_lock(struct sync_run *run);
void sync_run_unlock(struct sync_run *run);

/* Reads all targets and plans them. */
void sync_run_plan(struct sync_run *run);

/* Does what is planned and not held back, and reads it again.  A run that was not locked is locked
 * here, with the usual wait: what was planned before may be older than another's change then. */
void sync_run_apply(struct sync_run *run);

/* The provider itself, for what is beyond plan and apply (zones made, its name servers): to be
 * closed by its kind's close().  NULL with `error`; without `writes` it cannot change anything. */
void *sync_provider_open(struct sync_run *run, const struct sync_provider *provider, bool writes,
                         struct provider_error *error);

/* The digest of all plans. */
bool sync_run_digest(const struct sync_run *run, char out[SYNC_DIGEST]);

/* ---- parts ---------------------------------------------------------------------------------- */

/* Fills in the domain's weights and statuses from the server at `socket`; false with `note` if
 * there is none.  Domains that the server does not know stay as configured. */
bool sync_facts_read(struct sync_domain *domain, const char *socket, char *note, size_t size);
void sync_facts_close(struct sync_domain *domain);

/* Of all domains: from the server, else (unless `server_only`) from its store, else none. */
void sync_run_read_facts(struct sync_run *run);

/* Room for the facts of a domain, all unknown; false without memory. */
bool sync_facts_make(struct sync_domain *domain);

/* Fills in what the store of the machine's settings holds; false with `note` if it cannot be read
 * (or there is none). */
bool sync_facts_read_store(struct sync_run *run, char *note, size_t size);

/* The commit of the current build, which came from the machine's `deploy: repository`.  False after
 * an error was printed. */
struct machine;
bool sync_find_current(const struct machine *machine, char *commit, size_t size);

/* Gives plain objects as read that have the name of a steered domain, and are where it answers
 * (A, AAAA, CNAME; for a domain of host names all), to it: it is changed with them.  False without
 * memory. */
bool sync_documents_adopt(struct sync_target *target);

/* The documents of all domains, from what was read and from what is wanted; `self` of the kind. */
void sync_documents_make(struct sync_target *target, void *self);

/* `secrets:` of the machine's settings as JSON (NULL in *out: none).  False after an error was
 * printed. */
bool sync_secrets_read(const char *settings, json_t **out);

/* Shares of a domain (index `domain` of the zone) at a provider before or after the plan, as the
 * layers make them of what is in force there: {region: {type: {endpoint: share}}}, without those
 * that are not answered.  The provider's objects say it, down endpoints too as far as they are
 * told; at our own server the facts in force.  NULL: beyond the model. */
json_t *sync_shares(const struct sync_target *target, size_t domain, bool after);

/* The same as {region: {endpoint: share}} of the first type; a type that differs from it is
 * "REGION TYPE".  NULL for NULL. */
json_t *sync_shares_one(const json_t *shares);

/* Exit status of what happened. */
int sync_run_status(const struct sync_run *run);

/* ---- output --------------------------------------------------------------------------------- */

void sync_show_plan(const struct sync_run *run, bool verbose);
void sync_show_result(const struct sync_run *run);
void sync_show_drift(const struct sync_run *run, bool verbose);

/* The versioned envelope: a new reference, NULL without memory. */
json_t *sync_json(const struct sync_run *run, const char *kind);

/* Names of states and failures in JSON. */
const char *sync_failure_name(enum provider_failure failure);

/* ---- commands ------------------------------------------------------------------------------- */

int sync_plan_command(int argc, char **argv);
int sync_apply_command(int argc, char **argv);
int sync_drift_command(int argc, char **argv);
int sync_import_command(int argc, char **argv);

#endif
