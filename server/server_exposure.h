/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's part of server/exposure.h: the rings of all threads, the timer, and reloads.
 */
#ifndef SLUICE_SERVER_SERVER_EXPOSURE_H
#define SLUICE_SERVER_SERVER_EXPOSURE_H

#include <jansson.h>

#include "server/server.h"

/* Starts to count once the threads run; without memory there is a log line and no figures. */
void server_exposure_start(struct server *server);
void server_exposure_stop(struct server *server);  /* closes the timer */
void server_exposure_close(struct server *server); /* after the loop has ended */

/* Before `served` takes the place of server->served (NULL at start). */
void server_exposure_publish(struct server *server, struct served *served);

/* As the control socket replies it; NULL without memory, or when nothing is counted. */
json_t *server_exposure_json(struct server *server, uint32_t domain);

#endif
