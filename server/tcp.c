/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners, who gets a place, time, start and end; tcp_connection.c has what a connection does. */
#include "server/tcp.h"
#include "server/exposure_ring.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <urcu-qsbr.h>

#include "base/log.h"
#include "server/tcp_private.h"

enum {
  BACKLOG = 1024,
  DRAIN_MS = 2000, /* for clients that have to take their answers */
  TICK_MS = 250,
};

/* ---- accepting --------------------------------------------------------------------------------
 */

static void evict(struct tcp *tcp, struct tcp_place *place) {
  if (place == NULL)
    return;
  tcp_count(&tcp->counters.evicted, 1);
  tcp_connection_close(tcp_connection_at(place));
}

static bool take_peer(struct connection *c, union address_socket *peer) {
  int size = sizeof *peer;
  if (uv_tcp_getpeername(&c->handle, (struct sockaddr *)peer, &size) != 0)
    return false; /* gone already */
  address_to_geo(peer, &c->client);
  return true;
}

/* What is scarce, memory or descriptors, the idlest connection gives back. */
static void fail_to_accept(struct tcp *tcp, int error) {
  static struct log_limit limit;
  log_limited(&limit, LOG_LEVEL_WARNING, "cannot accept a TCP connection: %s", uv_strerror(error));
  evict(tcp, tcp_clients_idlest(&tcp->clients));
}

static void on_connection(uv_stream_t *server, int status) {
  struct listener *listener = (struct listener *)(void *)server;
  struct tcp *tcp = server->data;
  if (status < 0) {
    fail_to_accept(tcp, status);
    return;
  }
  struct connection *c = calloc(1, sizeof *c);
  listener->waiting = c == NULL;
  if (c == NULL) {
    fail_to_accept(tcp, UV_ENOMEM);
    return;
  }
  c->tcp = tcp;
  c->handle.data = c;
  uv_tcp_init(&tcp->loop, &c->handle);
  union address_socket peer;
  memset(&peer, 0, sizeof peer);
  if (uv_accept(server, (uv_stream_t *)&c->handle) != 0 || !take_peer(c, &peer) ||
      !tcp_clients_add(&tcp->clients, &c->place, &peer)) {
    uv_close((uv_handle_t *)&c->handle, tcp_connection_on_closed);
    return;
  }
  c->used_at = uv_now(&tcp->loop);
  tcp_count(&tcp->counters.accepted, 1);
  tcp_count(&tcp->counters.open, 1);
  if (tcp_clients_count_own(&c->place) > tcp->limits.per_client)
    evict(tcp, tcp_clients_idlest_own(&c->place));
  if (tcp->clients.count > tcp->limits.connections)
    evict(tcp, tcp_clients_idlest(&tcp->clients));
  if (tcp->cipher != NULL && !c->closing && !tcp_connection_start_tls(c))
    tcp_connection_close(c);
  if (c->closing)
    return;
  uv_tcp_nodelay(&c->handle, 1);
  tcp_connection_start(c);
}

static void accept_waiting(struct tcp *tcp) {
  for (size_t i = 0; i < tcp->listener_count; i++) {
    struct listener *listener = &tcp->listeners[i];
    if (listener->waiting && !uv_is_closing((uv_handle_t *)&listener->handle))
      on_connection((uv_stream_t *)&listener->handle, 0);
  }
}

/* ---- time and the end -------------------------------------------------------------------------
 */

static void finish(struct tcp *tcp) {
  while (tcp->clients.count > 0)
    tcp_connection_close(tcp_connection_at(tcp_clients_idlest(&tcp->clients)));
  uv_close((uv_handle_t *)&tcp->tick, NULL);
}

static void on_tick(uv_timer_t *timer) {
  struct tcp *tcp = timer->data;
  uint64_t now = uv_now(&tcp->loop);
  for (;;) {
    struct tcp_place *place = tcp_clients_idlest(&tcp->clients);
    if (place == NULL || now - tcp_connection_at(place)->used_at < tcp->limits.idle_ms)
      break;
    struct connection *c = tcp_connection_at(place);
    if (c->transfer != NULL && !transfer_job_is_ready(c->transfer)) {
      tcp_connection_touch(c); /* it waits for us, not we for it */
      continue;
    }
    tcp_count(&tcp->counters.timed_out, 1);
    tcp_connection_close(c);
  }
  accept_waiting(tcp);
  if (tcp->draining && tcp->turns == DRAIN_TURNS &&
      (tcp->clients.count == 0 || now >= tcp->drain_until))
    finish(tcp);
}

/* Closes what has nothing to say or to hear; the rest gets until `drain_until`. */
static void close_idle(struct tcp *tcp) {
  struct tcp_link *next;
  for (struct tcp_link *link = tcp->clients.all.next; link != &tcp->clients.all; link = next) {
    next = link->next;
    struct connection *c = tcp_connection_at(
        (struct tcp_place *)(void *)((char *)link - offsetof(struct tcp_place, all)));
    if (!c->writing && c->transfer == NULL && c->input_length == 0)
      tcp_connection_close(c);
  }
}

static void on_turn(uv_idle_t *idle) {
  struct tcp *tcp = idle->data;
  if (++tcp->turns < DRAIN_TURNS)
    return;
  uv_close((uv_handle_t *)&tcp->turn, NULL);
  for (size_t i = 0; i < tcp->listener_count; i++)
    uv_close((uv_handle_t *)&tcp->listeners[i].handle, NULL);
  close_idle(tcp);
  if (tcp->clients.count == 0)
    finish(tcp);
}

