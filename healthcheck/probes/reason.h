/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for the errors of sockets.
 */
#ifndef SLUICE_HEALTHCHECK_PROBES_REASON_H
#define SLUICE_HEALTHCHECK_PROBES_REASON_H

#include <stdbool.h>

/* Why a connection could not be made, from errno: "connect refused", ...  Static text.  *own_fault
 * becomes true if it is this machine's lack of something. */
const char *reason_connect(int error, bool *own_fault);

/* The same where there was a connection: "connection reset", ... */
const char *reason_broken(int error);

#endif
