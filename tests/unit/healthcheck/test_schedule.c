/* SPDX-License-Identifier: Apache-2.0 */
/* When checks are probed, over simulated time. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "healthcheck/schedule.h"

enum { START = 5000000, MAX_STARTS = 400000, ENTRIES_MAX = 20000 };

static struct schedule *schedule;
static struct rng rng;
static uint64_t now;

struct start {
  uint64_t at;
  uint32_t entry;
};
static struct start *starts; /* of probes, in the order of time */
static size_t start_count;
static uint64_t worst_late;

/* How the simulated probes go. */
static uint32_t takes;                      /* ms that a probe takes */
static uint16_t decides_after[ENTRIES_MAX]; /* results until the first verdict */
static uint16_t results[ENTRIES_MAX];
static uint64_t verdict_at[ENTRIES_MAX];
static struct start ends[MAX_STARTS];
static size_t end_first, end_count;

static void setup(void) {
  rng_seed(&rng, 7);
  now = START;
  starts = malloc(MAX_STARTS * sizeof *starts);
  start_count = end_first = end_count = 0;
  worst_late = 0;
  takes = 0;
  memset(results, 0, sizeof results);
  memset(verdict_at, 0, sizeof verdict_at);
}

static void teardown(void) {
  schedule_close(schedule);
  free(starts);
}

TestSuite(schedule, .init = setup, .fini = teardown);

static void end_probe(uint32_t entry) {
  results[entry]++;
  bool hurried = results[entry] < decides_after[entry];
  if (!hurried && verdict_at[entry] == 0)
    verdict_at[entry] = now;
  schedule_done(schedule, entry, hurried, now);
}

static void tick(void) {
  uint32_t entry;
  uint64_t late;
  while (end_first < end_count && ends[end_first].at <= now)
    end_probe(ends[end_first++].entry);
  while (schedule_next(schedule, now, &entry, &late)) {
    cr_assert_lt(start_count, (size_t)MAX_STARTS);
    starts[start_count++] = (struct start){now, entry};
    worst_late = late > worst_late ? late : worst_late;
    if (takes == 0)
      end_probe(entry);
    else
      ends[end_count++] = (struct start){now + takes, entry};
  }
}

static void run_until(uint64_t end) {
  for (; now < end; now++)
    tick();
}

static void add(uint32_t from, uint32_t to, uint32_t interval, uint16_t tries, bool hurried) {
  struct schedule_timing timing = {.interval = interval, .tries = tries};
  for (uint32_t i = from; i < to; i++) {
    decides_after[i] = hurried ? tries : 0;
    cr_assert(schedule_add(schedule, i, timing, hurried, now));
  }
}

/* The most starts in any window of `window` ms from `from` on. */
static size_t busiest(uint64_t from, uint64_t window) {
  size_t most = 0;
  for (size_t first = 0, last = 0; last < start_count; last++) {
    if (starts[last].at < from) {
      first = last + 1;
      continue;
    }
    while (starts[last].at - starts[first].at >= window)
      first++;
    most = last - first + 1 > most ? last - first + 1 : most;
  }
  return most;
}

Test(schedule, b78_no_window_holds_more_than_a_tenth_of_a_round) {
  schedule = schedule_open(5000, 1000, &rng);
  takes = 3;
  add(0, 300, 10000, 2, true);
  run_until(START + 130000);
  cr_assert_leq(busiest(START, 250), 30u);
  for (uint32_t i = 0; i < 300; i++)
    cr_assert(verdict_at[i] != 0 && verdict_at[i] <= START + 10000, "entry %u: %lu", i,
              (unsigned long)(verdict_at[i] - START));
  cr_assert_eq(worst_late, 0u);
}

Test(schedule, b78_also_when_all_are_down) {
  schedule = schedule_open(5000, 1000, &rng);
  add(0, 300, 10000, 3, true);
  run_until(START + 60000);
  cr_assert_leq(busiest(START, 250), 33u); /* three tries in 7.75 s are 9.7% on the average */
  for (uint32_t i = 0; i < 300; i++)
    cr_assert_leq(verdict_at[i], (uint64_t)START + 10000);
}

