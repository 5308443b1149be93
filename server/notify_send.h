/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets and the clock of NOTIFY out (server/notify_out.h): tells the secondaries of the zones
 * that are new or have a new serial.  Belongs to the main thread and its loop.
 */
#ifndef SLUICE_SERVER_NOTIFY_SEND_H
#define SLUICE_SERVER_NOTIFY_SEND_H

#include <uv.h>

#include "server/load.h"
#include "server/notify_out.h"

struct notify_send;

/*
 * `listen` are the addresses of the server: messages leave from one of them where that is possible,
 * since secondaries know their primary by it.  `keys` sign; both must stay valid.  NULL without
 * memory.
 */
struct notify_send *notify_send_open(uv_loop_t *loop, const struct address *listen,
                                     size_t listen_count, const struct tsig_keys *keys);

/* Tells about all zones of `now` whose serial is not that of `before` (NULL: about all), and
 * forgets what is under way for zones that are gone. */
void notify_send_changes(struct notify_send *send, const struct served *now,
                         const struct served *before);

const struct notify_out_counters *notify_send_get_counters(const struct notify_send *send);

/* Closes the handles; the loop must run until they are closed.  NULL is allowed. */
void notify_send_close(struct notify_send *send);

#endif
