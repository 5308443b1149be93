/* SPDX-License-Identifier: Apache-2.0 */
#include "server/secondary_client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "server/secondary_tls.h"
#include "server/wire.h"

enum {
  LENGTH = 2, /* octets before each message of a TCP stream, RFC 1035 section 4.2.2 */
  MESSAGE_MAX = 65535,
  READ_SIZE = 65536,
  QUERY_MAX = TRANSFER_QUERY + 1024, /* room for the signature */
  TSIG_BADSIG_CODE = 16,
  TSIG_BADKEY_CODE = 17,
  TSIG_BADTIME_CODE = 18,
  TSIG_BADTRUNC_CODE = 22,
};

_Static_assert((int)SECONDARY_TLS_PLAIN <= (int)READ_SIZE, "what TLS says fits the input");

struct secondary_client {
  struct secondary_question question;
  union {
    uv_handle_t handle;
    uv_udp_t udp;
    uv_tcp_t tcp;
  } socket;
  uv_timer_t timer;
  uv_connect_t connect;
  uv_write_t write;
  unsigned handles; /* not closed yet */
  unsigned tries;
  bool connected;
  bool sent; /* the question, so that an answer can come */
  bool over;
  bool kept;     /* the connection was used for another question before */
  bool answered; /* something of an answer has come */
  bool again;    /* `done` has asked the next question */
  size_t behind; /* octets that came behind the message that is looked at */
  struct secondary_tls *tls;
  uint64_t deadline;
  uint16_t id;
  struct tsig_session session;
  struct transfer_in *transfer;
  size_t query_len;
  uint8_t query[LENGTH + QUERY_MAX];
  size_t input_len;
  uint8_t input[LENGTH + MESSAGE_MAX + READ_SIZE];
};

/* ---- the end ----------------------------------------------------------------------------------
 */

static void on_closed(uv_handle_t *handle) {
  struct secondary_client *c = handle->data;
  if (--c->handles > 0)
    return;
  tsig_close(&c->session);
  secondary_tls_close(c->tls);
  if (c->transfer != NULL)
    transfer_in_close(c->transfer);
  free(c->transfer);
  free(c);
}

void secondary_client_cancel(struct secondary_client *c) {
  if (c->over)
    return;
  c->over = true;
  if (c->tls != NULL)
    secondary_tls_end(c->tls);
  uv_close((uv_handle_t *)&c->timer, on_closed);
  uv_close(&c->socket.handle, on_closed);
}

static void end(struct secondary_client *c, struct secondary_reply *reply) {
  if (c->over)
    return;
  if (c->transfer != NULL) {
    reply->messages = c->transfer->messages;
    reply->octets = c->transfer->octets;
  }
  secondary_client_fn *done = c->question.done;
  void *arg = c->question.arg;
  if (reply->open == NULL) {
    secondary_client_cancel(c); /* first, so that `done` may start the next question */
    done(arg, reply);
    return;
  }
  c->again = false;
  done(arg, reply);
  if (!c->again)
    secondary_client_cancel(c);
}

