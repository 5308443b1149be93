/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What would have to change at one provider for one zone.
 *
 * Pure: the objects that should be there against those that read() gave, matched by key.  All rules
 * that keep people's records safe are here and hold for every kind of provider:
 *
 * - Only what carries our mark is ours: at the object, or (kinds without marks) in the TXT record
 *   `_sluice.NAME` with the text "sluice owner=MARK types=A,AAAA [steered]", which this planner
 *   writes and removes itself.  What is not ours is kept and told.  One that is there as wanted
 *   needs nothing; to change it takes the consent to take it over.
 * - SOA and the records of DNSSEC are the provider's own.  The NS RRset of the apex changes only
 *   with consent, and where the provider lets us; one of a delegation that is there, with the same.
 * - Opaque objects count as different, never as an error.
 * - A domain changes as a whole: if one of its objects is held back, all are.
 * - Updates and deletes of more than 30 % of the zone's RRsets (once it has 10) need a consent (all
 *   changes of parts of one domain count as one, parts do not count as RRsets, and verdicts of our
 *   checker do not count and are not held for this), and so does the delete of the zone's last
 *   steered name.
 *
 * Changes that lack a consent stay in the plan as held back, with the reason; the others can be
 * done without them.
 */
#ifndef SLUICE_TOOLS_SYNC_PLAN_H
#define SLUICE_TOOLS_SYNC_PLAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/providers/provider.h"

enum { SYNC_LIMIT_PERCENT = 30, SYNC_LIMIT_FROM = 10, SYNC_DIGEST = 65, SYNC_MARKER_TTL = 300 };

/* Why a change is held back.  The first ones are also consents. */
enum sync_hold {
  SYNC_TAKE_OVER = 1, /* the record belongs to somebody else, or to nobody */
  SYNC_NS_CHANGE = 2, /* the NS RRset of the apex, or one of a delegation that is there */
  SYNC_LAST = 4,      /* the zone's last steered name would go */
  SYNC_LARGE = 8,     /* more than the limit */
  SYNC_LOSS = 16,     /* the provider cannot express a layer, and the domain does not allow it */
  SYNC_DEPLOYED = 32, /* comes by a deploy, not by this tool */
};

struct sync_item {
  enum provider_op op;
  const struct provider_object *old; /* NULL: create */
  const struct provider_object *new; /* NULL: delete */
  unsigned held;                     /* enum sync_hold; 0: is done by apply */
  const char *domain;                /* the steered name that it is changed with, or NULL */
  bool marker;                       /* a `_sluice.` record */
  size_t made;                       /* private: 1 + index in `made` while planning */
  bool last;                         /* a marker that is written after all others */
  bool widened;                      /* a marker that also names types which go by this plan: it is
                                      * narrowed by the plan that is made after it (below) */
};

/* A domain that may not be changed at this provider, and why. */
struct sync_refusal {
  const char *domain;
  const char *why;
};

struct sync_plan_input {
  const char *zone; /* absolute, lower case, final dot */
  const char *mark; /* ours */
  const struct provider_capabilities *can;
  struct provider_objects *actual; /* as read; owners are filled in from the markers */
  const struct provider_objects *desired;
  const struct sync_refusal *refusals;
  size_t refusal_count;
  const char *const *names; /* only these owners or domains; NULL: the whole zone */
  size_t name_count;
  const char *const *others; /* sorted: not these owners and domains; NULL: no such limit */
  size_t other_count;
  unsigned consents;
};

struct sync_plan {
  struct sync_item *items; /* in a stable order: creates, updates, deletes; each by key */
  size_t count;
  const struct provider_object **kept; /* not ours and not wanted: left alone */
  size_t kept_count;
  size_t records;                   /* of the zone, as the limit counts them */
  size_t equal;                     /* wanted and there */
  size_t unmarked;                  /* of these: not ours */
  size_t creates, updates, deletes; /* without markers, held ones included */
  size_t held;                      /* without markers */
  struct provider_objects made;     /* markers that do not exist elsewhere */
};

/* False without memory.  `plan` points into the objects of the input, which must outlive it;
 * sync_plan_close() frees it in both cases. */
bool sync_plan_make(const struct sync_plan_input *input, struct sync_plan *plan);
void sync_plan_close(struct sync_plan *plan);

/* What apply() is given, in an order in which every moment is safe: marks first, then what is new,
 * then what goes.  malloc'd; NULL with *count 0 if nothing is to be done; *failed without memory.
 *
 * Where a name changes its type, neither the mark of before nor the one of afterwards would cover
 * it all the way, and a provider takes one change for each key: its marker names both types then
 * (`widened`), and sync_plan_narrowing() of a plan that was made from what is there afterwards
 * narrows it.  A run that ends in between leaves a marker that names too much, for the next one. */
struct provider_change *sync_plan_changes(const struct sync_plan *plan, size_t *count,
                                          bool *failed);

bool sync_plan_has_widened(const struct sync_plan *plan);

/* Of `after`: only the changes of markers that `plan` has widened; as sync_plan_changes(). */
struct provider_change *sync_plan_narrowing(const struct sync_plan *plan,
                                            const struct sync_plan *after, size_t *count,
                                            bool *failed);

/* The plan as the digest covers it: a new reference to an array of {"op","key","old","new",
 * "held"}, or NULL without memory. */
json_t *sync_plan_json(const struct sync_plan *plan);

/* SHA-256 of a document in canonical form, as hexadecimal digits. */
bool sync_digest(const json_t *document, char out[SYNC_DIGEST]);

/* "needs --take-over: ..." in words for the lowest reason; static storage. */
const char *sync_hold_text(unsigned held);

/* ---- markers, for plan.c -------------------------------------------------------------------- */

/* True for the TXT RRset of a marker. */
bool sync_is_marker(const struct provider_object *object);

/* A, AAAA, CNAME: what steering answers.  RRsets of other types beside it are static. */
bool sync_is_steered_type(const char *type);

/* Fills in `owner` (and `domain` of steered names) of the objects from the markers among them.
 * False without memory. */
bool sync_markers_read(struct provider_objects *actual);

/* Adds the items that bring the markers level with what is ours after the plan. */
bool sync_markers_plan(const struct sync_plan_input *input, struct sync_plan *plan);

/* Adds an item; NULL without memory. */
struct sync_item *sync_plan_add(struct sync_plan *plan, enum provider_op op,
                                const struct provider_object *old,
                                const struct provider_object *new);

/* True if the object is within the names that were asked for. */
bool sync_plan_selects(const struct sync_plan_input *input, const struct provider_object *object);

#endif
