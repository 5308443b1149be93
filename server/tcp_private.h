/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What server/tcp.c (listeners, who gets a place, start, end) and server/tcp_connection.c (one
 * connection: reading, answering, writing) share; nobody else includes it.
 */
#ifndef SLUICE_SERVER_TCP_PRIVATE_H
#define SLUICE_SERVER_TCP_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "server/tcp.h"
#include "server/tcp_clients.h"
#include "server/tcp_frame.h"
#include "server/tls.h"

enum {
  READ_SIZE = 65536,
  FLUSH_SIZE = 65536, /* answers are written when more than this has gathered */
  DRAIN_TURNS = 3,    /* of the loop, for what had arrived before the stop */
  OUTPUT_SIZE = FLUSH_SIZE + TCP_FRAME_MAX + 1,
  CIPHER_SIZE = TLS_OUT_MAX(OUTPUT_SIZE),
};

struct connection {
  uv_tcp_t handle;
  struct tcp *tcp;
  struct tcp_place place;
  struct geo_address client;
  uint64_t used_at; /* loop time of the last finished query or write */
  uint8_t *input;   /* not answered yet: a part of a message, or what came while writing */
  size_t input_length;
  uv_write_t write;
  uint8_t *output; /* what the client has not taken yet */
  size_t output_length;
  struct transfer_job *transfer; /* that is under way; nothing else is answered until its end */
  struct tls_session *tls;       /* NULL: plain TCP */
  struct tcp_link handshake;     /* while the handshake of `tls` is not done */
  bool shaking;                  /* `handshake` is in its ring */
  bool writing;
  bool ended; /* the client sends no more */
  bool closing;
};

struct listener {
  uv_tcp_t handle;
  int fd;       /* until the handle owns it */
  bool waiting; /* for memory: libuv holds a connection, and tells of no other until it is taken */
};

/* What DNS over TLS needs besides. */
struct cipher {
  struct tls_server *server;
  struct tcp_link handshakes; /* head of a ring, oldest first */
  unsigned handshake_count;
  uint8_t input[READ_SIZE];
  uint8_t output[CIPHER_SIZE];
};

struct tcp {
  uv_loop_t loop;
  uv_async_t stop;
  uv_timer_t tick;
  uv_idle_t turn;
  unsigned turns; /* since the stop */
  bool draining;
  uint64_t drain_until;
  struct tcp_limits limits;
  struct tcp_clients clients;
  struct tcp_counters counters;
  struct query_worker worker;
  const struct view *_Atomic *view;
  pthread_t thread;
  bool started;
  size_t held;
  unsigned transfers; /* under way */
  struct query query;
  struct cipher *cipher; /* NULL: plain TCP */
  /* Of the connection that is being read: what was left, and what one read can bring. */
  uint8_t input[TCP_FRAME_MAX + READ_SIZE + TLS_RECORD_MAX];
  uint8_t output[OUTPUT_SIZE];
  size_t output_length;
  size_t listener_count;
  struct listener listeners[];
};

/* Begins the handshake of an accepted connection, which may end that of another; false without
 * memory. */
bool tcp_connection_start_tls(struct connection *c);

/* Reads and answers from now on. */
void tcp_connection_start(struct connection *c);

/* Notes that it was used just now. */
void tcp_connection_touch(struct connection *c);

/* Gives up its place and all that it holds; tcp_connection_on_closed() follows, which frees it. */
void tcp_connection_close(struct connection *c);
void tcp_connection_on_closed(uv_handle_t *handle);

static inline struct connection *tcp_connection_at(struct tcp_place *place) {
  return (struct connection *)(void *)((char *)place - offsetof(struct connection, place));
}

static inline void tcp_count(_Atomic uint64_t *counter, uint64_t by) {
  atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                        memory_order_relaxed);
}

#endif
