/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/resolve.h"

#include <ares.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "healthcheck/resolve_address.h"

enum {
  FAMILIES = 2,
  TRIES = 4,              /* per question, with growing patience */
  TRY_SHARE = 15,         /* the first try has this part of the time: 1 + 2 + 4 + 8 of it are all */
  TRY_MIN = 100,          /* ms */
  TRY_MAX = 1000,         /* ms */
  PATIENCE_MAX = 1 << 20, /* ms */
  OTHER_WAIT = 300,       /* ms for the other family once one has addresses */
  MESSAGE = 1232,         /* of an answer over UDP: fits every path */
  HOST_MAX = 255,
  LOOKS = 8, /* sockets of one channel: hardly ever more than two */
};

/* A server that is asked instead of the system's. */
struct server {
  bool own;
  struct ares_addr_port_node node;
};

struct resolver {
  uv_loop_t *loop;
  struct server server;
  struct resolve *first;        /* those with a channel */
  struct resolve *waiting;      /* those without, the oldest first */
  struct resolve *waiting_last; /* valid while there are any */
  unsigned active;
};

/* A socket of a channel, watched. */
struct watch {
  uv_poll_t poll;
  struct resolve *owner; /* NULL once it is being closed */
  struct watch *next;
  ares_socket_t fd;
};

/* One question: addresses of one family. */
struct question {
  struct resolve *owner;
  bool done;
  int status; /* ARES_... once done */
  size_t count;
  struct resolve_address addresses[RESOLVE_ADDRESSES];
};

struct resolve {
  uv_timer_t timer; /* what comes first of: deadline, c-ares' next step, the end */
  struct resolver *resolver;
  struct resolve *next, *previous;
  bool waiting;
  bool destroying; /* c-ares' last calls say nothing */
  bool patient;    /* asks once more, with all the time that is left */
  ares_channel channel;
  struct watch *watches;
  unsigned server; /* of the system's, the one to start with */
  unsigned servers;
  struct question questions[FAMILIES]; /* IPv4, IPv6 */
  uint64_t deadline;                   /* uv_now() */
  uint64_t other_until;                /* for the other family; 0: no limit of its own */
  resolve_done_fn *done;
  void *arg;
  char host[HOST_MAX + 1];
};

/* ---- lists --------------------------------------------------------------------------------------
 */

static void unlink_active(struct resolve *r) {
  struct resolver *resolver = r->resolver;
  if (r->previous != NULL)
    r->previous->next = r->next;
  else
    resolver->first = r->next;
  if (r->next != NULL)
    r->next->previous = r->previous;
  resolver->active--;
}

static void link_active(struct resolve *r) {
  struct resolver *resolver = r->resolver;
  r->previous = NULL;
  r->next = resolver->first;
  if (r->next != NULL)
    r->next->previous = r;
  resolver->first = r;
  resolver->active++;
}

static void link_waiting(struct resolve *r) {
  struct resolver *resolver = r->resolver;
  r->waiting = true;
  r->next = NULL;
  r->previous = resolver->waiting == NULL ? NULL : resolver->waiting_last;
  if (r->previous != NULL)
    r->previous->next = r;
  else
    resolver->waiting = r;
  resolver->waiting_last = r;
}

static void unlink_waiting(struct resolve *r) {
  struct resolver *resolver = r->resolver;
  r->waiting = false;
  if (r->previous != NULL)
    r->previous->next = r->next;
  else
    resolver->waiting = r->next;
  if (r->next != NULL)
    r->next->previous = r->previous;
  else
    resolver->waiting_last = r->previous;
}

/* ---- sockets ------------------------------------------------------------------------------------
 */

static void arm(struct resolve *r);

static void on_watch_closed(uv_handle_t *handle) {
  free(handle->data);
}

static void watch_close(struct watch *watch) {
  watch->owner = NULL;
  uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
}

