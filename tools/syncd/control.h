/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of sluice-syncd (base/control_socket.h): a client sends one JSON object in a
 * line and gets one JSON object in a line, as on the server's (server/control.h).
 *
 * Request: {"command": NAME, ...}.  Reply: {"ok": true, ...} or {"ok": false, "error": "one line",
 * "code": 1|2|3} where code is the exit status that the command line tool should give.
 *
 *   status    {"domain": NAME|null} -> as engine_status(), with "pid" and "uptime"
 *   sync      {"domain", "wait": ms|null} -> brings the domain level at all providers that hold it
 *             and replies as engine_sync() when all have a result, or after `wait` (10 s unless
 *             given, at most that); what is not done by then goes on
 *   retry     -> tries at once what waits for its next attempt; does not wait for the result
 *   stop      -> replies, then exits 0
 *
 * Domain names are absolute, with the final dot, in lower case.  Peers are trusted by their Unix
 * credentials (SO_PEERCRED): root, the program's own user, and members of the configured group.  A
 * request of more than 64 KiB, or one not finished in 10 s, closes the connection.
 */
#ifndef SLUICE_TOOLS_SYNCD_CONTROL_H
#define SLUICE_TOOLS_SYNCD_CONTROL_H

#include "base/control_socket.h"
#include "tools/syncd/engine.h"

enum { SYNCD_CONTROL_WHY = CONTROL_SOCKET_WHY };

struct syncd_control;

/* Listens at `path` (mode 0660) on the loop; NULL with a reason in `why` (SYNCD_CONTROL_WHY
 * octets).  `group` may be NULL.  `on_stop` is called for the command of that name. */
struct syncd_control *syncd_control_open(uv_loop_t *loop, const char *path, const char *group,
                                         struct engine *engine, void (*on_stop)(void *arg),
                                         void *arg, char *why);

/* Before engine_close(). */
void syncd_control_close(struct syncd_control *control);

#endif
