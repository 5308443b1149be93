/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the commands of `endpoints` read and write: the running server (server/control.h), or,
 * where none runs, the store itself (base/store.h) beside the build, which the server reads when it
 * starts.  The second needs `state:` and `data:` of the machine's settings.
 *
 * Functions that return an exit status have printed one line when it is not CLI_DONE.  A backend
 * belongs to one thread.
 */
#ifndef SLUICE_TOOLS_ENDPOINTS_BACKEND_H
#define SLUICE_TOOLS_ENDPOINTS_BACKEND_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/name.h"
#include "tools/endpoints/state.h"

struct backend;

struct backend_options {
  const char *socket;   /* or NULL */
  const char *settings; /* or NULL: the default ones */
  const char *as;       /* in whose name, or NULL */
};

/* NULL after an error was printed.  Does not talk to the server yet. */
struct backend *backend_open(const struct backend_options *options);
void backend_close(struct backend *backend);

/* True once it turned out that no server runs and the store is used. */
bool backend_is_offline(const struct backend *backend);

/* Completes a domain's name; `out` holds NAME_MAX_TEXT. */
int backend_resolve(struct backend *backend, const char *text, char *out);

/* All that is known of a domain, by its absolute name.  One that is not steered: the nearest names
 * are offered. */
int backend_domain(struct backend *backend, const char *name, struct state **state);

/* The steered domains of a zone (absolute name; NULL: all): an array of {"name", "zone",
 * "endpoints": [...]}. */
int backend_domains(struct backend *backend, const char *zone, json_t **list);

/* What the build says of a domain (a line of domains.json: owner, profiles), or NULL if that cannot
 * be read; a new reference. */
json_t *backend_entry(struct backend *backend, const struct state *state);

/* All of them, or NULL after an error was printed; a new reference to an array. */
json_t *backend_entries(struct backend *backend, const char *data);

enum backend_commit {
  BACKEND_DONE,
  BACKEND_CONFLICT, /* nothing done: someone else was first */
  BACKEND_REFUSED,  /* nothing done, an error was printed; *status */
  BACKEND_UNKNOWN,  /* it may have been done; an error was printed */
};

/*
 * Makes all `changes` of one domain and adds `audit` (both as in server/control.h, borrowed), or
 * nothing.  `state` is what they were computed from.
 */
enum backend_commit backend_commit(struct backend *backend, const struct state *state,
                                   const json_t *changes, const json_t *audit, int *status);

/* The audit trail of a domain (NULL: of all), latest first. */
int backend_history(struct backend *backend, const char *name, size_t limit, json_t **list);

/* After a commit of this backend: brings the other providers of the domain level (level.h), and
 * writes what came of it into the audit row.  Together, all calls wait 10 s. */
void backend_level(struct backend *backend, const struct state *state);

/* What was not brought level: an array as level_bring() gives, each with its "domain"; borrowed. */
const json_t *backend_behind(const struct backend *backend);

/* How the domain is at its other providers (level_look()); a new reference. */
json_t *backend_look(struct backend *backend, const struct state *state);

/* A request of another kind; only with a running server. */
int backend_call(struct backend *backend, json_t *request, json_t **reply);

#endif
