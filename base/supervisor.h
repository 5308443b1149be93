/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the service manager how this process does, by the protocol of sd_notify(3): datagrams to
 * the socket that $NOTIFY_SOCKET names.  Does nothing when there is none.
 */
#ifndef SLUICE_BASE_SUPERVISOR_H
#define SLUICE_BASE_SUPERVISOR_H

#include <stdint.h>

void supervisor_ready(const char *status);
void supervisor_reloading(void);
void supervisor_stopping(void);

/* How often supervisor_alive() is to be called, in ms: half of what $WATCHDOG_USEC allows; 0:
 * nobody asks for it. */
uint64_t supervisor_watchdog_ms(void);
void supervisor_alive(void);

#endif
