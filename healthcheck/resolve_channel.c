/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/resolve_channel.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "healthcheck/resolve_address.h"

enum {
  TRIES = 4,              /* per question, with growing patience */
  TRY_SHARE = 15,         /* the first try has this part of the time: 1 + 2 + 4 + 8 of it are all */
  TRY_MAX = 1000,         /* ms */
  PATIENCE_MAX = 1 << 20, /* ms */
  MESSAGE = 1232,         /* of an answer over UDP: fits every path */
  LOOKS = 8,              /* sockets of one channel: hardly ever more than two */
};

/* A socket of a channel, watched. */
struct resolve_watch {
  uv_poll_t poll;
  struct resolve_channel *owner; /* NULL once it is being closed */
  struct resolve_watch *next;
  ares_socket_t fd;
};

/* ---- sockets ------------------------------------------------------------------------------------
 */

static void on_watch_closed(uv_handle_t *handle) {
  free(handle->data);
}

static void watch_close(struct resolve_watch *watch) {
  watch->owner = NULL;
  uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
}

static void on_ready(uv_poll_t *poll, int status, int events) {
  struct resolve_watch *watch = poll->data;
  struct resolve_channel *channel = watch->owner;
  if (channel == NULL)
    return;
  /* After an error libuv has stopped watching; c-ares reads the error from the socket, which it
   * then closes. */
  bool readable = status < 0 || (events & UV_READABLE) != 0;
  bool writable = status < 0 || (events & UV_WRITABLE) != 0;
  ares_process_fd(channel->ares, readable ? watch->fd : ARES_SOCKET_BAD,
                  writable ? watch->fd : ARES_SOCKET_BAD);
  if (status < 0 && watch->owner != NULL)
    uv_poll_start(poll, UV_READABLE, on_ready);
  channel->moved(channel->arg);
}

static struct resolve_watch *watch_open(struct resolve_channel *channel, ares_socket_t fd) {
  struct resolve_watch *watch = calloc(1, sizeof *watch);
  if (watch == NULL)
    return NULL;
  if (uv_poll_init(channel->loop, &watch->poll, fd) != 0) {
    free(watch);
    return NULL;
  }
  watch->poll.data = watch;
  watch->owner = channel;
  watch->fd = fd;
  watch->next = channel->watches;
  channel->watches = watch;
  return watch;
}

/* c-ares wants a socket watched, or not any more (it closes it right after). */
static void on_socket(void *arg, ares_socket_t fd, int readable, int writable) {
  struct resolve_channel *channel = arg;
  struct resolve_watch **at = &channel->watches;
  while (*at != NULL && (*at)->fd != fd)
    at = &(*at)->next;
  struct resolve_watch *watch = *at;
  if (!readable && !writable) {
    if (watch == NULL)
      return;
    *at = watch->next;
    watch_close(watch);
    return;
  }
  if (watch == NULL)
    watch = watch_open(channel, fd);
  if (watch != NULL) /* without memory the question runs into its deadline */
    uv_poll_start(&watch->poll, (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0),
                  on_ready);
}

/* ---- servers ------------------------------------------------------------------------------------
 */

bool resolve_server_read(const char *text, struct resolve_server *server) {
  struct resolve_address address;
  uint16_t port;
  if (!resolve_address_read(text, &address, &port))
    return false;
  *server = (struct resolve_server){.own = true};
  server->node.family = address.family == 4 ? AF_INET : AF_INET6;
  if (address.family == 4)
    memcpy(&server->node.addr.addr4, address.bytes, 4);
  else
    memcpy(&server->node.addr.addr6, address.bytes, 16);
  server->node.udp_port = port;
  server->node.tcp_port = port;
  return true;
}

/* The servers in the order in which they are to be asked. */
static int choose_servers(struct resolve_channel *channel, const struct resolve_server *server,
                          unsigned first) {
  if (server->own) {
    struct ares_addr_port_node node = server->node; /* c-ares takes no const one, and copies it */
    channel->servers = 1;
    return ares_set_servers_ports(channel->ares, &node);
  }
  struct ares_addr_port_node *list = NULL;
  int status = ares_get_servers_ports(channel->ares, &list);
  if (status != ARES_SUCCESS)
    return status;
  channel->servers = 0;
  for (const struct ares_addr_port_node *node = list; node != NULL; node = node->next)
    channel->servers++;
  struct ares_addr_port_node *from = list;
  for (unsigned i = 0; i < first && from != NULL; i++)
    from = from->next;
  if (from != NULL && from != list) /* those passed over are not asked again */
    status = ares_set_servers_ports(channel->ares, from);
  ares_free_data(list);
  return status;
}

/* ---- the channel --------------------------------------------------------------------------------
 */

/* c-ares' own choice of files and lookups holds for the system's servers. */
static int channel_options(struct resolve_channel *channel, const struct resolve_server *server,
                           uint64_t left, bool patient, struct ares_options *options) {
  static char dns_only[] = "b";
  uint64_t first = left / TRY_SHARE;
  first = first < RESOLVE_TRY_MIN ? RESOLVE_TRY_MIN : first > TRY_MAX ? TRY_MAX : first;
  if (patient)
    first = left < PATIENCE_MAX ? left : PATIENCE_MAX;
  *options =
      (struct ares_options){.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOCHECKRESP | ARES_FLAG_EDNS,
                            .timeout = (int)first,
                            .tries = patient ? 1 : TRIES,
                            .ednspsz = MESSAGE,
                            .ndots = 1,
                            .sock_state_cb = on_socket,
                            .sock_state_cb_data = channel};
  int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
             ARES_OPT_EDNSPSZ | ARES_OPT_SOCK_STATE_CB;
  if (server->own) {
    options->lookups = dns_only; /* and with all of these, no file is read */
    mask |= ARES_OPT_LOOKUPS | ARES_OPT_SERVERS | ARES_OPT_DOMAINS | ARES_OPT_SORTLIST;
  }
  return mask;
}

int resolve_channel_open(struct resolve_channel *channel, const struct resolve_server *server,
                         unsigned first, uint64_t left, bool patient) {
  struct ares_options options;
  int mask = channel_options(channel, server, left, patient, &options);
  int status = ares_init_options(&channel->ares, &options, mask);
  if (status == ARES_SUCCESS)
    return choose_servers(channel, server, first);
  channel->ares = NULL;
  return status;
}

void resolve_channel_step(struct resolve_channel *channel) {
  ares_process_fd(channel->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

void resolve_channel_look(struct resolve_channel *channel) {
  ares_socket_t sockets[LOOKS]; /* a copy: the list may change with each of them */
  size_t count = 0;
  for (const struct resolve_watch *w = channel->watches; w != NULL && count < LOOKS; w = w->next)
    sockets[count++] = w->fd;
  for (size_t i = 0; i < count; i++)
    ares_process_fd(channel->ares, sockets[i], ARES_SOCKET_BAD);
}

uint64_t resolve_channel_wait(const struct resolve_channel *channel) {
  struct timeval tv;
  if (ares_timeout(channel->ares, NULL, &tv) == NULL)
    return UINT64_MAX;
  return (uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000 + 1;
}

void resolve_channel_close(struct resolve_channel *channel) {
  if (channel->ares == NULL)
    return;
  ares_destroy(channel->ares);
  channel->ares = NULL;
  /* c-ares has told the end of each socket; whatever is left has none. */
  while (channel->watches != NULL) {
    struct resolve_watch *watch = channel->watches;
    channel->watches = watch->next;
    watch_close(watch);
  }
}
