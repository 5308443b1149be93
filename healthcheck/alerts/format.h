/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events as the receivers want them: PagerDuty Events API v2, Slack incoming webhooks, or the event
 * itself as JSON (event.h).  Pure.
 *
 *             goes to                                   the secret is
 *   pagerduty `url`, or events.pagerduty.com            the routing key, in the body
 *   slack     the secret                                the webhook's URL
 *   json      `url`                                     a bearer token, or none
 *             without `url`: the secret                 the webhook's URL
 */
#ifndef SLUICE_HEALTHCHECK_ALERTS_FORMAT_H
#define SLUICE_HEALTHCHECK_ALERTS_FORMAT_H

#include <jansson.h>
#include <stdbool.h>

#define FORMAT_PAGERDUTY_URL "https://events.pagerduty.com/v2/enqueue"

enum format { FORMAT_PAGERDUTY, FORMAT_SLACK, FORMAT_JSON };
enum { FORMAT_WHY = 256 };

/* A request; texts may hold the secret and are wiped by format_close(). */
struct format_request {
  char *url;
  char *body;
  char *authorization; /* the whole header line, or NULL */
};

/* By name; -1: unknown. */
int format_find(const char *name);

/* True if the route needs its secret to be sent to. */
bool format_needs_secret(enum format format, bool has_url);

/* Makes the request for an event; `url` and `secret` of the route, or NULL.  False with one line in
 * `why` (FORMAT_WHY octets) that holds no part of the secret. */
bool format_make(enum format format, const char *url, const char *secret, const json_t *event,
                 struct format_request *out, char *why);
void format_close(struct format_request *request);

#endif