static void fail(struct secondary_client *c, bool ask_for_whole, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void fail(struct secondary_client *c, bool ask_for_whole, const char *format, ...) {
  char why[SECONDARY_CLIENT_WHY];
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  struct secondary_reply reply = {.result = TRANSFER_FAILED,
                                  .why = why,
                                  .ask_for_whole = ask_for_whole && c->question.qtype == TYPE_IXFR};
  end(c, &reply);
}

/* ---- the query --------------------------------------------------------------------------------
 */

/* A new ID and signature for each try.  False if it cannot be signed. */
static bool make_query(struct secondary_client *c) {
  const struct secondary_question *q = &c->question;
  /* An ID that nobody can guess is all that protects an answer over UDP without a signature. */
  if (getrandom(&c->id, sizeof c->id, GRND_NONBLOCK) != (ssize_t)sizeof c->id)
    return false;
  uint8_t *message = c->query + LENGTH;
  size_t len = transfer_query(message, q->apex, q->qtype, c->id, q->have);
  if (q->key != NULL)
    len = tsig_sign_request(&c->session, q->key, message, len, QUERY_MAX, (uint64_t)time(NULL));
  wire_put16(c->query, (uint16_t)len);
  c->query_len = len;
  return len != 0;
}

static const char *tsig_code_text(unsigned code) {
  switch (code) {
  case TSIG_BADSIG_CODE:
    return "BADSIG (another secret?)";
  case TSIG_BADKEY_CODE:
    return "BADKEY (it does not know the key)";
  case TSIG_BADTIME_CODE:
    return "BADTIME (the clocks differ)";
  case TSIG_BADTRUNC_CODE:
    return "BADTRUNC";
  default:
    return "an unknown error";
  }
}

/* Verifies a message if we signed the query.  False when it must not be used; then it was said. */
static bool verify(struct secondary_client *c, const uint8_t *message, size_t *len) {
  if (c->question.key == NULL)
    return true;
  enum tsig_result result = tsig_verify_response(&c->session, message, *len, (uint64_t)time(NULL));
  if (result == TSIG_OK || result == TSIG_PENDING) {
    *len = c->session.stripped_len;
    return true;
  }
  unsigned rcode = *len >= WIRE_QUESTION ? message[WIRE_FLAGS + 1] & WIRE_RCODE : 0;
  if (result == TSIG_PEER_ERROR)
    fail(c, false, "the primary rejects the signature: %s", tsig_code_text(c->session.error));
  else if (result == TSIG_UNSIGNED && rcode != RCODE_NOERROR)
    fail(c, true, "the primary answers %s without a signature%s", transfer_rcode_text(rcode),
         rcode == RCODE_NOTAUTH ? " (does it have this key?)" : "");
  else
    fail(c, false, "the signature of the answer: %s", tsig_result_text(result));
  return false;
}

/* ---- SOA queries ------------------------------------------------------------------------------
 */

static void take_soa(struct secondary_client *c, const uint8_t *message, size_t len) {
  struct secondary_reply reply = {.ok = true};
  char why[TRANSFER_IN_WHY];
  if (c->tls != NULL && c->behind == 0)
    reply.open = c;
  if (transfer_soa_answer(message, len, c->question.apex, c->id, &reply.soa, why))
    end(c, &reply);
  else
    fail(c, false, "%s", why);
}

/* A primary that limits its rate sends this, without a signature, to those who can come over TCP
 * (RFC 1035 section 4.2.1, RFC 7766 section 5).  Forged, it costs a connection. */
static bool is_truncated(const uint8_t *message) {
  const unsigned both = WIRE_QR | WIRE_TC;
  return (wire_u16(message + WIRE_FLAGS) & both) == both;
}

static void on_udp_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  struct secondary_client *c = handle->data;
  (void)suggested;
  *buffer = uv_buf_init((char *)c->input, MESSAGE_MAX);
}

static void on_udp_read(uv_udp_t *handle, ssize_t n, const uv_buf_t *buffer,
                        const struct sockaddr *from, unsigned flags) {
  struct secondary_client *c = handle->data;
  (void)buffer;
  (void)flags;
  if (c->over || (n == 0 && from == NULL))
    return;
  if (n < 0) {
    fail(c, false, "%s", uv_strerror((int)n));
    return;
  }
  size_t len = (size_t)n;
  /* Not the answer to this try: an earlier one's, or a forgery. */
  if (len < WIRE_QUESTION || wire_u16(c->input) != c->id)
    return;
  if (is_truncated(c->input)) {
    struct secondary_reply reply = {.truncated = true, .why = "the answer is truncated"};
    end(c, &reply);
    return;
  }
  if (verify(c, c->input, &len))
    take_soa(c, c->input, len);
}

static void try_udp(struct secondary_client *c);

static void on_udp_timeout(uv_timer_t *timer) {
  struct secondary_client *c = timer->data;
  if (c->tries < SECONDARY_UDP_TRIES)
    try_udp(c);
  else
    fail(c, false, "no answer to %d SOA queries", SECONDARY_UDP_TRIES);
}

static void try_udp(struct secondary_client *c) {
  if (!make_query(c)) {
    fail(c, false, "cannot make the query");
    return;
  }
  uv_buf_t buffer = uv_buf_init((char *)c->query + LENGTH, (unsigned)c->query_len);
  int sent = uv_udp_try_send(&c->socket.udp, &buffer, 1, NULL);
  if (sent < 0 && sent != UV_EAGAIN) {
    fail(c, false, "%s", uv_strerror(sent));
    return;
  }
  uv_timer_start(&c->timer, on_udp_timeout, (uint64_t)SECONDARY_UDP_FIRST_MS << c->tries, 0);
  c->tries++;
}

/* From the loop, so that `done` is never called from within secondary_client_ask(). */
static void on_udp_start(uv_timer_t *timer) {
  struct secondary_client *c = timer->data;
  int error = uv_udp_connect(&c->socket.udp, &c->question.primary->socket.sa);
  if (error == 0)
    error = uv_udp_recv_start(&c->socket.udp, on_udp_alloc, on_udp_read);
  if (error != 0)
    fail(c, false, "%s", uv_strerror(error));
  else
    try_udp(c);
}

/* ---- over TCP and TLS -------------------------------------------------------------------------
 */

