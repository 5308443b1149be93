/* SPDX-License-Identifier: Apache-2.0 */
/* Judge and book with a clock of the test's own; what they tell is collected. */
#ifndef SLUICE_TESTS_ALERTS_FIXTURE_H
#define SLUICE_TESTS_ALERTS_FIXTURE_H

#include <jansson.h>

#include "healthcheck/alerts/book.h"
#include "healthcheck/alerts/judge.h"

enum { FIXTURE_WINDOW = 3000, FIXTURE_QUIET = 600000 };

/* Starts afresh, without anything remembered. */
void fixture_open(void);
void fixture_close(void);

/* Ends the program and starts it anew with what the spool would hold; configure again. */
void fixture_restart(void);

/* Domains as zones/domain_json.h plus "alerts" and "team", as text of a JSON array, in which ' may
 * stand for "; the routes are
 * `pager` (PagerDuty), `chat` (Slack) and `audit` (JSON). */
void fixture_configure(const char *domains);

/* One domain, a.example.com, with alerts that page. */
void fixture_configure_one(const char *types, const char *endpoints, const char *regions,
                           const char *on, const char *to);

/* 'u', 'd', '?' for both families: "d" or "du" (IPv4, IPv6). */
void fixture_health(unsigned domain, const char *endpoint, const char *state, const char *why);
void fixture_quiet(unsigned domain, const char *endpoint, const char *state, const char *why);
void fixture_overrides(const char *list);
void fixture_isolated(bool isolated);

/* Lets so much time pass. */
void fixture_pass(uint64_t ms);

/* Messages told since the last call to this, for one route (NULL: all), as a new list of events
 * with "route" in them. */
json_t *fixture_told(const char *route);
/* While true, nothing can be told. */
void fixture_full(bool full);

/* "trigger failover error sluice|failover|...": action, kind, severity, key of message `i`; "" if
 * there is none. */
const char *fixture_line(const json_t *told, size_t i);
const char *fixture_text(const json_t *told, size_t i, const char *member);

/* Expects just these messages to a route since the last time, as fixture_line() gives them. */
void fixture_expect(const char *route, const char *const *lines, size_t count);
#define EXPECT(route, ...)                                                                         \
  fixture_expect(route, (const char *const[]){__VA_ARGS__},                                        \
                 sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
#define NOTHING(route) fixture_expect(route, NULL, 0)

/* Expects one message since the last time, with this summary. */
void fixture_expect_summary(const char *route, const char *summary);

#endif
