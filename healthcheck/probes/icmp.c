/* SPDX-License-Identifier: Apache-2.0 */
/*
 * icmp: an echo request, and its repetition halfway to the deadline.
 *
 * One socket for each family carries all pings: an unprivileged one (SOCK_DGRAM) where the kernel
 * allows it, else a raw one.  A reply is told by its sequence, which finds the ping, and by id,
 * address and token, which must be the ping's.  Errors of routers come by the error queue, which
 * quotes the request.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <linux/icmp.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "healthcheck/probe_kind.h"
#include "healthcheck/probes/icmp_message.h"
#include "healthcheck/probes/reason.h"

enum {
  SEQUENCES = 1 << 16,
  READS = 64, /* in one turn of the loop */
  BUFFER = 1 << 20,
  PACKET = 256, /* what is read of one: more than ours with the longest header */
  SENDS = 3,    /* tries of one request: an error that waits at the socket may be another's */
};

/* What the pings of one family share. */
struct family {
  struct icmp *icmp;
  uint8_t number; /* 4 or 6 */
  bool raw;
  int fd;    /* -1: none */
  int error; /* why there is none */
  uint16_t id;
  uint16_t next;
  uv_poll_t poll;
  struct ping **pings; /* by sequence */
};

struct icmp {
  uv_loop_t *loop;
  bool closed;
  unsigned handles;
  struct family families[2];
};

struct ping {
  uv_timer_t again;
  struct probe *probe;
  struct family *family;
  struct icmp_echo echo;
  uint64_t sent_ns;
};

static struct family *family_of(struct icmp *icmp, int domain) {
  return &icmp->families[domain == AF_INET6];
}

/* ---- pings --------------------------------------------------------------------------------------
 */

static void free_ping(uv_handle_t *handle) {
  free(handle->data);
}

static void forget(struct ping *ping) {
  ping->family->pings[ping->echo.sequence] = NULL;
  uv_close((uv_handle_t *)&ping->again, free_ping);
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b) {
  if (a->ss_family != b->ss_family)
    return false;
  if (a->ss_family == AF_INET)
    return memcmp(&((const struct sockaddr_in *)a)->sin_addr,
                  &((const struct sockaddr_in *)b)->sin_addr, sizeof(struct in_addr)) == 0;
  return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

/* The ping that a message belongs to, or NULL. */
static struct ping *find(const struct family *family, const struct icmp_echo *echo,
                         const struct sockaddr_storage *address) {
  struct ping *ping = family->pings != NULL ? family->pings[echo->sequence] : NULL;
  if (ping == NULL || echo->id != family->id || !same_address(address, &ping->probe->address))
    return NULL;
  if (echo->whole && memcmp(echo->token, ping->echo.token, ECHO_TOKEN) != 0)
    return NULL;
  return ping;
}

static void end(struct ping *ping, bool ok, const char *why) {
  struct probe *probe = ping->probe;
  if (ok)
    probe->result.phase_us[PHASE_FIRST] = (int64_t)((uv_hrtime() - ping->sent_ns) / 1000);
  forget(ping);
  probe_end(probe, ok, "%s", why);
}

/* ---- receiving ----------------------------------------------------------------------------------
 */

static ssize_t receive(const struct family *family, uint8_t *packet, struct msghdr *message,
                       int flags) {
  struct iovec part = {.iov_base = packet, .iov_len = PACKET};
  message->msg_iov = &part;
  message->msg_iovlen = 1;
  ssize_t n = recvmsg(family->fd, message, flags | MSG_DONTWAIT);
  message->msg_iov = NULL;
  return n;
}

/* False if nothing is there any more. */
static bool read_reply(struct family *family) {
  struct sockaddr_storage from;
  struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from};
  uint8_t packet[PACKET];
  struct icmp_echo echo;
  ssize_t n = receive(family, packet, &message, 0);
  if (n < 0)
    return errno != EAGAIN && errno != EBADF; /* others were waiting errors, told once */
  if (!icmp_reply(family->number, family->raw, packet, (size_t)n, &echo))
    return true;
  struct ping *ping = find(family, &echo, &from);
  if (ping != NULL)
    end(ping, true, "echo reply");
  return true;
}

static const struct sock_extended_err *extended_error(struct msghdr *message) {
  for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
    bool v4 = c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR;
    bool v6 = c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR;
    if (v4 || v6)
      return (const struct sock_extended_err *)(const void *)CMSG_DATA(c);
  }
  return NULL;
}

