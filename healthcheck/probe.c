/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/probe_kind.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "healthcheck/resolve_address.h"

enum {
  KINDS = CHECK_EXEC + 1,
  /* A timer that fires so much later than asked: this process did not run (stopped, suspended, out
   * of CPU), and what it then sees says nothing about the peer. */
  LATE_MS = 1000,
};

struct probe_set {
  uv_loop_t *loop;
  struct probe_options options;
  struct resolver *resolver;
  void *shared[KINDS];
  bool opened[KINDS];
  struct probe_more *first; /* all that run */
};

enum timer_use { TIMER_DEADLINE, TIMER_LAST_LOOK, TIMER_REPORT };

/* A probe with what only this file sees; `probe` comes first. */
struct probe_more {
  struct probe probe;
  struct probe_more *next, **link;
  uv_timer_t timer;
  enum timer_use use;
  uint64_t started_ns;
  uint64_t end; /* uv_now() ms: of the whole; probe.deadline is that of the address tried now */
  bool again;   /* was begun anew, because the process had not run */
  struct resolve *query;
  struct sockaddr_storage addresses[PROBE_ADDRESSES];
  size_t count, at;
  struct probe_result best; /* of the addresses that failed, the one that got furthest; the first */
};

static void begin(struct probe_more *more);

static const struct probe_kind *kind_of(enum check_type type) {
  static const struct probe_kind *const kinds[KINDS] = {
      [CHECK_HTTP] = &probe_kind_http, [CHECK_HTTPS] = &probe_kind_http,
      [CHECK_TCP] = &probe_kind_tcp,   [CHECK_DNS] = &probe_kind_dns,
      [CHECK_ICMP] = &probe_kind_icmp, [CHECK_EXEC] = &probe_kind_exec,
  };
  return kinds[type];
}

/* http and https share what their kind shares. */
static enum check_type slot_of(enum check_type type) {
  return type == CHECK_HTTPS ? CHECK_HTTP : type;
}

/* ---- the end of a probe -----------------------------------------------------------------------
 */

static void free_probe(uv_handle_t *handle) {
  free(handle->data);
}

static void stop_kind(struct probe_more *more, const char **phase) {
  void *state = more->probe.state;
  more->probe.state = NULL;
  if (state != NULL)
    kind_of(more->probe.check->type)->stop(state, phase);
}

static void forget(struct probe_more *more) {
  const char *phase;
  stop_kind(more, &phase);
  if (more->query != NULL)
    resolve_cancel(more->query);
  more->query = NULL;
  *more->link = more->next;
  if (more->next != NULL)
    more->next->link = more->link;
  uv_close((uv_handle_t *)&more->timer, free_probe);
}

static void report(struct probe_more *more) {
  struct probe_result result = more->probe.result;
  probe_done_fn *done = more->probe.done;
  void *arg = more->probe.arg;
  result.phase_us[PHASE_ALL] = (int64_t)((uv_hrtime() - more->started_ns) / 1000);
  forget(more);
  done(arg, &result);
}

