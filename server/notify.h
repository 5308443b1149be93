/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells systemd about the state of the service, by the protocol of sd_notify(3): a datagram to the
 * socket that $NOTIFY_SOCKET names.  Does nothing when there is none.
 */
#ifndef SLUICE_SERVER_NOTIFY_H
#define SLUICE_SERVER_NOTIFY_H

void notify_ready(void);
void notify_reloading(void);
void notify_stopping(void);

#endif
