/* SPDX-License-Identifier: Apache-2.0 */
/* When a secondary zone asks whom for what. */
#include <criterion/criterion.h>

#include "server/secondary_zone.h"

static const struct transfer_soa soa = {
    .serial = 10, .refresh = 100, .retry = 20, .expire = 1000, .minimum = 60};

enum { S = 1000 };

static struct transfer_soa with_serial(uint32_t serial) {
  struct transfer_soa copy = soa;
  copy.serial = serial;
  return copy;
}

/* A zone with two primaries and serial 10, transferred at 0. */
static struct secondary_zone filled(void) {
  struct secondary_zone z;
  secondary_zone_init(&z, 2, 1, 0);
  secondary_zone_start(&z, 0);
  secondary_zone_soa(&z, 10, 0);
  secondary_zone_transferred(&z, &soa, 0);
  return z;
}

Test(secondary_zone, first_transfer) {
  struct secondary_zone z;
  secondary_zone_init(&z, 1, 1, 5 * S);
  cr_assert_eq(secondary_zone_state(&z, 5 * S), SECONDARY_EMPTY);
  cr_assert_eq(secondary_zone_expires_at(&z), INT64_MAX);
  cr_assert_eq(secondary_zone_start(&z, 4 * S), SECONDARY_IDLE);
  cr_assert_eq(secondary_zone_start(&z, 5 * S), SECONDARY_ASK_SOA);
  cr_assert_eq(secondary_zone_start(&z, 5 * S), SECONDARY_IDLE); /* busy */
  cr_assert_eq(secondary_zone_soa(&z, 10, 5 * S), SECONDARY_ASK_AXFR);
  cr_assert_eq(secondary_zone_transferred(&z, &soa, 6 * S), SECONDARY_IDLE);
  cr_assert_eq(secondary_zone_state(&z, 6 * S), SECONDARY_CURRENT);
  cr_assert_leq(z.next_at, 106 * S);
  cr_assert_geq(z.next_at, 96 * S);
  cr_assert_eq(secondary_zone_expires_at(&z), 1006 * S);
}

Test(secondary_zone, refresh_without_news) {
  struct secondary_zone z = filled();
  cr_assert_eq(secondary_zone_start(&z, 100 * S), SECONDARY_ASK_SOA);
  cr_assert_eq(secondary_zone_soa(&z, 10, 101 * S), SECONDARY_IDLE);
  cr_assert_eq(z.refreshed_at, 101 * S);
  cr_assert_geq(z.next_at, 191 * S);
}

Test(secondary_zone, refresh_with_news) {
  struct secondary_zone z = filled();
  secondary_zone_start(&z, 100 * S);
  cr_assert_eq(secondary_zone_soa(&z, 11, 100 * S), SECONDARY_ASK_IXFR);
  cr_assert_eq(secondary_zone_fall_back(&z), SECONDARY_ASK_AXFR);
  cr_assert_eq(z.primary, 0u); /* the same one */
  struct transfer_soa next = with_serial(11);
  cr_assert_eq(secondary_zone_transferred(&z, &next, 100 * S), SECONDARY_IDLE);
  cr_assert_eq(z.soa.serial, 11u);
}

Test(secondary_zone, serials_go_round) {
  struct secondary_zone z = filled();
  z.soa.serial = 4294967295u;
  secondary_zone_start(&z, 100 * S);
  cr_assert_eq(secondary_zone_soa(&z, 3, 100 * S), SECONDARY_ASK_IXFR);
}

Test(secondary_zone, an_older_serial_sends_to_the_next_primary) {
  struct secondary_zone z = filled();
  secondary_zone_start(&z, 100 * S);
  cr_assert_eq(secondary_zone_soa(&z, 9, 100 * S), SECONDARY_ASK_SOA);
  cr_assert_eq(z.primary, 1u);
  cr_assert_eq(secondary_zone_soa(&z, 9, 100 * S), SECONDARY_IDLE);
  cr_assert_eq(z.failures, 1u);
  cr_assert_eq(z.soa.serial, 10u);
}

Test(secondary_zone, failures_use_retry_and_lead_to_expiry) {
  struct secondary_zone z = filled();
  int64_t now = 100 * S;
  for (unsigned round = 1; now < 1000 * S; round++) {
    cr_assert_eq(secondary_zone_start(&z, now), SECONDARY_ASK_SOA);
    cr_assert_eq(secondary_zone_failed(&z, now), SECONDARY_ASK_SOA);
    cr_assert_eq(secondary_zone_failed(&z, now), SECONDARY_IDLE);
    cr_assert_eq(z.failures, round);
    cr_assert_eq(z.next_at, now + 20 * S);
    cr_assert_eq(secondary_zone_state(&z, now), SECONDARY_STALE);
    now = z.next_at;
  }
  cr_assert_eq(secondary_zone_state(&z, 1000 * S - 1), SECONDARY_STALE);
  cr_assert_eq(secondary_zone_state(&z, 1000 * S), SECONDARY_EXPIRED);
  /* The primary is back with what we have. */
  cr_assert_eq(secondary_zone_start(&z, now), SECONDARY_ASK_SOA);
  cr_assert_eq(secondary_zone_soa(&z, 10, now), SECONDARY_IDLE);
  cr_assert_eq(secondary_zone_state(&z, now), SECONDARY_CURRENT);
}

