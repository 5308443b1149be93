/* SPDX-License-Identifier: Apache-2.0 */
/* Plans, results and drift for people. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/sync/run.h"
#include "tools/wrap.h"

enum { BODY_TEXT = 400, JSON_TEXT = 64, KEPT_SHOWN = 20 };

/* ---- records -------------------------------------------------------------------------------- */

/* "192.0.2.1, 192.0.2.2 (ttl 300)" of an RRset; other bodies as JSON, cut: what they mean, the
 * shares say, and --json has all of them. */
static const char *body_text(const struct provider_object *object, char *out) {
  const json_t *values = json_object_get(object->body, "values");
  size_t at = 0;
  size_t i;
  const json_t *value;
  *out = '\0';
  if (object->opaque)
    return strcpy(out, "(made by hand, beyond what this tool models)");
  if (json_object_size(object->body) == 2 && json_is_array(values)) {
    json_array_foreach(values, i, value) {
      int n = snprintf(out + at, BODY_TEXT - at, "%s%s", i ? ", " : "",
                       json_string_value(value) ? json_string_value(value) : "?");
      at = at + (size_t)n < BODY_TEXT ? at + (size_t)n : BODY_TEXT - 1;
    }
    snprintf(out + at, BODY_TEXT - at, " (ttl %lld)",
             (long long)json_integer_value(json_object_get(object->body, "ttl")));
    return out;
  }
  char *text = json_dumps(object->body, JSON_COMPACT | JSON_ENCODE_ANY);
  bool cut = text && strlen(text) > JSON_TEXT;
  snprintf(out, BODY_TEXT, "%.*s%s", JSON_TEXT, text ? text : "?", cut ? "..." : "");
  free(text);
  return out;
}

static void show_item(const struct sync_item *item) {
  static const char signs[] = "+~-";
  char old[BODY_TEXT];
  char new[BODY_TEXT];
  const struct provider_object *o = item->new ? item->new : item->old;
  char label[] = "    ? ";
  label[4] = signs[item->op];
  if (item->op == PROVIDER_UPDATE)
    wrap_print(label, 6, "%s %s: %s -> %s", o->name, o->type, body_text(item->old, old),
               body_text(item->new, new));
  else
    wrap_print(label, 6, "%s %s: %s", o->name, o->type, body_text(o, new));
  if (item->held)
    wrap_print("", 8, "held back: %s", sync_hold_text(item->held));
  if (item->held & SYNC_TAKE_OVER && item->old && item->old->owner)
    wrap_print("", 8, "its owner is `%s`", item->old->owner);
}

/* ---- shares --------------------------------------------------------------------------------- */

static const char *const types[] = {"A", "AAAA", "CNAME"};
enum { TYPES = 3, LABEL = 80 };

/* Of one region and type: NULL if there is none. */
static const json_t *shares_of(const json_t *shares, const char *region, const char *type) {
  return json_object_get(json_object_get(shares, region), type);
}

static void share_text(const json_t *shares, const char *region, const char *type,
                       const char *endpoint, char *out, size_t size) {
  const json_t *of_type = shares_of(shares, region, type);
  if (!shares)
    snprintf(out, size, "?");
  else if (!of_type)
    snprintf(out, size, "none");
  else
    snprintf(out, size, "%.1f %%", 100 * json_real_value(json_object_get(of_type, endpoint)));
}

/* The first type that one of these has in the region, or NULL.  *alone: all the others are like
 * it in each of them, so one line tells all. */
static const char *first_type(json_t *const *sides, size_t count, const char *region, bool *alone) {
  const char *first = NULL;
  *alone = true;
  for (int t = 0; t < TYPES; t++) {
    bool any = false;
    bool same = true;
    for (size_t i = 0; i < count; i++) {
      const json_t *one = shares_of(sides[i], region, types[t]);
      const json_t *other = first ? shares_of(sides[i], region, first) : one;
      any = any || one;
      same = same && (one == other || (one && other && json_equal(one, other)));
    }
    *alone = *alone && (same || !any);
    if (any && !first)
      first = types[t];
  }
  return first;
}

