/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetching the deploys of another repository into the mirror of a machine that follows it, by git's
 * own program, so that all that people have set up for git (keys, hosts, proxies) counts.
 */
#ifndef SLUICE_TOOLS_FOLLOW_FETCH_H
#define SLUICE_TOOLS_FOLLOW_FETCH_H

#include <stdbool.h>

/* Where a fetch puts what it brought, before it was judged. */
#define FOLLOW_FETCHED "refs/sluice/fetched"

enum { FOLLOW_WHY = 1024 };

enum follow_fetch { FOLLOW_FETCH_DONE, FOLLOW_FETCH_FAILED, FOLLOW_FETCH_STOPPED };

/*
 * Runs `git fetch` of refs/sluice/deploys, for at most `seconds`.  With `stoppable`, SIGTERM and
 * SIGINT are blocked, and when one of them waits the fetch is ended and FOLLOW_FETCH_STOPPED
 * returned.  After a failure one line is in `why` (FOLLOW_WHY octets).
 */
enum follow_fetch follow_fetch(const char *mirror, const char *url, unsigned seconds,
                               bool stoppable, char *why);

#endif
