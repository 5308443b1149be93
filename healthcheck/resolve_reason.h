/* SPDX-License-Identifier: Apache-2.0 */
/* Why a name has no address, in words. */
#ifndef SLUICE_HEALTHCHECK_RESOLVE_REASON_H
#define SLUICE_HEALTHCHECK_RESOLVE_REASON_H

#include <stdbool.h>
#include <stddef.h>

#include "healthcheck/resolve.h"

/* Of the ARES_... with which a name's questions ended, the one that says the most: that a family
 * has no address says the least, that there is no such name is true of all. */
int resolve_reason_worst(const int *statuses, size_t count);

/* The reason for that status; `answered`: there are addresses, but no usable one.  True if it is
 * this machine's own fault (resolve_done_fn). */
bool resolve_reason(int status, bool answered, char why[RESOLVE_WHY]);

#endif
