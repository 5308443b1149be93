/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dns: one question over UDP, and over TCP if the answer does not fit (RFC 1035 section 4.2).
 *
 * The socket is connected: the kernel chooses a source port at random and passes on nothing that
 * comes from elsewhere.  The id comes from the kernel, too.  What does not answer the question is
 * ignored, and the probe goes on waiting.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "healthcheck/probe_kind.h"
#include "healthcheck/probes/dns_message.h"
#include "healthcheck/probes/reason.h"

enum {
  MESSAGE_MAX = 65535,
  READS = 16,       /* in one turn of the loop */
  FOREIGN = 1000,   /* messages that are ignored; more are a flood */
  AGAIN_SHARE = 3,  /* the query is repeated once, after this part of the time */
  AGAIN_MAX = 1000, /* ms */
};

enum step { STEP_UDP, STEP_CONNECT, STEP_SEND, STEP_TCP };

/* A socket and what watches it. */
struct watched {
  uv_poll_t poll;
  int fd; /* -1: none, or closed */
};

struct dns {
  struct probe *probe;
  struct watched udp, tcp;
  uv_timer_t timer; /* the repetition */
  unsigned handles; /* that are not closed yet */
  enum step step;
  unsigned foreign;
  uint64_t step_ns;
  size_t sent;
  uint8_t *reply; /* TCP: prefix and message; MESSAGE_MAX + DNS_PREFIX octets */
  size_t have;
  struct dns_question question;
};

/* ---- the end ------------------------------------------------------------------------------------
 */

static void on_closed(uv_handle_t *handle) {
  struct dns *dns = handle->data;
  if (--dns->handles > 0)
    return;
  free(dns->reply);
  free(dns);
}

static void unwatch(struct watched *watched) {
  if (watched->fd < 0)
    return;
  uv_close((uv_handle_t *)&watched->poll, on_closed);
  close(watched->fd);
  watched->fd = -1;
}

static void close_dns(struct dns *dns) {
  unwatch(&dns->udp);
  unwatch(&dns->tcp);
  uv_close((uv_handle_t *)&dns->timer, on_closed);
}

static void end_phase(struct dns *dns, enum probe_phase phase) {
  uint64_t now = uv_hrtime();
  dns->probe->result.phase_us[phase] = (int64_t)((now - dns->step_ns) / 1000);
  dns->step_ns = now;
}

static void end(struct dns *dns, bool ok, const char *why) {
  struct probe *probe = dns->probe;
  close_dns(dns);
  probe_end(probe, ok, "%s", why);
}

static void judge(struct dns *dns, const uint8_t *wire, size_t len) {
  const struct check *check = dns->probe->check;
  char why[DNS_WHY];
  end_phase(dns, PHASE_FIRST);
  bool ok = dns_judge(&dns->question, check->rcode, check->expect, wire, len, why);
  end(dns, ok, why);
}

/* True if it was one too many, and the probe has ended. */
static bool count_foreign(struct dns *dns) {
  if (++dns->foreign <= FOREIGN)
    return false;
  end(dns, false, "flooded with answers to other questions");
  return true;
}

/* ---- sockets ------------------------------------------------------------------------------------
 */

