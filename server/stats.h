/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of all threads, summed.
 */
#ifndef SLUICE_SERVER_STATS_H
#define SLUICE_SERVER_STATS_H

#include <jansson.h>

#include "server/server.h"

/* A new object, name -> number; NULL without memory. */
json_t *stats_json(const struct server *server);

#endif
