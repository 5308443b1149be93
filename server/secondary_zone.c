/* SPDX-License-Identifier: Apache-2.0 */
#include "server/secondary_zone.h"

enum { SECOND = 1000, JITTER_PART = 10, BACKOFF_DOUBLINGS = 12 };

static int64_t clamp_s(uint32_t seconds, uint32_t most) {
  if (seconds < SECONDARY_LEAST_S)
    seconds = SECONDARY_LEAST_S;
  return (int64_t)(seconds > most ? most : seconds) * SECOND;
}

static int64_t refresh_ms(const struct secondary_zone *zone) {
  return clamp_s(zone->soa.refresh, SECONDARY_REFRESH_MOST_S);
}

static int64_t retry_ms(const struct secondary_zone *zone) {
  return clamp_s(zone->soa.retry, SECONDARY_RETRY_MOST_S);
}

/* At least so long that one refresh and one retry come before it. */
static int64_t expire_ms(const struct secondary_zone *zone) {
  int64_t expire = clamp_s(zone->soa.expire, SECONDARY_EXPIRE_MOST_S);
  int64_t least = refresh_ms(zone) + retry_ms(zone);
  return expire < least ? least : expire;
}

/* Up to a tenth earlier, so that zones with one SOA do not stay in step. */
static int64_t jitter(struct secondary_zone *zone, int64_t ms) {
  return ms - rng_below(&zone->rng, (uint32_t)(ms / JITTER_PART) + 1);
}

void secondary_zone_init(struct secondary_zone *zone, unsigned primaries, uint64_t seed,
                         int64_t now) {
  *zone = (struct secondary_zone){.step = SECONDARY_IDLE,
                                  .next_at = now,
                                  .primaries = primaries,
                                  .started_at = now - SECONDARY_SPACING_MS};
  rng_seed(&zone->rng, seed);
}

void secondary_zone_restore(struct secondary_zone *zone, const struct transfer_soa *soa,
                            int64_t age, int64_t now) {
  zone->has_data = true;
  zone->soa = *soa;
  zone->refreshed_at = now - age;
  zone->next_at = now;
}

int64_t secondary_zone_expires_at(const struct secondary_zone *zone) {
  return zone->has_data ? zone->refreshed_at + expire_ms(zone) : INT64_MAX;
}

enum secondary_state secondary_zone_state(const struct secondary_zone *zone, int64_t now) {
  if (!zone->has_data)
    return SECONDARY_EMPTY;
  if (now >= secondary_zone_expires_at(zone))
    return SECONDARY_EXPIRED;
  return zone->failures > 0 ? SECONDARY_STALE : SECONDARY_CURRENT;
}

const char *secondary_state_text(enum secondary_state state) {
  static const char *const texts[] = {[SECONDARY_EMPTY] = "empty",
                                      [SECONDARY_CURRENT] = "current",
                                      [SECONDARY_STALE] = "stale",
                                      [SECONDARY_EXPIRED] = "expired"};
  return texts[state];
}

static enum secondary_step set_step(struct secondary_zone *zone, enum secondary_step step) {
  zone->step = step;
  return step;
}

enum secondary_step secondary_zone_start(struct secondary_zone *zone, int64_t now) {
  if (zone->step != SECONDARY_IDLE || now < zone->next_at)
    return SECONDARY_IDLE;
  zone->started_at = now;
  zone->tried = 0;
  return set_step(zone, SECONDARY_ASK_SOA);
}

static void start_soon(struct secondary_zone *zone, int64_t now) {
  int64_t at = zone->started_at + SECONDARY_SPACING_MS;
  at = at > now ? at : now;
  if (at < zone->next_at)
    zone->next_at = at;
}

void secondary_zone_refresh(struct secondary_zone *zone, int64_t now) {
  if (zone->step == SECONDARY_IDLE)
    zone->next_at = now;
  else
    zone->notified = true;
}

/* Ends a round; the next one is at `next_at` unless a NOTIFY has come meanwhile. */
static enum secondary_step end_round(struct secondary_zone *zone, int64_t next_at, int64_t now) {
  zone->step = SECONDARY_IDLE;
  zone->next_at = next_at;
  if (!zone->notified)
    return SECONDARY_IDLE;
  zone->notified = false;
  zone->primary = zone->notified_by;
  start_soon(zone, now);
  return SECONDARY_IDLE;
}