Test(schedule, b78_no_burst_after_a_reload) {
  schedule = schedule_open(5000, 1000, &rng);
  add(0, 300, 10000, 2, true);
  run_until(START + 60000);
  for (uint32_t i = 0; i < 300; i += 3)
    schedule_remove(schedule, i);
  for (uint32_t i = 0; i < 300; i += 3)
    add(i, i + 1, 10000, 2, true);
  add(300, 400, 10000, 2, false);
  uint64_t reload = now;
  run_until(reload + 60000);
  cr_assert_leq(busiest(reload, 250), 40u);
}

Test(schedule, the_steady_round_is_spread_evenly) {
  schedule = schedule_open(5000, 1000, &rng);
  add(0, 1000, 10000, 1, false);
  run_until(START + 40000);
  size_t per_quarter[4] = {0};
  for (size_t i = 0; i < start_count; i++)
    if (starts[i].at >= START + 20000)
      per_quarter[(starts[i].at - START) % 10000 / 2500]++;
  for (int i = 0; i < 4; i++)
    cr_assert(per_quarter[i] > 470 && per_quarter[i] < 530, "%zu", per_quarter[i]);
}

Test(schedule, each_is_probed_once_in_its_interval) {
  schedule = schedule_open(5000, 1000, &rng);
  takes = 20;
  add(0, 500, 2000, 1, false);
  run_until(START + 100000);
  static uint64_t last[500];
  memset(last, 0, sizeof last);
  for (size_t i = 0; i < start_count; i++) {
    uint64_t before = last[starts[i].entry];
    last[starts[i].entry] = starts[i].at;
    if (before == 0)
      continue;
    uint64_t gap = starts[i].at - before;
    cr_assert(gap >= 2000 - 125 && gap <= 2000 + 125, "%lu", (unsigned long)gap);
  }
  cr_assert(start_count > 500 * 49 && start_count <= 500 * 51);
}

Test(schedule, jitter_does_not_add_up) {
  schedule = schedule_open(5000, 1000, &rng);
  add(0, 1, 1000, 1, false);
  run_until(START + 1000000);
  cr_assert(start_count >= 999 && start_count <= 1001, "%zu", start_count);
}

Test(schedule, hurried_ones_come_again_after_each_result) {
  schedule = schedule_open(5000, 1000, &rng);
  takes = 100;
  add(0, 1, 60000, 5, true);
  run_until(START + 60000);
  for (size_t i = 1; i < 5; i++)
    cr_assert_eq(starts[i].at - starts[i - 1].at, 1100u);
  cr_assert_gt(starts[5].at - starts[4].at, 10000u);
}

Test(schedule, a_few_come_soon) {
  schedule = schedule_open(5000, 1000, &rng);
  struct schedule_timing timing = {.interval = 60000, .tries = 3, .soon = 500};
  for (uint32_t i = 0; i < 2; i++) {
    decides_after[i] = 3;
    cr_assert(schedule_add(schedule, i, timing, true, now));
  }
  run_until(START + 500);
  cr_assert_eq(start_count, (size_t)2);
}

Test(schedule, hurry_is_not_faster_than_a_short_interval) {
  schedule = schedule_open(5000, 1000, &rng);
  add(0, 1, 200, 3, true);
  run_until(START + 1000);
  cr_assert_eq(starts[1].at - starts[0].at, 200u);
}

Test(schedule, the_rate_is_kept) {
  schedule = schedule_open(100, 1000, &rng);
  add(0, 2000, 1000, 1, false); /* twenty times what is allowed */
  run_until(START + 10000);
  cr_assert_leq(start_count, (size_t)1000 + 5);
  cr_assert_geq(start_count, (size_t)1000 - 5);
  cr_assert_leq(busiest(START, 1000), 106u);
  /* and everyone has its turn: who waits longest goes first */
  static unsigned count[2000];
  memset(count, 0, sizeof count);
  run_until(START + 60000);
  for (size_t i = 0; i < start_count; i++)
    count[starts[i].entry]++;
  for (int i = 0; i < 2000; i++)
    cr_assert(count[i] >= 2 && count[i] <= 4, "%d: %u", i, count[i]);
}

Test(schedule, a_rate_of_one) {
  schedule = schedule_open(1, 1000, &rng);
  add(0, 5, 100, 1, false);
  run_until(START + 20000);
  cr_assert(start_count >= 19 && start_count <= 21, "%zu", start_count);
}

