/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the probes: what healthcheck/probe.c (dispatch, deadline, resolving) and the kinds in
 * probes/ have in common.
 *
 * probe.c owns the deadline and the addresses: for a host name it resolves first, then runs the
 * kind for one address after another until one is good.  A kind is started for one address, and
 * ends by probe_end(); when it is stopped before (deadline, cancel) it cleans up and does not.
 */
#ifndef SLUICE_HEALTHCHECK_PROBE_KIND_H
#define SLUICE_HEALTHCHECK_PROBE_KIND_H

#include "healthcheck/probe.h"

struct probe_kind {
  /* Shared state of the kind, made at probe_set_open(); may be NULL for none.  False with `why`
   * only without memory. */
  bool (*open)(struct probe_set *set, void **shared, char *why);
  void (*close)(void *shared);
  /* Starts; *state is the kind's own.  False if it could not even start: then the reason is in
   * `result` and probe_end() is not called. */
  bool (*start)(struct probe *probe, void *shared, void **state, struct probe_result *result);
  /* Stops and frees `state`; says in `phase` what it was waiting for (static text such as
   * "connect", "TLS handshake", "response"), for the reason of a timeout. */
  void (*stop)(void *state, const char **phase);
};

extern const struct probe_kind probe_kind_http, probe_kind_tcp, probe_kind_dns, probe_kind_icmp,
    probe_kind_exec;

struct probe {
  struct probe_set *set;
  const struct check *check;
  const struct probe_target *target;
  struct sockaddr_storage address; /* the one that is tried now, with the check's port */
  socklen_t address_len;
  uint64_t deadline;          /* uv_now() ms */
  struct probe_result result; /* phase_us are filled in by the kinds */
  /* the rest is probe.c's */
  probe_done_fn *done;
  void *arg;
  void *state;
  struct probe_more *more;
};

uv_loop_t *probe_loop(const struct probe_set *set);
const struct probe_options *probe_options(const struct probe_set *set);

/* The kind's verdict for this address; from the loop, never from inside of start().  The kind has
 * freed its state before, or frees it after without using the probe any more. */
void probe_end(struct probe *probe, bool ok, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Milliseconds left until the deadline; at least 1. */
uint64_t probe_left(const struct probe *probe);

#endif
