/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/list_make.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "healthcheck/index.h"
#include "zones/arena.h"

/* What a list owns beside its arrays. */
struct list_store {
  struct arena arena;
  struct list_check **checks;
  size_t check_count;
};

struct placed { /* a target, and whose it is */
  uint32_t subject;
  struct list_target target;
};

struct list_making_state {
  struct list *list;
  struct index domains, checks, probes, subjects;
  char **check_texts; /* of store->checks: settings as canonical JSON */
  size_t check_cap, text_count;
  size_t domain_cap, probe_cap, subject_cap;
  struct placed *placed;
  size_t placed_count, placed_cap;
  uint32_t members[LIST_ADDRESSES]; /* of the subject that is looked for */
};

/* Room for one more; false without memory. */
static bool grow(void *array, size_t *cap, size_t count, size_t size) {
  if (count < *cap)
    return true;
  if (count >= UINT32_MAX / 2)
    return false;
  size_t wanted = *cap != 0 ? *cap * 2 : 16;
  void **place = array;
  void *more = realloc(*place, wanted * size);
  if (more == NULL)
    return false;
  *place = more;
  *cap = wanted;
  return true;
}

void list_check_ref(struct list_check *check) {
  check->references++;
}

void list_check_unref(struct list_check *check) {
  if (check == NULL || --check->references > 0)
    return;
  check_free(check->check);
  free(check);
}

/* ---- begin and end ----------------------------------------------------------------------------
 */

struct list_making *list_make_begin(void) {
  struct list_making *making = calloc(1, sizeof *making);
  struct list_making_state *state = calloc(1, sizeof *state);
  struct list *list = calloc(1, sizeof *list);
  struct list_store *store = calloc(1, sizeof *store);
  json_t *routes = json_object();
  if (making == NULL || state == NULL || list == NULL || store == NULL || routes == NULL) {
    free(making);
    free(state);
    free(list);
    free(store);
    json_decref(routes);
    return NULL;
  }
  arena_init(&store->arena);
  list->store = store;
  list->routes = routes;
  state->list = list;
  index_open(&state->domains);
  index_open(&state->checks);
  index_open(&state->probes);
  index_open(&state->subjects);
  making->state = state;
  return making;
}

/* Gives each subject its targets, in the order in which they came. */
static bool place_targets(struct list_making_state *state) {
  struct list *list = state->list;
  struct list_target *all =
      arena_alloc(&list->store->arena, (state->placed_count + 1) * sizeof *all, sizeof(void *));
  uint32_t *next = calloc((size_t)list->subject_count + 1, sizeof *next);
  bool ok = all != NULL && next != NULL;
  uint32_t at = 0;
  for (uint32_t i = 0; ok && i < list->subject_count; i++) {
    list->subjects[i].targets = all + at;
    next[i] = at;
    at += list->subjects[i].target_count;
  }
  for (size_t i = 0; ok && i < state->placed_count; i++)
    all[next[state->placed[i].subject]++] = state->placed[i].target;
  free(next);
  return ok;
}

/* Tells each probe the subjects that it counts for. */
static bool place_subjects(struct list *list) {
  struct arena *arena = &list->store->arena;
  size_t members = 0;
  for (uint32_t i = 0; i < list->subject_count; i++)
    members += (size_t)list->subjects[i].count4 + list->subjects[i].count6;
  uint32_t *first = arena_alloc(arena, ((size_t)list->probe_count + 2) * sizeof *first, 8);
  uint32_t *subjects = arena_alloc(arena, (members + 1) * sizeof *subjects, 8);
  if (first == NULL || subjects == NULL || members > UINT32_MAX)
    return false;
  memset(first, 0, ((size_t)list->probe_count + 2) * sizeof *first);
  /* first[p + 2] counts, then first[p + 1] is where the next subject of p goes. */
  for (uint32_t i = 0; i < list->subject_count; i++)
    for (uint32_t m = 0; m < list->subjects[i].count4 + list->subjects[i].count6; m++)
      first[list->subjects[i].probes[m] + 2]++;
  for (uint32_t p = 0; p < list->probe_count; p++)
    first[p + 2] += first[p + 1];
  for (uint32_t i = 0; i < list->subject_count; i++)
    for (uint32_t m = 0; m < list->subjects[i].count4 + list->subjects[i].count6; m++)
      subjects[first[list->subjects[i].probes[m] + 1]++] = i;
  list->probe_first = first;
  list->probe_subject = subjects;
  return true;
}

