/* SPDX-License-Identifier: Apache-2.0 */
#include "server/health_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/name.h"
#include "base/utf8.h"
#include "server/endpoint_index.h"

enum { NOWHERE = UINT32_MAX };

struct subject {
  uint32_t id;
  uint32_t first, count; /* its targets, once the map is finished */
  struct health_verdict verdicts[HEALTH_FAMILIES];
};

struct target {
  uint32_t subject;
  uint32_t names; /* where its domain and endpoint are in the map's text */
  uint32_t domain;
  uint16_t endpoint;
};

struct health_map {
  struct subject *subjects;
  size_t subject_count, subject_room;
  uint32_t *ids; /* open addressing: index + 1 of the subject, 0 = empty */
  size_t id_mask;
  struct target *targets; /* by subject, once the map is finished */
  size_t target_count, target_room;
  struct buf text; /* wire name, then the endpoint's name with its NUL */

  /* of the view */
  uint32_t *first;    /* number of each domain's first endpoint, and of all of them */
  uint32_t *covering; /* by number of the endpoint: index + 1 of its target, 0 = none */
  uint32_t domain_count;
  size_t served;
};

struct health_map *health_map_new(void) {
  struct health_map *map = calloc(1, sizeof *map);
  if (map != NULL)
    buf_init(&map->text);
  return map;
}

static void forget_view(struct health_map *map) {
  free(map->first);
  free(map->covering);
  map->first = map->covering = NULL;
  map->domain_count = 0;
  map->served = 0;
}

void health_map_free(struct health_map *map) {
  if (map == NULL)
    return;
  for (size_t i = 0; i < map->subject_count; i++)
    for (int f = 0; f < HEALTH_FAMILIES; f++)
      free(map->subjects[i].verdicts[f].why);
  forget_view(map);
  free(map->subjects);
  free(map->ids);
  free(map->targets);
  buf_close(&map->text);
  free(map);
}

/* ---- filling ----------------------------------------------------------------------------------
 */

static uint32_t *id_slot(const struct health_map *map, uint32_t id) {
  for (size_t i = (size_t)(id * UINT32_C(2654435761)) & map->id_mask;; i = (i + 1) & map->id_mask) {
    uint32_t *slot = &map->ids[i];
    if (*slot == 0 || map->subjects[*slot - 1].id == id)
      return slot;
  }
}

/* Room for one more subject, in the list and in the table. */
static bool grow_subjects(struct health_map *map) {
  if (map->subject_count < map->subject_room)
    return true;
  size_t room = map->subject_room > 0 ? map->subject_room * 2 : 64;
  struct subject *more = realloc(map->subjects, room * sizeof *more);
  if (more == NULL)
    return false;
  map->subjects = more;
  uint32_t *ids = calloc(room * 2, sizeof *ids);
  if (ids == NULL)
    return false;
  free(map->ids);
  map->ids = ids;
  map->id_mask = room * 2 - 1;
  map->subject_room = room;
  for (size_t i = 0; i < map->subject_count; i++)
    *id_slot(map, map->subjects[i].id) = (uint32_t)i + 1;
  return true;
}

long health_map_subject(struct health_map *map, uint32_t id, bool make) {
  uint32_t found = map->ids != NULL ? *id_slot(map, id) : 0;
  if (found != 0)
    return (long)found - 1;
  if (!make || map->subject_count == HEALTH_SUBJECTS_MAX || !grow_subjects(map))
    return -1;
  map->subjects[map->subject_count] = (struct subject){.id = id};
  *id_slot(map, id) = (uint32_t)++map->subject_count;
  return (long)map->subject_count - 1;
}

bool health_map_judge(struct health_map *map, size_t subject, int family, enum health_state state,
                      int64_t since, const char *why) {
  struct health_verdict *verdict = &map->subjects[subject].verdicts[family];
  char *copy = NULL;
  if (why != NULL && why[0] != '\0') {
    copy = strndup(why, HEALTH_REASON_MAX);
    if (copy == NULL)
      return false;
    utf8_repair(copy); /* it may have been cut */
  }
  free(verdict->why);
  *verdict = (struct health_verdict){.state = (uint8_t)state, .since = since, .why = copy};
  return true;
}

const struct health_verdict *health_map_verdict(const struct health_map *map, size_t subject,
                                                int family) {
  return &map->subjects[subject].verdicts[family];
}

