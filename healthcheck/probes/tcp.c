/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp: connects, sends a text, waits for another one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "healthcheck/probe_kind.h"
#include "healthcheck/probes/match.h"
#include "healthcheck/probes/reason.h"

enum {
  READ_SIZE = 16 << 10,
  READS = 4, /* in one turn of the loop, so that a fast peer holds up nobody */
};

enum step { STEP_CONNECT, STEP_SEND, STEP_EXPECT };

struct tcp {
  uv_poll_t poll;
  struct probe *probe;
  int fd;
  enum step step;
  size_t sent;
  uint64_t step_ns; /* when the step began */
  bool first_came;
  struct match *match;
};

static void free_tcp(uv_handle_t *handle) {
  struct tcp *tcp = handle->data;
  match_free(tcp->match);
  free(tcp);
}

static void close_tcp(struct tcp *tcp) {
  uv_close((uv_handle_t *)&tcp->poll, free_tcp);
  close(tcp->fd);
}

/* How long the phase took that ends now; the next one begins. */
static void end_phase(struct tcp *tcp, enum probe_phase phase) {
  uint64_t now = uv_hrtime();
  tcp->probe->result.phase_us[phase] = (int64_t)((now - tcp->step_ns) / 1000);
  tcp->step_ns = now;
}

static void fail(struct tcp *tcp, const char *what, const char *when) {
  struct probe *probe = tcp->probe;
  size_t seen = tcp->match != NULL ? match_seen(tcp->match) : 0;
  close_tcp(tcp);
  if (seen > 0)
    probe_end(probe, false, "%s %s (%zu octets came)", what, when, seen);
  else
    probe_end(probe, false, "%s %s", what, when);
}

static void succeed(struct tcp *tcp) {
  struct probe *probe = tcp->probe;
  bool expected = tcp->match != NULL;
  close_tcp(tcp);
  probe_end(probe, true, expected ? "expected text came" : "connected");
}

/* ---- the steps --------------------------------------------------------------------------------
 */

static void on_ready(uv_poll_t *poll, int status, int events);

static void expect_text(struct tcp *tcp) {
  static char octets[READ_SIZE]; /* the loop's thread alone */
  for (int i = 0; i < READS; i++) {
    ssize_t n = recv(tcp->fd, octets, sizeof octets, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    if (n < 0) {
      fail(tcp, reason_broken(errno), "before the expected text came");
      return;
    }
    if (n == 0) {
      fail(tcp, "closed by the peer", "before the expected text came");
      return;
    }
    if (!tcp->first_came)
      end_phase(tcp, PHASE_FIRST);
    tcp->first_came = true;
    if (match_feed(tcp->match, octets, (size_t)n)) {
      succeed(tcp);
      return;
    }
    if (match_seen(tcp->match) >= PROBE_BODY) {
      fail(tcp, "the expected text is not in the first 64 KiB", "of what came");
      return;
    }
  }
}

static void end_sending(struct tcp *tcp) {
  if (tcp->match == NULL) {
    succeed(tcp);
    return;
  }
  tcp->step = STEP_EXPECT;
  uv_poll_start(&tcp->poll, UV_READABLE, on_ready);
}

static void send_text(struct tcp *tcp) {
  const char *text = tcp->probe->check->send;
  size_t left = strlen(text) - tcp->sent;
  while (left > 0) {
    ssize_t n = send(tcp->fd, text + tcp->sent, left, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    if (n < 0) {
      fail(tcp, reason_broken(errno), "while sending");
      return;
    }
    tcp->sent += (size_t)n;
    left -= (size_t)n;
  }
  end_phase(tcp, PHASE_SEND);
  end_sending(tcp);
}

/* A port of this machine that nobody listens on can be the one that the kernel connects from: then
 * TCP connects the socket to itself (RFC 9293 section 3.5, simultaneous open). */
static bool is_own_end(struct tcp *tcp) {
  struct sockaddr_storage own;
  socklen_t size = sizeof own;
  memset(&own, 0, sizeof own);
  if (getsockname(tcp->fd, (struct sockaddr *)&own, &size) < 0)
    return false;
  return size == tcp->probe->address_len && memcmp(&own, &tcp->probe->address, size) == 0;
}

static void end_connect(struct tcp *tcp) {
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(tcp->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
    error = errno;
  if (error == 0 && is_own_end(tcp))
    error = ECONNREFUSED;
  if (error != 0) {
    struct probe *probe = tcp->probe;
    close_tcp(tcp);
    probe_end(probe, false, "%s", reason_connect(error, &probe->result.own_fault));
    return;
  }
  end_phase(tcp, PHASE_CONNECT);
  if (tcp->probe->check->send == NULL) {
    end_sending(tcp);
    return;
  }
  tcp->step = STEP_SEND;
  send_text(tcp);
}

static void on_ready(uv_poll_t *poll, int status, int events) {
  (void)status; /* an error of the socket shows in what is tried next */
  (void)events;
  struct tcp *tcp = poll->data;
  switch (tcp->step) {
  case STEP_CONNECT:
    end_connect(tcp);
    return;
  case STEP_SEND:
    send_text(tcp);
    return;
  case STEP_EXPECT:
    expect_text(tcp);
    return;
  }
}

/* ---- the kind ---------------------------------------------------------------------------------
 */

static bool start_tcp(struct probe *probe, void *shared, void **state,
                      struct probe_result *result) {
  (void)shared;
  int fd = -1;
  struct tcp *tcp = calloc(1, sizeof *tcp);
  if (tcp != NULL && probe->check->expect != NULL)
    tcp->match = match_new(probe->check->expect, PROBE_BODY);
  if (tcp == NULL || (probe->check->expect != NULL && tcp->match == NULL)) {
    errno = ENOMEM;
    goto failed;
  }
  fd = socket(probe->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  tcp->step_ns = uv_hrtime();
  if (fd < 0 || (connect(fd, (const struct sockaddr *)&probe->address, probe->address_len) < 0 &&
                 errno != EINPROGRESS))
    goto failed;
  if (uv_poll_init(probe_loop(probe->set), &tcp->poll, fd) != 0) {
    errno = ENOMEM;
    goto failed;
  }
  tcp->poll.data = tcp;
  tcp->probe = probe;
  tcp->fd = fd;
  uv_poll_start(&tcp->poll, UV_WRITABLE, on_ready);
  *state = tcp;
  return true;
failed:
  snprintf(result->reason, sizeof result->reason, "%s", reason_connect(errno, &result->own_fault));
  if (fd >= 0)
    close(fd);
  if (tcp != NULL)
    match_free(tcp->match);
  free(tcp);
  return false;
}

static void stop_tcp(void *state, const char **phase) {
  static const char *const phases[] = {"connect", "sending", "waiting for the expected text"};
  struct tcp *tcp = state;
  *phase = phases[tcp->step];
  close_tcp(tcp);
}

const struct probe_kind probe_kind_tcp = {.start = start_tcp, .stop = stop_tcp};