struct list *list_make_end(struct list_making *making, bool ok) {
  struct list_making_state *state = making->state;
  struct list *list = state->list;
  ok = ok && place_targets(state) && place_subjects(list);
  for (size_t i = 0; i < state->text_count; i++)
    free(state->check_texts[i]);
  free(state->check_texts);
  free(state->placed);
  index_close(&state->domains);
  index_close(&state->checks);
  index_close(&state->probes);
  index_close(&state->subjects);
  free(state);
  free(making);
  if (ok)
    return list;
  list_free(list);
  return NULL;
}

void list_free(struct list *list) {
  if (list == NULL)
    return;
  for (uint32_t i = 0; i < list->domain_count; i++) {
    steer_domain_free(list->domains[i].steer);
    json_decref(list->domains[i].alerts);
  }
  for (size_t i = 0; i < list->store->check_count; i++)
    list_check_unref(list->store->checks[i]);
  free(list->store->checks);
  arena_close(&list->store->arena);
  free(list->store);
  free(list->domains);
  free(list->probes);
  free(list->subjects);
  json_decref(list->routes);
  free(list->default_zone);
  free(list);
}

/* ---- parts ------------------------------------------------------------------------------------
 */

char *list_make_text(struct list_making *making, const char *text) {
  return arena_copy(&making->state->list->store->arena, text, strlen(text), 1);
}

void *list_make_array(struct list_making *making, size_t count, size_t size) {
  return arena_alloc(&making->state->list->store->arena, (count + 1) * size, 16);
}

void list_make_routes(struct list_making *making, json_t *routes) {
  json_decref(making->state->list->routes);
  making->state->list->routes = json_incref(routes);
}

struct domain_key {
  const struct list *list;
  const char *name;
};

static bool same_domain(const void *arg, uint32_t position) {
  const struct domain_key *key = arg;
  return strcmp(key->list->domains[position].name, key->name) == 0;
}

struct list_domain *list_make_domain(struct list_making *making, const char *name, uint32_t *index,
                                     char *why) {
  struct list_making_state *state = making->state;
  struct list *list = state->list;
  struct domain_key key = {.list = list, .name = name};
  uint64_t hash = index_hash(&state->domains, name, strlen(name));
  if (index_find(&state->domains, hash, same_domain, &key) != INDEX_NONE) {
    snprintf(why, LIST_WHY, "the domain is there twice");
    return NULL;
  }
  char *copy = list_make_text(making, name);
  *index = list->domain_count;
  if (copy == NULL ||
      !grow(&list->domains, &state->domain_cap, list->domain_count, sizeof *list->domains) ||
      !index_add(&state->domains, hash, *index)) {
    snprintf(why, LIST_WHY, "out of memory");
    return NULL;
  }
  struct list_domain *domain = &list->domains[list->domain_count++];
  *domain = (struct list_domain){.name = copy};
  return domain;
}

struct check_key {
  const struct list_making_state *state;
  const char *text;
};

static bool same_check(const void *arg, uint32_t position) {
  const struct check_key *key = arg;
  return strcmp(key->state->check_texts[position], key->text) == 0;
}

static bool keep_check(struct list_making_state *state, struct list_check *check, char *text) {
  struct list_store *store = state->list->store;
  size_t cap = state->check_cap;
  if (!grow(&store->checks, &cap, store->check_count, sizeof *store->checks) ||
      !grow(&state->check_texts, &state->check_cap, store->check_count, sizeof *state->check_texts))
    return false;
  store->checks[store->check_count++] = check;
  state->check_texts[state->text_count++] = text;
  return true;
}

static struct list_check *new_check(const json_t *health, const char *text, char *why) {
  struct list_check *made = calloc(1, sizeof *made);
  if (made == NULL) {
    snprintf(why, CHECK_WHY, "out of memory");
    return NULL;
  }
  made->references = 1;
  made->check = check_read(health, why);
  if (made->check == NULL) {
    free(made);
    return NULL;
  }
  XXH128_hash_t id = XXH3_128bits(text, strlen(text));
  snprintf(made->id, sizeof made->id, "%016llx%016llx", (unsigned long long)id.high64,
           (unsigned long long)id.low64);
  return made;
}

struct list_check *list_make_check(struct list_making *making, const json_t *health, char *why) {
  struct list_making_state *state = making->state;
  char *text =
      health != NULL ? json_dumps(health, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) : NULL;
  if (text == NULL) {
    snprintf(why, CHECK_WHY, "%s", health != NULL ? "out of memory" : "is missing");
    return NULL;
  }
  struct check_key key = {.state = state, .text = text};
  uint64_t hash = index_hash(&state->checks, text, strlen(text));
  uint32_t found = index_find(&state->checks, hash, same_check, &key);
  if (found != INDEX_NONE) {
    free(text);
    return state->list->store->checks[found];
  }
  struct list_check *made = new_check(health, text, why);
  uint32_t position = (uint32_t)state->list->store->check_count;
  if (made != NULL && keep_check(state, made, text)) {
    if (index_add(&state->checks, hash, position))
      return made;
    snprintf(why, CHECK_WHY, "out of memory"); /* both are kept, and freed with the rest */
    return NULL;
  }
  if (made != NULL)
    snprintf(why, CHECK_WHY, "out of memory");
  list_check_unref(made);
  free(text);
  return NULL;
}