static void on_ready(uv_poll_t *poll, int status, int events) {
  struct watch *watch = poll->data;
  struct resolve *r = watch->owner;
  if (r == NULL)
    return;
  /* After an error libuv has stopped watching; c-ares reads the error from the socket, which it
   * then closes. */
  bool readable = status < 0 || (events & UV_READABLE) != 0;
  bool writable = status < 0 || (events & UV_WRITABLE) != 0;
  ares_process_fd(r->channel, readable ? watch->fd : ARES_SOCKET_BAD,
                  writable ? watch->fd : ARES_SOCKET_BAD);
  if (status < 0 && watch->owner != NULL)
    uv_poll_start(poll, UV_READABLE, on_ready);
  arm(r);
}

static struct watch *watch_open(struct resolve *r, ares_socket_t fd) {
  struct watch *watch = calloc(1, sizeof *watch);
  if (watch == NULL)
    return NULL;
  if (uv_poll_init(r->resolver->loop, &watch->poll, fd) != 0) {
    free(watch);
    return NULL;
  }
  watch->poll.data = watch;
  watch->owner = r;
  watch->fd = fd;
  watch->next = r->watches;
  r->watches = watch;
  return watch;
}

/* c-ares wants a socket watched, or not any more (it closes it right after). */
static void on_socket(void *arg, ares_socket_t fd, int readable, int writable) {
  struct resolve *r = arg;
  struct watch **at = &r->watches;
  while (*at != NULL && (*at)->fd != fd)
    at = &(*at)->next;
  struct watch *watch = *at;
  if (!readable && !writable) {
    if (watch == NULL)
      return;
    *at = watch->next;
    watch_close(watch);
    return;
  }
  if (watch == NULL)
    watch = watch_open(r, fd);
  if (watch != NULL) /* without memory the question runs into its deadline */
    uv_poll_start(&watch->poll, (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0),
                  on_ready);
}

/* ---- answers ------------------------------------------------------------------------------------
 */

static void take_addresses(struct question *question, const struct ares_addrinfo *found) {
  for (const struct ares_addrinfo_node *node = found->nodes; node != NULL; node = node->ai_next) {
    struct resolve_address address = {0};
    if (question->count == RESOLVE_ADDRESSES)
      return;
    if (node->ai_family == AF_INET) {
      const struct sockaddr_in *sin = (const void *)node->ai_addr;
      address.family = 4;
      memcpy(address.bytes, &sin->sin_addr, 4);
    } else if (node->ai_family == AF_INET6) {
      const struct sockaddr_in6 *sin6 = (const void *)node->ai_addr;
      address.family = 6;
      memcpy(address.bytes, &sin6->sin6_addr, 16);
    }
    if (resolve_address_usable(&address))
      question->addresses[question->count++] = address;
  }
}

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *found) {
  struct question *question = arg;
  (void)timeouts;
  if (!question->owner->destroying) {
    question->done = true;
    question->status = status;
    if (found != NULL)
      take_addresses(question, found);
  }
  if (found != NULL)
    ares_freeaddrinfo(found);
}

static bool both_done(const struct resolve *r) {
  return r->questions[0].done && r->questions[1].done;
}

static size_t count_all(const struct resolve *r) {
  return r->questions[0].count + r->questions[1].count;
}

/* What went wrong, of both questions; that a family has no address says the least. */
static int worst_status(const struct resolve *r) {
  int worst = ARES_ENODATA;
  for (unsigned i = 0; i < FAMILIES; i++) {
    const struct question *question = &r->questions[i];
    int status = question->done ? question->status : ARES_ETIMEOUT;
    if (status != ARES_ENODATA && status != ARES_SUCCESS)
      worst = status;
    if (worst == ARES_ENOTFOUND)
      break;
  }
  return worst;
}

static bool any_success(const struct resolve *r) {
  return (r->questions[0].done && r->questions[0].status == ARES_SUCCESS) ||
         (r->questions[1].done && r->questions[1].status == ARES_SUCCESS);
}

