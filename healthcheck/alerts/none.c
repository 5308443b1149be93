/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in until alerts are written: nobody is woken.  Whoever writes them takes it out. */
#include <stdlib.h>

#include "healthcheck/alerts.h"

struct alerts {
  int unused;
};

struct alerts *alerts_open(uv_loop_t *loop, const struct alerts_options *options, char *why) {
  (void)loop;
  (void)options;
  (void)why;
  return calloc(1, sizeof(struct alerts));
}

void alerts_close(struct alerts *alerts) {
  free(alerts);
}

bool alerts_configure(struct alerts *alerts, const json_t *routes,
                      const struct alerts_domain *domains, size_t count, char *why) {
  (void)alerts;
  (void)routes;
  (void)domains;
  (void)count;
  (void)why;
  return true;
}

void alerts_health(struct alerts *alerts, uint32_t domain, uint16_t endpoint,
                   enum steer_health health4, enum steer_health health6, const char *why,
                   bool quiet) {
  (void)alerts;
  (void)domain;
  (void)endpoint;
  (void)health4;
  (void)health6;
  (void)why;
  (void)quiet;
}

void alerts_overrides(struct alerts *alerts, const json_t *list) {
  (void)alerts;
  (void)list;
}

void alerts_isolated(struct alerts *alerts, bool isolated) {
  (void)alerts;
  (void)isolated;
}

json_t *alerts_json(const struct alerts *alerts) {
  (void)alerts;
  return json_object();
}
