/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that is known of one steered domain, as the control socket's `domain` tells it
 * (server/control.h): the configuration, what is overridden, and health.  Nothing in the reply is
 * trusted.  All here is pure.
 */
#ifndef SLUICE_TOOLS_ENDPOINTS_STATE_H
#define SLUICE_TOOLS_ENDPOINTS_STATE_H

#include <jansson.h>

#include "base/store.h"
#include "steering/model.h"

enum { STATE_WHY = 512, STATE_STATUS_ENABLED = 1, STATE_STATUS_DISABLED = 2 };

/* What is known of one family of an endpoint. */
struct state_health {
  enum steer_health health;            /* as it counts: what is forced, else what was measured */
  enum steer_health measured;          /* unknown: no check, or not decided yet */
  bool checked;                        /* there is a check, with a verdict or not */
  const struct store_override *forced; /* by `sluice health override`, or NULL */
  int64_t since;                       /* Unix seconds, or 0 */
  const char *why;                     /* the last result's text, or NULL */
};

struct state {
  json_t *reply; /* owns all texts */
  const char *name;
  const char *zone;
  const char *data; /* the folder of the builds, or NULL */
  uint64_t revision;
  struct steer_domain *steer;
  struct steer_facts facts; /* as served now */
  int32_t *weights;         /* entry_count; -1: not overridden */
  struct steer_status *status;
  struct state_health (*health)[2]; /* endpoint_count; IPv4, IPv6 */
  struct store_override *overrides;
  size_t override_count;
  const struct store_override **weight_of; /* entry_count; NULL: not overridden */
  const struct store_override **status_of; /* endpoint_count */
  bool feed_configured;                    /* the server has a checker to listen to */
  bool feed_connected;
  double feed_age; /* seconds, or below 0 */
  bool feed_stale; /* all count as healthy, since the checker is silent for too long */
};

/* Reads a reply, whose reference is taken over also on failure.  NULL with one line in `why`
 * (STATE_WHY octets). */
struct state *state_read(json_t *reply, char *why);
void state_free(struct state *state);

/* Index of an entry in the space of weights; `level` counts from 1.  -1: there is none. */
long state_entry(const struct steer_domain *domain, uint32_t region, uint32_t level,
                 uint32_t endpoint);

/* Index of the first entry of a level. */
size_t state_level_base(const struct steer_domain *domain, uint32_t region, uint32_t level);

/* The name of a kind of override in JSON, "weight"; and back, or -1. */
const char *state_kind_name(enum store_kind kind);
int state_kind(const char *name);

#endif
