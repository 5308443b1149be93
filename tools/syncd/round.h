/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work that blocks, for threads of their own: bringing names level at one provider, reading all
 * of it to see what differs, and finding out what is in force.  All use the planner of `sluice
 * sync` (tools/sync/run.h), with no consent: what needs one is held back and told.
 *
 * What is brought level has a *key*: the name of a steered domain, or "zone NAME" for all else in a
 * zone (static records, and steered names that the configuration does not have any more).
 */
#ifndef SLUICE_TOOLS_SYNCD_ROUND_H
#define SLUICE_TOOLS_SYNCD_ROUND_H

#include <jansson.h>
#include <stdbool.h>

#include "tools/providers/provider.h"
#include "tools/sync/run.h"
#include "tools/syncd/settings.h"

#define ROUND_ZONE "zone "

bool round_is_zone(const char *key);

struct round_result {
  bool level;
  size_t held; /* of a zone: NS records of the apex that wait for a consent, which is no failure */
  enum provider_failure failure;
  char error[PROVIDER_TEXT];
  char mark[SYNC_DIGEST]; /* of what it was brought level with: that may be newer than what was in
                           * force when it was asked for; "" where it is not level */
  json_t *holds; /* what the provider holds for it now, as a document of zones/domain_json.h; NULL:
                  * not known */
};

/* Brings these level, which are all domains or all zones; `results` (count items) is filled in any
 * case, to be freed by round_results_close(). */
void round_run(const struct syncd_settings *settings, const char *provider, const char *const *keys,
               size_t count, struct round_result *results);
void round_results_close(struct round_result *results, size_t count);

/* Reads all zones at the provider and changes nothing: what differs, as {KEY: TEXT of the first
 * difference}; a new reference.  NULL with one line in `why` (PROVIDER_TEXT octets). */
json_t *round_check(const struct syncd_settings *settings, const char *provider, char *why);

/* Opens a run as these all do, one thread at a time, and only if it is known what is in force;
 * false with one line in `why` (PROVIDER_TEXT octets). */
bool round_open(struct sync_run *run, const struct sync_options *options, char *why);

/* Marks: everything that the domain's objects at the provider are made from, as a digest; and the
 * same of the records beside the steered names: their contents, and which names are steered.  False
 * without memory. */
bool round_mark(const struct sync_provider *provider, const struct sync_domain *domain,
                char out[SYNC_DIGEST]);
bool round_mark_zone(const struct sync_target *target, char out[SYNC_DIGEST]);

struct watch;

/* What is in force, for every key at every provider that takes changes: {PROVIDER: {KEY: mark}};
 * another mark means that the provider is to be brought level.  NULL with one line in `why`
 * (PROVIDER_TEXT octets): configuration or server cannot be read. */
struct watch *watch_open(const struct syncd_settings *settings);
json_t *watch_look(struct watch *watch, char *why);
void watch_close(struct watch *watch);

#endif