/* All endpoints of a region, before and after; nothing where all stay. */
static void show_region(const char *label, const char *region, const char *type,
                        const json_t *before, const json_t *after) {
  json_t *names = json_object();
  const char *name;
  json_t *value;
  bool differs = !before;
  json_object_update_missing(names, (json_t *)(uintptr_t)shares_of(after, region, type));
  json_object_update_missing(names, (json_t *)(uintptr_t)shares_of(before, region, type));
  json_object_foreach(names, name, value) {
    char a[32];
    char b[32];
    share_text(before, region, type, name, a, sizeof a);
    share_text(after, region, type, name, b, sizeof b);
    differs = differs || strcmp(a, b) != 0;
  }
  json_object_foreach(names, name, value) {
    char a[32];
    char b[32];
    share_text(before, region, type, name, a, sizeof a);
    share_text(after, region, type, name, b, sizeof b);
    if (!differs)
      break;
    if (before)
      printf("    %-16.40s %-24.63s %8s -> %s\n", label, name, a, b);
    else
      printf("    %-16.40s %-24.63s %8s\n", label, name, b);
    label = "";
  }
  json_decref(names);
}

static void show_shares(const struct sync_target *t, size_t d) {
  json_t *sides[] = {sync_shares(t, d, false), sync_shares(t, d, true)};
  json_t *regions = json_object();
  const char *region;
  json_t *value;
  json_object_update_missing(regions, sides[1]);
  json_object_update_missing(regions, sides[0]);
  json_object_foreach(regions, region, value) {
    bool alone;
    const char *first = first_type(sides, 2, region, &alone);
    for (int type = 0; first && type < TYPES; type++) {
      char label[LABEL];
      snprintf(label, sizeof label, "%s %s", region, types[type]);
      if (!alone || types[type] == first)
        show_region(alone ? region : label, region, types[type], sides[0], sides[1]);
    }
  }
  json_decref(regions);
  json_decref(sides[0]);
  json_decref(sides[1]);
}

/* ---- fidelity ------------------------------------------------------------------------------- */

static void show_fidelity(const struct provider_fidelity *f) {
  bool exact = true;
  for (int i = 0; i < PROVIDER_LAYERS; i++) {
    if (f->grade[i] == FIDELITY_EXACT)
      continue;
    exact = false;
    if (f->grade[i] == FIDELITY_LOST)
      wrap_print("    ", 4, "%s: lost (%s)", provider_layer_name((enum provider_layer)i),
                 f->why[i]);
    else
      wrap_print("    ", 4, "%s: approximate, shares off by at most %.2f %% (%s)",
                 provider_layer_name((enum provider_layer)i), 100 * f->error[i], f->why[i]);
  }
  if (exact)
    printf("    exact: all four layers as configured\n");
}

/* ---- plans ---------------------------------------------------------------------------------- */

static bool is_of(const struct sync_item *item, const char *domain) {
  if (item->marker)
    return false;
  return domain ? item->domain && strcmp(item->domain, domain) == 0 : !item->domain;
}

static size_t items_of(const struct sync_target *t, const char *domain) {
  size_t count = 0;
  for (size_t i = 0; i < t->plan.count; i++)
    count += is_of(&t->plan.items[i], domain);
  return count;
}

static void show_items(const struct sync_target *t, const char *domain) {
  for (size_t i = 0; i < t->plan.count; i++)
    if (is_of(&t->plan.items[i], domain))
      show_item(&t->plan.items[i]);
}

static void show_domain(const struct sync_run *run, const struct sync_zone *zone, size_t d) {
  const char *name = zone->domains[d].name;
  bool titled = false;
  for (size_t i = 0; i < run->target_count; i++) {
    const struct sync_target *t = &run->targets[i];
    if (t->zone != zone || t->state == SYNC_FAILED || items_of(t, name) == 0)
      continue;
    if (!titled)
      printf("%s\n", name);
    titled = true;
    printf("  %s\n", t->provider->name);
    show_fidelity(&t->fidelity[d]);
    for (size_t r = 0; r < t->refusal_count; r++)
      if (strcmp(t->refusals[r].domain, name) == 0)
        wrap_print("    ", 4, "refused: %s", t->refusals[r].why);
    show_shares(t, d);
    show_items(t, name);
  }
}

