/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run that is killed between any two requests, at a provider without marks: the next run needs no
 * consent, ends at what is wanted, and never touches what is not ours.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tools/sync/plan.h"

enum { NAMES = 4, TYPES = 4, TEXT = 400, ROUNDS = 40 };

static const char *const names[NAMES] = {"a.z.", "b.z.", "*.c.z.", "d.z."};
static const char *const types[TYPES] = {"A", "TXT", "MX", "CNAME"};
static const char *const values[TYPES][2] = {{"192.0.2.1", "192.0.2.2"},
                                             {"\"one\"", "\"two\""},
                                             {"10 m.z.", "20 m.z."},
                                             {"x.example.", "y.example."}};
static const char foreign[] = "theirs";

/* What a provider has: RRsets, and at some kinds a mark at steered ones. */
struct store {
  struct provider_objects objects;
  bool marks_steered; /* as NS1 by its notes */
};

static struct provider_object *copy(struct provider_objects *to, const struct provider_object *from,
                                    bool steered) {
  struct provider_object *object = provider_add_rrset(
      to, from->name, from->type, 300, json_deep_copy(json_object_get(from->body, "values")));
  cr_assert(object);
  if (steered && from->domain) {
    object->domain = strdup(object->name);
    object->owner = strdup("sluice");
  }
  return object;
}

static void drop(struct store *store, const char *key) {
  struct provider_objects left;
  provider_objects_init(&left);
  for (size_t i = 0; i < store->objects.count; i++)
    if (strcmp(store->objects.items[i].key, key) != 0)
      copy(&left, &store->objects.items[i], store->marks_steered);
  cr_assert_eq(left.count + 1, store->objects.count, "%s", key);
  provider_objects_close(&store->objects);
  store->objects = left;
}

static bool has(const struct store *store, const char *key) {
  for (size_t i = 0; i < store->objects.count; i++)
    if (strcmp(store->objects.items[i].key, key) == 0)
      return true;
  return false;
}

static bool clash(const struct provider_object *a, const struct provider_object *b) {
  return strcmp(a->name, b->name) == 0 &&
         (strcmp(a->type, "CNAME") == 0) != (strcmp(b->type, "CNAME") == 0);
}

/* One request; false: killed before it. */
static bool request(struct store *store, const struct provider_change *c, size_t *budget) {
  if (*budget == 0)
    return false;
  (*budget)--;
  cr_assert_eq(has(store, c->old ? c->old->key : c->new->key), c->old != NULL);
  if (c->old)
    drop(store, c->old->key);
  for (size_t i = 0; c->new &&i < store->objects.count; i++)
    cr_assert_not(clash(&store->objects.items[i], c->new), "%s", c->new->key);
  if (c->new)
    copy(&store->objects, c->new, store->marks_steered);
  return true;
}

/* In the order that is given, but what is in the way of a new record goes right before it. */
static bool apply(struct store *store, const struct provider_change *changes, size_t count,
                  size_t *budget) {
  bool *finished = calloc(count + 1, sizeof *finished);
  bool alive = true;
  for (size_t i = 0; i < count && alive; i++) {
    for (size_t k = i + 1; alive && !changes[i].old && k < count; k++) {
      if (changes[k].new || finished[k] || !clash(changes[k].old, changes[i].new))
        continue;
      alive = request(store, &changes[k], budget);
      finished[k] = true;
    }
    if (alive && !finished[i])
      alive = request(store, &changes[i], budget);
  }
  free(finished);
  return alive;
}

struct reading {
  struct provider_objects actual;
  struct sync_plan plan;
};

static void make_plan(struct reading *r, const struct store *store,
                      const struct provider_objects *desired) {
  static const struct provider_capabilities plain = {.apex_ns = true};
  provider_objects_init(&r->actual);
  for (size_t i = 0; i < store->objects.count; i++)
    copy(&r->actual, &store->objects.items[i], store->marks_steered);
  /* Large changes and last names have tests of their own. */
  const struct sync_plan_input input = {.zone = "z.",
                                        .mark = "sluice",
                                        .can = &plain,
                                        .actual = &r->actual,
                                        .desired = desired,
                                        .consents = SYNC_LARGE | SYNC_LAST};
  cr_assert(sync_plan_make(&input, &r->plan));
  for (size_t i = 0; i < r->plan.count; i++)
    cr_assert_eq(r->plan.items[i].held, 0, "%s is held back",
                 r->plan.items[i].new ? r->plan.items[i].new->key : r->plan.items[i].old->key);
}

