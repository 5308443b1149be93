/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over TCP (RFC 7766) that end at a deadline. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tools/providers/rfc2136_private.h"

static uint64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool fail(char *why, const char *what) {
  snprintf(why, RFC2136_WHY, "%s", what);
  return false;
}

static bool wait_for(const struct rfc2136_stream *stream, short events, char *why) {
  struct pollfd p = {.fd = stream->fd, .events = events};
  for (;;) {
    uint64_t now = now_ms();
    if (now >= stream->deadline)
      return fail(why, "no answer in time");
    uint64_t left = stream->deadline - now;
    int n = poll(&p, 1, left > 60000 ? 60000 : (int)left);
    if (n > 0)
      return true;
    if (n < 0 && errno != EINTR)
      return fail(why, strerror(errno));
  }
}

bool rfc2136_connect(struct rfc2136_stream *stream, const struct address *address,
                     uint64_t timeout_ms, char *why) {
  int error = 0;
  socklen_t size = sizeof error;
  stream->deadline = now_ms() + timeout_ms;
  stream->fd = socket(address->socket.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (stream->fd < 0)
    return fail(why, strerror(errno));
  if (connect(stream->fd, &address->socket.sa, address->length) == 0)
    return true;
  if (errno != EINPROGRESS)
    return fail(why, strerror(errno));
  if (!wait_for(stream, POLLOUT, why))
    return false;
  if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
    return fail(why, strerror(errno));
  return error == 0 || fail(why, strerror(error));
}

static bool send_all(struct rfc2136_stream *stream, const uint8_t *octets, size_t len, int flags,
                     char *why) {
  for (size_t at = 0; at < len;) {
    ssize_t n = send(stream->fd, octets + at, len - at, MSG_NOSIGNAL | flags);
    if (n > 0)
      at += (size_t)n;
    else if (errno == EAGAIN && !wait_for(stream, POLLOUT, why))
      return false;
    else if (errno != EAGAIN && errno != EINTR)
      return fail(why, strerror(errno));
  }
  return true;
}

bool rfc2136_send(struct rfc2136_stream *stream, const uint8_t *message, size_t len, char *why) {
  const uint8_t head[2] = {(uint8_t)(len >> 8), (uint8_t)len};
  return send_all(stream, head, sizeof head, MSG_MORE, why) &&
         send_all(stream, message, len, 0, why);
}

static bool receive_all(struct rfc2136_stream *stream, uint8_t *out, size_t len, bool *ended,
                        char *why) {
  for (size_t at = 0; at < len;) {
    ssize_t n = recv(stream->fd, out + at, len - at, 0);
    if (n > 0) {
      at += (size_t)n;
      continue;
    }
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && errno == EAGAIN) {
      if (!wait_for(stream, POLLIN, why))
        return false;
      continue;
    }
    *ended = true;
    return fail(why, n == 0 ? "the server closed the connection" : strerror(errno));
  }
  return true;
}

bool rfc2136_receive(struct rfc2136_stream *stream, uint8_t *out, size_t *len, bool *ended,
                     char *why) {
  uint8_t head[2];
  *ended = false;
  if (!receive_all(stream, head, sizeof head, ended, why))
    return false;
  *len = (size_t)head[0] << 8 | head[1];
  return receive_all(stream, out, *len, ended, why);
}

void rfc2136_close(struct rfc2136_stream *stream) {
  if (stream->fd >= 0)
    close(stream->fd);
  stream->fd = -1;
}
