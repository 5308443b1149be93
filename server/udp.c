/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets from a UDP socket, in batches: one recvmmsg(2) and one sendmmsg(2) for up to 64 queries.
 *
 * The socket is blocking and in no epoll set, which is the cheapest way to wait for it.  Several
 * workers share an address by SO_REUSEPORT.  Everything that the calls need is set up once; between
 * batches only the lengths that the kernel changed are put back.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "server/packet.h"

enum {
  RECEIVE_BUFFER = 4 << 20,
  /* The buffers lie an odd number of cache lines apart: at a stride of 4096 the first lines of all
   * of them would compete for the same few places in the cache. */
  BUFFER_STRIDE = PACKET_CAPACITY + 5 * 64,
  CONTROL_SPACE = CMSG_SPACE(sizeof(struct in6_pktinfo)),
};

/* Aligned for struct cmsghdr. */
union control {
  struct cmsghdr align;
  uint8_t octets[CONTROL_SPACE];
};

struct packet_source {
  int fd;
  bool wildcard;
  struct mmsghdr messages[PACKET_BATCH];
  struct iovec vectors[PACKET_BATCH];
  union address_socket peers[PACKET_BATCH];
  union control controls[PACKET_BATCH];
  uint8_t *buffers;
};

/* Options that make the socket better but without which it works. */
static void set_soft_options(int fd, int family) {
  const int size = RECEIVE_BUFFER;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) != 0)
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
  /* Never believe a forged "fragmentation needed": it would make our answers fragments that an
   * attacker can complete. */
  if (family == AF_INET) {
    const int omit = IP_PMTUDISC_OMIT;
    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &omit, sizeof omit);
  } else {
    const int omit = IPV6_PMTUDISC_OMIT;
    setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &omit, sizeof omit);
  }
}

/* On a wildcard address the kernel tells which address was asked, for the reply to leave from it.
 */
static bool ask_for_destination(int fd, int family) {
  const int on = 1;
  if (family == AF_INET)
    return setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on) == 0;
  return setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on) == 0;
}

static void reset_message(struct packet_source *s, size_t i) {
  struct msghdr *header = &s->messages[i].msg_hdr;
  header->msg_iov->iov_len = PACKET_CAPACITY;
  header->msg_namelen = sizeof(union address_socket);
  if (s->wildcard)
    header->msg_controllen = sizeof(union control);
}

static void udp_close(struct packet_source *s) {
  if (s == NULL)
    return;
  if (s->fd >= 0)
    close(s->fd);
  free(s->buffers);
  free(s);
}

static struct packet_source *udp_open(const struct address *address, char *why) {
  struct packet_source *s = calloc(1, sizeof *s);
  if (s == NULL || (s->buffers = aligned_alloc(64, PACKET_BATCH * BUFFER_STRIDE)) == NULL) {
    snprintf(why, 512, "out of memory");
    free(s);
    return NULL;
  }
  memset(s->buffers, 0, PACKET_BATCH * BUFFER_STRIDE);
  int family = address->socket.sa.sa_family;
  s->wildcard = address_is_wildcard(address);
  s->fd = address_bind(address, SOCK_DGRAM, true, why);
  if (s->fd < 0) {
    udp_close(s);
    return NULL;
  }
  set_soft_options(s->fd, family);
  if (s->wildcard && !ask_for_destination(s->fd, family)) {
    snprintf(why, 512, "cannot listen on %s: %s", address->text, strerror(errno));
    udp_close(s);
    return NULL;
  }
  for (size_t i = 0; i < PACKET_BATCH; i++) {
    s->vectors[i].iov_base = s->buffers + i * BUFFER_STRIDE;
    struct msghdr *header = &s->messages[i].msg_hdr;
    header->msg_iov = &s->vectors[i];
    header->msg_iovlen = 1;
    header->msg_name = &s->peers[i];
    header->msg_control = s->wildcard ? &s->controls[i] : NULL;
    reset_message(s, i);
  }
  return s;
}

/* Turns what the kernel told about the destination into what to ask of it as the source. */
static void set_reply_source(struct msghdr *header) {
  for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c != NULL; c = CMSG_NXTHDR(header, c)) {
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
      /* ipi_spec_dst is already the local address; the route decides the interface. */
      ((struct in_pktinfo *)(void *)CMSG_DATA(c))->ipi_ifindex = 0;
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
      struct in6_pktinfo *info = (struct in6_pktinfo *)(void *)CMSG_DATA(c);
      if (!IN6_IS_ADDR_LINKLOCAL(&info->ipi6_addr))
        info->ipi6_ifindex = 0;
    }
  }
}

/* Nothing can be sent to port 0, and a truncated packet is no whole query. */
static bool is_usable(const struct mmsghdr *message) {
  const union address_socket *peer = message->msg_hdr.msg_name;
  bool truncated = (message->msg_hdr.msg_flags & MSG_TRUNC) != 0;
  in_port_t port = peer->sa.sa_family == AF_INET ? peer->v4.sin_port : peer->v6.sin6_port;
  return message->msg_hdr.msg_namelen != 0 && port != 0 && !truncated;
}

static size_t udp_receive(struct packet_source *s, struct packet *packets, bool wait) {
  int flags = wait ? MSG_WAITFORONE : MSG_DONTWAIT;
  int received = recvmmsg(s->fd, s->messages, PACKET_BATCH, flags, NULL);
  if (received <= 0)
    return 0;
  for (size_t i = 0; i < (size_t)received; i++) {
    struct mmsghdr *message = &s->messages[i];
    packets[i].data = message->msg_hdr.msg_iov->iov_base;
    packets[i].length = 0;
    if (!is_usable(message))
      continue;
    packets[i].length = message->msg_len;
    address_to_geo(message->msg_hdr.msg_name, &packets[i].client);
    if (s->wildcard)
      set_reply_source(&message->msg_hdr);
  }
  return (size_t)received;
}

/* Puts the messages that have a response in front; every message stays whole, only the order
 * changes. */
static size_t gather_responses(struct packet_source *s, struct packet *packets, size_t count) {
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    if (packets[i].length == 0)
      continue;
    s->messages[i].msg_hdr.msg_iov->iov_len = packets[i].length;
    if (kept != i) {
      struct mmsghdr silent = s->messages[kept];
      s->messages[kept] = s->messages[i];
      s->messages[i] = silent;
    }
    kept++;
  }
  return kept;
}

static size_t udp_send(struct packet_source *s, struct packet *packets, size_t count) {
  size_t kept = gather_responses(s, packets, count);
  size_t refused = 0;
  for (size_t sent = 0; sent < kept;) {
    int n = sendmmsg(s->fd, s->messages + sent, (unsigned)(kept - sent), 0);
    if (n > 0) {
      sent += (size_t)n;
    } else if (errno != EINTR) {
      /* One peer that cannot be reached (EPERM, ENETUNREACH, EMSGSIZE...) must not cost the others
       * their answers. */
      sent++;
      refused++;
    }
  }
  for (size_t i = 0; i < count; i++)
    reset_message(s, i);
  return refused;
}

static void udp_wake(struct packet_source *s) {
  /* ENOTCONN is expected: the receive side is shut down all the same and its waiters return. */
  shutdown(s->fd, SHUT_RD);
}

const struct packet_ops packet_udp = {
    .open = udp_open,
    .receive = udp_receive,
    .send = udp_send,
    .wake = udp_wake,
    .close = udp_close,
};
