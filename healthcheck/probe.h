/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A probe: one try whether one address answers as its check demands.  One file per kind in probes/.
 *
 * A probe starts at once, ends within check->timeout ms (one deadline for the whole exchange,
 * resolving included; a failure seen while the process had not run for so long is none: the probe
 * begins anew, once), and calls `done` exactly once, from the loop and never from inside of
 * probe_start(), unless it is cancelled.  Whatever the peer does, the result says precisely what
 * went wrong and in which phase, and nothing is left behind: no descriptor, process or memory.
 * A probe connects to the address that it was given and to no other; for a host name, to those that
 * it resolves to, resolved once per probe.
 *
 * Everything here belongs to the loop's thread.
 */
#ifndef SLUICE_HEALTHCHECK_PROBE_H
#define SLUICE_HEALTHCHECK_PROBE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "healthcheck/check.h"

enum {
  PROBE_REASON = 160,
  PROBE_BODY = 64 << 10, /* octets of a body that are read, and searched for `body` */
  PROBE_ADDRESSES = 8,   /* of a host name, tried one after another within the deadline */
};

/* Where a probe goes: an address, or a host name. */
struct probe_target {
  uint8_t family; /* 4, 6, or 0: `host` */
  uint8_t address[16];
  const char *host; /* presentation form without the final dot; outlives the probe */
};

/* How long each phase took, in microseconds; -1: not reached.  For `sluice health test`. */
enum probe_phase { PHASE_RESOLVE, PHASE_CONNECT, PHASE_TLS, PHASE_SEND, PHASE_FIRST, PHASE_ALL };
enum { PROBE_PHASES = 6 };

struct probe_result {
  bool ok;
  /* Not ok, but by the checker's own fault (no descriptors, ports or memory left): says nothing
   * about the peer, and is to be counted as no result. */
  bool own_fault;
  /* One line for people: "status 200", "connect refused", "timeout in TLS handshake", "certificate
   * expired on 2026-01-02", "status 503, expected 200-299".  Never holds what the peer sent (it may
   * be a secret), but numbers. */
  char reason[PROBE_REASON];
  int64_t phase_us[PROBE_PHASES];
};

typedef void probe_done_fn(void *arg, const struct probe_result *result);

/* What probes share: the loop, libcurl's multi handle, the resolver, sockets for ICMP, exec
 * programs. */
struct probe_set;
struct probe;

/* An exec check as the machine's settings define it; argv[0] is an absolute path. */
struct probe_program {
  const char *name;
  const char *const *argv; /* ends with NULL */
};

struct probe_options {
  const char *resolver; /* "ADDRESS[@PORT]" of a DNS server, or NULL: the system's */
  const struct probe_program *programs;
  size_t program_count;
  const char *run_as; /* user for exec checks, or NULL: the checker's own */
};

enum { PROBE_WHY = 256 };

/* NULL with one line in `why`.  What a kind of probe needs and does not get (ICMP without rights,
 * say) fails its probes with a reason, not the whole. */
struct probe_set *probe_set_open(uv_loop_t *loop, const struct probe_options *options, char *why);

/* Cancels all that runs; handles are closed in the loop. */
void probe_set_close(struct probe_set *set);

/* NULL only without memory: count that as no result, not as a failure. */
struct probe *probe_start(struct probe_set *set, const struct check *check,
                          const struct probe_target *target, probe_done_fn *done, void *arg);

/* `done` is not called any more. */
void probe_cancel(struct probe *probe);

#endif