static void on_tcp_timeout(uv_timer_t *timer) {
  struct secondary_client *c = timer->data;
  if (!c->connected)
    fail(c, false, "no TCP connection within %d s", SECONDARY_CONNECT_MS / 1000);
  else if (!c->sent)
    fail(c, false, "TLS: no connection: the handshake takes more than %d s",
         SECONDARY_CONNECT_MS / 1000);
  else if (uv_now(timer->loop) >= c->deadline)
    fail(c, false, "the transfer takes more than %d s", SECONDARY_WHOLE_MS / 1000);
  else
    fail(c, false, "the primary is silent for %d s", SECONDARY_SILENCE_MS / 1000);
}

/* Time for the next read, but not beyond the end of the time for all. */
static void wait_for_more(struct secondary_client *c) {
  uint64_t now = uv_now(c->timer.loop);
  uint64_t left = c->deadline > now ? c->deadline - now : 0;
  uv_timer_start(&c->timer, on_tcp_timeout,
                 left < SECONDARY_SILENCE_MS ? left : SECONDARY_SILENCE_MS, 0);
}

static void complete(struct secondary_client *c, enum transfer_result result) {
  /* RFC 8945 section 5.3.1: a stream is proven up to its last signature. */
  if (c->question.key != NULL && c->session.result != TSIG_OK) {
    fail(c, false, "the last message of the transfer is not signed");
    return;
  }
  if (result == TRANSFER_DONE && c->behind > 0) {
    fail(c, true, "there are octets behind the last message");
    return;
  }
  struct secondary_reply reply = {.ok = true, .result = result, .soa = c->transfer->soa};
  if (result == TRANSFER_UP_TO_DATE) {
    end(c, &reply);
    return;
  }
  reply.transfer = c->transfer;
  struct transfer_in *mine = c->transfer;
  c->transfer = NULL;
  reply.messages = mine->messages;
  reply.octets = mine->octets;
  end(c, &reply);
  if (reply.transfer == NULL)
    return;
  transfer_in_close(reply.transfer);
  free(reply.transfer);
}

/* False when it has ended. */
static bool take_message(struct secondary_client *c, const uint8_t *message, size_t len) {
  char why[TRANSFER_IN_WHY];
  if (!verify(c, message, &len))
    return false;
  if (c->transfer == NULL) {
    take_soa(c, message, len);
    return false;
  }
  enum transfer_result result = transfer_in_message(c->transfer, message, len, why);
  switch (result) {
  case TRANSFER_MORE:
    return true;
  case TRANSFER_DONE:
  case TRANSFER_UP_TO_DATE:
    complete(c, result);
    return false;
  case TRANSFER_FALL_BACK:
  case TRANSFER_FAILED:
    fail(c, true, "%s", why);
    return false;
  }
  return false;
}

static void on_tcp_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  struct secondary_client *c = handle->data;
  (void)suggested;
  *buffer = c->tls != NULL ? secondary_tls_buffer(c->tls)
                           : uv_buf_init((char *)c->input + c->input_len, READ_SIZE);
}

/* `n` more octets are in the input. */
static void take_octets(struct secondary_client *c, size_t n) {
  c->answered = true;
  c->input_len += n;
  size_t at = 0;
  while (c->input_len - at >= LENGTH) {
    size_t len = wire_u16(c->input + at);
    if (c->input_len - at - LENGTH < len)
      break;
    c->behind = c->input_len - at - LENGTH - len;
    if (!take_message(c, c->input + at + LENGTH, len))
      return;
    at += LENGTH + len;
  }
  memmove(c->input, c->input + at, c->input_len - at);
  c->input_len -= at;
  wait_for_more(c);
}

/* The connection has ended, in order (UV_EOF) or not. */
static void take_end(struct secondary_client *c, int error) {
  if (c->kept && !c->answered) {
    /* RFC 7766 section 6.2.4: the primary may close a connection that it counts as idle. */
    struct secondary_reply reply = {.closed = true, .why = "the connection was closed"};
    end(c, &reply);
  } else if (!c->sent) {
    fail(c, false, "TLS: no connection: %s",
         error == UV_EOF ? "the primary ends it in the handshake" : uv_strerror(error));
  } else if (error != UV_EOF) {
    fail(c, true, "%s", uv_strerror(error));
  } else {
    fail(c, true, "the primary ends the connection %s",
         c->answered && c->transfer != NULL ? "in mid-transfer"
         : c->tls == NULL                   ? "without an answer"
                                            : "without an answer (does it want a certificate?)");
  }
}

static void send_question(struct secondary_client *c);

/* `n` octets have come over TLS; 0 to begin with. */
static void take_tls(struct secondary_client *c, size_t n) {
  char why[SECONDARY_TLS_WHY];
  size_t got;
  enum secondary_tls_result result =
      secondary_tls_take(c->tls, n, c->input + c->input_len, &got, why);
  if (result == SECONDARY_TLS_FAILED) {
    fail(c, c->sent, "%s", why);
    return;
  }
  if (result != SECONDARY_TLS_SHAKES && !c->sent)
    send_question(c);
  if (!c->over && got > 0)
    take_octets(c, got);
  if (!c->over && result == SECONDARY_TLS_ENDED)
    take_end(c, UV_EOF);
}