static void on_stop(uv_async_t *async) {
  struct tcp *tcp = async->data;
  if (tcp->draining)
    return;
  tcp->draining = true;
  tcp->drain_until = uv_now(&tcp->loop) + DRAIN_MS;
  uv_close((uv_handle_t *)&tcp->stop, NULL);
  uv_idle_start(&tcp->turn, on_turn); /* the loop does not wait, but takes what has arrived */
}

static void *tcp_main(void *arg) {
  struct tcp *tcp = arg;
  rcu_register_thread();
  rcu_thread_offline();
  uv_run(&tcp->loop, UV_RUN_DEFAULT);
  rcu_thread_online();
  rcu_unregister_thread();
  return NULL;
}

/* ---- open, start, stop ------------------------------------------------------------------------
 */

struct tcp *tcp_open(const struct address *addresses, size_t n, char *why) {
  struct tcp *tcp = calloc(1, sizeof *tcp + n * sizeof tcp->listeners[0]);
  if (tcp == NULL || !tcp_clients_init(&tcp->clients) || uv_loop_init(&tcp->loop) != 0) {
    snprintf(why, 512, "out of memory");
    if (tcp != NULL)
      tcp_clients_close(&tcp->clients);
    free(tcp);
    return NULL;
  }
  for (size_t i = 0; i < n; i++) {
    struct listener *listener = &tcp->listeners[i];
    listener->fd = address_bind(&addresses[i], SOCK_STREAM, false, why);
    if (listener->fd < 0) {
      tcp_stop(tcp);
      return NULL;
    }
    tcp->listener_count++;
    if (listen(listener->fd, BACKLOG) != 0) {
      snprintf(why, 512, "cannot listen on %s (TCP): %s", addresses[i].text, strerror(errno));
      tcp_stop(tcp);
      return NULL;
    }
  }
  return tcp;
}

bool tcp_use_tls(struct tcp *tcp, struct tls_server *server) {
  struct cipher *cipher = calloc(1, sizeof *cipher);
  if (cipher == NULL)
    return false;
  cipher->server = server;
  cipher->handshakes.next = cipher->handshakes.prev = &cipher->handshakes;
  tcp->cipher = cipher;
  return true;
}

static int start_listener(struct tcp *tcp, struct listener *listener) {
  uv_tcp_init(&tcp->loop, &listener->handle);
  listener->handle.data = tcp;
  int error = uv_tcp_open(&listener->handle, listener->fd);
  if (error == 0) {
    listener->fd = -1;
    error = uv_listen((uv_stream_t *)&listener->handle, BACKLOG, on_connection);
  }
  return error;
}

bool tcp_start(struct tcp *tcp, const struct view *_Atomic *view, const struct query_config *config,
               const struct tcp_limits *limits, char *why) {
  tcp->view = view;
  tcp->limits = *limits;
  tcp->worker.config = config;
  rng_seed_kernel(&tcp->worker.rng);
  tcp->worker.exposure = exposure_ring_new();
  tcp->worker.exposure_left = 1;
  if (tcp->worker.exposure == NULL) {
    snprintf(why, 512, "out of memory");
    return false;
  }
  tcp->stop.data = tcp->tick.data = tcp->turn.data = tcp;
  int error = uv_async_init(&tcp->loop, &tcp->stop, on_stop);
  uv_timer_init(&tcp->loop, &tcp->tick);
  uv_timer_start(&tcp->tick, on_tick, TICK_MS, TICK_MS);
  uv_idle_init(&tcp->loop, &tcp->turn);
  for (size_t i = 0; error == 0 && i < tcp->listener_count; i++)
    error = start_listener(tcp, &tcp->listeners[i]);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals belong to the main thread */
  if (error == 0)
    error = -pthread_create(&tcp->thread, NULL, tcp_main, tcp);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  tcp->started = error == 0;
  if (tcp->started)
    pthread_setname_np(tcp->thread, tcp->cipher != NULL ? "tls" : "tcp");
  else
    snprintf(why, 512, "cannot start the TCP thread: %s", uv_strerror(error));
  return tcp->started;
}

static void close_handle(uv_handle_t *handle, void *arg) {
  (void)arg;
  if (!uv_is_closing(handle))
    uv_close(handle, NULL);
}

void tcp_stop(struct tcp *tcp) {
  if (tcp == NULL)
    return;
  if (tcp->started) {
    uv_async_send(&tcp->stop);
    pthread_join(tcp->thread, NULL);
  } else {
    uv_walk(&tcp->loop, close_handle, NULL);
    uv_run(&tcp->loop, UV_RUN_DEFAULT);
  }
  uv_loop_close(&tcp->loop);
  for (size_t i = 0; i < tcp->listener_count; i++)
    if (tcp->listeners[i].fd >= 0 && !tcp->started)
      close(tcp->listeners[i].fd);
  tcp_clients_close(&tcp->clients);
  free(tcp->cipher);
  free(tcp->worker.exposure);
  free(tcp);
}

const struct tcp_counters *tcp_get_counters(const struct tcp *tcp) {
  return &tcp->counters;
}

struct exposure_ring *tcp_exposure(const struct tcp *tcp) {
  return tcp->worker.exposure;
}

void tcp_add_counters(const struct tcp *tcp, uint64_t totals[QUERY_COUNTERS]) {
  for (size_t c = 0; c < QUERY_COUNTERS; c++)
    totals[c] += atomic_load_explicit(&tcp->worker.counters[c], memory_order_relaxed);
}