/* True if it is this machine's own fault. */
static bool describe(const struct resolve *r, char why[RESOLVE_WHY]) {
  int status = worst_status(r);
  bool own_fault = status == ARES_ECONNREFUSED || status == ARES_ENOMEM || status == ARES_EFILE;
  const char *text;
  switch (status) {
  case ARES_ENODATA:
    text = any_success(r) ? "the name has no usable address" : "the name has no address";
    break;
  case ARES_ENOTFOUND:
    text = "no such name";
    break;
  case ARES_EBADNAME:
    text = "not a host name";
    break;
  case ARES_ETIMEOUT:
    text = "resolver timed out";
    break;
  case ARES_EREFUSED:
    text = "resolver refused";
    break;
  case ARES_ESERVFAIL:
    text = "resolver failed (SERVFAIL)";
    break;
  case ARES_ENOTIMP:
    text = "resolver failed (NOTIMP)";
    break;
  case ARES_EFORMERR:
    text = "resolver failed (FORMERR)";
    break;
  case ARES_EBADRESP:
    text = "resolver sent a malformed answer";
    break;
  case ARES_ECONNREFUSED:
    text = "resolver unreachable";
    break;
  default:
    snprintf(why, RESOLVE_WHY, "resolver failed: %s", ares_strerror(status));
    return own_fault;
  }
  snprintf(why, RESOLVE_WHY, "%s", text);
  return own_fault;
}

/* ---- the end ------------------------------------------------------------------------------------
 */

static void channel_close(struct resolve *r) {
  if (r->channel == NULL)
    return;
  r->destroying = true;
  ares_destroy(r->channel);
  r->destroying = false;
  r->channel = NULL;
  /* c-ares has told the end of each socket; whatever is left has none. */
  while (r->watches != NULL) {
    struct watch *watch = r->watches;
    r->watches = watch->next;
    watch_close(watch);
  }
}

static void on_timer_closed(uv_handle_t *handle) {
  free(handle->data);
}

static void release(struct resolve *r) {
  channel_close(r);
  if (r->waiting)
    unlink_waiting(r);
  else
    unlink_active(r);
  uv_close((uv_handle_t *)&r->timer, on_timer_closed);
}

static void start_waiting(struct resolver *resolver);

static void finish(struct resolve *r) {
  struct resolver *resolver = r->resolver;
  resolve_done_fn *done = r->done;
  void *arg = r->arg;
  struct resolve_address addresses[RESOLVE_ADDRESSES];
  char why[RESOLVE_WHY];
  size_t count = resolve_address_mix(r->questions[0].addresses, r->questions[0].count,
                                     r->questions[1].addresses, r->questions[1].count, addresses);
  bool own_fault = count == 0 && r->waiting;
  if (own_fault)
    snprintf(why, sizeof why, "too many names are being resolved");
  else if (count == 0)
    own_fault = describe(r, why);
  release(r);
  start_waiting(resolver);
  done(arg, addresses, count, count > 0 ? NULL : why, own_fault);
}

/* ---- the course ---------------------------------------------------------------------------------
 */

static bool worth_another_server(const struct resolve *r) {
  int status = worst_status(r);
  bool failed = status == ARES_ESERVFAIL || status == ARES_EREFUSED || status == ARES_ENOTIMP;
  return failed && count_all(r) == 0 && r->server + 1 < r->servers;
}

/* c-ares gives a question over TCP the time of one try, which is short; what is then left is for
 * another, patient one. */
static bool worth_patience(const struct resolve *r) {
  return !r->patient && worst_status(r) == ARES_ETIMEOUT && count_all(r) == 0 &&
         uv_now(r->resolver->loop) + TRY_MIN < r->deadline;
}

/* c-ares' own choice of files and lookups holds for the system's servers. */
static int channel_options(const struct resolve *r, struct ares_options *options) {
  static char dns_only[] = "b";
  uint64_t now = uv_now(r->resolver->loop);
  uint64_t left = r->deadline > now ? r->deadline - now : 1;
  uint64_t first = left / TRY_SHARE;
  first = first < TRY_MIN ? TRY_MIN : first > TRY_MAX ? TRY_MAX : first;
  if (r->patient)
    first = left < PATIENCE_MAX ? left : PATIENCE_MAX;
  *options =
      (struct ares_options){.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOCHECKRESP | ARES_FLAG_EDNS,
                            .timeout = (int)first,
                            .tries = r->patient ? 1 : TRIES,
                            .ednspsz = MESSAGE,
                            .ndots = 1,
                            .sock_state_cb = on_socket,
                            .sock_state_cb_data = (void *)r};
  int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
             ARES_OPT_EDNSPSZ | ARES_OPT_SOCK_STATE_CB;
  if (r->resolver->server.own) {
    options->lookups = dns_only; /* and with all of these, no file is read */
    mask |= ARES_OPT_LOOKUPS | ARES_OPT_SERVERS | ARES_OPT_DOMAINS | ARES_OPT_SORTLIST;
  }
  return mask;
}