/* A connected, or connecting, socket that is watched; -1 with errno. */
static int watch(struct dns *dns, struct watched *watched, int type, int events, uv_poll_cb ready) {
  const struct probe *probe = dns->probe;
  watched->fd = -1;
  int fd = socket(probe->address.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return -1;
  int status = connect(fd, (const struct sockaddr *)&probe->address, probe->address_len);
  if (status < 0 && errno != EINPROGRESS)
    goto failed;
  if (uv_poll_init(probe_loop(probe->set), &watched->poll, fd) != 0) {
    errno = ENOMEM;
    goto failed;
  }
  watched->poll.data = dns;
  watched->fd = fd;
  dns->handles++;
  uv_poll_start(&watched->poll, events, ready);
  return 0;
failed:
  status = errno;
  close(fd);
  errno = status;
  return -1;
}

/* ---- TCP ----------------------------------------------------------------------------------------
 */

static void on_tcp(uv_poll_t *poll, int status, int events);

static void end_broken(struct dns *dns, const char *what) {
  char why[PROBE_REASON];
  snprintf(why, sizeof why, "%s before the answer over TCP came", what);
  end(dns, false, why);
}

/* A whole message is there.  True if the probe has ended. */
static bool take_message(struct dns *dns, size_t len) {
  if (dns_match(&dns->question, dns->reply + DNS_PREFIX, len) == DNS_FOREIGN) {
    dns->have = 0;
    return count_foreign(dns);
  }
  judge(dns, dns->reply + DNS_PREFIX, len); /* there is no larger way than TCP: TC means nothing */
  return true;
}

static void read_tcp(struct dns *dns) {
  for (int i = 0; i < READS; i++) {
    size_t need = DNS_PREFIX;
    if (dns->have >= DNS_PREFIX)
      need += (size_t)(dns->reply[0] << 8 | dns->reply[1]);
    if (dns->have >= DNS_PREFIX && dns->have == need) {
      if (take_message(dns, need - DNS_PREFIX))
        return;
      continue;
    }
    ssize_t n = recv(dns->tcp.fd, dns->reply + dns->have, need - dns->have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    if (n <= 0) {
      end_broken(dns, n == 0 ? "closed by the peer" : reason_broken(errno));
      return;
    }
    dns->have += (size_t)n;
  }
}

static void send_tcp(struct dns *dns) {
  size_t len = DNS_PREFIX + dns->question.len;
  ssize_t n = send(dns->tcp.fd, dns->question.wire + dns->sent, len - dns->sent, MSG_NOSIGNAL);
  if (n < 0 && errno != EAGAIN && errno != EINTR) {
    end_broken(dns, reason_broken(errno));
    return;
  }
  dns->sent += n > 0 ? (size_t)n : 0;
  if (dns->sent < len)
    return;
  end_phase(dns, PHASE_SEND);
  dns->step = STEP_TCP;
  uv_poll_start(&dns->tcp.poll, UV_READABLE, on_tcp);
}

static void end_connect(struct dns *dns) {
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(dns->tcp.fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
    error = errno;
  if (error != 0) {
    char why[PROBE_REASON];
    snprintf(why, sizeof why, "the answer is truncated, and over TCP: %s",
             reason_connect(error, &dns->probe->result.own_fault));
    end(dns, false, why);
    return;
  }
  end_phase(dns, PHASE_CONNECT);
  dns->step = STEP_SEND;
  send_tcp(dns);
}

static void on_tcp(uv_poll_t *poll, int status, int events) {
  (void)status; /* an error of the socket shows in what is tried next */
  (void)events;
  struct dns *dns = poll->data;
  if (dns->step == STEP_CONNECT)
    end_connect(dns);
  else if (dns->step == STEP_SEND)
    send_tcp(dns);
  else
    read_tcp(dns);
}

/* The answer did not fit: the same question again. */
static void ask_over_tcp(struct dns *dns) {
  uv_timer_stop(&dns->timer);
  unwatch(&dns->udp);
  dns->step = STEP_CONNECT;
  dns->step_ns = uv_hrtime();
  dns->reply = malloc(DNS_PREFIX + MESSAGE_MAX);
  if (dns->reply != NULL && watch(dns, &dns->tcp, SOCK_STREAM, UV_WRITABLE, on_tcp) == 0)
    return;
  bool *own_fault = &dns->probe->result.own_fault;
  end(dns, false, reason_connect(dns->reply == NULL ? ENOMEM : errno, own_fault));
}

/* ---- UDP ----------------------------------------------------------------------------------------
 */

static const char *udp_reason(int error, bool *own_fault) {
  if (error == ECONNREFUSED)
    return "port unreachable";
  return reason_connect(error, own_fault);
}

/* 0, or an errno; a full buffer is as good as a lost packet. */
static int send_udp(const struct dns *dns) {
  ssize_t n = send(dns->udp.fd, dns->question.wire + DNS_PREFIX, dns->question.len, MSG_NOSIGNAL);
  if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
    return errno;
  return 0;
}

static void end_udp(struct dns *dns, int error) {
  end(dns, false, udp_reason(error, &dns->probe->result.own_fault));
}

/* Reads what is there.  True if the probe has ended or gone over to TCP. */
static bool read_udp(struct dns *dns) {
  static uint8_t wire[MESSAGE_MAX]; /* the loop's thread alone */
  for (int i = 0; i < READS; i++) {
    ssize_t n = recv(dns->udp.fd, wire, sizeof wire, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return false;
    if (n < 0) {
      end_udp(dns, errno);
      return true;
    }
    switch (dns_match(&dns->question, wire, (size_t)n)) {
    case DNS_FOREIGN:
      if (count_foreign(dns))
        return true;
      break;
    case DNS_TRUNCATED:
      ask_over_tcp(dns);
      return true;
    case DNS_ANSWER:
      judge(dns, wire, (size_t)n);
      return true;
    }
  }
  return false;
}

static void on_udp(uv_poll_t *poll, int status, int events) {
  struct dns *dns = poll->data;
  (void)events;
  if (!read_udp(dns) && status < 0) /* after an error libuv has stopped watching */
    uv_poll_start(poll, UV_READABLE, on_udp);
}

static void on_again(uv_timer_t *timer) {
  struct dns *dns = timer->data;
  int error = send_udp(dns);
  if (error != 0)
    end_udp(dns, error);
}

/* ---- the kind -----------------------------------------------------------------------------------
 */

static struct dns *make(struct probe *probe, struct probe_result *result) {
  uint16_t id;
  const char *why;
  struct dns *dns = calloc(1, sizeof *dns);
  if (dns == NULL || getrandom(&id, sizeof id, 0) != sizeof id) {
    snprintf(result->reason, sizeof result->reason, "%s",
             reason_connect(ENOMEM, &result->own_fault));
    free(dns);
    return NULL;
  }
  if (!dns_question_make(&dns->question, probe->check->name, probe->check->rrtype, id, &why)) {
    snprintf(result->reason, sizeof result->reason, "`name` cannot be asked for: %s", why);
    free(dns);
    return NULL;
  }
  dns->probe = probe;
  dns->udp.fd = dns->tcp.fd = -1;
  return dns;
}

static bool start_dns(struct probe *probe, void *shared, void **state,
                      struct probe_result *result) {
  (void)shared;
  struct dns *dns = make(probe, result);
  if (dns == NULL)
    return false;
  uv_timer_init(probe_loop(probe->set), &dns->timer);
  dns->timer.data = dns;
  dns->handles = 1;
  dns->step_ns = uv_hrtime();
  int error = watch(dns, &dns->udp, SOCK_DGRAM, UV_READABLE, on_udp) < 0 ? errno : send_udp(dns);
  if (error != 0) {
    snprintf(result->reason, sizeof result->reason, "%s", udp_reason(error, &result->own_fault));
    close_dns(dns);
    return false;
  }
  uint64_t again = probe_left(probe) / AGAIN_SHARE;
  uv_timer_start(&dns->timer, on_again, again < AGAIN_MAX ? again : AGAIN_MAX, 0);
  *state = dns;
  return true;
}

static void stop_dns(void *state, const char **phase) {
  static const char *const phases[] = {"waiting for the answer", "connect over TCP",
                                       "sending over TCP", "waiting for the answer over TCP"};
  struct dns *dns = state;
  *phase = phases[dns->step];
  close_dns(dns);
}

const struct probe_kind probe_kind_dns = {.start = start_dns, .stop = stop_dns};