static bool read_error(struct family *family) {
  struct sockaddr_storage to = {0}; /* where the request went */
  _Alignas(struct cmsghdr) char control[512];
  struct msghdr message = {.msg_name = &to,
                           .msg_namelen = sizeof to,
                           .msg_control = control,
                           .msg_controllen = sizeof control};
  uint8_t packet[PACKET];
  char words[ICMP_REASON];
  struct icmp_echo echo;
  ssize_t n = receive(family, packet, &message, MSG_ERRQUEUE);
  if (n < 0)
    return false;
  const struct sock_extended_err *error = extended_error(&message);
  if (error == NULL || !icmp_quoted(family->number, packet, (size_t)n, &echo))
    return true;
  struct ping *ping = find(family, &echo, &to);
  if (ping == NULL)
    return true;
  if (error->ee_origin == SO_EE_ORIGIN_LOCAL)
    end(ping, false, reason_connect((int)error->ee_errno, &ping->probe->result.own_fault));
  else
    end(ping, false, icmp_reason(family->number, error->ee_type, error->ee_code, words));
  return true;
}

static void on_ready(uv_poll_t *poll, int status, int events) {
  struct family *family = poll->data;
  (void)events;
  /* Whoever hears a result may close the set: the memory stays until the handle is closed. */
  for (int i = 0; i < READS && !family->icmp->closed && status < 0; i++)
    if (!read_error(family))
      break;
  for (int i = 0; i < READS && !family->icmp->closed; i++)
    if (!read_reply(family))
      break;
  if (status < 0 && !family->icmp->closed) /* after an error libuv has stopped watching */
    uv_poll_start(poll, UV_READABLE, on_ready);
}

/* ---- the sockets --------------------------------------------------------------------------------
 */

