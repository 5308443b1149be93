/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be done next: pure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sync/migrate_state.h"
#include "tools/sync/nameset.h"

bool migrate_open(struct migrate_state *s) {
  *s = (struct migrate_state){.settle = MIGRATE_SETTLE};
  json_t **const sets[] = {&s->old,    &s->new,     &s->others, &s->apex,
                           &s->parent, &s->parents, &s->down};
  bool ok = true;
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
    *sets[i] = json_array();
    ok = ok && *sets[i];
  }
  return ok;
}

void migrate_close(struct migrate_state *s) {
  free(s->zone);
  free(s->from);
  free(s->to);
  json_decref(s->old);
  json_decref(s->new);
  json_decref(s->others);
  json_decref(s->apex);
  json_decref(s->parent);
  json_decref(s->parents);
  json_decref(s->down);
  *s = (struct migrate_state){0};
}

const json_t *migrate_in(const struct migrate_state *s) {
  return s->back ? s->old : s->new;
}

const json_t *migrate_out(const struct migrate_state *s) {
  return s->back ? s->new : s->old;
}

const char *migrate_in_provider(const struct migrate_state *s) {
  return s->back ? s->from : s->to;
}

const char *migrate_out_provider(const struct migrate_state *s) {
  return s->back ? s->to : s->from;
}

const char *migrate_phase_name(enum migrate_phase phase) {
  static const char *const names[] = {"check",   "fill",       "verify",   "apex-in",  "parent-in",
                                      "wait-in", "parent-out", "apex-out", "wait-out", "done"};
  return names[phase];
}

bool migrate_adds(const struct migrate_state *s) {
  return s->phase == MIGRATE_APEX_IN || s->phase == MIGRATE_PARENT_IN;
}

/* One that is down but answers now and then tells its own old NS RRset to those who know it from
 * the delegation: one after the other. */
int64_t migrate_longest(const struct migrate_state *s) {
  int64_t longest = s->apex_ttl > s->parent_ttl ? s->apex_ttl : s->parent_ttl;
  if (migrate_hurries(s))
    longest = (int64_t)s->apex_ttl + s->parent_ttl;
  return 1000 * (s->negative_ttl > longest ? s->negative_ttl : longest);
}

int64_t migrate_pause(const struct migrate_state *s, uint32_t ttl) {
  return 1000 * (int64_t)(s->settle < ttl ? s->settle : ttl);
}

/* ---- what was seen -------------------------------------------------------------------------- */

/* A name in the set that is neither in `a` nor in `b`. */
static const char *stranger(const json_t *set, const json_t *a, const json_t *b) {
  for (size_t i = 0; i < json_array_size(set); i++) {
    const char *name = json_string_value(json_array_get(set, i));
    if (name && !nameset_has(a, name) && !nameset_has(b, name))
      return name;
  }
  return NULL;
}

static bool foreign(char *why, const char *where, const char *name, bool came,
                    const struct migrate_state *s) {
  char set[400];
  snprintf(why, MIGRATE_WHY,
           "%.255s has %s the NS records %s, and not by this migration, which left them as: %s; "
           "put that right, or go on from what is there by --as-is",
           name, came ? "come into" : "gone from", where,
           nameset_text(strcmp(where, "of the apex") == 0 ? s->apex : s->parent, set, sizeof set));
  return false;
}

/* Only the names of this migration may move, and only in its direction: in the phases that move
 * them, or where it was turned amid such a change (`since` tells). */
static bool judge(const struct migrate_state *s, const json_t *expected,
                  const struct migrate_seen *seen, int64_t since, const char *where, char *why) {
  bool moves = s->phase > MIGRATE_VERIFY || since > 0 || migrate_hurries(s);
  const char *name = stranger(seen->any, expected, moves ? migrate_in(s) : NULL);
  if (name)
    return foreign(why, where, name, true, s);
  name = stranger(expected, seen->all, moves ? migrate_out(s) : NULL);
  if (name)
    return foreign(why, where, name, false, s);
  return true;
}

static void raise(uint32_t *ttl, uint32_t seen, bool *changed) {
  if (seen <= *ttl)
    return;
  *ttl = seen;
  *changed = true;
}

static void take(json_t **set, json_t *seen) {
  json_incref(seen);
  json_decref(*set);
  *set = seen;
}

static void take_change(struct migrate_state *s, json_t **set, const struct migrate_seen *seen,
                        int64_t *since, int64_t now, bool *changed) {
  if (!nameset_equal(seen->all, seen->any) || nameset_equal(*set, seen->all))
    return;
  take(set, seen->all);
  *since = s->changed = now;
  *changed = true;
}

