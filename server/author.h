/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who a request of the control socket is from.  The peer's user is attested by the kernel
 * (SO_PEERCRED); another name (`as`) counts only from root (for sudo) and from users whom the
 * settings list (a chat bot's).  The origin then tells through whom it came.
 */
#ifndef SLUICE_SERVER_AUTHOR_H
#define SLUICE_SERVER_AUTHOR_H

#include <sys/types.h>

#include "server/settings.h"

enum { AUTHOR_NAME = 512, AUTHOR_ORIGIN = 2048, AUTHOR_WHY = 512 };

struct author {
  char who[AUTHOR_NAME];
  char origin[AUTHOR_ORIGIN]; /* or empty */
};

/* `as` and `origin` may be NULL.  False with one line in `why` if the user may not say `as`. */
bool author_find(const struct settings *settings, uid_t uid, const char *as, const char *origin,
                 struct author *author, char *why);

#endif
