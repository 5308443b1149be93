/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving a zone from one provider to another: where it is, and what comes next.
 *
 * A migration goes through phases.  Each changes one name server at a time, and what was done is
 * told from what is seen (the NS RRsets at the name servers of the providers and of the parent
 * zone), so that a step that is repeated does no harm and nothing has to be remembered of a step
 * that was cut off.  The state on disk holds only what cannot be seen: which names belong to whom,
 * since when the NS RRsets are as they are, and the largest TTLs that were ever seen.
 *
 *   check, fill, verify    the zone is made at the provider to which it goes, and compared
 *   apex-in, parent-in     its name servers come into the NS RRsets: first those of the apex at
 *                          all providers, then those of the delegation (RFC 1034 section 4.2.2: the
 *                          parent's copy should be consistent with the zone's own)
 *   wait-in                resolvers may know the old set alone for as long as its TTLs
 *                          (RFC 2181 section 5.4.1: those of the delegation or of the apex)
 *   parent-out, apex-out   the name servers of the provider that is left go
 *   wait-out               and nobody asks them after these TTLs
 *
 * The way back is the same with the roles exchanged, from any phase.
 *
 * Where the provider that is left is down (`down`), its names fail anyhow: those of the other come
 * and its own go in one change of each NS RRset, the zone names its new servers from the beginning,
 * and only the end is waited for.
 *
 * Pure but for migrate_load(), migrate_save() and the lock.  Times are Unix milliseconds.
 */
#ifndef SLUICE_TOOLS_SYNC_MIGRATE_STATE_H
#define SLUICE_TOOLS_SYNC_MIGRATE_STATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum migrate_phase {
  MIGRATE_CHECK,
  MIGRATE_FILL,
  MIGRATE_VERIFY,
  MIGRATE_APEX_IN,
  MIGRATE_PARENT_IN,
  MIGRATE_WAIT_IN,
  MIGRATE_PARENT_OUT,
  MIGRATE_APEX_OUT,
  MIGRATE_WAIT_OUT,
  MIGRATE_DONE,
};
enum { MIGRATE_PHASES = MIGRATE_DONE + 1, MIGRATE_WHY = 1024, MIGRATE_SETTLE = 3600 };

struct migrate_state {
  char *zone;      /* absolute, lower case, final dot */
  char *from, *to; /* providers */
  bool back;       /* the roles are exchanged: to `from` alone */
  enum migrate_phase phase;
  json_t *old, *new;                /* name servers of `from` and of `to` (nameset.h) */
  json_t *others;                   /* of other providers, which stay */
  json_t *apex, *parent;            /* the NS RRsets as they were last the same everywhere */
  int64_t apex_since, parent_since; /* since when this is seen; 0: since before this direction */
  int64_t changed; /* the last change of this half (in or out); 0: none was needed */
  uint32_t apex_ttl, parent_ttl, negative_ttl; /* the largest seen, seconds */
  uint32_t settle; /* seconds between two name servers of a phase, at most the TTL */
  int64_t started;
  bool made;       /* the zone was made at `to` by this migration */
  bool deleted;    /* the zone was deleted at `from` */
  bool rebase;     /* the NS RRsets that are seen next are the ones to go on from */
  json_t *parents; /* texts for ask_resolve(): the parent's name servers; empty: to be found */
  json_t *down;    /* names of providers that are neither asked nor written */
};

/* An NS RRset as several name servers tell it. */
struct migrate_seen {
  json_t *all;  /* names that all of them have */
  json_t *any;  /* names that one of them has */
  uint32_t ttl; /* the largest */
};

struct migrate_view {
  int64_t now;
  struct migrate_seen apex, parent;
  uint32_t negative_ttl; /* of the zone's SOA (RFC 2308 section 5) */
};

enum migrate_act {
  MIGRATE_DO_CHECK,
  MIGRATE_DO_FILL,
  MIGRATE_DO_VERIFY,
  MIGRATE_DO_APEX,   /* the NS RRset of the apex becomes migrate_wanted(); `name` goes in (in phases
                      * that end in -in) or out, or is the first of those that move */
  MIGRATE_DO_PARENT, /* the same for the delegation */
  MIGRATE_DO_WAIT,   /* until `until` */
  MIGRATE_DO_NEXT,   /* the phase is over: migrate_advance() */
  MIGRATE_DO_NOTHING, /* done */
};

