/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has how many connections, and which was used least lately: of all, and of each client.
 *
 * The links live in the connections, so that no call here allocates but the first connection of a
 * client.  Belongs to the thread of one event loop.
 */
#ifndef SLUICE_SERVER_TCP_CLIENTS_H
#define SLUICE_SERVER_TCP_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/address.h"

struct tcp_link {
  struct tcp_link *next; /* towards those used later */
  struct tcp_link *prev;
};

struct tcp_client;

/* Part of every connection. */
struct tcp_place {
  struct tcp_link all;
  struct tcp_link own; /* of its client */
  struct tcp_client *client;
};

struct tcp_clients {
  struct tcp_link all; /* head of a ring, idlest first */
  struct tcp_client **buckets;
  uint64_t seed;  /* of the hash, so that clients cannot choose their bucket */
  unsigned count; /* connections */
};

bool tcp_clients_init(struct tcp_clients *clients);
void tcp_clients_close(struct tcp_clients *clients); /* when no connection is left */

/* Adds a connection as the one used last; false without memory. */
bool tcp_clients_add(struct tcp_clients *clients, struct tcp_place *place,
                     const union address_socket *peer);
void tcp_clients_remove(struct tcp_clients *clients, struct tcp_place *place);

/* Notes that the connection was used just now. */
void tcp_clients_touch(struct tcp_clients *clients, struct tcp_place *place);

/* The idlest of all, NULL if there is none. */
struct tcp_place *tcp_clients_idlest(const struct tcp_clients *clients);

/* Connections of the same client, and the idlest of them. */
unsigned tcp_clients_count_own(const struct tcp_place *place);
struct tcp_place *tcp_clients_idlest_own(const struct tcp_place *place);

/* True if both connections are of one client. */
static inline bool tcp_clients_is_same(const struct tcp_place *a, const struct tcp_place *b) {
  return a->client == b->client;
}

#endif
