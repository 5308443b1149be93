/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alerts: wakes people when an endpoint changes, when a region of a domain fails over to another
 * level, when nothing healthy is left in it, and when it recovers.
 *
 * The engine tells facts (alerts_health(), alerts_overrides()); what a domain serves with them is
 * computed by the same four layers as in the server, so that the texts tell the truth.  Incidents
 * have keys that do not change (domain, region, type, kind), live on disk in the spool with what is
 * still to be sent, and are resolved under the key that they were triggered with, also after a
 * restart.  Sending never blocks the loop; per incident the order is kept; failed ones are repeated
 * with backoff.
 */
#ifndef SLUICE_HEALTHCHECK_ALERTS_H
#define SLUICE_HEALTHCHECK_ALERTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "steering/model.h"

struct alerts;

enum { ALERTS_WHY = 512 };

struct alerts_options {
  const char *spool;     /* folder for incidents and messages, made if missing; NULL: in memory */
  const json_t *secrets; /* name -> {"file": PATH} | {"env": NAME} | {"command": [..]}; section
                          * `secrets:` of the machine's settings; or NULL */
  const json_t *allow;   /* networks that webhooks may go to beside public ones, or NULL */
  uint32_t group_ms;     /* how long changes are gathered before they are told; 0: the default */
  uint32_t quiet_ms;     /* how long a flapping incident must be quiet before it is resolved; one
                          * that comes again within three times as long flaps; 0: the default */
};

enum { ALERTS_GROUP_MS = 3000, ALERTS_QUIET_MS = 600000 }; /* the defaults */

/* A domain with alerts, as the build's checks.json describes it. */
struct alerts_domain {
  const struct steer_domain *steer; /* the engine's; outlives its use */
  const char *owner;                /* the team, or NULL */
  const json_t *alerts;             /* normalised `alerts:`: on, page, to; or null: none */
};

/* Options are copied.  NULL with one line in `why` (ALERTS_WHY octets). */
struct alerts *alerts_open(uv_loop_t *loop, const struct alerts_options *options, char *why);
/* What was not told or sent yet stays in the spool; handles are closed in the loop. */
void alerts_close(struct alerts *alerts);

/* A new list of checks: all domains (index = order), with the routes of defaults.yaml.  The health
 * of all endpoints that are checked is told again before the loop goes on; others are unknown from
 * now on.  Overrides still hold.  Incidents of what is gone are resolved ("removed from the
 * configuration").  False with one line in `why`: then nothing has changed. */
bool alerts_configure(struct alerts *alerts, const json_t *routes,
                      const struct alerts_domain *domains, size_t count, char *why);

/* The health of an endpoint as the feed tells it now (health4/health6 of steer_status), with the
 * reason.  `quiet`: as known from before (first state, saved state): that the endpoint is down is
 * no news then, but a failover that nobody was told of is. */
void alerts_health(struct alerts *alerts, uint32_t domain, uint16_t endpoint,
                   enum steer_health health4, enum steer_health health6, const char *why,
                   bool quiet);

/* What is overridden in the server (healthcheck/feed.h), whole. */
void alerts_overrides(struct alerts *alerts, const json_t *list);

/* All checks fail together: the checker itself seems cut off.  One alert of its own; the others are
 * held back while it lasts. */
void alerts_isolated(struct alerts *alerts, bool isolated);

/* For `sluice health`: {"open": [...], "waiting": N, "failed": [{"route","error","since"}]}. */
json_t *alerts_json(const struct alerts *alerts);

#endif
