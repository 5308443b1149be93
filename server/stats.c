/* SPDX-License-Identifier: Apache-2.0 */
#include "server/stats.h"

#include "server/notify_send.h"
#include "server/secondary.h"
#include "server/tcp.h"
#include "server/worker.h"

static const char *const names[QUERY_COUNTERS] = {
    [COUNT_QUERIES] = "queries",
    [COUNT_RESPONSES] = "responses",
    [COUNT_DROPPED_SHORT] = "dropped_short",
    [COUNT_DROPPED_RESPONSE] = "dropped_response",
    [COUNT_FORMERR] = "formerr",
    [COUNT_NOTIMP] = "notimp",
    [COUNT_REFUSED] = "refused",
    [COUNT_BADVERS] = "badvers",
    [COUNT_NXDOMAIN] = "nxdomain",
    [COUNT_NODATA] = "nodata",
    [COUNT_REFERRAL] = "referral",
    [COUNT_STEERED] = "steered",
    [COUNT_TRUNCATED] = "truncated",
    [COUNT_ECS] = "ecs",
    [COUNT_EDNS] = "edns",
    [COUNT_COOKIE_NEW] = "cookie_new",
    [COUNT_COOKIE_VALID] = "cookie_valid",
    [COUNT_COOKIE_BAD] = "cookie_bad",
    [COUNT_RATE_DROPPED] = "rate_dropped",
    [COUNT_RATE_SLIPPED] = "rate_slipped",
    [COUNT_TSIG_GOOD] = "tsig_good",
    [COUNT_TSIG_BAD] = "tsig_bad",
    [COUNT_TRANSFER_REFUSED] = "transfer_refused",
};

static int put(json_t *json, const char *name, uint64_t value) {
  return json_object_set_new(json, name, json_integer((json_int_t)value));
}

static uint64_t read_counter(const _Atomic uint64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

/* The same counter of TCP and TLS together. */
#define BOTH(tcp, tls, counter)                                                                    \
  (read_counter(&(tcp)->counter) + ((tls) != NULL ? read_counter(&(tls)->counter) : 0))

static int put_transfers(json_t *json, const struct tcp_counters *tcp,
                         const struct tcp_counters *tls) {
  int failed = put(json, "transfers_whole", BOTH(tcp, tls, transfers.whole));
  failed |= put(json, "transfers_differences", BOTH(tcp, tls, transfers.differences));
  failed |= put(json, "transfers_current", BOTH(tcp, tls, transfers.current));
  failed |= put(json, "transfers_failed", BOTH(tcp, tls, transfers.failed));
  return failed | put(json, "transfers_octets", BOTH(tcp, tls, transfers.octets));
}

static int put_tls(json_t *json, const struct tcp_counters *tls) {
  int failed = put(json, "tls_accepted", read_counter(&tls->accepted));
  failed |= put(json, "tls_open", read_counter(&tls->open));
  failed |= put(json, "tls_evicted", read_counter(&tls->evicted));
  failed |= put(json, "tls_timed_out", read_counter(&tls->timed_out));
  failed |= put(json, "tls_established", read_counter(&tls->tls_established));
  return failed | put(json, "tls_failed", read_counter(&tls->tls_failed));
}

static int put_notify(json_t *json, const struct notify_send *notify) {
  struct notify_out_counters counters = {.sent = 0};
  if (notify != NULL)
    counters = *notify_send_get_counters(notify);
  int failed = put(json, "notify_sent", counters.sent);
  failed |= put(json, "notify_acked", counters.acked);
  return failed | put(json, "notify_failed", counters.failed);
}

json_t *stats_json(const struct server *server) {
  uint64_t totals[QUERY_COUNTERS] = {0};
  uint64_t send_errors = worker_add_counters(server->workers, totals);
  const struct tcp_counters *tcp = tcp_get_counters(server->tcp);
  const struct tcp_counters *tls =
      server->tls.tcp != NULL ? tcp_get_counters(server->tls.tcp) : NULL;
  tcp_add_counters(server->tcp, totals);
  if (tls != NULL)
    tcp_add_counters(server->tls.tcp, totals);
  json_t *json = json_object();
  int failed = json == NULL;
  for (size_t i = 0; i < QUERY_COUNTERS; i++)
    failed |= put(json, names[i], totals[i]);
  failed |= put(json, "send_errors", send_errors);
  failed |= put(json, "tcp_accepted", read_counter(&tcp->accepted));
  failed |= put(json, "tcp_open", read_counter(&tcp->open));
  failed |= put(json, "tcp_evicted", read_counter(&tcp->evicted));
  failed |= put(json, "tcp_timed_out", read_counter(&tcp->timed_out));
  failed |= put_transfers(json, tcp, tls);
  if (tls != NULL)
    failed |= put_tls(json, tls);
  failed |= put_notify(json, server->notify);
  for (int i = 0; i < SECONDARY_COUNTERS; i++)
    failed |= put(json, secondary_counter_name((enum secondary_counter)i),
                  secondary_count(server->secondary, (enum secondary_counter)i));
  if (!failed)
    return json;
  json_decref(json);
  return NULL;
}