bool health_map_target(struct health_map *map, size_t subject, const uint8_t *owner,
                       const char *endpoint) {
  size_t at = map->text.len;
  if (map->target_count == HEALTH_TARGETS_MAX || at > HEALTH_TEXT_MAX)
    return false;
  if (map->target_count == map->target_room) {
    size_t room = map->target_room > 0 ? map->target_room * 2 : 64;
    struct target *more = realloc(map->targets, room * sizeof *more);
    if (more == NULL)
      return false;
    map->targets = more;
    map->target_room = room;
  }
  buf_add(&map->text, owner, name_wire_len(owner, NAME_MAX_WIRE));
  buf_add(&map->text, endpoint, strlen(endpoint) + 1);
  map->targets[map->target_count++] =
      (struct target){.subject = (uint32_t)subject, .names = (uint32_t)at, .domain = NOWHERE};
  return !map->text.failed;
}

/* Sorts the targets by subject, for these may have come in pieces. */
bool health_map_finish(struct health_map *map) {
  struct target *sorted = calloc(map->target_count + 1, sizeof *sorted);
  if (sorted == NULL)
    return false;
  for (size_t i = 0; i < map->target_count; i++)
    map->subjects[map->targets[i].subject].count++;
  uint32_t at = 0;
  for (size_t i = 0; i < map->subject_count; i++) {
    map->subjects[i].first = at;
    at += map->subjects[i].count;
    map->subjects[i].count = 0;
  }
  for (size_t i = 0; i < map->target_count; i++) {
    struct subject *subject = &map->subjects[map->targets[i].subject];
    sorted[subject->first + subject->count++] = map->targets[i];
  }
  free(map->targets);
  map->targets = sorted;
  map->target_room = map->target_count + 1;
  return true;
}

/* ---- the view ---------------------------------------------------------------------------------
 */

static bool number_endpoints(struct health_map *map, const struct served *served) {
  map->first = calloc((size_t)served->domain_count + 1, sizeof *map->first);
  if (map->first == NULL)
    return false;
  size_t count = 0;
  for (uint32_t d = 0; d < served->domain_count; d++) {
    map->first[d] = (uint32_t)count;
    count += served->domains[d].steer->endpoint_count;
  }
  if (count >= UINT32_MAX)
    return false;
  map->first[served->domain_count] = (uint32_t)count;
  map->domain_count = served->domain_count;
  map->covering = calloc(count + 1, sizeof *map->covering);
  return map->covering != NULL;
}

/* Neighbours are mostly of the same domain, or of the next one. */
static long find_domain(const struct served *served, const uint8_t *owner, long hint) {
  for (long i = hint; hint >= 0 && i <= hint + 1 && i < (long)served->domain_count; i++)
    if (name_equal(served->domains[i].steer->owner, owner))
      return i;
  return load_find_domain(served, owner);
}

static void find_target(struct health_map *map, struct target *target, const struct served *served,
                        struct endpoint_index *index, long *hint) {
  const uint8_t *owner = map->text.data + target->names;
  const char *endpoint = (const char *)owner + name_wire_len(owner, NAME_MAX_WIRE);
  target->domain = NOWHERE;
  long domain = find_domain(served, owner, *hint);
  if (domain < 0)
    return;
  *hint = domain;
  long found = endpoint_index_find(index, served->domains[domain].steer, endpoint);
  if (found < 0)
    return;
  target->domain = (uint32_t)domain;
  target->endpoint = (uint16_t)found;
}

static int by_place(const void *a, const void *b) {
  const struct target *x = a, *y = b;
  if (x->domain != y->domain)
    return x->domain < y->domain ? -1 : 1;
  return (int)x->endpoint - (int)y->endpoint;
}

/* In the order of the view, so that a change walks through memory. */
static void sort_subject(struct health_map *map, const struct subject *subject) {
  struct target *targets = map->targets + subject->first;
  for (uint32_t i = 1; i < subject->count; i++) {
    if (by_place(&targets[i - 1], &targets[i]) <= 0)
      continue;
    qsort(targets, subject->count, sizeof *targets, by_place);
    return;
  }
}

/* Of two subjects that claim an endpoint, the later one has it. */
static void cover(struct health_map *map) {
  for (size_t i = 0; i < map->target_count; i++) {
    struct target *target = &map->targets[i];
    if (target->domain == NOWHERE)
      continue;
    uint32_t *covering = &map->covering[map->first[target->domain] + target->endpoint];
    if (*covering != 0)
      map->targets[*covering - 1].domain = NOWHERE;
    else
      map->served++;
    *covering = (uint32_t)i + 1;
  }
}