/* What is to be taken for there: a change that was cut off may have left names of the migration at
 * some name servers only.  One that is to go counts as there (it is taken out of all), one that is
 * to come does not (it is added).  NULL: some other name is not at all of them. */
static json_t *as_there(const struct migrate_state *s, const struct migrate_seen *seen) {
  json_t *partly = nameset_minus(seen->any, seen->all);
  json_t *going = partly ? nameset_common(partly, migrate_out(s)) : NULL;
  bool ours = partly && !stranger(partly, s->old, s->new);
  json_t *out = ours && going ? nameset_union(seen->all, going) : NULL;
  json_decref(partly);
  json_decref(going);
  return out;
}

/* Since when they are so, nobody knows. */
static void take_there(struct migrate_state *s, json_t **set, json_t *there,
                       const struct migrate_seen *seen, int64_t *since, int64_t now) {
  if (!nameset_equal(*set, there) || !nameset_equal(seen->all, seen->any))
    *since = s->changed = now;
  take(set, there);
}

/* Names beside those of the migration belong to others. */
static bool rebase(struct migrate_state *s, const struct migrate_view *view, char *why) {
  json_t *ours = nameset_union(s->old, s->new);
  json_t *others = ours ? nameset_minus(view->apex.all, ours) : NULL;
  json_t *apex = as_there(s, &view->apex);
  json_t *parent = as_there(s, &view->parent);
  bool ok = others && apex && parent;
  if (ok) {
    json_decref(s->others);
    s->others = json_incref(others);
    take_there(s, &s->apex, apex, &view->apex, &s->apex_since, view->now);
    take_there(s, &s->parent, parent, &view->parent, &s->parent_since, view->now);
    s->rebase = false;
  } else {
    snprintf(why, MIGRATE_WHY, "the NS records of %.255s are not yet the same everywhere", s->zone);
  }
  json_decref(ours);
  json_decref(others);
  json_decref(apex);
  json_decref(parent);
  return ok;
}

static bool note(struct migrate_state *s, const struct migrate_view *view, bool *changed,
                 char *why) {
  *changed = false;
  if (json_array_size(view->parent.all) == 0 || json_array_size(view->apex.all) == 0) {
    snprintf(why, MIGRATE_WHY, "no NS record of %.255s is the same at all name servers %s", s->zone,
             json_array_size(view->apex.all) == 0 ? "of its providers" : "of its parent zone");
    return false;
  }
  if (s->rebase) {
    if (!rebase(s, view, why))
      return false;
    *changed = true;
  }
  if (!judge(s, s->apex, &view->apex, s->apex_since, "of the apex", why) ||
      !judge(s, s->parent, &view->parent, s->parent_since, "of the delegation", why))
    return false;
  raise(&s->apex_ttl, view->apex.ttl, changed);
  raise(&s->parent_ttl, view->parent.ttl, changed);
  raise(&s->negative_ttl, view->negative_ttl, changed);
  take_change(s, &s->apex, &view->apex, &s->apex_since, view->now, changed);
  take_change(s, &s->parent, &view->parent, &s->parent_since, view->now, changed);
  return true;
}

bool migrate_note(struct migrate_state *s, const struct migrate_view *view, bool *changed,
                  char *why) {
  struct migrate_view seen = *view;
  json_t *apex = json_incref(s->apex);
  /* Where all that have the zone are down, nobody tells of another apex. */
  if (!seen.apex.any && json_array_size(s->down) > 0)
    seen.apex.all = seen.apex.any = apex;
  bool ok = note(s, &seen, changed, why);
  json_decref(apex);
  return ok;
}

/* ---- what comes next ------------------------------------------------------------------------ */

static void wait_or(struct migrate_action *action, int64_t until, int64_t now, enum migrate_act act,
                    const char *name) {
  bool due = now >= until;
  *action = (struct migrate_action){due ? act : MIGRATE_DO_WAIT, name, due ? 0 : until};
}

static bool is_at_apex(const struct migrate_state *s) {
  return s->phase == MIGRATE_APEX_IN || s->phase == MIGRATE_APEX_OUT;
}

/* The first name that a phase still has to move: where it hurries, both ways at once. */
static const char *first_to_move(const struct migrate_state *s, const json_t *all,
                                 const json_t *any) {
  bool both = migrate_hurries(s);
  const char *name = both || migrate_adds(s) ? nameset_first_missing(migrate_in(s), all) : NULL;
  return !name && (both || !migrate_adds(s)) ? nameset_first_common(migrate_out(s), any) : name;
}

