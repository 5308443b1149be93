/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: reading, answering, writing; its transfers and its TLS. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <urcu-qsbr.h>

#include "server/slow.h"
#include "server/tcp_private.h"

enum {
  HELD_MAX = 64 << 20, /* unfinished input and output of all connections */
  TRANSFERS_MAX = 100, /* at a time; more are answered with SERVFAIL */
  /* Handshakes at a time; a further one ends an old one.  A client that says hello may make OpenSSL
   * set aside 128 KiB with a few octets, so this bounds memory, too. */
  HANDSHAKES_MAX = 512,
};

/* ---- the end, and what is kept ----------------------------------------------------------------
 */

void tcp_connection_on_closed(uv_handle_t *handle) {
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

void tcp_connection_close(struct connection *c) {
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
  tcp_count(&c->tcp->counters.open, UINT64_MAX); /* minus one */
  uv_close((uv_handle_t *)&c->handle, tcp_connection_on_closed);
}

void tcp_connection_touch(struct connection *c) {
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
    tcp_count(&tcp->counters.evicted, 1);
    tcp_connection_close(tcp_connection_at(idlest));
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
    tcp_connection_close(c);
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
    tcp_connection_close(c);
    return;
  }
  tcp_connection_touch(c);
  resume(c);
}

/* The client is slower than its questions: nothing more is read from it until it has caught up. */
static void write_later(struct connection *c, const uint8_t *data, size_t length) {
  uint8_t *copy = malloc(length);
  if (copy != NULL)
    memcpy(copy, data, length); /* first: `data` may be where another connection says its end */
  if (copy == NULL || !make_room(c, length)) {
    free(copy);
    tcp_connection_close(c);
    return;
  }
  uv_buf_t buffer = uv_buf_init((char *)copy, (unsigned)length);
  c->write.data = c;
  if (uv_write(&c->write, (uv_stream_t *)&c->handle, &buffer, 1, on_written) != 0) {
    free(copy);
    tcp_connection_close(c);
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
    tcp_connection_close(c);
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
    tcp_connection_close(c);
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
    tcp_connection_close(c);
    return;
  }
  drop_transfer(c);
  resume(c);
}

static void on_transfer_ready(void *arg) {
  struct connection *c = arg;
  tcp_connection_touch(c);
  if (!c->writing)
    continue_transfer(c);
}

static void start_transfer(struct connection *c, struct slow_transfer *wanted) {
  struct tcp *tcp = c->tcp;
  uv_read_stop((uv_stream_t *)&c->handle);
  c->transfer = transfer_job_start(&tcp->loop, wanted, tcp->transfers >= TRANSFERS_MAX,
                                   &tcp->counters.transfers, on_transfer_ready, c);
  if (c->transfer == NULL)
    tcp_connection_close(c);
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
    tcp_connection_touch(c);
  if (!c->closing)
    flush(c);
  tcp->output_length = 0;
  if (c->transfer != NULL && !c->writing)
    continue_transfer(c); /* if it need not wait for its files */
  if (frame == TCP_FRAME_BAD)
    tcp_connection_close(c);
  return at;
}

/* The client sends no more. */
static void take_end(struct connection *c) {
  /* Half closed: the client has asked all and still listens (RFC 7766 section 6.2.4). */
  c->ended = true;
  if (!c->writing && c->transfer == NULL)
    tcp_connection_close(c);
}

/* Answers what came: `n` octets, which stand in tcp->input behind those that were left. */
static void take_input(struct connection *c, size_t n) {
  size_t length = c->input_length + n;
  size_t done = answer_all(c, c->tcp->input, length);
  if (!c->closing)
    keep_input(c, c->tcp->input + done, length - done);
  if (c->tcp->turns == DRAIN_TURNS && !c->writing && c->transfer == NULL && c->input_length == 0)
    tcp_connection_close(c);
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
    tcp_connection_close(c);
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
    tcp_count(&c->tcp->counters.tls_failed, 1);
  if (result == TLS_FAILED || c->closing) {
    tcp_connection_close(c);
    return;
  }
  if (c->shaking && tls_session_is_established(c->tls)) {
    handshake_over(c);
    tcp_count(&c->tcp->counters.tls_established, 1);
    tcp_connection_touch(c);
  }
  if (plain > 0)
    take_input(c, plain);
  if (result == TLS_ENDED && !c->closing) {
    uv_read_stop(stream);
    take_end(c);
  }
}

static struct connection *shaking_at(struct tcp_link *link) {
  return (struct connection *)(void *)((char *)link - offsetof(struct connection, handshake));
}

/*
 * Ends a handshake so that `c` can begin its own: the oldest of the same client, so that one that
 * begins very many ends its own only; the oldest of all if it has none.
 */
static void make_handshake_room(struct connection *c) {
  struct tcp_link *ring = &c->tcp->cipher->handshakes;
  struct tcp_link *link = ring->next;
  while (link != ring && !tcp_clients_is_same(&shaking_at(link)->place, &c->place))
    link = link->next;
  tcp_count(&c->tcp->counters.evicted, 1);
  tcp_connection_close(shaking_at(link != ring ? link : ring->next));
}

bool tcp_connection_start_tls(struct connection *c) {
  struct cipher *cipher = c->tcp->cipher;
  c->tls = tls_session_open(cipher->server, uv_now(&c->tcp->loop));
  if (c->tls == NULL)
    return false;
  if (cipher->handshake_count == HANDSHAKES_MAX)
    make_handshake_room(c);
  c->handshake.prev = cipher->handshakes.prev;
  c->handshake.next = &cipher->handshakes;
  c->handshake.prev->next = c->handshake.next->prev = &c->handshake;
  c->shaking = true;
  cipher->handshake_count++;
  return true;
}

void tcp_connection_start(struct connection *c) {
  int error = c->tls != NULL
                  ? uv_read_start((uv_stream_t *)&c->handle, on_cipher_alloc, on_cipher_read)
                  : uv_read_start((uv_stream_t *)&c->handle, on_alloc, on_read);
  if (error != 0)
    tcp_connection_close(c);
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
    tcp_connection_close(c);
  else
    tcp_connection_start(c);
}
