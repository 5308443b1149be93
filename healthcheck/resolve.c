/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/resolve.h"

#include <ares.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "healthcheck/resolve_address.h"
#include "healthcheck/resolve_channel.h"
#include "healthcheck/resolve_reason.h"

enum {
  FAMILIES = 2,
  OTHER_WAIT = 300, /* ms for the other family once one has addresses */
  HOST_MAX = 255,
};

struct resolver {
  uv_loop_t *loop;
  struct resolve_server server;
  struct resolve *first;        /* those with a channel */
  struct resolve *waiting;      /* those without, the oldest first */
  struct resolve *waiting_last; /* valid while there are any */
  unsigned active;
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
  struct resolve_channel channel;
  unsigned server;                     /* of the system's, the one to start with */
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

/* What went wrong, of both questions. */
static int worst_status(const struct resolve *r) {
  int statuses[FAMILIES];
  for (unsigned i = 0; i < FAMILIES; i++)
    statuses[i] = r->questions[i].done ? r->questions[i].status : ARES_ETIMEOUT;
  return resolve_reason_worst(statuses, FAMILIES);
}

static bool any_success(const struct resolve *r) {
  return (r->questions[0].done && r->questions[0].status == ARES_SUCCESS) ||
         (r->questions[1].done && r->questions[1].status == ARES_SUCCESS);
}

/* ---- the end ------------------------------------------------------------------------------------
 */

static void channel_close(struct resolve *r) {
  r->destroying = true;
  resolve_channel_close(&r->channel);
  r->destroying = false;
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
    own_fault = resolve_reason(worst_status(r), any_success(r), why);
  release(r);
  start_waiting(resolver);
  done(arg, addresses, count, count > 0 ? NULL : why, own_fault);
}

/* ---- the course ---------------------------------------------------------------------------------
 */

static bool worth_another_server(const struct resolve *r) {
  int status = worst_status(r);
  bool failed = status == ARES_ESERVFAIL || status == ARES_EREFUSED || status == ARES_ENOTIMP;
  return failed && count_all(r) == 0 && r->server + 1 < r->channel.servers;
}

/* c-ares gives a question over TCP the time of one try, which is short; what is then left is for
 * another, patient one. */
static bool worth_patience(const struct resolve *r) {
  return !r->patient && worst_status(r) == ARES_ETIMEOUT && count_all(r) == 0 &&
         uv_now(r->resolver->loop) + RESOLVE_TRY_MIN < r->deadline;
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

static void arm(struct resolve *r);

static void ask(struct resolve *r) {
  if (is_localhost(r->host)) {
    answer_loopback(r);
    arm(r);
    return;
  }
  static const int families[FAMILIES] = {AF_INET, AF_INET6};
  uint64_t now = uv_now(r->resolver->loop);
  uint64_t left = r->deadline > now ? r->deadline - now : 1;
  int status = resolve_channel_open(&r->channel, &r->resolver->server, r->server, left, r->patient);
  for (unsigned i = 0; i < FAMILIES; i++)
    r->questions[i] =
        (struct question){.owner = r, .done = status != ARES_SUCCESS, .status = status};
  for (unsigned i = 0; i < FAMILIES && status == ARES_SUCCESS; i++) {
    const struct ares_addrinfo_hints hints = {
        .ai_flags = ARES_AI_NOSORT, .ai_family = families[i], .ai_socktype = SOCK_DGRAM};
    ares_getaddrinfo(r->channel.ares, r->host, NULL, &hints, on_answer, &r->questions[i]);
  }
  arm(r);
}

static void on_timer(uv_timer_t *timer) {
  struct resolve *r = timer->data;
  uint64_t now = uv_now(timer->loop);
  bool late = now >= r->deadline || (r->other_until != 0 && now >= r->other_until);
  if (late && !r->waiting) /* timers run before descriptors: what has come shall count */
    resolve_channel_look(&r->channel);
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
  resolve_channel_step(&r->channel);
  arm(r);
}

static void on_moved(void *arg) {
  arm(arg);
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
  uint64_t step = resolve_channel_wait(&r->channel);
  wait = step < wait ? step : wait;
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
  r->channel = (struct resolve_channel){.loop = resolver->loop, .moved = on_moved, .arg = r};
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

struct resolver *resolver_open(uv_loop_t *loop, const char *server, char *why) {
  struct resolver *resolver = calloc(1, sizeof *resolver);
  if (resolver == NULL || ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) {
    snprintf(why, RESOLVE_WHY, "out of memory");
    free(resolver);
    return NULL;
  }
  resolver->loop = loop;
  if (server != NULL && !resolve_server_read(server, &resolver->server)) {
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