static void on_tcp_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
  struct secondary_client *c = stream->data;
  (void)buffer;
  if (c->over || n == 0)
    return;
  if (n < 0)
    take_end(c, (int)n);
  else if (c->tls != NULL)
    take_tls(c, (size_t)n);
  else
    take_octets(c, (size_t)n);
}

static void on_written(uv_write_t *request, int status) {
  struct secondary_client *c = request->data;
  if (status < 0)
    fail(c, false, "%s", uv_strerror(status));
}

static void send_question(struct secondary_client *c) {
  size_t length = LENGTH + c->query_len;
  uv_buf_t buffer = uv_buf_init((char *)c->query, (unsigned)length);
  c->sent = true;
  c->write.data = c;
  int error = 0;
  if (c->tls == NULL)
    error = uv_write(&c->write, (uv_stream_t *)&c->socket.tcp, &buffer, 1, on_written);
  else if (!secondary_tls_send(c->tls, c->query, length))
    error = UV_EPIPE;
  if (error != 0)
    fail(c, false, "TCP: %s", uv_strerror(error));
  else
    wait_for_more(c);
}

static void start_tls(struct secondary_client *c) {
  c->tls = secondary_tls_open(c->question.tls, (uv_stream_t *)&c->socket.tcp);
  if (c->tls == NULL) {
    fail(c, false, "out of memory");
    return;
  }
  /* For all of the handshake, however many octets come. */
  uv_timer_start(&c->timer, on_tcp_timeout, SECONDARY_CONNECT_MS, 0);
  take_tls(c, 0);
}

static void on_connected(uv_connect_t *request, int status) {
  struct secondary_client *c = request->data;
  if (c->over)
    return;
  if (status < 0) {
    fail(c, false, "TCP: %s", uv_strerror(status));
    return;
  }
  c->connected = true;
  int error = uv_read_start((uv_stream_t *)&c->socket.tcp, on_tcp_alloc, on_tcp_read);
  if (error != 0)
    fail(c, false, "TCP: %s", uv_strerror(error));
  else if (c->question.tls != NULL)
    start_tls(c);
  else
    send_question(c);
}

/* Makes the query, and what takes its answer; false without memory. */
static bool prepare(struct secondary_client *c) {
  const struct secondary_question *q = &c->question;
  bool soa = q->qtype == TYPE_SOA;
  c->transfer = soa ? NULL : malloc(sizeof *c->transfer);
  if ((!soa && c->transfer == NULL) || !make_query(c)) {
    free(c->transfer);
    c->transfer = NULL;
    return false;
  }
  if (!soa)
    transfer_in_init(c->transfer, q->apex, q->qtype, c->id, q->have, &q->limits);
  c->deadline = uv_now(c->timer.loop) + SECONDARY_WHOLE_MS;
  return true;
}

static void on_tcp_start(uv_timer_t *timer) {
  struct secondary_client *c = timer->data;
  if (!prepare(c)) {
    fail(c, false, "cannot make the query");
    return;
  }
  c->connect.data = c;
  int error =
      uv_tcp_connect(&c->connect, &c->socket.tcp, &c->question.primary->socket.sa, on_connected);
  if (error != 0)
    fail(c, false, "TCP: %s", uv_strerror(error));
  else
    uv_timer_start(&c->timer, on_tcp_timeout, SECONDARY_CONNECT_MS, 0);
}

/* ---- the start --------------------------------------------------------------------------------
 */

struct secondary_client *secondary_client_ask(uv_loop_t *loop,
                                              const struct secondary_question *question) {
  struct secondary_client *c = malloc(sizeof *c);
  if (c == NULL)
    return NULL;
  memset(c, 0, offsetof(struct secondary_client, input));
  c->question = *question;
  /* RFC 9103: the SOA is asked for over TLS too, which hides what is new, and when. */
  bool udp = question->qtype == TYPE_SOA && !question->tcp && question->tls == NULL;
  int error = udp ? uv_udp_init(loop, &c->socket.udp) : uv_tcp_init(loop, &c->socket.tcp);
  if (error != 0) {
    free(c);
    return NULL;
  }
  uv_timer_init(loop, &c->timer);
  c->handles = 2;
  c->timer.data = c->socket.handle.data = c;
  uv_timer_start(&c->timer, udp ? on_udp_start : on_tcp_start, 0, 0);
  return c;
}

bool secondary_client_again(struct secondary_client *c, const struct secondary_question *question) {
  c->question = *question;
  c->kept = true;
  c->answered = false;
  c->input_len = 0;
  if (!prepare(c) || !secondary_tls_send(c->tls, c->query, LENGTH + c->query_len))
    return false;
  c->again = true;
  wait_for_more(c);
  return true;
}
