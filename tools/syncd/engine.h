/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heart of sluice-syncd: watches what is in force at our server, reads whole providers from
 * time to time, keeps a queue for each provider, and works it off: one round at a time for each
 * provider, all providers in parallel. What fails is tried again, later and later; a new change of
 * the domain, or a request, tries at once.
 *
 * Belongs to the loop's thread; what blocks runs in the loop's pool of threads.
 */
#ifndef SLUICE_TOOLS_SYNCD_ENGINE_H
#define SLUICE_TOOLS_SYNCD_ENGINE_H

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "tools/syncd/settings.h"

struct engine;
struct engine_wait;

enum { ENGINE_WHY = 512, ENGINE_WAIT_MS = 10000 };

/* `settings` must outlive it.  NULL with one line in `why` (ENGINE_WHY octets). */
struct engine *engine_open(uv_loop_t *loop, const struct syncd_settings *settings, char *why);

/* True while threads work: then the process may only exit, which is safe at any time. */
bool engine_is_busy(const struct engine *engine);

/* Saves the queues.  Frees everything once the loop has closed the handles. */
void engine_save(struct engine *engine);
void engine_close(struct engine *engine);

/* {"server": TEXT|null (why what is in force is not known),
 *  "providers": [{"name","domains": N,"behind": N (of these),"zones_behind": N (whose other records
 *                 are not level),"since": Unix s|null,"next": Unix s|null,"working": bool,
 *                 "error": TEXT|null,"waiting": N (changes that wait for a consent, and count as
 *                 level),"checked": Unix s|null (read as a whole),"check_error": TEXT|null,
 *                 "drift": {"at": Unix s,"names": N,"what": TEXT,"now": bool (it is so still, since
 *                 nothing is repaired)}|null}]}; with a domain also
 * "domain": {"name","providers": [{"name","level": bool,"since","error","holds": document|null}]}.
 * A new reference, or NULL without memory. */
json_t *engine_status(const struct engine *engine, const char *domain);

/* Tries at once what waits for its next attempt. */
void engine_retry(struct engine *engine);

/* Why it does not know yet which domains are where; NULL: it does. */
const char *engine_unready(const struct engine *engine);

/* Brings a domain level now, and calls done() with {"domain","providers": as above}, when all have
 * a result or after `wait_ms`.  NULL: done() was called at once. */
struct engine_wait *engine_sync(struct engine *engine, const char *domain, uint64_t wait_ms,
                                void (*done)(void *arg, json_t *reply), void *arg);
void engine_wait_cancel(struct engine_wait *wait);

#endif