enum secondary_serial secondary_zone_compare(const struct secondary_zone *zone, uint32_t serial) {
  uint32_t ours = zone->soa.serial;
  if (!zone->has_data || transfer_serial_newer(serial, ours))
    return SECONDARY_NEWER;
  if (serial == ours)
    return SECONDARY_SAME;
  return transfer_serial_newer(ours, serial) ? SECONDARY_OLDER : SECONDARY_UNRELATED;
}

static bool is_alive(const struct secondary_zone *zone, int64_t now) {
  enum secondary_state state = secondary_zone_state(zone, now);
  return state == SECONDARY_CURRENT || state == SECONDARY_STALE;
}

bool secondary_zone_only_newer(const struct secondary_zone *zone, int64_t now) {
  return is_alive(zone, now);
}

enum secondary_step secondary_zone_soa(struct secondary_zone *zone, uint32_t serial, int64_t now) {
  zone->told = serial;
  switch (secondary_zone_compare(zone, serial)) {
  case SECONDARY_SAME:
    return secondary_zone_confirmed(zone, now);
  case SECONDARY_NEWER:
    return set_step(zone, zone->has_data ? SECONDARY_ASK_IXFR : SECONDARY_ASK_AXFR);
  case SECONDARY_OLDER:
  case SECONDARY_UNRELATED:
    break;
  }
  /* What has expired counts as nothing: then an older zone is better. */
  if (!is_alive(zone, now))
    return set_step(zone, SECONDARY_ASK_AXFR);
  return secondary_zone_failed(zone, now);
}

enum secondary_step secondary_zone_not_newer(struct secondary_zone *zone, uint32_t serial,
                                             int64_t now) {
  if (secondary_zone_compare(zone, serial) == SECONDARY_SAME)
    zone->refreshed_at = now;
  else if (zone->step == SECONDARY_ASK_IXFR && !is_alive(zone, now))
    return secondary_zone_fall_back(zone);
  return secondary_zone_failed(zone, now);
}

enum secondary_step secondary_zone_fall_back(struct secondary_zone *zone) {
  return set_step(zone, SECONDARY_ASK_AXFR);
}

enum secondary_step secondary_zone_transferred(struct secondary_zone *zone,
                                               const struct transfer_soa *soa, int64_t now) {
  zone->has_data = true;
  zone->soa = *soa;
  secondary_zone_confirmed(zone, now);
  /* There is a newer version still, so the refresh time is not waited for. */
  int64_t retry_at = now + jitter(zone, retry_ms(zone));
  if (transfer_serial_newer(zone->told, soa->serial) && retry_at < zone->next_at)
    zone->next_at = retry_at;
  return SECONDARY_IDLE;
}

enum secondary_step secondary_zone_confirmed(struct secondary_zone *zone, int64_t now) {
  zone->failures = 0;
  zone->refreshed_at = now;
  return end_round(zone, now + jitter(zone, refresh_ms(zone)), now);
}

static int64_t retry_delay(struct secondary_zone *zone) {
  if (zone->has_data)
    return retry_ms(zone);
  unsigned doublings = zone->failures - 1;
  if (doublings > BACKOFF_DOUBLINGS)
    doublings = BACKOFF_DOUBLINGS;
  int64_t delay = (int64_t)SECOND << doublings;
  int64_t most = (int64_t)SECONDARY_BACKOFF_MOST_S * SECOND;
  return jitter(zone, delay > most ? most : delay);
}

enum secondary_step secondary_zone_failed(struct secondary_zone *zone, int64_t now) {
  zone->primary = (zone->primary + 1) % zone->primaries;
  if (++zone->tried < zone->primaries)
    return set_step(zone, SECONDARY_ASK_SOA);
  if (zone->failures < UINT32_MAX) /* counts no further */
    zone->failures++;
  return end_round(zone, now + retry_delay(zone), now);
}

bool secondary_zone_notify(struct secondary_zone *zone, unsigned primary, bool has_serial,
                           uint32_t serial, int64_t now) {
  /* RFC 1996 section 3.7: the SOA is a hint, which can spare a query. */
  if (is_alive(zone, now) && has_serial && !transfer_serial_newer(serial, zone->soa.serial))
    return false;
  if (zone->step != SECONDARY_IDLE) {
    zone->notified = true;
    zone->notified_by = primary;
    return true;
  }
  zone->primary = primary;
  start_soon(zone, now);
  return true;
}
