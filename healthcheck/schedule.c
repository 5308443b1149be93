/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/schedule.h"

#include <stdlib.h>
#include <string.h>

enum {
  COST = 1000,         /* of a probe: the allowance grows by `rate` each ms */
  BURST_MS = 50,       /* so much of the rate may start at once */
  JITTER_PARTS = 32,   /* a turn moves by up to a 32nd of the interval either way, */
  JITTER_MAX_MS = 500, /* but not more than this */
};

/* 2^32 divided by the golden ratio: each phase falls into a largest gap. */
static const uint32_t golden = UINT32_C(0x9e3779b9);

enum entry_state { ENTRY_ABSENT, ENTRY_WAITING, ENTRY_RUNNING };

struct entry {
  uint64_t due;
  uint64_t turn; /* a time of its phase, without jitter: the one that is next, or the last */
  uint32_t interval;
  uint32_t place; /* in the heap, while it waits */
  uint8_t state;
  bool hurried;
};

struct schedule {
  struct entry *entries;
  uint32_t *heap; /* entries that wait, the one that is due first on top */
  uint32_t cap;   /* of both */
  uint32_t waiting, running;
  uint32_t rate, concurrency;
  uint64_t allowance, allowance_at;
  uint32_t phase; /* of the next entry, as a part of 2^32 */
  struct rng *rng;
};

struct schedule *schedule_open(uint32_t rate, uint32_t concurrency, struct rng *rng) {
  struct schedule *s = calloc(1, sizeof *s);
  if (s == NULL)
    return NULL;
  s->rate = rate > 0 ? rate : 1;
  s->concurrency = concurrency > 0 ? concurrency : 1;
  s->rng = rng;
  s->phase = (uint32_t)rng_next(rng);
  return s;
}

void schedule_close(struct schedule *s) {
  if (s == NULL)
    return;
  free(s->entries);
  free(s->heap);
  free(s);
}

/* ---- the heap ---------------------------------------------------------------------------------
 */

static bool is_before(const struct schedule *s, uint32_t a, uint32_t b) {
  return s->entries[a].due < s->entries[b].due;
}

static void put(struct schedule *s, uint32_t place, uint32_t entry) {
  s->heap[place] = entry;
  s->entries[entry].place = place;
}