Test(secondary_zone, an_expired_zone_takes_any_serial) {
  struct secondary_zone z = filled();
  secondary_zone_start(&z, 2000 * S);
  cr_assert_eq(secondary_zone_soa(&z, 3, 2000 * S), SECONDARY_ASK_AXFR);
}

Test(secondary_zone, an_empty_zone_backs_off) {
  struct secondary_zone z;
  secondary_zone_init(&z, 1, 7, 0);
  int64_t now = 0;
  int64_t before = 0;
  for (int i = 0; i < 40; i++) {
    cr_assert_eq(secondary_zone_start(&z, now), SECONDARY_ASK_SOA);
    cr_assert_eq(secondary_zone_failed(&z, now), SECONDARY_IDLE);
    int64_t delay = z.next_at - now;
    cr_assert_geq(delay, i < 12 ? (900L << i) : 3240L * S);
    cr_assert_leq(delay, 3600L * S);
    cr_assert(i >= 11 || delay > before);
    before = delay;
    now = z.next_at;
  }
}

Test(secondary_zone, after_a_restart) {
  struct secondary_zone z;
  secondary_zone_init(&z, 1, 1, 50 * S);
  secondary_zone_restore(&z, &soa, 900 * S, 50 * S);
  cr_assert_eq(secondary_zone_state(&z, 50 * S), SECONDARY_CURRENT);
  cr_assert_eq(secondary_zone_expires_at(&z), 150 * S);
  cr_assert_eq(secondary_zone_start(&z, 50 * S), SECONDARY_ASK_SOA);
  secondary_zone_init(&z, 1, 1, 50 * S);
  secondary_zone_restore(&z, &soa, 5000 * S, 50 * S);
  cr_assert_eq(secondary_zone_state(&z, 50 * S), SECONDARY_EXPIRED);
}

/* ---- serials (RFC 1982) -----------------------------------------------------------------------
 */

