/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange of one resolution: a channel of c-ares on the loop.
 *
 * Which servers are asked, how long each of them has, and c-ares' sockets.  What is asked, and when
 * that has taken too long, is the business of resolve.c.
 *
 * Everything here belongs to the loop's thread.
 */
#ifndef SLUICE_HEALTHCHECK_RESOLVE_CHANNEL_H
#define SLUICE_HEALTHCHECK_RESOLVE_CHANNEL_H

#include <ares.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum {
  RESOLVE_TRY_MIN = 100, /* ms that a server has at least */
};

/* A server that is asked instead of the system's. */
struct resolve_server {
  bool own; /* else the system's are asked */
  struct ares_addr_port_node node;
};

/* Reads "ADDRESS[@PORT]"; false if it is none. */
bool resolve_server_read(const char *text, struct resolve_server *server);

struct resolve_watch;

/* c-ares has read or written: answers may have come (to what was given to it with the questions).
 */
typedef void resolve_channel_fn(void *arg);

struct resolve_channel {
  uv_loop_t *loop; /* these three are set by the owner */
  resolve_channel_fn *moved;
  void *arg;
  ares_channel ares;             /* NULL while it is closed */
  struct resolve_watch *watches; /* its sockets */
  unsigned servers;              /* how many there are to ask, once it was open */
};

/* `first`: of the system's servers, the one to start with; those before it are not asked.  `left`:
 * ms for all tries; `patient`: one try has them all, else there are several with growing patience.
 * ARES_SUCCESS or what failed; to be closed in either case. */
int resolve_channel_open(struct resolve_channel *channel, const struct resolve_server *server,
                         unsigned first, uint64_t left, bool patient);

/* Lets c-ares do what its time has come for, such as the next try. */
void resolve_channel_step(struct resolve_channel *channel);

/* Reads what has come, without waiting for the loop to tell. */
void resolve_channel_look(struct resolve_channel *channel);

/* ms until the next step; UINT64_MAX: none is due. */
uint64_t resolve_channel_wait(const struct resolve_channel *channel);

/* Questions that are still open end with ARES_EDESTRUCTION from inside of here.  Nothing happens if
 * it is closed. */
void resolve_channel_close(struct resolve_channel *channel);

#endif
