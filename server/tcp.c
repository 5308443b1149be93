/* SPDX-License-Identifier: Apache-2.0 */
#include "server/tcp.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <urcu-qsbr.h>
#include <uv.h>

#include "base/log.h"
#include "server/slow.h"
#include "server/tcp_clients.h"
#include "server/tcp_frame.h"
#include "server/tls.h"

enum {
  BACKLOG = 1024,
  READ_SIZE = 65536,
  FLUSH_SIZE = 65536,  /* answers are written when more than this has gathered */
  HELD_MAX = 64 << 20, /* unfinished input and output of all connections */
  DRAIN_TURNS = 3,     /* of the loop, for what had arrived before the stop */
  DRAIN_MS = 2000,     /* for clients that have to take their answers */
  TICK_MS = 250,
  TRANSFERS_MAX = 100, /* at a time; more are answered with SERVFAIL */
  /* Handshakes at a time; a further one ends the oldest.  A client that says hello may make OpenSSL
   * set aside 128 KiB with a few octets, so this bounds memory, too. */
  HANDSHAKES_MAX = 512,
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
  int fd; /* until the handle owns it */
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

static void count(_Atomic uint64_t *counter, uint64_t by) {
  atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                        memory_order_relaxed);
}

/* ---- connections ------------------------------------------------------------------------------
 */

static void on_closed(uv_handle_t *handle) {
  struct connection *c = handle->data;
  tls_session_close(c->tls);
  free(c);
}

static void drop_input(struct connection *c) {
  c->tcp->held -= c->input_length;
  free(c->input);
  c->input = NULL;
  c->input_length = 0;
}

static void drop_transfer(struct connection *c) {
  if (c->transfer == NULL)
    return;
  transfer_job_drop(c->transfer);
  c->transfer = NULL;
  c->tcp->transfers--;
}

static void handshake_over(struct connection *c) {
  if (!c->shaking)
    return;
  c->shaking = false;
  c->handshake.prev->next = c->handshake.next;
  c->handshake.next->prev = c->handshake.prev;
  c->tcp->cipher->handshake_count--;
}

/* Tells the client that this is the end, and no attacker's cut (RFC 8446 section 6.1). */
static void say_end(struct connection *c) {
  struct cipher *cipher = c->tcp->cipher;
  struct tls_output out = {cipher->output, 0, CIPHER_SIZE};
  tls_session_end(c->tls, &out);
  uv_buf_t buffer = uv_buf_init((char *)out.data, (unsigned)out.length);
  if (out.length > 0)
    uv_try_write((uv_stream_t *)&c->handle, &buffer, 1);
}

static void connection_close(struct connection *c) {
  if (c->closing)
    return;
  c->closing = true;
  handshake_over(c);
  if (c->tls != NULL && !c->writing)
    say_end(c);
  drop_input(c);
  drop_transfer(c);
  c->tcp->held -= c->output_length; /* its end frees it soon */
  c->output_length = 0;
  tcp_clients_remove(&c->tcp->clients, &c->place);
  count(&c->tcp->counters.open, UINT64_MAX); /* minus one */
  uv_close((uv_handle_t *)&c->handle, on_closed);
}

static struct connection *connection_at(struct tcp_place *place) {
  return (struct connection *)(void *)((char *)place - offsetof(struct connection, place));
}

static void touch(struct connection *c) {
  c->used_at = uv_now(&c->tcp->loop);
  tcp_clients_touch(&c->tcp->clients, &c->place);
}

/*
 * Room for unfinished input or output of a connection.  As where there are too many connections,
 * those that were idle for longest give way: else who holds all of it would shut out everybody
 * whose query comes in two parts.
 */
static bool make_room(struct connection *c, size_t length) {
  struct tcp *tcp = c->tcp;
  while (tcp->held + length > HELD_MAX) {
    struct tcp_place *idlest = tcp_clients_idlest(&tcp->clients);
    if (idlest == NULL || idlest == &c->place)
      return false;
    count(&tcp->counters.evicted, 1);
    connection_close(connection_at(idlest));
  }
  return true;
}

