/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From facts to incidents: keeps what is known of each domain with alerts, and compares what it
 * serves with what it would, whenever a fact has changed.
 *
 * Facts are only noted when they come; judge_run() evaluates the domains concerned a few at a time,
 * so that a fact that touches very many holds up nothing else.  After a start, an incident of the
 * run before stays as it is until its endpoints are known again, or JUDGE_SETTLE_MS are over.  One
 * thread; no clock of its own.
 */
#ifndef SLUICE_HEALTHCHECK_ALERTS_JUDGE_H
#define SLUICE_HEALTHCHECK_ALERTS_JUDGE_H

#include "healthcheck/alerts.h"
#include "healthcheck/alerts/book.h"

enum { JUDGE_SETTLE_MS = 300000, JUDGE_WHY = 512 };

struct judge;

struct judge *judge_open(struct book *book, const char *host);
void judge_close(struct judge *judge);

/* A new list; what was known is kept by the names of domains and endpoints.  False with one line in
 * `why` (JUDGE_WHY octets), then nothing has changed. */
bool judge_configure(struct judge *judge, const json_t *routes, const struct alerts_domain *domains,
                     size_t count, const struct moment *now, char *why);

void judge_health(struct judge *judge, uint32_t domain, uint16_t endpoint,
                  enum steer_health health4, enum steer_health health6, const char *why,
                  bool quiet);
void judge_overrides(struct judge *judge, const json_t *list);
void judge_isolated(struct judge *judge, bool isolated, const struct moment *now);

/* Evaluates at most `most` domains; true if more are waiting. */
bool judge_run(struct judge *judge, size_t most, const struct moment *now);
/* Milliseconds until judge_run() has to be called; UINT64_MAX: only when a fact changes. */
uint64_t judge_wait(const struct judge *judge, const struct moment *now);

/* The book frees an incident. */
void judge_forget(struct judge *judge, struct incident *incident);

#endif
