/* SPDX-License-Identifier: Apache-2.0 */
/* Providers that a migration goes on without: pure. */
#include <string.h>

#include "tools/sync/migrate_state.h"

static size_t place_of(const struct migrate_state *s, const char *provider) {
  size_t i = 0;
  while (i < json_array_size(s->down) &&
         strcmp(json_string_value(json_array_get(s->down, i)), provider) != 0)
    i++;
  return i;
}

bool migrate_is_down(const struct migrate_state *s, const char *provider) {
  return place_of(s, provider) < json_array_size(s->down);
}

bool migrate_hurries(const struct migrate_state *s) {
  return migrate_is_down(s, migrate_out_provider(s));
}

bool migrate_set_down(struct migrate_state *s, const char *provider) {
  if (migrate_is_down(s, provider))
    return true;
  if (strcmp(provider, migrate_in_provider(s)) == 0 ||
      json_array_append_new(s->down, json_string(provider)) != 0)
    return false;
  /* What was filled names servers that are down alone. */
  if (s->phase == MIGRATE_VERIFY && migrate_hurries(s))
    s->phase = MIGRATE_FILL;
  return true;
}

bool migrate_set_up(struct migrate_state *s, const char *provider) {
  size_t i = place_of(s, provider);
  return i < json_array_size(s->down) && json_array_remove(s->down, i) == 0;
}

void migrate_rejoin(struct migrate_state *s, const char *provider, int64_t now) {
  bool left = strcmp(provider, migrate_out_provider(s)) == 0;
  if (!migrate_set_up(s, provider) || s->phase == MIGRATE_CHECK || s->phase == MIGRATE_DONE)
    return;
  if (s->phase > MIGRATE_VERIFY) {
    s->apex_since = s->changed = now;
  } else if (left) { /* as the one that is left has it, so that nobody is led on too early */
    s->phase = MIGRATE_FILL;
    s->rebase = true;
  }
}