/* Keeps what cannot be answered yet; `data` may not be c->input. */
static void keep_input(struct connection *c, const uint8_t *data, size_t length) {
  drop_input(c);
  if (length == 0)
    return;
  c->input = make_room(c, length) ? malloc(length) : NULL;
  if (c->input == NULL) {
    connection_close(c);
    return;
  }
  memcpy(c->input, data, length);
  c->input_length = length;
  c->tcp->held += length;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

static void resume(struct connection *c);

static void on_written(uv_write_t *request, int status) {
  struct connection *c = request->data;
  c->tcp->held -= c->output_length;
  free(c->output);
  c->output = NULL;
  c->output_length = 0;
  c->writing = false;
  if (c->closing)
    return;
  if (status < 0) {
    connection_close(c);
    return;
  }
  touch(c);
  resume(c);
}

/* The client is slower than its questions: nothing more is read from it until it has caught up. */
static void write_later(struct connection *c, const uint8_t *data, size_t length) {
  uint8_t *copy = malloc(length);
  if (copy != NULL)
    memcpy(copy, data, length); /* first: `data` may be where another connection says its end */
  if (copy == NULL || !make_room(c, length)) {
    free(copy);
    connection_close(c);
    return;
  }
  uv_buf_t buffer = uv_buf_init((char *)copy, (unsigned)length);
  c->write.data = c;
  if (uv_write(&c->write, (uv_stream_t *)&c->handle, &buffer, 1, on_written) != 0) {
    free(copy);
    connection_close(c);
    return;
  }
  c->output = copy;
  c->output_length = length;
  c->tcp->held += length;
  c->writing = true;
  uv_read_stop((uv_stream_t *)&c->handle);
}

/* Writes at once what the client takes, and the rest later. */
static void put(struct connection *c, const uint8_t *data, size_t length) {
  uv_buf_t buffer = uv_buf_init((char *)data, (unsigned)length);
  int written = uv_try_write((uv_stream_t *)&c->handle, &buffer, 1);
  if (written == UV_EAGAIN)
    written = 0;
  if (written < 0)
    connection_close(c);
  else if ((size_t)written < length)
    write_later(c, data + written, length - (size_t)written);
}

/* Encrypts the first octets of tcp->output where that is due; false if the connection is closed. */
static bool seal(struct connection *c, const uint8_t **data, size_t *length) {
  struct tcp *tcp = c->tcp;
  *data = tcp->output;
  if (c->tls == NULL)
    return true;
  struct tls_output out = {tcp->cipher->output, 0, CIPHER_SIZE};
  if (!tls_session_send(c->tls, tcp->output, *length, &out)) {
    connection_close(c);
    return false;
  }
  *data = out.data;
  *length = out.length;
  return true;
}

static void flush(struct connection *c) {
  const uint8_t *data;
  size_t length = c->tcp->output_length;
  c->tcp->output_length = 0;
  if (length > 0 && seal(c, &data, &length))
    put(c, data, length);
}

/* ---- transfers --------------------------------------------------------------------------------
 */

/*
 * Writes the next messages of a transfer; called again once the client has taken them.  Each call
 * is a turn of the loop, so that many transfers and all other clients go on side by side.
 */
static void continue_transfer(struct connection *c) {
  struct tcp *tcp = c->tcp;
  size_t length = 0;
  size_t n;
  if (!transfer_job_is_ready(c->transfer))
    return;
  while (length < FLUSH_SIZE &&
         (n = transfer_job_next(c->transfer, tcp->output + length, (uint64_t)time(NULL))) > 0)
    length += n;
  if (length > 0) {
    const uint8_t *data;
    if (seal(c, &data, &length))
      write_later(c, data, length);
    return;
  }
  if (transfer_job_is_broken(c->transfer)) {
    connection_close(c);
    return;
  }
  drop_transfer(c);
  resume(c);
}

static void on_transfer_ready(void *arg) {
  struct connection *c = arg;
  touch(c);
  if (!c->writing)
    continue_transfer(c);
}

static void start_transfer(struct connection *c, struct slow_transfer *wanted) {
  struct tcp *tcp = c->tcp;
  uv_read_stop((uv_stream_t *)&c->handle);
  c->transfer = transfer_job_start(&tcp->loop, wanted, tcp->transfers >= TRANSFERS_MAX,
                                   &tcp->counters.transfers, on_transfer_ready, c);
  if (c->transfer == NULL)
    connection_close(c);
  else
    tcp->transfers++;
}

/* ---- answering --------------------------------------------------------------------------------
 */

/* Only TLS 1.3 is good enough for a zone (RFC 9103 section 7.2). */
static bool may_transfer(const struct connection *c) {
  return c->tls == NULL || tls_session_fits_transfer(c->tls);
}

/* Appends the answer to one message to the output. */
static void answer_one(struct connection *c, const struct view *view, const uint8_t *message,
                       size_t length) {
  struct tcp *tcp = c->tcp;
  struct query *q = &tcp->query;
  uint8_t *out = tcp->output + tcp->output_length;
  memcpy(out + 2, message, length);
  q->packet = out + 2;
  q->length = length;
  q->capacity = QUERY_BUF;
  q->source = c->client;
  q->transport = c->tls != NULL ? TRANSPORT_TLS : TRANSPORT_TCP;
  query_parse(q, view, &tcp->worker);
  size_t n;
  if (slow_is_needed(q)) {
    struct slow_transfer wanted = {.wanted = false};
    n = slow_respond(q, view, &tcp->worker, (uint64_t)time(NULL), may_transfer(c) ? &wanted : NULL);
    if (wanted.wanted)
      start_transfer(c, &wanted);
  } else {
    query_locate(q);
    n = query_answer(q, view, &tcp->worker);
  }
  if (n == 0)
    return;
  out[0] = (uint8_t)(n >> 8);
  out[1] = (uint8_t)n;
  tcp->output_length += 2 + n;
}

/*
 * Answers the whole messages in `data`, in order, until the client stops taking answers.  Returns
 * how many octets are done with.
 */
static size_t answer_all(struct connection *c, const uint8_t *data, size_t length) {
  struct tcp *tcp = c->tcp;
  size_t at = 0;
  size_t n;
  enum tcp_frame frame = TCP_FRAME_PART;
  rcu_thread_online();
  query_worker_tick(&tcp->worker);
  const struct view *view = atomic_load_explicit(tcp->view, memory_order_acquire);
  while (!c->writing && !c->closing && c->transfer == NULL &&
         (frame = tcp_frame_next(data + at, length - at, &n)) == TCP_FRAME_WHOLE) {
    answer_one(c, view, data + at + TCP_FRAME_HEAD, n);
    at += TCP_FRAME_HEAD + n;
    if (tcp->output_length > FLUSH_SIZE)
      flush(c);
  }
  rcu_thread_offline();
  if (!c->closing && at > 0)
    touch(c);
  if (!c->closing)
    flush(c);
  tcp->output_length = 0;
  if (c->transfer != NULL && !c->writing)
    continue_transfer(c); /* if it need not wait for its files */
  if (frame == TCP_FRAME_BAD)
    connection_close(c);
  return at;
}

/* The client sends no more. */
static void take_end(struct connection *c) {
  /* Half closed: the client has asked all and still listens (RFC 7766 section 6.2.4). */
  c->ended = true;
  if (!c->writing && c->transfer == NULL)
    connection_close(c);
}

/* Answers what came: `n` octets, which stand in tcp->input behind those that were left. */
static void take_input(struct connection *c, size_t n) {
  size_t length = c->input_length + n;
  size_t done = answer_all(c, c->tcp->input, length);
  if (!c->closing)
    keep_input(c, c->tcp->input + done, length - done);
  if (c->tcp->turns == DRAIN_TURNS && !c->writing && c->transfer == NULL && c->input_length == 0)
    connection_close(c);
}

/* What is left of the last read goes in front, so that messages lie in one piece. */
static uint8_t *place_input(struct connection *c) {
  if (c->input_length > 0)
    memcpy(c->tcp->input, c->input, c->input_length);
  return c->tcp->input + c->input_length;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  (void)suggested;
  *buffer = uv_buf_init((char *)place_input(handle->data), READ_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
  struct connection *c = stream->data;
  (void)buffer;
  if (n > 0)
    take_input(c, (size_t)n);
  else if (n == UV_EOF)
    take_end(c);
  else if (n < 0)
    connection_close(c);
}

static void on_cipher_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  struct connection *c = handle->data;
  (void)suggested;
  *buffer = uv_buf_init((char *)c->tcp->cipher->input, READ_SIZE);
}

static void on_cipher_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
  struct connection *c = stream->data;
  struct cipher *cipher = c->tcp->cipher;
  struct tls_output out = {cipher->output, 0, CIPHER_SIZE};
  size_t plain = 0;
  if (n <= 0) {
    on_read(stream, n, buffer);
    return;
  }
  enum tls_result result =
      tls_session_receive(c->tls, cipher->input, (size_t)n, place_input(c), &plain, &out);
  if (out.length > 0)
    put(c, out.data, out.length);
  if (result == TLS_FAILED)
    count(&c->tcp->counters.tls_failed, 1);
  if (result == TLS_FAILED || c->closing) {
    connection_close(c);
    return;
  }
  if (c->shaking && tls_session_is_established(c->tls)) {
    handshake_over(c);
    count(&c->tcp->counters.tls_established, 1);
    touch(c);
  }
  if (plain > 0)
    take_input(c, plain);
  if (result == TLS_ENDED && !c->closing) {
    uv_read_stop(stream);
    take_end(c);
  }
}

