/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a worker's packets come from and go to: one small table of functions, so that the worker
 * does not know whether it is served by sockets or by something faster.
 *
 * A source belongs to one worker thread; only wake() may be called from another.
 */
#ifndef SLUICE_SERVER_PACKET_H
#define SLUICE_SERVER_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/address.h"

enum {
  PACKET_BATCH = 64,
  PACKET_CAPACITY = 4096, /* octets of each packet's buffer, as query.h asks for */
};

/* One packet.  The response is written over the request; length 0 sends nothing. */
struct packet {
  uint8_t *data;
  size_t length;
  struct geo_address client;
};

struct packet_source;

struct packet_ops {
  /* NULL with a one-line reason in `why` (512 bytes). */
  struct packet_source *(*open)(const struct address *address, char *why);

  /*
   * Waits for packets unless `wait` is false, and fills up to PACKET_BATCH of them.  Returns how
   * many; 0 when there are none, or after wake().
   */
  size_t (*receive)(struct packet_source *source, struct packet *packets, bool wait);

  /* Sends the responses of the batch that receive() gave.  Returns how many the system refused. */
  size_t (*send)(struct packet_source *source, struct packet *packets, size_t count);

  /* Makes a waiting receive() return, now and from now on.  What is queued can still be received.
   */
  void (*wake)(struct packet_source *source);

  void (*close)(struct packet_source *source);
};

/* Sockets with SO_REUSEPORT, recvmmsg and sendmmsg (server/udp.c). */
extern const struct packet_ops packet_udp;

#endif