bool health_map_resolve(struct health_map *map, const struct served *served) {
  struct endpoint_index *index = endpoint_index_new();
  forget_view(map);
  bool ok = index != NULL && number_endpoints(map, served);
  long hint = -1;
  for (size_t i = 0; i < map->target_count; i++) {
    if (ok)
      find_target(map, &map->targets[i], served, index, &hint);
    else
      map->targets[i].domain = NOWHERE;
  }
  if (ok) {
    for (size_t i = 0; i < map->subject_count; i++)
      sort_subject(map, &map->subjects[i]);
    cover(map);
  } else {
    forget_view(map);
  }
  endpoint_index_free(index);
  return ok;
}

/* ---- what it means ----------------------------------------------------------------------------
 */

void health_changes_close(struct health_changes *changes) {
  free(changes->items);
  *changes = (struct health_changes){.items = NULL};
}

static bool make_room(struct health_changes *changes, size_t count) {
  if (changes->capacity - changes->count >= count)
    return true;
  size_t capacity = changes->capacity > 0 ? changes->capacity : 64;
  while (capacity < changes->count + count)
    capacity *= 2;
  struct fact_change *more = realloc(changes->items, capacity * sizeof *more);
  if (more == NULL)
    return false;
  changes->items = more;
  changes->capacity = capacity;
  return true;
}

static void add(struct health_changes *changes, uint32_t domain, uint16_t endpoint, int family,
                enum steer_health value) {
  changes->items[changes->count++] =
      (struct fact_change){.domain = domain,
                           .endpoint = endpoint,
                           .field = family == 0 ? FACT_HEALTH4 : FACT_HEALTH6,
                           .value = (uint8_t)value};
}

bool health_map_apply(const struct health_map *map, size_t subject, unsigned families,
                      struct health_changes *changes) {
  static const enum steer_health values[] = {[HEALTH_STATE_NONE] = HEALTH_UNKNOWN,
                                             [HEALTH_STATE_UP] = HEALTH_UP,
                                             [HEALTH_STATE_DOWN] = HEALTH_DOWN};
  const struct subject *s = &map->subjects[subject];
  if (!make_room(changes, (size_t)s->count * HEALTH_FAMILIES))
    return false;
  for (int f = 0; f < HEALTH_FAMILIES; f++)
    if (s->verdicts[f].state == HEALTH_STATE_OPEN)
      families &= ~(1u << f);
  for (uint32_t i = s->first; families != 0 && i < s->first + s->count; i++) {
    const struct target *target = &map->targets[i];
    if (target->domain == NOWHERE)
      continue;
    for (int f = 0; f < HEALTH_FAMILIES; f++)
      if (families & (1u << f))
        add(changes, target->domain, target->endpoint, f, values[s->verdicts[f].state]);
  }
  return true;
}

static bool forget_uncovered(const struct health_map *map, const struct served *served,
                             struct health_changes *changes) {
  for (uint32_t d = 0; d < served->domain_count; d++) {
    if (served->states[d].facts == NULL)
      continue;
    for (uint16_t e = 0; e < served->domains[d].steer->endpoint_count; e++) {
      if (map->covering[map->first[d] + e] != 0)
        continue;
      for (int f = 0; f < HEALTH_FAMILIES; f++) {
        if (facts_health(served, d, e, f == 0 ? 4 : 6).measured == HEALTH_UNKNOWN)
          continue;
        if (!make_room(changes, 1))
          return false;
        add(changes, d, e, f, HEALTH_UNKNOWN);
      }
    }
  }
  return true;
}

bool health_map_apply_all(const struct health_map *map, const struct served *served,
                          struct health_changes *changes) {
  for (size_t i = 0; i < map->subject_count; i++)
    if (!health_map_apply(map, i, 3, changes))
      return false;
  return map->covering == NULL || forget_uncovered(map, served, changes);
}

const struct health_verdict *health_map_verdicts(const struct health_map *map, uint32_t domain,
                                                 uint16_t endpoint) {
  if (domain >= map->domain_count)
    return NULL;
  uint32_t number = map->first[domain] + endpoint;
  if (number >= map->first[domain + 1] || map->covering[number] == 0)
    return NULL;
  return map->subjects[map->targets[map->covering[number] - 1].subject].verdicts;
}

struct health_counts health_map_counts(const struct health_map *map) {
  return (struct health_counts){.subjects = map != NULL ? map->subject_count : 0,
                                .targets = map != NULL ? map->target_count : 0,
                                .served = map != NULL ? map->served : 0};
}