static void start_reading(struct connection *c) {
  int error = c->tls != NULL
                  ? uv_read_start((uv_stream_t *)&c->handle, on_cipher_alloc, on_cipher_read)
                  : uv_read_start((uv_stream_t *)&c->handle, on_alloc, on_read);
  if (error != 0)
    connection_close(c);
}

/* Goes on after the client has taken its answers. */
static void resume(struct connection *c) {
  if (c->transfer != NULL) {
    continue_transfer(c);
    return;
  }
  uint8_t *input = c->input;
  size_t length = c->input_length;
  c->tcp->held -= length;
  c->input = NULL;
  c->input_length = 0;
  size_t done = length > 0 ? answer_all(c, input, length) : 0;
  if (!c->closing)
    keep_input(c, input + done, length - done);
  free(input);
  if (c->closing || c->writing || c->transfer != NULL)
    return;
  if (c->ended || (c->tcp->draining && c->input_length == 0))
    connection_close(c);
  else
    start_reading(c);
}

/* ---- accepting --------------------------------------------------------------------------------
 */

static void evict(struct tcp *tcp, struct tcp_place *place) {
  if (place == NULL)
    return;
  count(&tcp->counters.evicted, 1);
  connection_close(connection_at(place));
}

static bool take_peer(struct connection *c, union address_socket *peer) {
  int size = sizeof *peer;
  if (uv_tcp_getpeername(&c->handle, (struct sockaddr *)peer, &size) != 0)
    return false; /* gone already */
  address_to_geo(peer, &c->client);
  return true;
}

