/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checker's control socket (base/control_commands.h).
 *
 *   status    -> {"pid","uptime": seconds,"build": name|null,"checks": N,"subjects": N,
 *                 "domains": N,"states": {"up","down","unknown","held"},"isolated": bool,
 *                 "last_reload": {"ok": bool,"at","error": text|null} | null (none since the
 * start), "feed": as feed_json(), "alerts": as alerts_json(), "probes": {"done": N,"void": N
 * (results that said nothing, since this process had not run),"running": N,"late_max_ms": N}}
 *   checks    {"domain": NAME|null,"endpoint": NAME|null,"from": N|null}
 *             -> {"checks": [{"target","type","port": N|null,"what": text|null,"interval_ms",
 *                 "state": "up"|"down"|"unknown","since","held": bool,"held_ms": N|null,
 *                 "last": {"ok","at"} | null (none since the start),"why": text|null,
 *                 "running": bool,"next_ms": N|null,"users": [[DOMAIN,ENDPOINT],...] (at most 100),
 *                 "user_count": N}],"next": N|null}
 *             A part of them; `next` is the `from` of the next one.
 *   test      {"domain","endpoint": NAME|null} -> runs the checks now, beside the schedule:
 *             {"results": [{"endpoint","target","type","port","what","ok": bool,"why","state",
 *                 "phases_us": {"resolve","connect","tls","send","first_response","all": N|null}}]}
 *   reload    -> loads the list of checks of the current build again; replies when it is in use
 *   stop      -> replies, then the checker saves its state and exits 0
 *
 * Domain names are absolute, with or without the final dot, or without the default zone (or any
 * other end, where it is clear what is meant).
 */
#ifndef SLUICE_HEALTHCHECK_CONTROL_H
#define SLUICE_HEALTHCHECK_CONTROL_H

#include "base/control_commands.h"
#include "healthcheck/engine.h"

/* Listens at `path`; `group` may be NULL.  NULL with a reason in `why` (CONTROL_SOCKET_WHY octets).
 * control_commands_close() before engine_close(). */
struct control_commands *health_control_open(struct service *service, const char *path,
                                             const char *group, struct engine *engine, char *why);

#endif