static void sift_up(struct schedule *s, uint32_t place) {
  uint32_t entry = s->heap[place];
  while (place > 0 && is_before(s, entry, s->heap[(place - 1) / 2])) {
    put(s, place, s->heap[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  put(s, place, entry);
}

static void sift_down(struct schedule *s, uint32_t place) {
  uint32_t entry = s->heap[place];
  for (;;) {
    uint32_t child = 2 * place + 1;
    if (child >= s->waiting)
      break;
    if (child + 1 < s->waiting && is_before(s, s->heap[child + 1], s->heap[child]))
      child++;
    if (!is_before(s, s->heap[child], entry))
      break;
    put(s, place, s->heap[child]);
    place = child;
  }
  put(s, place, entry);
}

static void push(struct schedule *s, uint32_t entry) {
  s->entries[entry].state = ENTRY_WAITING;
  put(s, s->waiting, entry);
  s->waiting++;
  sift_up(s, s->waiting - 1);
}

static void take_out(struct schedule *s, uint32_t entry) {
  uint32_t place = s->entries[entry].place;
  uint32_t last = s->heap[--s->waiting];
  if (last == entry)
    return;
  put(s, place, last);
  sift_up(s, place);
  sift_down(s, s->entries[last].place);
}

/* ---- when -------------------------------------------------------------------------------------
 */

static uint32_t hurry_ms(uint32_t interval) {
  return interval < SCHEDULE_HURRY_MS ? interval : SCHEDULE_HURRY_MS;
}

/* The time in which the first probes of hurried entries are spread: what the further tries leave of
 * the interval, but not less than half of it, or the start would be a burst. */
static uint64_t first_spread(struct schedule_timing timing) {
  uint64_t interval = timing.interval;
  uint64_t needed =
      (uint64_t)(timing.tries > 0 ? timing.tries - 1 : 0) * hurry_ms(timing.interval) +
      interval / 40;
  return needed < interval / 2 ? interval - needed : interval - interval / 2;
}

/* The first turn of the entry's phase after `after`. */
static void turn_after(struct entry *e, uint64_t after) {
  if (e->turn <= after)
    e->turn += ((after - e->turn) / e->interval + 1) * e->interval;
}

/* Due at its turn, give or take some jitter, but not in the past. */
static void due_at_turn(struct schedule *s, struct entry *e, uint64_t now) {
  uint32_t reach = e->interval / JITTER_PARTS;
  if (reach > JITTER_MAX_MS)
    reach = JITTER_MAX_MS;
  uint64_t due = e->turn + rng_below(s->rng, 2 * reach + 1);
  e->due = due > now + reach ? due - reach : now + 1;
}

static bool make_room(struct schedule *s, uint32_t entry) {
  enum { FIRST = 64 };
  if (entry < s->cap)
    return true;
  uint32_t cap = s->cap > 0 ? s->cap : FIRST;
  while (cap <= entry) {
    if (cap > UINT32_MAX / 2)
      return false;
    cap *= 2;
  }
  struct entry *entries = realloc(s->entries, cap * sizeof *entries);
  if (entries == NULL)
    return false;
  s->entries = entries;
  uint32_t *heap = realloc(s->heap, cap * sizeof *heap);
  if (heap == NULL)
    return false;
  s->heap = heap;
  memset(entries + s->cap, 0, (cap - s->cap) * sizeof *entries);
  s->cap = cap;
  return true;
}

bool schedule_add(struct schedule *s, uint32_t entry, struct schedule_timing timing, bool hurried,
                  uint64_t now) {
  if (!make_room(s, entry))
    return false;
  struct entry *e = &s->entries[entry];
  uint64_t interval = timing.interval > 0 ? timing.interval : 1;
  uint64_t spread = hurried ? first_spread(timing) : interval;
  if (hurried && timing.soon != 0 && timing.soon < spread)
    spread = timing.soon;
  *e = (struct entry){.interval = (uint32_t)interval, .hurried = hurried};
  e->turn = now + (interval * s->phase >> 32);
  e->due = now + (spread * s->phase >> 32);
  s->phase += golden;
  push(s, entry);
  return true;
}

void schedule_remove(struct schedule *s, uint32_t entry) {
  if (entry >= s->cap)
    return;
  struct entry *e = &s->entries[entry];
  if (e->state == ENTRY_WAITING)
    take_out(s, entry);
  else if (e->state == ENTRY_RUNNING)
    s->running--;
  e->state = ENTRY_ABSENT;
}

/* What may start now, in parts of a probe. */
static uint64_t allowance(const struct schedule *s, uint64_t now) {
  uint64_t most = (uint64_t)s->rate * BURST_MS;
  if (most < COST)
    most = COST;
  uint64_t passed = now - s->allowance_at;
  if (passed >= most / s->rate + 1)
    return most;
  uint64_t sum = s->allowance + passed * s->rate;
  return sum < most ? sum : most;
}

bool schedule_next(struct schedule *s, uint64_t now, uint32_t *entry, uint64_t *late) {
  if (s->waiting == 0 || s->running >= s->concurrency || s->entries[s->heap[0]].due > now)
    return false;
  uint64_t allowed = allowance(s, now);
  if (allowed < COST)
    return false;
  s->allowance = allowed - COST;
  s->allowance_at = now;
  *entry = s->heap[0];
  struct entry *e = &s->entries[*entry];
  *late = now - e->due;
  take_out(s, *entry);
  e->state = ENTRY_RUNNING;
  s->running++;
  return true;
}

void schedule_done(struct schedule *s, uint32_t entry, bool hurried, uint64_t now) {
  struct entry *e = &s->entries[entry];
  if (e->state != ENTRY_RUNNING)
    return;
  s->running--;
  if (hurried) {
    e->due = now + hurry_ms(e->interval);
  } else {
    if (!e->hurried)
      e->turn += e->interval; /* also when jitter had put it before its turn */
    turn_after(e, e->hurried ? now + e->interval / 4 : now); /* from hurry: not at once again */
    due_at_turn(s, e, now);
  }
  e->hurried = hurried;
  push(s, entry);
}

uint64_t schedule_wait(const struct schedule *s, uint64_t now) {
  if (s->waiting == 0 || s->running >= s->concurrency)
    return UINT64_MAX;
  uint64_t due = s->entries[s->heap[0]].due;
  uint64_t wait = due > now ? due - now : 0;
  uint64_t allowed = allowance(s, now);
  uint64_t filled = allowed < COST ? (COST - allowed + s->rate - 1) / s->rate : 0;
  return wait > filled ? wait : filled;
}

void schedule_skip(struct schedule *s, uint64_t now) {
  for (uint32_t i = 0; i < s->waiting; i++) {
    struct entry *e = &s->entries[s->heap[i]];
    if (e->due > now)
      continue;
    turn_after(e, now);
    if (e->hurried)
      e->due = now + 1 + rng_below(s->rng, hurry_ms(e->interval));
    else
      due_at_turn(s, e, now);
  }
  for (uint32_t i = s->waiting / 2; i-- > 0;)
    sift_down(s, i);
}

uint64_t schedule_due(const struct schedule *s, uint32_t entry) {
  bool in = entry < s->cap && s->entries[entry].state != ENTRY_ABSENT;
  return in ? s->entries[entry].due : UINT64_MAX;
}

uint32_t schedule_running(const struct schedule *s) {
  return s->running;
}
