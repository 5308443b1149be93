/* SPDX-License-Identifier: Apache-2.0 */
/* What is not written yet fails its probes with a reason.  Whoever writes one takes it out here. */
#include "healthcheck/probe_kind.h"
#include "healthcheck/resolve.h"

#include <stdio.h>
#include <stdlib.h>

static bool start_nothing(struct probe *probe, void *shared, void **state,
                          struct probe_result *result) {
  (void)shared;
  (void)state;
  snprintf(result->reason, sizeof result->reason, "checks of type %s are not there yet",
           check_type_name(probe->check->type));
  return false;
}

static void stop_nothing(void *state, const char **phase) {
  (void)state;
  *phase = "nothing";
}

const struct probe_kind probe_kind_http = {.start = start_nothing, .stop = stop_nothing};
const struct probe_kind probe_kind_tcp = {.start = start_nothing, .stop = stop_nothing};
const struct probe_kind probe_kind_dns = {.start = start_nothing, .stop = stop_nothing};
const struct probe_kind probe_kind_icmp = {.start = start_nothing, .stop = stop_nothing};
const struct probe_kind probe_kind_exec = {.start = start_nothing, .stop = stop_nothing};

/* Resolving: never an address. */
struct resolver {
  uv_loop_t *loop;
};

struct resolve {
  uv_timer_t timer;
  resolve_done_fn *done;
  void *arg;
};

static void free_resolve(uv_handle_t *handle) {
  free(handle->data);
}

static void say_nothing(uv_timer_t *timer) {
  struct resolve *resolve = timer->data;
  resolve_done_fn *done = resolve->done;
  void *arg = resolve->arg;
  resolve_cancel(resolve);
  done(arg, NULL, 0, "host names cannot be resolved yet");
}

struct resolver *resolver_open(uv_loop_t *loop, const char *server, char *why) {
  struct resolver *resolver = calloc(1, sizeof *resolver);
  (void)server;
  if (resolver != NULL)
    resolver->loop = loop;
  else
    snprintf(why, RESOLVE_WHY, "out of memory");
  return resolver;
}

void resolver_close(struct resolver *resolver) {
  free(resolver);
}

struct resolve *resolve_start(struct resolver *resolver, const char *host, uint64_t timeout_ms,
                              resolve_done_fn *done, void *arg) {
  (void)host;
  (void)timeout_ms;
  struct resolve *resolve = calloc(1, sizeof *resolve);
  if (resolve == NULL)
    return NULL;
  resolve->done = done;
  resolve->arg = arg;
  uv_timer_init(resolver->loop, &resolve->timer);
  resolve->timer.data = resolve;
  uv_timer_start(&resolve->timer, say_nothing, 0, 0);
  return resolve;
}

void resolve_cancel(struct resolve *resolve) {
  uv_close((uv_handle_t *)&resolve->timer, free_resolve);
}