static void set_reason(struct probe_result *result, bool ok, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void set_reason(struct probe_result *result, bool ok, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(result->reason, sizeof result->reason, format, list);
  va_end(list);
  result->ok = ok;
}

/* Of a host name: says which address failed, and of how many. */
static void name_address(struct probe_more *more) {
  char reason[PROBE_REASON], text[INET6_ADDRSTRLEN];
  memcpy(reason, more->probe.result.reason, sizeof reason);
  const struct sockaddr_storage *address = &more->probe.address;
  const void *bytes = address->ss_family == AF_INET6
                          ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                          : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
  inet_ntop(address->ss_family, bytes, text, sizeof text);
  if (more->count > 1)
    set_reason(&more->probe.result, false, "none of %zu addresses; %s: %.100s", more->count, text,
               reason);
  else
    set_reason(&more->probe.result, false, "%s: %.110s", text, reason);
}

/* ---- time -------------------------------------------------------------------------------------
 */

static void on_timer(uv_timer_t *timer);

static void arm(struct probe_more *more, enum timer_use use, uint64_t ms) {
  more->use = use;
  uv_timer_start(&more->timer, on_timer, ms, 0);
}

/* A failure that was seen long after the deadline: the probe is begun anew, once. */
static bool begin_again(struct probe_more *more) {
  if (more->again || uv_now(more->probe.set->loop) <= more->probe.deadline + LATE_MS)
    return false;
  more->again = true;
  begin(more);
  return true;
}

/* ---- one address after another ----------------------------------------------------------------
 */

static void set_port(struct sockaddr_storage *address, uint16_t port) {
  if (address->ss_family == AF_INET6)
    ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
  else
    ((struct sockaddr_in *)address)->sin_port = htons(port);
}

static int phases_of(const struct probe_result *result) {
  int count = 0;
  for (int i = PHASE_CONNECT; i < PHASE_ALL; i++)
    count += result->phase_us[i] >= 0;
  return count;
}

/* Of a host name, the address tried now failed: the failure that tells most is kept. */
static void keep_failure(struct probe_more *more) {
  if (more->probe.target->family != 0)
    return;
  name_address(more);
  const struct probe_result *now = &more->probe.result, *best = &more->best;
  bool better = best->reason[0] == '\0' || (best->own_fault && !now->own_fault) ||
                (best->own_fault == now->own_fault && phases_of(now) > phases_of(best));
  if (better)
    more->best = more->probe.result;
  else
    more->probe.result = more->best;
}

/* Starts the kind for addresses[at] and further ones until one could start; false if none could. */
static bool start_kind(struct probe_more *more) {
  struct probe *probe = &more->probe;
  for (; more->at < more->count; more->at++) {
    uint64_t now = uv_now(probe->set->loop);
    uint64_t left = more->end > now ? more->end - now : 1;
    probe->deadline = now + (left + more->count - more->at - 1) / (more->count - more->at);
    probe->address = more->addresses[more->at];
    probe->address_len = probe->address.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                              : sizeof(struct sockaddr_in);
    set_port(&probe->address, probe->check->port);
    for (int i = PHASE_CONNECT; i < PROBE_PHASES; i++)
      probe->result.phase_us[i] = -1;
    probe->result.own_fault = false;
    arm(more, TIMER_DEADLINE, probe_left(probe));
    void *shared = probe->set->shared[slot_of(probe->check->type)];
    if (kind_of(probe->check->type)->start(probe, shared, &probe->state, &probe->result))
      return true;
    probe->state = NULL;
    probe->result.ok = false;
    keep_failure(more);
  }
  return false;
}

/* The address tried now has its result in probe.result, the kind has ended. */
static void next_address(struct probe_more *more) {
  struct probe *probe = &more->probe;
  if (!probe->result.ok && begin_again(more))
    return;
  if (!probe->result.ok)
    keep_failure(more);
  more->at++;
  if (!probe->result.ok && more->at < more->count && start_kind(more))
    return;
  report(more);
}

void probe_end(struct probe *probe, bool ok, const char *format, ...) {
  struct probe_more *more = probe->more;
  va_list list;
  va_start(list, format);
  vsnprintf(probe->result.reason, sizeof probe->result.reason, format, list);
  va_end(list);
  probe->result.ok = ok;
  probe->state = NULL;
  next_address(more);
}

static void on_timer(uv_timer_t *timer) {
  struct probe_more *more = timer->data;
  switch (more->use) {
  case TIMER_REPORT:
    report(more);
    return;
  case TIMER_DEADLINE:
    /* Timers run before descriptors are looked at: what has come in the meantime shall count. */
    arm(more, TIMER_LAST_LOOK, 1);
    return;
  case TIMER_LAST_LOOK:
    break;
  }
  if (more->query != NULL) {
    resolve_cancel(more->query);
    more->query = NULL;
    set_reason(&more->probe.result, false, "timeout in resolving");
    if (!begin_again(more))
      report(more);
    return;
  }
  const char *phase = "the check";
  stop_kind(more, &phase);
  set_reason(&more->probe.result, false, "timeout in %s", phase);
  next_address(more);
}

/* ---- host names -------------------------------------------------------------------------------
 */

static void put_address(struct sockaddr_storage *to, uint8_t family, const uint8_t *bytes) {
  memset(to, 0, sizeof *to);
  if (family == 6) {
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;
    v6->sin6_family = AF_INET6;
    memcpy(&v6->sin6_addr, bytes, sizeof v6->sin6_addr);
  } else {
    struct sockaddr_in *v4 = (struct sockaddr_in *)to;
    v4->sin_family = AF_INET;
    memcpy(&v4->sin_addr, bytes, sizeof v4->sin_addr);
  }
}

static void on_resolved(void *arg, const struct resolve_address *addresses, size_t count,
                        const char *why, bool own_fault) {
  struct probe_more *more = arg;
  struct probe *probe = &more->probe;
  more->query = NULL;
  probe->result.phase_us[PHASE_RESOLVE] = (int64_t)((uv_hrtime() - more->started_ns) / 1000);
  for (size_t i = 0; i < count && more->count < PROBE_ADDRESSES; i++)
    put_address(&more->addresses[more->count++], addresses[i].family, addresses[i].bytes);
  if (more->count > 0 && start_kind(more))
    return;
  if (more->count == 0) {
    set_reason(&probe->result, false, "%s", why);
    probe->result.own_fault = own_fault;
    if (begin_again(more))
      return;
  }
  report(more);
}

/* ---- starting ---------------------------------------------------------------------------------
 */

/* What a name must not lead to (resolve.h) is no address of an endpoint either. */
static bool is_usable(const struct probe_target *target) {
  struct resolve_address address = {.family = target->family};
  memcpy(address.bytes, target->address, sizeof address.bytes);
  return resolve_address_usable(&address);
}

static void begin(struct probe_more *more) {
  struct probe *probe = &more->probe;
  struct probe_set *set = probe->set;
  memset(&probe->result, 0, sizeof probe->result);
  memset(&more->best, 0, sizeof more->best);
  for (int i = 0; i < PROBE_PHASES; i++)
    probe->result.phase_us[i] = -1;
  uv_update_time(set->loop);
  more->started_ns = uv_hrtime();
  more->end = uv_now(set->loop) + probe->check->timeout;
  probe->deadline = more->end;
  more->count = more->at = 0;
  bool started = false;
  if (probe->target->family != 0 && !is_usable(probe->target)) {
    set_reason(&probe->result, false, "at this address there can be no endpoint; it is not probed");
  } else if (probe->target->family != 0) {
    put_address(&more->addresses[0], probe->target->family, probe->target->address);
    more->count = 1;
    started = start_kind(more);
  } else {
    arm(more, TIMER_DEADLINE, probe->check->timeout);
    more->query =
        resolve_start(set->resolver, probe->target->host, probe->check->timeout, on_resolved, more);
    started = more->query != NULL;
    if (!started)
      set_reason(&probe->result, false, "this machine has no memory left");
    probe->result.own_fault = !started;
  }
  if (!started)
    arm(more, TIMER_REPORT, 0);
}

struct probe *probe_start(struct probe_set *set, const struct check *check,
                          const struct probe_target *target, probe_done_fn *done, void *arg) {
  struct probe_more *more = calloc(1, sizeof *more);
  if (more == NULL)
    return NULL;
  more->probe.set = set;
  more->probe.check = check;
  more->probe.target = target;
  more->probe.done = done;
  more->probe.arg = arg;
  more->probe.more = more;
  uv_timer_init(set->loop, &more->timer);
  more->timer.data = more;
  more->next = set->first;
  more->link = &set->first;
  if (more->next != NULL)
    more->next->link = &more->next;
  set->first = more;
  begin(more);
  return &more->probe;
}

void probe_cancel(struct probe *probe) {
  if (probe != NULL)
    forget(probe->more);
}

/* ---- the set ----------------------------------------------------------------------------------
 */

struct probe_set *probe_set_open(uv_loop_t *loop, const struct probe_options *options, char *why) {
  struct probe_set *set = calloc(1, sizeof *set);
  if (set == NULL) {
    snprintf(why, PROBE_WHY, "out of memory");
    return NULL;
  }
  set->loop = loop;
  set->options = *options;
  set->resolver = resolver_open(loop, options->resolver, why);
  if (set->resolver == NULL)
    goto failed;
  for (enum check_type i = 0; i <= CHECK_EXEC; i++) {
    if (slot_of(i) != i)
      continue;
    const struct probe_kind *kind = kind_of(i);
    if (kind->open != NULL && !kind->open(set, &set->shared[i], why))
      goto failed;
    set->opened[i] = true;
  }
  return set;
failed:
  probe_set_close(set);
  return NULL;
}

void probe_set_close(struct probe_set *set) {
  if (set == NULL)
    return;
  while (set->first != NULL)
    forget(set->first);
  for (enum check_type i = 0; i <= CHECK_EXEC; i++)
    if (set->opened[i] && kind_of(i)->close != NULL)
      kind_of(i)->close(set->shared[i]);
  resolver_close(set->resolver);
  free(set);
}

uv_loop_t *probe_loop(const struct probe_set *set) {
  return set->loop;
}

const struct probe_options *probe_options(const struct probe_set *set) {
  return &set->options;
}

uint64_t probe_left(const struct probe *probe) {
  uint64_t now = uv_now(probe->set->loop);
  return probe->deadline > now ? probe->deadline - now : 1;
}