/* The servers in the order in which they are to be asked. */
static int choose_servers(struct resolve *r) {
  if (r->resolver->server.own) {
    r->servers = 1;
    return ares_set_servers_ports(r->channel, &r->resolver->server.node);
  }
  struct ares_addr_port_node *list = NULL;
  int status = ares_get_servers_ports(r->channel, &list);
  if (status != ARES_SUCCESS)
    return status;
  r->servers = 0;
  for (const struct ares_addr_port_node *node = list; node != NULL; node = node->next)
    r->servers++;
  struct ares_addr_port_node *from = list;
  for (unsigned i = 0; i < r->server && from != NULL; i++)
    from = from->next;
  if (from != NULL && from != list) /* those passed over are not asked again */
    status = ares_set_servers_ports(r->channel, from);
  ares_free_data(list);
  return status;
}

/* Names of this machine, which are asked of no server (RFC 6761 section 6.3). */
static bool is_localhost(const char *host) {
  static const char word[] = "localhost";
  size_t len = strlen(host);
  if (len > 0 && host[len - 1] == '.')
    len--;
  size_t size = sizeof word - 1;
  return len >= size && strncasecmp(host + len - size, word, size) == 0 &&
         (len == size || host[len - size - 1] == '.');
}

static void answer_loopback(struct resolve *r) {
  static const struct resolve_address loopback[FAMILIES] = {{.family = 4, .bytes = {127, 0, 0, 1}},
                                                            {.family = 6, .bytes = {[15] = 1}}};
  for (unsigned i = 0; i < FAMILIES; i++)
    r->questions[i] = (struct question){
        .owner = r, .done = true, .status = ARES_SUCCESS, .count = 1, .addresses = {loopback[i]}};
}

static void ask(struct resolve *r) {
  if (is_localhost(r->host)) {
    answer_loopback(r);
    arm(r);
    return;
  }
  static const int families[FAMILIES] = {AF_INET, AF_INET6};
  struct ares_options options;
  int mask = channel_options(r, &options);
  int status = ares_init_options(&r->channel, &options, mask);
  if (status == ARES_SUCCESS)
    status = choose_servers(r);
  else
    r->channel = NULL;
  for (unsigned i = 0; i < FAMILIES; i++)
    r->questions[i] =
        (struct question){.owner = r, .done = status != ARES_SUCCESS, .status = status};
  for (unsigned i = 0; i < FAMILIES && status == ARES_SUCCESS; i++) {
    const struct ares_addrinfo_hints hints = {
        .ai_flags = ARES_AI_NOSORT, .ai_family = families[i], .ai_socktype = SOCK_DGRAM};
    ares_getaddrinfo(r->channel, r->host, NULL, &hints, on_answer, &r->questions[i]);
  }
  arm(r);
}

/* Timers run before descriptors are looked at: what has come in the meantime shall count. */
static void last_look(struct resolve *r) {
  ares_socket_t sockets[LOOKS];
  size_t count = 0;
  for (const struct watch *w = r->watches; w != NULL && count < LOOKS; w = w->next)
    sockets[count++] = w->fd;
  for (size_t i = 0; i < count; i++)
    ares_process_fd(r->channel, sockets[i], ARES_SOCKET_BAD);
}

static void on_timer(uv_timer_t *timer) {
  struct resolve *r = timer->data;
  uint64_t now = uv_now(timer->loop);
  bool late = now >= r->deadline || (r->other_until != 0 && now >= r->other_until);
  if (late && !r->waiting)
    last_look(r);
  if (r->waiting || late || both_done(r)) {
    bool again = !r->waiting && both_done(r) && !late;
    bool other = again && worth_another_server(r);
    if (!other && !(again && worth_patience(r))) {
      finish(r);
      return;
    }
    channel_close(r);
    r->server += other;
    r->patient = !other;
    ask(r);
    return;
  }
  ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
  arm(r);
}