static int open_socket(struct family *family) {
  int domain = family->number == 4 ? AF_INET : AF_INET6;
  int protocol = family->number == 4 ? IPPROTO_ICMP : (int)IPPROTO_ICMPV6;
  family->raw = false;
  int fd = socket(domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
  if (fd < 0) {
    family->error = errno;
    family->raw = true;
    fd = socket(domain, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
  }
  if (fd < 0 && errno != EPERM && errno != EACCES)
    family->error = errno;
  return fd;
}

/* A raw socket sees all ICMP of the machine: only echo replies shall come. */
static bool filter(const struct family *family) {
  if (!family->raw)
    return true;
  if (family->number == 4) {
    struct icmp_filter block = {.data = ~(UINT32_C(1) << ICMP_ECHOREPLY)};
    return setsockopt(family->fd, SOL_RAW, ICMP_FILTER, &block, sizeof block) == 0;
  }
  struct icmp6_filter block;
  ICMP6_FILTER_SETBLOCKALL(&block);
  ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &block);
  return setsockopt(family->fd, IPPROTO_ICMPV6, ICMP6_FILTER, &block, sizeof block) == 0;
}

/* The kernel writes the port of an unprivileged socket into each request, and takes replies by it;
 * binding to port 0 makes it choose one. */
static bool take_id(struct family *family) {
  struct sockaddr_storage own = {.ss_family = family->number == 4 ? AF_INET : AF_INET6};
  socklen_t size = family->number == 4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
  if (family->raw)
    return getrandom(&family->id, sizeof family->id, 0) == sizeof family->id;
  if (bind(family->fd, (const struct sockaddr *)&own, size) < 0 ||
      getsockname(family->fd, (struct sockaddr *)&own, &size) < 0)
    return false;
  family->id = ntohs(family->number == 4 ? ((const struct sockaddr_in *)&own)->sin_port
                                         : ((const struct sockaddr_in6 *)&own)->sin6_port);
  return true;
}

static bool set_up(struct family *family) {
  int on = 1, size = BUFFER;
  int level = family->number == 4 ? IPPROTO_IP : (int)IPPROTO_IPV6;
  int option = family->number == 4 ? IP_RECVERR : IPV6_RECVERR;
  setsockopt(family->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size); /* as much as is allowed */
  setsockopt(family->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  return setsockopt(family->fd, level, option, &on, sizeof on) == 0 && filter(family) &&
         take_id(family);
}

/* Opens the family's socket if it is not; also later, when rights may have been given. */
static bool open_family(struct family *family) {
  if (family->fd >= 0)
    return true;
  family->error = ENOMEM;
  if (family->pings == NULL)
    family->pings = calloc(SEQUENCES, sizeof(struct ping *)); /* touched as far as it is used */
  if (family->pings == NULL)
    return false;
  family->fd = open_socket(family);
  if (family->fd < 0)
    return false;
  bool ok = set_up(family);
  if (!ok)
    family->error = errno;
  if (ok && uv_poll_init(family->icmp->loop, &family->poll, family->fd) != 0) {
    family->error = ENOMEM;
    ok = false;
  }
  if (!ok) {
    close(family->fd);
    family->fd = -1;
    return false;
  }
  family->poll.data = family;
  family->icmp->handles++;
  uv_poll_start(&family->poll, UV_READABLE, on_ready);
  uv_unref((uv_handle_t *)&family->poll); /* only pings keep a loop going */
  return true;
}

/* ---- sending ------------------------------------------------------------------------------------
 */

/* 0, or an errno; a full buffer is as good as a lost packet. */
static int send_request(const struct ping *ping) {
  const struct probe *probe = ping->probe;
  uint8_t packet[ECHO_SIZE];
  icmp_request(ping->family->number, &ping->echo, packet);
  for (int i = 0; i < SENDS; i++) {
    ssize_t n = sendto(ping->family->fd, packet, sizeof packet, MSG_NOSIGNAL,
                       (const struct sockaddr *)&probe->address, probe->address_len);
    if (n >= 0 || errno == EAGAIN || errno == ENOBUFS)
      return 0;
  }
  return errno;
}

static void on_again(uv_timer_t *timer) {
  struct ping *ping = timer->data;
  int error = send_request(ping);
  if (error != 0)
    end(ping, false, reason_connect(error, &ping->probe->result.own_fault));
}

/* ---- the kind -----------------------------------------------------------------------------------
 */

static void say_why_not(const struct family *family, struct probe_result *result) {
  const char *text;
  result->own_fault = true; /* it says nothing of the endpoint */
  if (family->error == EPERM || family->error == EACCES)
    text = "ICMP needs ping_group_range or CAP_NET_RAW";
  else
    text = reason_connect(family->error, &result->own_fault);
  snprintf(result->reason, sizeof result->reason, "%s", text);
}

/* Gives the ping a free sequence; false if none is. */
static bool take_sequence(struct ping *ping) {
  struct family *family = ping->family;
  for (unsigned i = 0; i < SEQUENCES; i++) {
    uint16_t sequence = family->next++;
    if (family->pings[sequence] != NULL)
      continue;
    family->pings[sequence] = ping;
    ping->echo.sequence = sequence;
    return true;
  }
  return false;
}

static struct ping *make_ping(struct probe *probe, struct family *family) {
  struct ping *ping = calloc(1, sizeof *ping);
  if (ping == NULL)
    return NULL;
  ping->probe = probe;
  ping->family = family;
  ping->echo.id = family->id;
  if (getrandom(ping->echo.token, ECHO_TOKEN, 0) != ECHO_TOKEN || !take_sequence(ping)) {
    free(ping);
    return NULL;
  }
  return ping;
}

static bool start_icmp(struct probe *probe, void *shared, void **state,
                       struct probe_result *result) {
  struct family *family = family_of(shared, probe->address.ss_family);
  if (!open_family(family)) {
    say_why_not(family, result);
    return false;
  }
  struct ping *ping = make_ping(probe, family);
  if (ping == NULL) {
    snprintf(result->reason, sizeof result->reason, "%s",
             reason_connect(ENOMEM, &result->own_fault));
    return false;
  }
  uv_timer_init(family->icmp->loop, &ping->again);
  ping->again.data = ping;
  ping->sent_ns = uv_hrtime();
  int error = send_request(ping);
  if (error != 0) {
    snprintf(result->reason, sizeof result->reason, "%s",
             reason_connect(error, &result->own_fault));
    forget(ping);
    return false;
  }
  uv_timer_start(&ping->again, on_again, probe_left(probe) / 2, 0);
  *state = ping;
  return true;
}

static void stop_icmp(void *state, const char **phase) {
  *phase = "waiting for the echo reply";
  forget(state);
}

static bool open_icmp(struct probe_set *set, void **shared, char *why) {
  struct icmp *icmp = calloc(1, sizeof *icmp);
  if (icmp == NULL) {
    snprintf(why, PROBE_WHY, "out of memory");
    return false;
  }
  icmp->loop = probe_loop(set);
  for (int i = 0; i < 2; i++) {
    struct family *family = &icmp->families[i];
    family->icmp = icmp;
    family->number = i == 0 ? 4 : 6;
    family->fd = -1;
    open_family(family); /* while there are rights; if not, each probe says why */
  }
  *shared = icmp;
  return true;
}

static void free_icmp(struct icmp *icmp) {
  free(icmp->families[0].pings);
  free(icmp->families[1].pings);
  free(icmp);
}

static void on_closed(uv_handle_t *handle) {
  struct family *family = handle->data;
  struct icmp *icmp = family->icmp;
  if (--icmp->handles == 0)
    free_icmp(icmp);
}

static void close_icmp(void *shared) {
  struct icmp *icmp = shared;
  icmp->closed = true;
  if (icmp->handles == 0) {
    free_icmp(icmp);
    return;
  }
  for (int i = 0; i < 2; i++) {
    struct family *family = &icmp->families[i];
    if (family->fd < 0)
      continue;
    uv_close((uv_handle_t *)&family->poll, on_closed);
    close(family->fd);
    family->fd = -1;
  }
}

const struct probe_kind probe_kind_icmp = {
    .open = open_icmp, .close = close_icmp, .start = start_icmp, .stop = stop_icmp};