static void next_move(const struct migrate_state *s, const struct migrate_view *view, int64_t now,
                      struct migrate_action *action) {
  bool apex = is_at_apex(s);
  bool in = migrate_adds(s);
  const struct migrate_seen *seen = view ? (apex ? &view->apex : &view->parent) : NULL;
  const json_t *known = apex ? s->apex : s->parent;
  const char *name = first_to_move(s, seen ? seen->all : known, seen ? seen->any : known);
  int64_t since = apex ? s->apex_since : s->parent_since;
  uint32_t ttl = apex ? s->apex_ttl : s->parent_ttl;
  if (!name) {
    *action = (struct migrate_action){.act = MIGRATE_DO_NEXT};
    return;
  }
  /* One that is on its way already waits for nothing. */
  bool begun = seen && (in ? nameset_has(seen->any, name) : !nameset_has(seen->all, name));
  int64_t until = since > 0 && !begun && !migrate_hurries(s) ? since + migrate_pause(s, ttl) : 0;
  wait_or(action, until, now, apex ? MIGRATE_DO_APEX : MIGRATE_DO_PARENT, name);
}

void migrate_next(const struct migrate_state *s, const struct migrate_view *view, int64_t now,
                  struct migrate_action *action) {
  *action = (struct migrate_action){.act = MIGRATE_DO_NOTHING};
  switch (s->phase) {
  case MIGRATE_CHECK:
    action->act = MIGRATE_DO_CHECK;
    break;
  case MIGRATE_FILL:
    action->act = MIGRATE_DO_FILL;
    break;
  case MIGRATE_VERIFY:
    action->act = MIGRATE_DO_VERIFY;
    break;
  case MIGRATE_APEX_IN:
  case MIGRATE_PARENT_IN:
  case MIGRATE_PARENT_OUT:
  case MIGRATE_APEX_OUT:
    next_move(s, view, now, action);
    break;
  case MIGRATE_WAIT_IN:
  case MIGRATE_WAIT_OUT:
    if (s->phase == MIGRATE_WAIT_IN && migrate_hurries(s)) {
      action->act = MIGRATE_DO_NEXT; /* who knows the old NS RRset alone has nothing to lose */
      break;
    }
    wait_or(action, s->changed > 0 ? s->changed + migrate_longest(s) : 0, now, MIGRATE_DO_NEXT,
            NULL);
    break;
  case MIGRATE_DONE:
    break;
  }
}

json_t *migrate_wanted(const struct migrate_state *s, const struct migrate_seen *seen,
                       const char *name) {
  bool both = migrate_hurries(s);
  json_t *one = json_pack("[s]", name);
  json_t *more = both || migrate_adds(s) ? nameset_union(seen->any, both ? migrate_in(s) : one)
                                         : json_incref(seen->all);
  json_t *out = both              ? nameset_minus(more, migrate_out(s))
                : migrate_adds(s) ? json_incref(more)
                                  : nameset_minus(more, one);
  json_decref(one);
  json_decref(more);
  return out;
}

json_t *migrate_wanted_apex(const struct migrate_state *s) {
  const struct migrate_seen seen = {.all = s->apex, .any = s->apex};
  return migrate_hurries(s) ? migrate_wanted(s, &seen, "") : json_incref(s->apex);
}

bool migrate_has_moved(const struct migrate_state *s, const char *name) {
  const json_t *set = is_at_apex(s) ? s->apex : s->parent;
  return migrate_hurries(s) ? !first_to_move(s, set, set)
                            : nameset_has(set, name) == migrate_adds(s);
}

void migrate_advance(struct migrate_state *s) {
  if (s->phase == MIGRATE_DONE)
    return;
  if ((s->phase == MIGRATE_WAIT_IN && !migrate_hurries(s)) || s->phase == MIGRATE_WAIT_OUT)
    s->apex_since = s->parent_since = s->changed = 0;
  s->phase = (enum migrate_phase)(s->phase + 1);
}

void migrate_turn(struct migrate_state *s, bool back) {
  s->rebase = s->phase > MIGRATE_CHECK;
  if (s->back == back && s->phase > MIGRATE_APEX_IN && s->phase < MIGRATE_DONE)
    s->phase = MIGRATE_APEX_IN; /* what is in place already takes no time */
  if (s->back == back)
    return;
  /* Where NS records of the one that is gone back to may be missing, or it was down, it is made
   * level and verified before they come again; before that, nothing is to be taken back but what
   * was added. */
  bool gone = s->phase >= MIGRATE_PARENT_OUT;
  bool moved = s->phase > MIGRATE_VERIFY;
  s->back = back;
  bool stale = migrate_set_up(s, migrate_in_provider(s));
  s->phase = gone || !back || (moved && stale) ? MIGRATE_FILL
             : moved                           ? MIGRATE_APEX_IN
                                               : MIGRATE_DONE;
  s->apex_since = s->parent_since = s->changed = 0;
}
