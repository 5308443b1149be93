/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a migration as read from disk: what is believed comes back the same, and whatever it
 * says, the next steps are found, and a migration that only sees what it asked for ends.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/sync/migrate_state.h"
#include "tools/sync/nameset.h"

enum { STEPS = 1000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

static void same_again(const struct migrate_state *state) {
  struct migrate_state copy;
  char why[MIGRATE_WHY];
  json_t *document = migrate_encode(state);
  require(document && migrate_open(&copy) && migrate_decode(&copy, document, why));
  json_t *again = migrate_encode(&copy);
  require(json_equal(document, again));
  json_decref(document);
  json_decref(again);
  migrate_close(&copy);
}

/* Every change that is wanted is seen at once, and time passes. */
static void run_to_the_end(struct migrate_state *s) {
  int64_t now = s->changed + s->apex_since + s->parent_since;
  json_t *apex = json_incref(s->apex);
  json_t *parent = json_incref(s->parent);
  for (int i = 0; i < STEPS && s->phase != MIGRATE_DONE; i++) {
    struct migrate_view view = {.now = now,
                                .apex = {.all = apex, .any = apex, .ttl = 1},
                                .parent = {.all = parent, .any = parent, .ttl = 1}};
    struct migrate_action action;
    bool changed;
    char why[MIGRATE_WHY];
    if (s->phase > MIGRATE_CHECK && !migrate_note(s, &view, &changed, why))
      break;
    migrate_next(s, s->phase > MIGRATE_CHECK ? &view : NULL, now, &action);
    if (action.act == MIGRATE_DO_WAIT) {
      require(action.until > now);
      now = action.until;
    } else if (action.act == MIGRATE_DO_APEX || action.act == MIGRATE_DO_PARENT) {
      json_t **set = action.act == MIGRATE_DO_APEX ? &apex : &parent;
      const struct migrate_seen seen = {.all = *set, .any = *set};
      json_t *other = migrate_wanted(s, &seen, action.name);
      if (!other)
        other = json_incref(*set); /* too many names */
      json_decref(*set);
      *set = other;
      now++;
    } else {
      migrate_advance(s);
    }
  }
  json_decref(apex);
  json_decref(parent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct migrate_state state;
  char why[MIGRATE_WHY] = "";
  json_t *document = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
  require(migrate_open(&state));
  if (document && migrate_decode(&state, document, why)) {
    same_again(&state);
    if (size % 3 == 0)
      migrate_set_down(&state, migrate_out_provider(&state));
    if (size % 5 == 0)
      migrate_rejoin(&state, migrate_out_provider(&state), state.changed + 1);
    if (size % 2)
      migrate_turn(&state, !state.back);
    run_to_the_end(&state);
    same_again(&state);
  } else {
    require(!document || why[0]);
  }
  migrate_close(&state);
  json_decref(document);
  return 0;
}
