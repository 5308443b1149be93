/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's side of the health feed (healthcheck/feed.h): connects to the checker's socket and
 * again whenever that ends, takes over what it tells, and says when there is no news.
 *
 * Whatever the checker does (dies, hangs, sends garbage), the server goes on with what it learned
 * last.  Only if the settings say so does all count as healthy after a time without news; what was
 * learned is kept all the same, and holds again once the checker is back.
 *
 * Belongs to the main thread.  The socket is connected to as the user that the server has become.
 */
#ifndef SLUICE_SERVER_HEALTH_FEED_H
#define SLUICE_SERVER_HEALTH_FEED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/server.h"

struct health_feed;

/* Starts to connect to the socket in the server's settings; NULL without memory. */
struct health_feed *health_feed_open(struct server *server);
void health_feed_close(struct health_feed *feed); /* NULL is allowed */

/* A view that is about to be published: the checker's targets are looked up in it, and what is
 * known of them is put in force. */
void health_feed_attach(struct health_feed *feed, struct served *served);

/* What is overridden has changed (server/overrides.h): the checker is told all of it soon.  It is
 * told at each connection anyway. */
void health_feed_overrides_changed(struct health_feed *feed);

/* What is known of the health of an endpoint in a family. */
struct health_known {
  bool checked;            /* the checker judges it */
  enum steer_health state; /* as it was told last; also if it is not checked any more */
  int64_t since;           /* Unix seconds; 0: not known */
  const char *why;         /* of the last result, or NULL; valid until the loop goes on */
};
struct health_known health_feed_lookup(const struct server *server, uint32_t domain,
                                       uint16_t endpoint, int family /* 4 or 6 */);

/* For `status`: {"socket": path|null, "connected": bool, "age": seconds since the last news|null,
 * "stale": bool: all counts as healthy, "error": why there is none|null, "subjects": N, "targets":
 * N, "served": N: targets that the build has}; also without a feed (NULL). */
json_t *health_feed_json(const struct health_feed *feed);

#endif
