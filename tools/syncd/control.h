/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of sluice-syncd (base/control_commands.h).
 *
 *   status    {"domain": NAME|null} -> as engine_status(), with "pid" and "uptime"
 *   sync      {"domain", "wait": ms|null} -> brings the domain level at all providers that hold it
 *             and replies as engine_sync() when all have a result, or after `wait` (10 s unless
 *             given, at most that); what is not done by then goes on
 *   retry     -> tries at once what waits for its next attempt; does not wait for the result
 *   stop      -> replies, then exits 0
 *
 * Domain names are absolute, with the final dot, in lower case.
 */
#ifndef SLUICE_TOOLS_SYNCD_CONTROL_H
#define SLUICE_TOOLS_SYNCD_CONTROL_H

#include "base/control_commands.h"
#include "tools/syncd/engine.h"

/* Listens at `path`; `group` may be NULL.  NULL with a reason in `why` (CONTROL_SOCKET_WHY octets).
 * control_commands_close() before engine_close(). */
struct control_commands *syncd_control_open(struct service *service, const char *path,
                                            const char *group, struct engine *engine, char *why);

#endif
