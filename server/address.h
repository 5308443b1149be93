/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that the server listens on, as text and for the kernel.
 */
#ifndef SLUICE_SERVER_ADDRESS_H
#define SLUICE_SERVER_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "steering/geo.h"

enum { ADDRESS_TEXT = 80, ADDRESS_DEFAULT_PORT = 53 };

union address_socket {
  struct sockaddr sa;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

struct address {
  union address_socket socket;
  socklen_t length;
  char text[ADDRESS_TEXT]; /* canonical: "127.0.0.1@53" */
};

/*
 * Reads "ADDRESS[@PORT]", IPv4 or IPv6, the latter with "%INTERFACE" if link-local.  False with a
 * static text in *why.
 */
bool address_parse(const char *text, struct address *address, const char **why);

/* The same with another port where none is given. */
bool address_parse_port(const char *text, unsigned port, struct address *address, const char **why);

/* True for 0.0.0.0 and ::. */
bool address_is_wildcard(const struct address *address);

/* The client of a packet or connection, as the query path wants it. */
static inline void address_to_geo(const union address_socket *from, struct geo_address *out) {
  if (from->sa.sa_family == AF_INET)
    geo_address_set4(out, (const uint8_t *)&from->v4.sin_addr);
  else
    geo_address_set6(out, from->v6.sin6_addr.s6_addr);
}

/*
 * Opens and binds a socket of `type` (SOCK_DGRAM or SOCK_STREAM) with close-on-exec, and with
 * IPV6_V6ONLY for IPv6, so that 0.0.0.0 and :: can be bound side by side.  `share` sets
 * SO_REUSEPORT. Returns the descriptor, or -1 with a one-line reason in `why` (512 bytes).
 */
int address_bind(const struct address *address, int type, bool share, char *why);

#endif
