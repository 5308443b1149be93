/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the domain.yaml reader among themselves.
 */
#ifndef SLUICE_ZONES_CONFIG_DOMAIN_H
#define SLUICE_ZONES_CONFIG_DOMAIN_H

#include "zones/config.h"

/* One domain.yaml being read. */
struct domain_reading {
  struct config *config;
  struct config_file file;
  struct model_zone *zone;
  struct model_domain *domain;
  struct steer_domain *steer;
  bool endpoints_ok;                        /* without errors: later checks may rely on them */
  const struct yaml_node **endpoint_keys;   /* where each endpoint is named */
  const struct yaml_node **endpoint_health; /* its `health:` or NULL */
  uint16_t *by_name;                        /* the endpoints in the order of their names, or NULL */
};

/* Index of the endpoint of that name, or -1. */
long domain_find_endpoint(const struct domain_reading *d, const char *name);

/* `endpoints:` into the domain. */
void domain_read_endpoints(struct domain_reading *d, const struct yaml_node *key,
                           const struct yaml_node *node);

/* `regions:` into the domain; `offers` must be set. */
void domain_read_regions(struct domain_reading *d, const struct yaml_node *key,
                         const struct yaml_node *node);

/* True if the endpoint has an address of the type (STEER_A, STEER_AAAA) or a host (STEER_CNAME). */
bool domain_endpoint_has(const struct steer_endpoint *endpoint, enum steer_type type);

#endif
