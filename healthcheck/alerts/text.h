/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said about a domain, in one line, and the members of the event that go with it
 * (event.h).  Texts come from the same outlook that the incident was found by, so they agree with
 * what DNS serves.  Pure.
 */
#ifndef SLUICE_HEALTHCHECK_ALERTS_TEXT_H
#define SLUICE_HEALTHCHECK_ALERTS_TEXT_H

#include <jansson.h>

#include "healthcheck/alerts/incident.h"
#include "healthcheck/alerts/outlook.h"

/* What texts are made of. */
struct text_source {
  const char *name; /* of the domain, without the final dot */
  const struct steer_domain *steer;
  const struct outlook_facts *facts;
  char *const *whys; /* last results by endpoint, or NULL */
};

/* Each writes one line to `out` (INCIDENT_SUMMARY octets) and returns the detail, a new reference;
 * NULL without memory. */
json_t *text_failover(const struct text_source *source, uint32_t region, enum steer_type type,
                      const struct outlook *outlook, char *out);
json_t *text_by_hand(const struct text_source *source, uint32_t region, enum steer_type type,
                     const struct outlook *outlook, char *out);
json_t *text_all_down(const struct text_source *source, uint32_t region, enum steer_type type,
                      const struct outlook *outlook, char *out);
json_t *text_endpoint(const struct text_source *source, uint16_t endpoint, bool down4, bool down6,
                      bool used, char *out);

/* How an incident of a region ended, or of an endpoint. */
void text_region_end(const struct text_source *source, const struct incident *incident,
                     const struct outlook *outlook, char *out);
void text_endpoint_end(const struct text_source *source, uint16_t endpoint, char *out);

/* "A", "AAAA", "CNAME" */
const char *text_type(enum steer_type type);

#endif