static void end(struct reading *r) {
  sync_plan_close(&r->plan);
  provider_objects_close(&r->actual);
}

/* As `sync apply` does it; false: killed. */
static bool run(struct store *store, const struct provider_objects *desired, size_t budget) {
  struct reading first, second;
  size_t count;
  bool failed;
  make_plan(&first, store, desired);
  struct provider_change *changes = sync_plan_changes(&first.plan, &count, &failed);
  bool alive = apply(store, changes, count, &budget);
  free(changes);
  if (alive && sync_plan_has_widened(&first.plan)) {
    make_plan(&second, store, desired);
    changes = sync_plan_narrowing(&first.plan, &second.plan, &count, &failed);
    alive = apply(store, changes, count, &budget);
    free(changes);
    end(&second);
  }
  end(&first);
  return alive;
}

/* ---- random zones --------------------------------------------------------------------------- */

static struct rng rng;

static void put(struct provider_objects *objects, size_t name, size_t type, bool steered) {
  struct provider_object *object = provider_add_rrset(
      objects, names[name], types[type], 300, json_pack("[s]", values[type][rng_below(&rng, 2)]));
  cr_assert(object);
  if (steered)
    object->domain = strdup(object->name);
}

/* Either a CNAME or some of the others, steered or not; not where others have records. */
static void make_desired(struct provider_objects *out, bool shared) {
  provider_objects_init(out);
  for (size_t n = 0; n < NAMES; n++) {
    bool steered = rng_below(&rng, 2);
    bool alone = n == 3 && shared;
    if (!alone && rng_below(&rng, 3) == 0) {
      put(out, n, 3, steered);
      continue;
    }
    for (size_t t = 0; t < 3; t++)
      if (rng_below(&rng, 2) && !(alone && t == 1))
        put(out, n, t, steered && t == 0);
  }
}

static void add_foreign(struct store *store) {
  cr_assert(provider_add_rrset(&store->objects, "x.z.", "A", 300, json_pack("[s]", "192.0.2.9")));
  cr_assert(provider_add_rrset(&store->objects, "d.z.", "TXT", 300, json_pack("[s]", foreign)));
}

static void check(const struct store *store, const struct provider_objects *desired) {
  struct reading r;
  make_plan(&r, store, desired);
  cr_assert_eq(r.plan.count, 0, "%zu left, first %s", r.plan.count,
               r.plan.items[0].new ? r.plan.items[0].new->key : r.plan.items[0].old->key);
  cr_assert_eq(r.plan.equal, desired->count);
  cr_assert_eq(r.plan.unmarked, 0);
  cr_assert_eq(r.plan.kept_count, 2);
  end(&r);
  cr_assert(has(store, "x.z./A"));
  cr_assert(has(store, "d.z./TXT"));
}

/* Every kill point of one change of the zone; the next run goes on, or to something else. */
static void kill_everywhere(bool marks_steered) {
  struct provider_objects wanted[3];
  for (size_t i = 0; i < 3; i++)
    make_desired(&wanted[i], true);
  bool alive = false;
  for (size_t kill = 0; !alive; kill++) {
    struct store store = {.marks_steered = marks_steered};
    provider_objects_init(&store.objects);
    add_foreign(&store);
    cr_assert(run(&store, &wanted[0], SIZE_MAX));
    check(&store, &wanted[0]);
    alive = run(&store, &wanted[1], kill);
    size_t next = rng_below(&rng, 2) + 1;
    cr_assert(run(&store, &wanted[next], SIZE_MAX));
    check(&store, &wanted[next]);
    provider_objects_close(&store.objects);
    cr_assert_lt(kill, 200);
  }
  for (size_t i = 0; i < 3; i++)
    provider_objects_close(&wanted[i]);
}

Test(sync_killed, at_every_change_it_converges_without_consents) {
  rng_seed(&rng, 20261130);
  for (int i = 0; i < ROUNDS; i++)
    kill_everywhere(i % 2);
}