/* Domains of the provider that are not in the configuration any more, and static records. */
static void show_rest(const struct sync_run *run, const struct sync_zone *zone) {
  bool titled = false;
  for (size_t i = 0; i < run->target_count; i++) {
    const struct sync_target *t = &run->targets[i];
    bool named = false;
    for (size_t k = 0; t->zone == zone && t->state != SYNC_FAILED && k < t->plan.count; k++) {
      const struct sync_item *item = &t->plan.items[k];
      bool known = false;
      for (size_t d = 0; d < zone->zone->domain_count; d++)
        known = known || is_of(item, zone->domains[d].name);
      if (item->marker || known)
        continue;
      if (!titled)
        printf("%s other records\n", zone->name);
      if (!named)
        printf("  %s\n", t->provider->name);
      titled = named = true;
      show_item(item);
    }
  }
}

static void show_kept(const struct sync_target *t, bool verbose) {
  size_t shown = verbose || t->plan.kept_count <= KEPT_SHOWN ? t->plan.kept_count : KEPT_SHOWN;
  if (t->plan.kept_count == 0)
    return;
  printf("  left alone, since this tool did not make them: %zu\n", t->plan.kept_count);
  for (size_t i = 0; i < shown; i++)
    wrap_print("    ", 6, "%s %s%s%s%s", t->plan.kept[i]->name, t->plan.kept[i]->type,
               t->plan.kept[i]->opaque ? " (beyond the model)" : "",
               t->plan.kept[i]->owner ? " of " : "",
               t->plan.kept[i]->owner ? t->plan.kept[i]->owner : "");
  if (shown < t->plan.kept_count)
    printf("    and %zu more (--verbose lists all)\n", t->plan.kept_count - shown);
}

static void show_count(const struct sync_target *t, bool verbose) {
  const struct sync_plan *p = &t->plan;
  if (t->state == SYNC_FAILED) {
    wrap_print("", 2, "%s at %s: FAILED", t->zone->name, t->provider->name);
    wrap_print("  ", 4, "%s", t->error.text);
    return;
  }
  wrap_print("", 2,
             "%s at %s: %zu to create, %zu to update, %zu to delete (%zu of them held back); %zu "
             "as wanted",
             t->zone->name, t->provider->name, p->creates, p->updates, p->deletes, p->held,
             p->equal);
  if (p->unmarked > 0)
    wrap_print("  ", 4, "%zu as wanted without our mark; --take-over marks %s", p->unmarked,
               p->unmarked == 1 ? "it" : "them");
  show_kept(t, verbose);
}

static void show_note(const struct sync_run *run) {
  if (run->facts && *run->note)
    wrap_print("", 2, "Note: %s.", run->note);
  if (!run->facts)
    wrap_print("", 2,
               "Note: no server told what is in force (%s): weights and statuses are those "
               "of the configuration.",
               run->note);
}

static void show_changes(const struct sync_run *run) {
  for (size_t z = 0; z < run->zone_count; z++) {
    for (size_t d = 0; d < run->zones[z].zone->domain_count; d++)
      show_domain(run, &run->zones[z], d);
    show_rest(run, &run->zones[z]);
  }
}

void sync_show_plan(const struct sync_run *run, bool verbose) {
  char digest[SYNC_DIGEST] = "";
  show_changes(run);
  for (size_t i = 0; i < run->target_count; i++)
    show_count(&run->targets[i], verbose);
  show_note(run);
  if (sync_run_digest(run, digest))
    printf("digest: %s\n", digest);
}

/* ---- results -------------------------------------------------------------------------------- */

