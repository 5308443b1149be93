/* SPDX-License-Identifier: Apache-2.0 */
/* Layer 2: which entries are up, and what goes on if none is. */
#include "steering/layers.h"

/* The chain of the fallback, from the strictest rule to none. */
enum rule {
  RULE_UP,           /* enabled, healthy and not drained */
  RULE_IF_HEALTHY,   /* as if every health check said healthy */
  RULE_NOT_DISABLED, /* drained ones too */
  RULE_ANY,
};

bool status_is_disabled(const struct steer_endpoint *endpoint, const struct steer_status *status) {
  if (status && status->manual != MANUAL_NONE)
    return status->manual == MANUAL_DISABLED;
  return !endpoint->enabled;
}

static bool is_unhealthy(const struct steer_status *status, enum steer_type type) {
  if (!status)
    return false;
  switch (type) {
  case STEER_A:
    return status->health4 == HEALTH_DOWN;
  case STEER_AAAA:
    return status->health6 == HEALTH_DOWN;
  default:
    return status->health4 == HEALTH_DOWN && status->health6 == HEALTH_DOWN;
  }
}

bool status_is_down(const struct steer_endpoint *endpoint, const struct steer_status *status,
                    enum steer_type type) {
  return status_is_disabled(endpoint, status) || is_unhealthy(status, type);
}

static bool passes(enum rule rule, const struct steer_endpoint *endpoint,
                   const struct steer_status *status, enum steer_type type, bool drained) {
  switch (rule) {
  case RULE_UP:
    return !drained && !status_is_down(endpoint, status, type);
  case RULE_IF_HEALTHY:
    return !drained && !status_is_disabled(endpoint, status);
  case RULE_NOT_DISABLED:
    return !status_is_disabled(endpoint, status);
  default:
    return true;
  }
}

bool status_filter(const struct steer_domain *domain, enum steer_type type,
                   const struct steer_facts *facts, uint32_t level_count,
                   struct layer_entry *entries, size_t count) {
  for (int rule = RULE_UP; rule <= RULE_ANY; rule++) {
    bool any = false;
    for (size_t i = 0; i < count; i++) {
      struct layer_entry *e = &entries[i];
      const struct steer_status *status =
          facts && facts->status ? &facts->status[e->endpoint] : NULL;
      /* Weight 0 counts as down, except in the last level: there is nothing after it. */
      bool drained = e->weight == 0 && e->level != level_count;
      e->present = passes((enum rule)rule, &domain->endpoints[e->endpoint], status, type, drained);
      any = any || e->present;
    }
    if (any)
      return rule != RULE_UP;
  }
  return true;
}
