/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's control socket (base/control_socket.h): a client sends one JSON object in a line and
 * gets one JSON object in a line.  Used by `sluice` (tools/client.h) and by nothing else.
 *
 * Request: {"command": NAME, ...}.  Reply: {"ok": true, ...} or {"ok": false, "error": "one line",
 * "code": 1|2|3} where code is the exit status that the command line tool should give.
 *
 *   status    -> {"build": {"id","commit","commit_time","default_zone": name|null,
 *                   "zones":[{"name","serial","names","domains"}]},
 *                 "last_reload": {"ok": bool,"at","error": text|null,
 *                   "warning": text|null (why the location data are still the old ones)}
 *                   | null (none since the start),
 *                 "secondary": [{"zone","state":"empty"|"current"|"stale"|"expired",
 *                   "serial": N|null,"primaries","refreshed","next_refresh","expires" (Unix
 *                   seconds or null),"busy": bool,"error": text|null}],
 *                 "data": the folder of builds,
 *                 "workers": N, "uptime": seconds, "pid": N, "listen": ["127.0.0.1@53", ...],
 *                 "health": {"socket","connected": bool, "age": seconds|null, "stale": bool,
 *                   "error": text|null, "subjects","targets","served": N} (server/health_feed.h),
 *                 "overrides": as in `domain`, each with its "domain"; at most 1000,
 *                 "override_count": N (all of them),
 *                 "geo": {"path","build_epoch","age","ipv6": bool} | null,
 *                 "counters": {name: number}}
 *   reload    -> loads the current build and location files again; replies when the new view is
 *                published: {"build": {...}, "zones": N, "changed": N}
 *   stop      -> replies, then the server drains and exits 0
 *   explain   {"domain","client","type":"A"|"AAAA"} -> {"explain": {...}} as steering/explain.h
 *   domain    {"domain"} -> all that is known of one steered name: {"domain": {"name","zone",
 *                "revision": N, "steer": as zones/domain_json.h,
 *                "overrides": [{"kind":"weight"|"status"|"health","endpoint","region","level",
 *                  "family","value","who","origin","reason","set_at","expires_at","cause",
 *                  "before"}], "health": [{"endpoint","family": 4|6,"state":"up"|"down"|"unknown",
 *                  "checked": bool,"forced": bool,"since","why"}]},
 *                "data": the build's folder, "default_zone", "health": as in `status`}
 *   domains   {"zone": NAME|null} -> {"domains": [{"name","zone","revision","endpoints":[...]}]}
 *                kind, values, family as in base/store.h (status 1 enabled, 2 disabled; health 1
 *                up, 2 down); "state" is what was measured, whatever is forced
 *   domains   {"zone": NAME|null} -> {"domains": [{"name","zone","revision","endpoints":[...]}]}
 *   commit    {"request": TEXT|null,"as": NAME|null,"origin": TEXT|null,
 *              "expect": [[DOMAIN,REVISION],...],
 *              "changes": [{"op":"set"|"drop","kind","domain","endpoint","region","level","family",
 *                "value","expires_at": Unix seconds|0,"cause","before","reason"}],
 *              "audits": [{"command","domain","what": object,"reason"}]}
 *             -> all of it durably and visible in answers, or nothing: {"revision": N, "audits":
 *                [ID...]}; {"ok": false, "conflict": true, ...} if a domain has another revision:
 *                ask `domain` again and compute again.  A `request` that was committed already
 *                gets the reply of then.  Each domain that changes needs a row in `audits`.
 *                Limits are in server/commit_request.h.
 *                Who: the peer's user, or `as` where the peer is root (sudo) or the settings list
 *                its user under `as:`; "via USER" is then added to the origin.
 *   result    {"audit": ID, "result": object} -> adds to the trail
 *   history   {"domain": NAME|null, "limit": N} -> {"history": [{"id","at","revision","request",
 *                "who","origin","command","domain","what","reason","result"}]}, latest first;
 *                `limit` 20 unless given, at most 100000
 *   exposure  {"domain"} -> what was answered in the last 5 to 10 minutes: {"exposure": {"seconds":
 *                N (of the figures), "answers": N, "regions": [{"region","answers","endpoints":
 *                [{"endpoint","answers","share": of the region's,"expected": {"A"|"AAAA"|"CNAME":
 *                chance now}}]}], "resolvers": {"seen": N, "exact": bool (false: an estimate, good
 *                to about 9 %), "largest": [{"network": "192.0.2.0/24" or a /56,"answers","share",
 *                "error": the answers are at most so many too many}]}}}; above 10 000 answers a
 *                second and thread the numbers are estimates from samples
 *
 * Peers are trusted by their Unix credentials (SO_PEERCRED): root, the server's own user, and
 * members of the configured group.  A request of more than 8 MiB, or one not finished in 10 s,
 * closes the connection.  Domain names are absolute, with or without the final dot.
 */
#ifndef SLUICE_SERVER_CONTROL_H
#define SLUICE_SERVER_CONTROL_H

#include "base/control_socket.h"

struct server;

/* Listens at `path` (mode 0660) on the loop; NULL with a reason in `why` (CONTROL_SOCKET_WHY
 * octets).  To be closed by control_socket_close(). */
struct control_socket *control_open(uv_loop_t *loop, const char *path, struct server *server,
                                    char *why);

#endif
