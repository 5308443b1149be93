/* SPDX-License-Identifier: Apache-2.0 */
/* What results in a row make of a check. */
#include <criterion/criterion.h>

#include "healthcheck/state_machine.h"

static struct check check;
static struct machine machine;
static uint64_t now;

static void setup(void) {
  check = (struct check){.interval = 1000, .timeout = 1000, .rise = 2, .fall = 3};
  now = 1000000;
  machine_open(&machine, MACHINE_UNKNOWN);
}

static void teardown(void) {
  machine_close(&machine);
}

TestSuite(machine, .init = setup, .fini = teardown);

/* Takes results in, one a second: S is a success, F a failure. */
static void take(const char *results) {
  for (; *results != '\0'; results++, now += 1000)
    machine_result(&machine, &check, *results == 'S', now);
}

static enum machine_state judged(void) {
  return machine_judge(&machine, now);
}

Test(machine, a_check_without_a_state_waits_for_rise_or_fall) {
  cr_assert_eq(judged(), MACHINE_UNKNOWN);
  take("S");
  cr_assert_eq(judged(), MACHINE_UNKNOWN);
  take("S");
  cr_assert_eq(judged(), MACHINE_UP);
}

Test(machine, fall_decides_the_first_state_too) {
  take("FF");
  cr_assert_eq(judged(), MACHINE_UNKNOWN);
  take("F");
  cr_assert_eq(judged(), MACHINE_DOWN);
}

Test(machine, results_that_alternate_never_decide_a_first_state) {
  take("SFSFFSFFSFS");
  cr_assert_eq(judged(), MACHINE_UNKNOWN);
}

Test(machine, b68_a_success_clears_the_count_of_failures) {
  take("SS");
  for (int i = 0; i < 30; i++) {
    take("FS");
    cr_assert_eq(judged(), MACHINE_UP);
  }
  for (int i = 0; i < 20; i++) {
    take("FFS");
    cr_assert_eq(judged(), MACHINE_UP);
  }
  take("FF");
  cr_assert_eq(judged(), MACHINE_UP);
  take("F");
  cr_assert_eq(judged(), MACHINE_DOWN, "exactly at the third failure in a row");
}

Test(machine, rise_counts_successes_in_a_row) {
  take("FFF");
  take("SFSFS");
  cr_assert_eq(judged(), MACHINE_DOWN);
  take("S");
  cr_assert_eq(judged(), MACHINE_UP);
}

Test(machine, a_saved_state_goes_on) {
  machine_open(&machine, MACHINE_DOWN);
  cr_assert_eq(judged(), MACHINE_DOWN);
  take("S");
  cr_assert_eq(judged(), MACHINE_DOWN);
  take("S");
  cr_assert_eq(judged(), MACHINE_UP);
}

Test(machine, other_settings_keep_the_state_and_count_anew) {
  take("SSFF");
  machine_settle(&machine);
  cr_assert_eq(judged(), MACHINE_UP);
  take("FF");
  cr_assert_eq(judged(), MACHINE_UP);
  take("F");
  cr_assert_eq(judged(), MACHINE_DOWN);
}

Test(machine, very_many_equal_results) {
  for (int i = 0; i < 70000; i++)
    machine_result(&machine, &check, true, now);
  cr_assert_eq(judged(), MACHINE_UP);
  take("FFF");
  cr_assert_eq(judged(), MACHINE_DOWN);
}

/* ---- damping ----------------------------------------------------------------------------------
 */

static void damp(uint32_t changes, uint32_t within, uint32_t hold) {
  check.rise = check.fall = 1;
  check.damping.changes = changes;
  check.damping.within = within;
  check.damping.hold = hold;
}

Test(machine, too_many_changes_hold_it_down) {
  damp(4, 60000, 30000);
  take("S");
  take("FSF"); /* three changes */
  cr_assert_not(machine_is_held(&machine, now));
  take("S"); /* the fourth, to healthy */
  cr_assert(machine_is_held(&machine, now));
  cr_assert_eq(judged(), MACHINE_DOWN);
  cr_assert_eq(machine.state, MACHINE_UP);
}

Test(machine, the_hold_ends_by_itself) {
  damp(4, 60000, 30000);
  take("SFSFS");
  uint64_t last = now - 1000;
  cr_assert_eq(machine_judge(&machine, last + 29999), MACHINE_DOWN);
  cr_assert_eq(machine_judge(&machine, last + 30000), MACHINE_UP);
}

Test(machine, changes_below_the_hold_begin_it_anew) {
  damp(4, 60000, 30000);
  take("SFSFS");
  uint64_t until = machine.held_to;
  take("FS");
  cr_assert_gt(machine.held_to, until);
}

Test(machine, slow_changes_are_no_flapping) {
  damp(4, 60000, 30000);
  take("S");
  for (int i = 0; i < 50; i++) {
    now += 21000;
    take(i % 2 != 0 ? "S" : "F");
    cr_assert_not(machine_is_held(&machine, now));
  }
}

Test(machine, the_first_state_is_no_change) {
  damp(2, 60000, 30000);
  take("SF");
  cr_assert_not(machine_is_held(&machine, now));
  take("S");
  cr_assert(machine_is_held(&machine, now));
}

Test(machine, without_damping_nothing_is_held) {
  check.rise = check.fall = 1;
  for (int i = 0; i < 1000; i++)
    take("SF");
  cr_assert_not(machine_is_held(&machine, now));
  cr_assert_null(machine.changes);
}