Test(secondary_zone, how_serials_stand_to_ours) {
  struct secondary_zone z = filled();
  static const struct {
    uint32_t serial;
    enum secondary_serial want;
  } cases[] = {{10, SECONDARY_SAME},
               {11, SECONDARY_NEWER},
               {10 + 0x7fffffffu, SECONDARY_NEWER},
               {10 + 0x80000000u, SECONDARY_UNRELATED},
               {10 + 0x80000001u, SECONDARY_OLDER},
               {9, SECONDARY_OLDER},
               {4294967295u, SECONDARY_OLDER}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    cr_expect_eq(secondary_zone_compare(&z, cases[i].serial), cases[i].want, "%zu", i);
  z.has_data = false;
  cr_expect_eq(secondary_zone_compare(&z, 9), SECONDARY_NEWER);
}

Test(secondary_zone, an_unrelated_serial_confirms_nothing) {
  struct secondary_zone z = filled();
  secondary_zone_start(&z, 100 * S);
  cr_assert_eq(secondary_zone_soa(&z, 10 + 0x80000000u, 100 * S), SECONDARY_ASK_SOA);
  cr_assert_eq(secondary_zone_soa(&z, 10 + 0x80000000u, 100 * S), SECONDARY_IDLE);
  cr_assert_eq(z.refreshed_at, 0);
  cr_assert_eq(z.failures, 1u);
}

Test(secondary_zone, a_transfer_that_is_not_newer_sends_to_the_next_primary) {
  static const uint32_t serials[] = {10, 9, 10 + 0x80000000u};
  for (size_t i = 0; i < sizeof serials / sizeof *serials; i++) {
    struct secondary_zone z = filled();
    secondary_zone_start(&z, 100 * S);
    cr_assert_eq(secondary_zone_soa(&z, 11, 100 * S), SECONDARY_ASK_IXFR);
    cr_assert(secondary_zone_only_newer(&z, 100 * S));
    cr_assert_eq(secondary_zone_not_newer(&z, serials[i], 101 * S), SECONDARY_ASK_SOA);
    cr_assert_eq(z.primary, 1u);
    cr_assert_eq(z.refreshed_at, i == 0 ? 101 * S : 0);
    cr_assert_eq(secondary_zone_soa(&z, 11, 101 * S), SECONDARY_ASK_IXFR);
    cr_assert_eq(secondary_zone_fall_back(&z), SECONDARY_ASK_AXFR);
    cr_assert_eq(secondary_zone_not_newer(&z, serials[i], 102 * S), SECONDARY_IDLE);
    cr_assert_eq(z.soa.serial, 10u);
    cr_assert_eq(z.next_at, 122 * S); /* retry */
  }
}

Test(secondary_zone, an_expired_zone_takes_what_is_there) {
  struct secondary_zone z = filled();
  secondary_zone_start(&z, 2000 * S);
  cr_assert_eq(secondary_zone_soa(&z, 11, 2000 * S), SECONDARY_ASK_IXFR);
  cr_assert(!secondary_zone_only_newer(&z, 2000 * S));
  cr_assert_eq(secondary_zone_not_newer(&z, 9, 2000 * S), SECONDARY_ASK_AXFR);
  struct transfer_soa old = with_serial(9);
  cr_assert_eq(secondary_zone_transferred(&z, &old, 2001 * S), SECONDARY_IDLE);
  cr_assert_eq(secondary_zone_state(&z, 2001 * S), SECONDARY_CURRENT);
  cr_assert_leq(z.next_at, 2021 * S); /* 11 is somewhere: the retry time, not that of refresh */
}

/* ---- NOTIFY -----------------------------------------------------------------------------------
 */

Test(secondary_zone, notify_starts_at_once_with_its_sender) {
  struct secondary_zone z = filled();
  cr_assert(secondary_zone_notify(&z, 1, true, 11, 10 * S));
  cr_assert_eq(secondary_zone_start(&z, 10 * S), SECONDARY_ASK_SOA);
  cr_assert_eq(z.primary, 1u);
}

Test(secondary_zone, notify_without_news_is_ignored) {
  struct secondary_zone z = filled();
  cr_assert(!secondary_zone_notify(&z, 0, true, 10, 10 * S));
  cr_assert(!secondary_zone_notify(&z, 0, true, 9, 10 * S));
  cr_assert_eq(secondary_zone_start(&z, 10 * S), SECONDARY_IDLE);
  cr_assert(secondary_zone_notify(&z, 0, false, 0, 10 * S)); /* no SOA in it: ask */
  cr_assert_eq(secondary_zone_start(&z, 10 * S), SECONDARY_ASK_SOA);
}

Test(secondary_zone, notify_while_busy_is_kept) {
  struct secondary_zone z = filled();
  secondary_zone_start(&z, 100 * S);
  cr_assert(secondary_zone_notify(&z, 1, true, 12, 101 * S));
  secondary_zone_soa(&z, 11, 101 * S);
  struct transfer_soa next = with_serial(11);
  secondary_zone_transferred(&z, &next, 102 * S);
  cr_assert_eq(secondary_zone_start(&z, 102 * S), SECONDARY_ASK_SOA);
  cr_assert_eq(z.primary, 1u);
  cr_assert_eq(secondary_zone_soa(&z, 12, 102 * S), SECONDARY_ASK_IXFR);
}

Test(secondary_zone, a_flood_of_notifies_is_spaced) {
  struct secondary_zone z = filled();
  unsigned starts = 0;
  for (int64_t now = 10 * S; now < 20 * S; now += 10) {
    secondary_zone_notify(&z, 0, false, 0, now);
    if (secondary_zone_start(&z, now) == SECONDARY_ASK_SOA) {
      starts++;
      secondary_zone_soa(&z, 10, now);
    }
  }
  cr_assert_leq(starts, 11u);
  cr_assert_geq(starts, 10u);
}

Test(secondary_zone, notify_of_an_expired_zone_counts_with_any_serial) {
  struct secondary_zone z = filled();
  z.next_at = 9000 * S;
  cr_assert(secondary_zone_notify(&z, 0, true, 1, 2000 * S));
  cr_assert_eq(secondary_zone_start(&z, 2000 * S), SECONDARY_ASK_SOA);
}

/* ---- hostile SOAs -----------------------------------------------------------------------------
 */

Test(secondary_zone, the_numbers_of_a_soa_are_bounded) {
  static const struct transfer_soa extremes[] = {{1, 0, 0, 0, 0},
                                                 {1, UINT32_MAX, UINT32_MAX, UINT32_MAX, 0},
                                                 {1, UINT32_MAX, 0, 0, 0},
                                                 {1, 0, UINT32_MAX, 0, 0}};
  for (size_t i = 0; i < sizeof extremes / sizeof *extremes; i++) {
    struct secondary_zone z;
    secondary_zone_init(&z, 1, i, 0);
    secondary_zone_start(&z, 0);
    secondary_zone_soa(&z, 1, 0);
    secondary_zone_transferred(&z, &extremes[i], 0);
    cr_assert_geq(z.next_at, 900);
    cr_assert_leq(z.next_at, SECONDARY_REFRESH_MOST_S * (int64_t)S);
    cr_assert_gt(secondary_zone_expires_at(&z), z.next_at); /* one refresh comes before it */
    secondary_zone_start(&z, z.next_at);
    int64_t now = z.next_at;
    secondary_zone_failed(&z, now);
    cr_assert_geq(z.next_at, now + S);
    cr_assert_leq(z.next_at, now + SECONDARY_RETRY_MOST_S * (int64_t)S);
  }
}
