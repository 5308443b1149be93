/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets of DNS cookies while the server runs: from a file that servers share, or made here
 * and rotated once a day (RFC 9018 section 5).  Belongs to the main thread; workers read what is
 * published in query_config.cookies, under RCU.
 */
#ifndef SLUICE_SERVER_PROTECT_H
#define SLUICE_SERVER_PROTECT_H

#include <uv.h>

#include "server/query.h"
#include "server/settings_protect.h"

enum { PROTECT_WHY = 512 };

struct protect {
  const struct settings_protect *settings;
  struct query_config *config;
  uv_timer_t rotation;
  bool timer_open;
};

/* Publishes the first secrets (none with `cookies: off`).  False with a reason: the file is bad. */
bool protect_open(struct protect *protect, const struct settings_protect *settings,
                  struct query_config *config, uv_loop_t *loop, char *why);

/* Reads the file again, where there is one; on failure the old secrets stay. */
bool protect_reload(struct protect *protect, char *why);

/* Ends the timer, so that the loop can end. */
void protect_stop(struct protect *protect);

/* Frees the secrets; no worker runs any more. */
void protect_close(struct protect *protect);

#endif