Test(schedule, only_so_many_run_at_a_time) {
  schedule = schedule_open(100000, 10, &rng);
  takes = 50;
  add(0, 100, 100, 1, false);
  for (; now < START + 2000; now++) {
    tick();
    cr_assert_leq(schedule_running(schedule), 10u);
  }
  cr_assert_geq(start_count, (size_t)380);
}

Test(schedule, wait_tells_when_the_next_is_due) {
  schedule = schedule_open(1000, 1, &rng);
  cr_assert_eq(schedule_wait(schedule, now), UINT64_MAX);
  add(0, 2, 1000, 1, false);
  uint32_t entry;
  uint64_t late;
  uint64_t wait = schedule_wait(schedule, now);
  cr_assert_leq(wait, 1000u);
  if (wait > 0)
    cr_assert_not(schedule_next(schedule, now + wait - 1, &entry, &late));
  cr_assert(schedule_next(schedule, now + wait, &entry, &late));
  cr_assert_eq(schedule_wait(schedule, now + 5000), UINT64_MAX, "one runs, and no more may");
  schedule_done(schedule, entry, false, now + wait);
  cr_assert_neq(schedule_wait(schedule, now + wait), UINT64_MAX);
}

Test(schedule, b94_what_was_missed_is_left_out) {
  schedule = schedule_open(5000, 1000, &rng);
  add(0, 300, 2000, 1, false);
  run_until(START + 10000);
  now += 60000; /* SIGSTOP, SIGCONT */
  uint64_t woken = now;
  schedule_skip(schedule, now);
  run_until(woken + 4000);
  cr_assert_leq(busiest(woken, 250), 60u); /* 37.5 on the average */
  static unsigned count[300];
  memset(count, 0, sizeof count);
  for (size_t i = 0; i < start_count; i++)
    if (starts[i].at >= woken)
      count[starts[i].entry]++;
  for (int i = 0; i < 300; i++)
    cr_assert(count[i] >= 1 && count[i] <= 3, "within two intervals");
}

Test(schedule, b94_hurried_ones_are_spread_too) {
  schedule = schedule_open(100000, 10000, &rng);
  add(0, 1000, 10000, 30, true);
  run_until(START + 9000);
  now += 60000;
  uint64_t woken = now;
  schedule_skip(schedule, now);
  run_until(woken + 1001);
  cr_assert_leq(busiest(woken, 250), 330u);
}

Test(schedule, removing_while_it_waits_or_runs) {
  schedule = schedule_open(1000, 10, &rng);
  add(0, 20, 1000, 1, false);
  uint32_t entry;
  uint64_t late;
  now += 1000;
  cr_assert(schedule_next(schedule, now, &entry, &late));
  cr_assert_eq(schedule_running(schedule), 1u);
  schedule_remove(schedule, entry);
  cr_assert_eq(schedule_running(schedule), 0u);
  cr_assert_eq(schedule_due(schedule, entry), UINT64_MAX);
  schedule_done(schedule, entry, false, now); /* comes too late: nothing happens */
  cr_assert_eq(schedule_running(schedule), 0u);
  for (uint32_t i = 0; i < 20; i++)
    schedule_remove(schedule, i);
  schedule_remove(schedule, 12345);
  cr_assert_eq(schedule_wait(schedule, now), UINT64_MAX);
}

Test(schedule, the_heap_keeps_its_order) {
  schedule = schedule_open(1000000, 100000, &rng);
  for (uint32_t i = 0; i < 3000; i++)
    add(i, i + 1, 1 + rng_below(&rng, 50000), 1, rng_below(&rng, 2) != 0);
  for (uint32_t i = 0; i < 1500; i++)
    schedule_remove(schedule, rng_below(&rng, 3000));
  uint64_t before = 0;
  for (uint64_t at = START; at < START + 60000; at++) {
    uint32_t entry;
    uint64_t late;
    while (schedule_next(schedule, at, &entry, &late)) {
      uint64_t due = at - late;
      cr_assert_geq(due, before);
      before = due;
    }
  }
  cr_assert_geq(schedule_running(schedule), 1500u);
}