/* When to look again.  Never ends anything itself: it is called from inside of c-ares' callers. */
static void arm(struct resolve *r) {
  uint64_t now = uv_now(r->resolver->loop);
  uint64_t until = r->deadline;
  if (both_done(r)) {
    uv_timer_start(&r->timer, on_timer, 0, 0);
    return;
  }
  if (r->other_until == 0 && count_all(r) > 0)
    r->other_until = now + OTHER_WAIT;
  if (r->other_until != 0 && r->other_until < until)
    until = r->other_until;
  uint64_t wait = until > now ? until - now : 0;
  struct timeval tv;
  if (ares_timeout(r->channel, NULL, &tv) != NULL) {
    uint64_t step = (uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000 + 1;
    wait = step < wait ? step : wait;
  }
  uv_timer_start(&r->timer, on_timer, wait, 0);
}

static void start_waiting(struct resolver *resolver) {
  while (resolver->waiting != NULL && resolver->active < RESOLVE_CONCURRENT) {
    struct resolve *r = resolver->waiting;
    unlink_waiting(r);
    link_active(r);
    ask(r);
  }
}

struct resolve *resolve_start(struct resolver *resolver, const char *host, uint64_t timeout_ms,
                              resolve_done_fn *done, void *arg) {
  struct resolve *r = calloc(1, sizeof *r);
  if (r == NULL)
    return NULL;
  r->resolver = resolver;
  r->done = done;
  r->arg = arg;
  uv_timer_init(resolver->loop, &r->timer);
  r->timer.data = r;
  r->deadline = uv_now(resolver->loop) + timeout_ms;
  size_t len = strlen(host);
  if (len == 0 || len > HOST_MAX) {
    link_active(r);
    for (unsigned i = 0; i < FAMILIES; i++)
      r->questions[i] = (struct question){.owner = r, .done = true, .status = ARES_EBADNAME};
    arm(r);
    return r;
  }
  memcpy(r->host, host, len + 1);
  if (resolver->active >= RESOLVE_CONCURRENT) {
    link_waiting(r);
    uv_timer_start(&r->timer, on_timer, timeout_ms, 0);
    return r;
  }
  link_active(r);
  ask(r);
  return r;
}

void resolve_cancel(struct resolve *r) {
  struct resolver *resolver = r->resolver;
  release(r);
  start_waiting(resolver);
}

/* ---- the resolver -------------------------------------------------------------------------------
 */

static bool read_server(const char *text, struct server *server) {
  struct resolve_address address;
  uint16_t port;
  if (!resolve_address_read(text, &address, &port))
    return false;
  *server = (struct server){.own = true};
  server->node.family = address.family == 4 ? AF_INET : AF_INET6;
  if (address.family == 4)
    memcpy(&server->node.addr.addr4, address.bytes, 4);
  else
    memcpy(&server->node.addr.addr6, address.bytes, 16);
  server->node.udp_port = port;
  server->node.tcp_port = port;
  return true;
}

struct resolver *resolver_open(uv_loop_t *loop, const char *server, char *why) {
  struct resolver *resolver = calloc(1, sizeof *resolver);
  if (resolver == NULL || ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) {
    snprintf(why, RESOLVE_WHY, "out of memory");
    free(resolver);
    return NULL;
  }
  resolver->loop = loop;
  if (server != NULL && !read_server(server, &resolver->server)) {
    snprintf(why, RESOLVE_WHY, "resolver '%.60s' is not ADDRESS or ADDRESS@PORT", server);
    ares_library_cleanup();
    free(resolver);
    return NULL;
  }
  return resolver;
}

void resolver_close(struct resolver *resolver) {
  if (resolver == NULL)
    return;
  while (resolver->waiting != NULL)
    release(resolver->waiting);
  while (resolver->first != NULL)
    release(resolver->first);
  ares_library_cleanup();
  free(resolver);
}
