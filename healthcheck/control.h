/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checker's control socket (base/control_socket.h): a client sends one JSON object in a line
 * and gets one JSON object in a line, as on the server's (server/control.h).
 *
 * Request: {"command": NAME, ...}.  Reply: {"ok": true, ...} or {"ok": false, "error": "one line",
 * "code": 1|2|3} where code is the exit status that the command line tool should give.
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
 * other end, where it is clear what is meant).  Peers are trusted by their Unix credentials
 * (SO_PEERCRED): root, the checker's own user, and members of the configured group.  A request of
 * more than 64 KiB, or one not finished in 10 s, closes the connection.
 */
#ifndef SLUICE_HEALTHCHECK_CONTROL_H
#define SLUICE_HEALTHCHECK_CONTROL_H

#include "base/control_socket.h"
#include "healthcheck/engine.h"

enum { HEALTH_CONTROL_WHY = CONTROL_SOCKET_WHY };

struct health_control;

/* Listens at `path` (mode 0660) on the loop; NULL with a reason in `why` (HEALTH_CONTROL_WHY
 * octets).  `group` may be NULL.  `on_stop` is called for the command of that name. */
struct health_control *health_control_open(uv_loop_t *loop, const char *path, const char *group,
                                           struct engine *engine, void (*on_stop)(void *arg),
                                           void *arg, char *why);

/* Before engine_close(). */
void health_control_close(struct health_control *control);

#endif
