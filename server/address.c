/* SPDX-License-Identifier: Apache-2.0 */
#include "server/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Port in plain decimal, 1..65535; 0 if it is none. */
static unsigned parse_port(const char *text) {
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 5 || text[digits] != '\0' || text[0] == '0')
    return 0;
  unsigned long port = strtoul(text, NULL, 10);
  return port <= 65535 ? (unsigned)port : 0;
}

static bool parse_v6(char *host, struct sockaddr_in6 *v6, const char **why) {
  char *zone = strchr(host, '%');
  if (zone != NULL) {
    *zone++ = '\0';
    v6->sin6_scope_id = if_nametoindex(zone);
    if (v6->sin6_scope_id == 0) {
      *why = "no such network interface";
      return false;
    }
  }
  v6->sin6_family = AF_INET6;
  if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1)
    return true;
  *why = "not an IPv4 or IPv6 address (write ADDRESS@PORT)";
  return false;
}

static void make_text(struct address *address) {
  char host[INET6_ADDRSTRLEN] = "";
  const union address_socket *s = &address->socket;
  if (s->sa.sa_family == AF_INET) {
    inet_ntop(AF_INET, &s->v4.sin_addr, host, sizeof host);
    snprintf(address->text, sizeof address->text, "%s@%u", host, ntohs(s->v4.sin_port));
    return;
  }
  char zone[IF_NAMESIZE + 1] = "";
  if (s->v6.sin6_scope_id != 0 && if_indextoname(s->v6.sin6_scope_id, zone + 1) != NULL)
    zone[0] = '%';
  inet_ntop(AF_INET6, &s->v6.sin6_addr, host, sizeof host);
  snprintf(address->text, sizeof address->text, "%s%s@%u", host, zone, ntohs(s->v6.sin6_port));
}

bool address_parse(const char *text, struct address *address, const char **why) {
  return address_parse_port(text, ADDRESS_DEFAULT_PORT, address, why);
}

bool address_parse_port(const char *text, unsigned port, struct address *address,
                        const char **why) {
  *address = (struct address){.length = 0};
  char host[ADDRESS_TEXT];
  if (strlen(text) >= sizeof host) {
    *why = "too long for an address";
    return false;
  }
  strcpy(host, text);
  char *at = strrchr(host, '@');
  if (at != NULL) {
    *at = '\0';
    port = parse_port(at + 1);
    if (port == 0) {
      *why = "the port must be a number from 1 to 65535";
      return false;
    }
  }
  struct sockaddr_in *v4 = &address->socket.v4;
  if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)port);
    address->length = sizeof *v4;
  } else {
    address->socket.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6};
    if (!parse_v6(host, &address->socket.v6, why))
      return false;
    address->socket.v6.sin6_port = htons((uint16_t)port);
    address->length = sizeof address->socket.v6;
  }
  make_text(address);
  return true;
}

bool address_is_wildcard(const struct address *address) {
  if (address->socket.sa.sa_family == AF_INET)
    return address->socket.v4.sin_addr.s_addr == htonl(INADDR_ANY);
  return IN6_IS_ADDR_UNSPECIFIED(&address->socket.v6.sin6_addr);
}

int address_bind(const struct address *address, int type, bool share, char *why) {
  const int on = 1;
  int family = address->socket.sa.sa_family;
  int fd = socket(family, type | SOCK_CLOEXEC, 0);
  if (fd < 0)
    goto failed;
  if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) != 0)
    goto failed;
  /* A restart must not wait for old connections in TIME_WAIT; never for UDP, where this option
   * would let a second server bind the same port. */
  if (type == SOCK_STREAM && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
    goto failed;
  if (share && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0)
    goto failed;
  if (bind(fd, &address->socket.sa, address->length) == 0)
    return fd;
failed:
  snprintf(why, 512, "cannot listen on %s (%s): %s", address->text,
           type == SOCK_STREAM ? "TCP" : "UDP", strerror(errno));
  if (fd >= 0)
    close(fd);
  return -1;
}