/* ---- probes and subjects ----------------------------------------------------------------------
 */

struct probe_key {
  const struct list *list;
  const struct list_check *check;
  const struct probe_target *target;
};

static bool same_target(const struct probe_target *a, const struct probe_target *b) {
  if (a->family != b->family)
    return false;
  return a->family == 0 ? strcmp(a->host, b->host) == 0
                        : memcmp(a->address, b->address, sizeof a->address) == 0;
}

static bool same_probe(const void *arg, uint32_t position) {
  const struct probe_key *key = arg;
  const struct list_probe *probe = &key->list->probes[position];
  return probe->check == key->check && same_target(&probe->target, key->target);
}

static uint64_t hash_target(const struct index *index, const struct probe_target *target) {
  uint64_t hash = target->family == 0 ? index_hash(index, target->host, strlen(target->host))
                                      : index_hash(index, target->address, sizeof target->address);
  return index_mix(hash, target->family);
}

/* The probe of an address with a check, made if there is none; INDEX_NONE without memory. */
static uint32_t find_probe(struct list_making_state *state, struct list_check *check,
                           const struct probe_target *target) {
  struct list *list = state->list;
  struct probe_key key = {.list = list, .check = check, .target = target};
  uint64_t hash = index_mix(hash_target(&state->probes, target), (uint64_t)(uintptr_t)check);
  uint32_t found = index_find(&state->probes, hash, same_probe, &key);
  if (found != INDEX_NONE)
    return found;
  if (!grow(&list->probes, &state->probe_cap, list->probe_count, sizeof *list->probes) ||
      !index_add(&state->probes, hash, list->probe_count))
    return INDEX_NONE;
  struct list_probe *probe = &list->probes[list->probe_count];
  *probe = (struct list_probe){.check = check, .target = *target};
  if (target->family != 0)
    inet_ntop(target->family == 4 ? AF_INET : AF_INET6, target->address, probe->text,
              sizeof probe->text);
  return list->probe_count++;
}

struct subject_key {
  const struct list *list;
  struct list_check *check;
  const uint32_t *members;
  size_t count;
};

static bool same_subject(const void *arg, uint32_t position) {
  const struct subject_key *key = arg;
  const struct list_subject *subject = &key->list->subjects[position];
  return subject->check == key->check && subject->count4 + subject->count6 == key->count &&
         memcmp(subject->probes, key->members, key->count * sizeof *key->members) == 0;
}

static uint32_t new_subject(struct list_making *making, const struct subject_key *key,
                            uint64_t hash) {
  struct list_making_state *state = making->state;
  struct list *list = state->list;
  uint32_t *members = list_make_array(making, key->count, sizeof *members);
  if (members == NULL ||
      !grow(&list->subjects, &state->subject_cap, list->subject_count, sizeof *list->subjects) ||
      !index_add(&state->subjects, hash, list->subject_count))
    return INDEX_NONE;
  memcpy(members, key->members, key->count * sizeof *members);
  struct list_subject *subject = &list->subjects[list->subject_count];
  *subject = (struct list_subject){
      .check = key->check,
      .probes = members,
      .host = making->targets[0].family == 0,
  };
  for (size_t i = 0; i < key->count; i++) {
    subject->count4 += making->targets[i].family != 6;
    subject->count6 += making->targets[i].family == 6;
  }
  return list->subject_count++;
}

bool list_make_subject(struct list_making *making, struct list_check *check, size_t count,
                       struct list_target target) {
  struct list_making_state *state = making->state;
  for (size_t i = 0; i < count; i++) {
    state->members[i] = find_probe(state, check, &making->targets[i]);
    if (state->members[i] == INDEX_NONE)
      return false;
  }
  /* Addresses came sorted, so that equal sets are equal lists. */
  struct subject_key key = {
      .list = state->list, .check = check, .members = state->members, .count = count};
  uint64_t hash = index_hash(&state->subjects, key.members, count * sizeof *key.members);
  uint32_t subject = index_find(&state->subjects, hash, same_subject, &key);
  if (subject == INDEX_NONE)
    subject = new_subject(making, &key, hash);
  if (subject == INDEX_NONE ||
      !grow(&state->placed, &state->placed_cap, state->placed_count, sizeof *state->placed))
    return false;
  state->placed[state->placed_count++] = (struct placed){.subject = subject, .target = target};
  state->list->subjects[subject].target_count++;
  return true;
}