static bool start_handshake(struct connection *c) {
  struct cipher *cipher = c->tcp->cipher;
  c->tls = tls_session_open(cipher->server, uv_now(&c->tcp->loop));
  if (c->tls == NULL)
    return false;
  if (cipher->handshake_count == HANDSHAKES_MAX) {
    struct tcp_link *oldest = cipher->handshakes.next;
    count(&c->tcp->counters.evicted, 1);
    connection_close(
        (struct connection *)(void *)((char *)oldest - offsetof(struct connection, handshake)));
  }
  c->handshake.prev = cipher->handshakes.prev;
  c->handshake.next = &cipher->handshakes;
  c->handshake.prev->next = c->handshake.next->prev = &c->handshake;
  c->shaking = true;
  cipher->handshake_count++;
  return true;
}

static void on_connection(uv_stream_t *server, int status) {
  static struct log_limit limit;
  struct tcp *tcp = server->data;
  if (status < 0) {
    log_limited(&limit, LOG_LEVEL_WARNING, "cannot accept a TCP connection: %s",
                uv_strerror(status));
    evict(tcp, tcp_clients_idlest(&tcp->clients));
    return;
  }
  struct connection *c = calloc(1, sizeof *c);
  if (c == NULL)
    return;
  c->tcp = tcp;
  c->handle.data = c;
  uv_tcp_init(&tcp->loop, &c->handle);
  union address_socket peer;
  memset(&peer, 0, sizeof peer);
  if (uv_accept(server, (uv_stream_t *)&c->handle) != 0 || !take_peer(c, &peer) ||
      !tcp_clients_add(&tcp->clients, &c->place, &peer)) {
    uv_close((uv_handle_t *)&c->handle, on_closed);
    return;
  }
  c->used_at = uv_now(&tcp->loop);
  count(&tcp->counters.accepted, 1);
  count(&tcp->counters.open, 1);
  if (tcp_clients_count_own(&c->place) > tcp->limits.per_client)
    evict(tcp, tcp_clients_idlest_own(&c->place));
  if (tcp->clients.count > tcp->limits.connections)
    evict(tcp, tcp_clients_idlest(&tcp->clients));
  if (tcp->cipher != NULL && !c->closing && !start_handshake(c))
    connection_close(c);
  if (c->closing)
    return;
  uv_tcp_nodelay(&c->handle, 1);
  start_reading(c);
}