struct migrate_action {
  enum migrate_act act;
  const char *name; /* of the state's sets */
  int64_t until;
};

/* Empty and valid; migrate_close() frees.  False without memory. */
bool migrate_open(struct migrate_state *state);
void migrate_close(struct migrate_state *state);

/* Who gets the zone, and who loses it, in the direction of the state. */
const json_t *migrate_in(const struct migrate_state *state);
const json_t *migrate_out(const struct migrate_state *state);
const char *migrate_in_provider(const struct migrate_state *state);
const char *migrate_out_provider(const struct migrate_state *state);

/* The phases that bring names into NS RRsets. */
bool migrate_adds(const struct migrate_state *state);

/* Takes over what was seen.  *changed: the state is another one and to be saved.  False if an NS
 * RRset was changed by somebody else (in `why`, MIGRATE_WHY octets); the state is as before then.
 */
bool migrate_note(struct migrate_state *state, const struct migrate_view *view, bool *changed,
                  char *why);

/* What is to be done now.  `view` NULL: as if the NS RRsets were as in the state. */
void migrate_next(const struct migrate_state *state, const struct migrate_view *view, int64_t now,
                  struct migrate_action *action);

/* The NS RRset that a step for `name` makes of the one that is seen; and that of the apex at the
 * provider that gets the zone, as long as nobody is led there.  New sets, NULL without memory. */
json_t *migrate_wanted(const struct migrate_state *state, const struct migrate_seen *seen,
                       const char *name);
json_t *migrate_wanted_apex(const struct migrate_state *state);

/* What a step for `name` was for is in the state's NS RRset. */
bool migrate_has_moved(const struct migrate_state *state, const char *name);

/* The phase is over. */
void migrate_advance(struct migrate_state *state);

/* Turns round; the phase becomes the one to go on with.  Turning into the direction that it has
 * only takes the NS RRsets as they are. */
void migrate_turn(struct migrate_state *state, bool back);

/* How long resolvers may go on with an old NS RRset, and the pause between two name servers of a
 * phase, in milliseconds. */
int64_t migrate_longest(const struct migrate_state *state);
int64_t migrate_pause(const struct migrate_state *state, uint32_t ttl);

const char *migrate_phase_name(enum migrate_phase phase); /* "parent-in" */

/* ---- providers that are down (migrate_down.c) ----------------------------------------------- */

bool migrate_is_down(const struct migrate_state *state, const char *provider);

/* The provider that is left is down: all at once. */
bool migrate_hurries(const struct migrate_state *state);

/* The provider is not asked or written from here on; the phase becomes the one to go on with.
 * False if it is the one that gets the zone, or without memory. */
bool migrate_set_down(struct migrate_state *state, const char *provider);

/* It is again; true if it was not. */
bool migrate_set_up(struct migrate_state *state, const char *provider);

/* The same of one that has just been written: what was waited for begins again, since its name
 * servers told older NS records until now. */
void migrate_rejoin(struct migrate_state *state, const char *provider, int64_t now);

/* ---- on disk -------------------------------------------------------------------------------- */

/* The state as JSON, and back; hostile when read.  NULL or false: no memory, or one line in `why`.
 * migrate_decode() wants an opened, empty state. */
json_t *migrate_encode(const struct migrate_state *state);
bool migrate_decode(struct migrate_state *state, const json_t *document, char *why);

/* The file of a zone in `folder`: malloc'd, NULL without memory. */
char *migrate_path(const char *folder, const char *zone);

/* False with one line in `why`; *found: there is a state. */
bool migrate_load(struct migrate_state *state, const char *path, bool *found, char *why);
bool migrate_save(const struct migrate_state *state, const char *path, char *why);

/* One run at a time for each state: a descriptor to be closed, or -1 with a line in `why`. */
int migrate_lock(const char *path, char *why);

#endif