void sync_show_result(const struct sync_run *run) {
  for (size_t i = 0; i < run->target_count; i++) {
    const struct sync_target *t = &run->targets[i];
    if (t->state == SYNC_APPLIED && t->asked == 0)
      wrap_print("", 2, "%s at %s: nothing to do%s", t->zone->name, t->provider->name,
                 t->plan.held ? " but what is held back" : "");
    else if (t->state == SYNC_APPLIED)
      wrap_print("", 2, "%s at %s: done, %zu change%s seen there%s", t->zone->name,
                 t->provider->name, t->seen, cli_s((long long)t->seen),
                 t->plan.held ? "; the rest is held back" : "");
    else
      wrap_print("", 2, "%s at %s: %s, %zu of %zu changes seen there: %s", t->zone->name,
                 t->provider->name, t->state == SYNC_PARTIAL ? "in part" : "FAILED", t->seen,
                 t->asked, t->error.text);
  }
}

/* ---- drift ---------------------------------------------------------------------------------- */

/* The lines of one region and type; sides[0] is the configuration's, then one of each target. */
static void show_row(const struct sync_run *run, const struct sync_zone *zone, json_t *const *sides,
                     const char *label, const char *region, const char *type) {
  const char *endpoint;
  json_t *share;
  json_object_foreach((json_t *)(uintptr_t)shares_of(sides[0], region, type), endpoint, share) {
    printf("    %-16.40s %-20.63s %5.1f %%", label, endpoint, 100 * json_real_value(share));
    for (size_t i = 0; i < run->target_count; i++) {
      char text[32];
      if (run->targets[i].zone != zone)
        continue;
      share_text(sides[i + 1], region, type, endpoint, text, sizeof text);
      printf("  %s %s", run->targets[i].provider->name, text);
    }
    putchar('\n');
  }
}

static void show_rows(const struct sync_run *run, const struct sync_zone *zone,
                      json_t *const *sides) {
  const char *region;
  json_t *by_type;
  json_object_foreach(sides[0], region, by_type) {
    bool alone;
    const char *first = first_type(sides, run->target_count + 1, region, &alone);
    for (int type = 0; first && type < TYPES; type++) {
      char label[LABEL];
      snprintf(label, sizeof label, "%s %s", region, types[type]);
      if (!alone || types[type] == first)
        show_row(run, zone, sides, alone ? region : label, region, types[type]);
    }
  }
}

/* A line for each endpoint: the configuration's share, then each provider's. */
static void show_matrix(const struct sync_run *run, const struct sync_zone *zone, size_t d) {
  json_t **sides = calloc(run->target_count + 1, sizeof(json_t *)); /* [0]: the configuration's */
  bool differs = false;
  for (size_t i = 0; sides && i < run->target_count; i++) {
    const struct sync_target *t = &run->targets[i];
    if (t->zone != zone || t->state == SYNC_FAILED)
      continue;
    sides[i + 1] = sync_shares(t, d, false);
    if (!sides[0])
      sides[0] = sync_shares(t, d, true);
    differs = differs || items_of(t, zone->domains[d].name) > 0;
  }
  if (differs && sides[0]) {
    printf("%s shares: configuration, then each provider\n", zone->domains[d].name);
    show_rows(run, zone, sides);
  }
  for (size_t i = 0; sides && i <= run->target_count; i++)
    json_decref(sides[i]);
  free(sides);
}

void sync_show_drift(const struct sync_run *run, bool verbose) {
  size_t same = 0;
  for (size_t z = 0; z < run->zone_count; z++)
    for (size_t d = 0; d < run->zones[z].zone->domain_count; d++)
      show_matrix(run, &run->zones[z], d);
  for (size_t i = 0; i < run->target_count; i++) {
    const struct sync_target *t = &run->targets[i];
    size_t differs = t->plan.creates + t->plan.updates + t->plan.deletes;
    if (t->state == SYNC_FAILED) {
      show_count(t, verbose);
      continue;
    }
    same += differs == 0;
    wrap_print("", 2, "%s at %s: %s", t->zone->name, t->provider->name,
               differs ? "differs from the configuration (+ is missing there, ~ differs, - is "
                         "there and should not be)"
                       : "in sync");
    for (size_t k = 0; k < t->plan.count; k++)
      if (!t->plan.items[k].marker) {
        struct sync_item item = t->plan.items[k];
        item.held = 0;
        show_item(&item);
      }
    show_kept(t, verbose);
  }
  show_note(run);
  if (same == run->target_count)
    printf("All in sync.\n");
}