/* ---- time and the end -------------------------------------------------------------------------
 */

static void finish(struct tcp *tcp) {
  while (tcp->clients.count > 0)
    connection_close(connection_at(tcp_clients_idlest(&tcp->clients)));
  uv_close((uv_handle_t *)&tcp->tick, NULL);
}

static void on_tick(uv_timer_t *timer) {
  struct tcp *tcp = timer->data;
  uint64_t now = uv_now(&tcp->loop);
  for (;;) {
    struct tcp_place *place = tcp_clients_idlest(&tcp->clients);
    if (place == NULL || now - connection_at(place)->used_at < tcp->limits.idle_ms)
      break;
    struct connection *c = connection_at(place);
    if (c->transfer != NULL && !transfer_job_is_ready(c->transfer)) {
      touch(c); /* it waits for us, not we for it */
      continue;
    }
    count(&tcp->counters.timed_out, 1);
    connection_close(c);
  }
  if (tcp->draining && tcp->turns == DRAIN_TURNS &&
      (tcp->clients.count == 0 || now >= tcp->drain_until))
    finish(tcp);
}

/* Closes what has nothing to say or to hear; the rest gets until `drain_until`. */
static void close_idle(struct tcp *tcp) {
  struct tcp_link *next;
  for (struct tcp_link *link = tcp->clients.all.next; link != &tcp->clients.all; link = next) {
    next = link->next;
    struct connection *c =
        connection_at((struct tcp_place *)(void *)((char *)link - offsetof(struct tcp_place, all)));
    if (!c->writing && c->transfer == NULL && c->input_length == 0)
      connection_close(c);
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
  free(tcp);
}

const struct tcp_counters *tcp_get_counters(const struct tcp *tcp) {
  return &tcp->counters;
}

void tcp_add_counters(const struct tcp *tcp, uint64_t totals[QUERY_COUNTERS]) {
  for (size_t c = 0; c < QUERY_COUNTERS; c++)
    totals[c] += atomic_load_explicit(&tcp->worker.counters[c], memory_order_relaxed);
}
