/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/providers/rfc2136_link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

uint64_t link_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool wait_until(struct link *link, short events, char *why) {
  struct pollfd p = {.fd = link->fd, .events = events};
  for (;;) {
    uint64_t now = link_now();
    int ready = now < link->end ? poll(&p, 1, (int)(link->end - now)) : 0;
    if (ready > 0)
      return true;
    if (ready < 0 && errno == EINTR)
      continue;
    snprintf(why, LINK_WHY, "it did not answer in time");
    return false;
  }
}

static bool fail_errno(char *why, const char *what) {
  snprintf(why, LINK_WHY, "%s: %s", what, strerror(errno));
  return false;
}

static bool connect_to(struct link *link, const struct addrinfo *to, char *why) {
  int error = 0;
  socklen_t size = sizeof error;
  link->fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (link->fd < 0)
    return fail_errno(why, "cannot make a socket");
  if (connect(link->fd, to->ai_addr, to->ai_addrlen) == 0)
    return true;
  if (errno != EINPROGRESS)
    return fail_errno(why, "cannot connect");
  if (!wait_until(link, POLLOUT, why))
    return false;
  getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &size);
  errno = error;
  return error == 0 ? true : fail_errno(why, "cannot connect");
}

struct link *link_open(const char *address, uint64_t end, char *why) {
  char host[64];
  size_t len = strcspn(address, "@");
  const char *port = address[len] ? address + len + 1 : "53";
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  struct addrinfo *to = NULL;
  struct link *link = calloc(1, sizeof *link);
  snprintf(host, sizeof host, "%.*s", (int)(len < 63 ? len : 63), address);
  snprintf(why, LINK_WHY, "`%.80s` is no address", address);
  if (link) {
    link->fd = -1;
    link->end = end;
  }
  bool ok = link && getaddrinfo(host, port, &hints, &to) == 0 && connect_to(link, to, why);
  if (to)
    freeaddrinfo(to);
  if (ok)
    return link;
  link_close(link);
  return NULL;
}

void link_close(struct link *link) {
  if (!link)
    return;
  if (link->fd >= 0)
    close(link->fd);
  tsig_close(&link->session);
  free(link);
}

static bool send_all(struct link *link, const uint8_t *data, size_t len, char *why) {
  while (len > 0) {
    ssize_t n = send(link->fd, data, len, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!wait_until(link, POLLOUT, why))
        return false;
      continue;
    }
    if (n < 0)
      return fail_errno(why, "cannot send");
    data += n;
    len -= (size_t)n;
  }
  return true;
}

bool link_send(struct link *link, const struct tsig_key *key, uint8_t *message, size_t len,
               char *why) {
  size_t size = tsig_sign_request(&link->session, key, message, len, len + LINK_SIGNATURE,
                                  (uint64_t)time(NULL));
  uint8_t head[2] = {(uint8_t)(size >> 8), (uint8_t)size};
  if (size == 0 || size > LINK_MESSAGE) {
    snprintf(why, LINK_WHY, "the request cannot be signed");
    return false;
  }
  return send_all(link, head, sizeof head, why) && send_all(link, message, size, why);
}

static bool receive_all(struct link *link, uint8_t *data, size_t len, char *why) {
  while (len > 0) {
    ssize_t n = recv(link->fd, data, len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!wait_until(link, POLLIN, why))
        return false;
      continue;
    }
    if (n < 0)
      return fail_errno(why, "cannot receive");
    if (n == 0) {
      snprintf(why, LINK_WHY, "it closed the connection before its answer was complete");
      return false;
    }
    data += n;
    len -= (size_t)n;
  }
  return true;
}

size_t link_receive(struct link *link, enum tsig_result *result, char *why) {
  uint8_t head[2];
  if (!receive_all(link, head, sizeof head, why))
    return 0;
  size_t len = (size_t)head[0] << 8 | head[1];
  if (len < 12) {
    snprintf(why, LINK_WHY, "its answer is no DNS message");
    return 0;
  }
  if (!receive_all(link, link->input, len, why))
    return 0;
  *result = tsig_verify_response(&link->session, link->input, len, (uint64_t)time(NULL));
  if (*result == TSIG_FORMERR || *result == TSIG_FAILED) {
    snprintf(why, LINK_WHY, "its answer is malformed");
    return 0;
  }
  return tsig_strip(&link->session, link->input);
}
