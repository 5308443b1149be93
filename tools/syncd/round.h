/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work that blocks, for threads of their own: bringing domains level at one provider, and
 * finding out what is in force.  Both use the planner of `sluice sync` (tools/sync/run.h), with no
 * consent: what needs one is held back and told.
 */
#ifndef SLUICE_TOOLS_SYNCD_ROUND_H
#define SLUICE_TOOLS_SYNCD_ROUND_H

#include <jansson.h>
#include <stdbool.h>

#include "tools/providers/provider.h"
#include "tools/syncd/settings.h"

struct round_result {
  bool level;
  enum provider_failure failure;
  char error[PROVIDER_TEXT];
  json_t *holds; /* what the provider holds for it now, as a document of zones/domain_json.h; NULL:
                  * not known */
};

/* Brings the domains level; `results` (count items) is filled in any case, to be freed by
 * round_results_close(). */
void round_run(const struct syncd_settings *settings, const char *provider,
               const char *const *domains, size_t count, struct round_result *results);
void round_results_close(struct round_result *results, size_t count);

struct watch;

/* What is in force, for every domain at every provider that takes changes: {PROVIDER: {DOMAIN:
 * mark}}; another mark means that the provider is to be brought level.  NULL with one line in `why`
 * (PROVIDER_TEXT octets): configuration or server cannot be read. */
struct watch *watch_open(const struct syncd_settings *settings);
json_t *watch_look(struct watch *watch, char *why);
void watch_close(struct watch *watch);

#endif
