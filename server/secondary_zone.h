/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a secondary zone asks which of its primaries for what (RFC 1034 section 4.3.5, RFC 1035
 * section 3.3.13, RFC 1996).
 *
 * Pure: no sockets, no clock, no files.  Times are milliseconds of one clock that never goes back;
 * the caller passes the time in and does what the functions return.  One thread for each zone.
 *
 *   start --> ASK_SOA --newer--> ASK_IXFR --no--> ASK_AXFR --> idle until the next refresh
 *                 |                                  |
 *                 +------- failed: the next primary, or after the last one: idle until the retry
 */
#ifndef SLUICE_SERVER_SECONDARY_ZONE_H
#define SLUICE_SERVER_SECONDARY_ZONE_H

#include "base/rng.h"
#include "server/transfer_rr.h"

enum {
  SECONDARY_LEAST_S = 1,              /* bounds of what a SOA may ask for, in seconds */
  SECONDARY_REFRESH_MOST_S = 2419200, /* four weeks */
  SECONDARY_RETRY_MOST_S = 1209600,   /* two weeks */
  SECONDARY_EXPIRE_MOST_S = 14515200, /* 24 weeks */
  SECONDARY_BACKOFF_MOST_S = 3600,    /* between tries for a zone of which we have nothing */
  SECONDARY_SPACING_MS = 1000,        /* least time between two starts, however many NOTIFYs come */
};

enum secondary_state {
  SECONDARY_EMPTY,   /* nothing was ever transferred */
  SECONDARY_CURRENT, /* refreshed in time */
  SECONDARY_STALE,   /* the last try to refresh failed; still served */
  SECONDARY_EXPIRED, /* must not be served any more */
};

/* How the serial of a primary stands to that of our data (RFC 1982 section 3.2). */
enum secondary_serial {
  SECONDARY_NEWER, /* or we have nothing */
  SECONDARY_SAME,
  SECONDARY_OLDER,
  SECONDARY_UNRELATED, /* half of the numbers away: neither newer nor older */
};

enum secondary_step { SECONDARY_IDLE, SECONDARY_ASK_SOA, SECONDARY_ASK_IXFR, SECONDARY_ASK_AXFR };

struct secondary_zone {
  /* to be read */
  enum secondary_step step;
  unsigned primary; /* the one that is asked */
  bool has_data;
  struct transfer_soa soa; /* of the data */
  int64_t refreshed_at;    /* when a primary last confirmed the data */
  int64_t next_at;         /* the next start; has no meaning while not idle */
  uint32_t told;           /* the serial that the primary answered last */
  unsigned failures;       /* rounds over all primaries in a row without success */

  /* private */
  unsigned primaries;
  unsigned tried; /* in this round */
  int64_t started_at;
  bool notified; /* a NOTIFY came while busy */
  unsigned notified_by;
  struct rng rng;
};

/* A zone of which we have nothing: the first start is at `now`.  `primaries` is at least 1. */
void secondary_zone_init(struct secondary_zone *zone, unsigned primaries, uint64_t seed,
                         int64_t now);

/* Takes over data that was confirmed `age` ms ago (0 or more); right after secondary_zone_init().
 */
void secondary_zone_restore(struct secondary_zone *zone, const struct transfer_soa *soa,
                            int64_t age, int64_t now);

enum secondary_state secondary_zone_state(const struct secondary_zone *zone, int64_t now);
const char *secondary_state_text(enum secondary_state state);

/* When the data expires; INT64_MAX without data. */
int64_t secondary_zone_expires_at(const struct secondary_zone *zone);

/* Starts a round if the zone is idle and it is time. */
enum secondary_step secondary_zone_start(struct secondary_zone *zone, int64_t now);

/* Makes the zone start at `now`, as an operator may wish. */
void secondary_zone_refresh(struct secondary_zone *zone, int64_t now);

enum secondary_serial secondary_zone_compare(const struct secondary_zone *zone, uint32_t serial);

/* True if a transfer must be newer than the data.  Data that have expired are not served, so that
 * older ones are better than they. */
bool secondary_zone_only_newer(const struct secondary_zone *zone, int64_t now);

/* The primary answered the SOA query. */
enum secondary_step secondary_zone_soa(struct secondary_zone *zone, uint32_t serial, int64_t now);

/* IXFR did not work: the whole zone from the same primary. */
enum secondary_step secondary_zone_fall_back(struct secondary_zone *zone);

/* New data came and was accepted. */
enum secondary_step secondary_zone_transferred(struct secondary_zone *zone,
                                               const struct transfer_soa *soa, int64_t now);

/*
 * A transfer was asked for, but its SOA has this serial, which is not newer.  Our own confirms the
 * data, though the next primary is asked since a newer one was told.
 */
enum secondary_step secondary_zone_not_newer(struct secondary_zone *zone, uint32_t serial,
                                             int64_t now);

/* The primary confirmed the data that we have. */
enum secondary_step secondary_zone_confirmed(struct secondary_zone *zone, int64_t now);

/* The step failed, for whatever reason. */
enum secondary_step secondary_zone_failed(struct secondary_zone *zone, int64_t now);

/*
 * A NOTIFY from that primary, with the serial of its SOA if it had one.  False if it tells nothing
 * new.  Else the zone starts at once, or as soon as what is under way has ended.
 */
bool secondary_zone_notify(struct secondary_zone *zone, unsigned primary, bool has_serial,
                           uint32_t serial, int64_t now);

#endif
