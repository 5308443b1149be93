/* SPDX-License-Identifier: Apache-2.0 */
#include "server/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <urcu-qsbr.h>

#include "server/exposure_ring.h"
#include "server/slow.h"

/* More batches than a receive buffer holds: what was queued at the stop is answered, and a flood
 * cannot keep the server from ending. */
enum { DRAIN_BATCHES = 256 };

/* Aligned so that no two workers write to one cache line. */
struct worker {
  _Alignas(64) struct query_worker query;
  _Atomic uint64_t send_errors;
  atomic_bool stop;
  const struct packet_ops *ops;
  struct packet_source *source;
  const struct view *_Atomic *view;
  pthread_t thread;
  bool started;
};

struct worker_pool {
  unsigned count;
  struct worker workers[];
};

struct batch {
  struct packet packets[PACKET_BATCH];
  struct query queries[PACKET_BATCH];
};

struct worker_pool *worker_open(const struct packet_ops *ops, const struct address *addresses,
                                size_t address_count, unsigned per_address, char *why) {
  size_t size = sizeof(struct worker_pool) + address_count * per_address * sizeof(struct worker);
  struct worker_pool *pool = aligned_alloc(64, (size + 63) / 64 * 64);
  if (pool == NULL) {
    snprintf(why, 512, "out of memory");
    return NULL;
  }
  memset(pool, 0, size);
  for (size_t a = 0; a < address_count; a++) {
    for (unsigned i = 0; i < per_address; i++) {
      struct worker *worker = &pool->workers[pool->count];
      worker->ops = ops;
      worker->source = ops->open(&addresses[a], why);
      if (worker->source == NULL) {
        worker_stop(pool);
        return NULL;
      }
      pool->count++;
    }
  }
  return pool;
}

static size_t answer_one(struct worker *worker, struct query *q, const struct view *view) {
  if (__builtin_expect(slow_is_needed(q), 0))
    return slow_respond(q, view, &worker->query, (uint64_t)time(NULL), NULL);
  return query_answer(q, view, &worker->query);
}

/* Each step runs over the whole batch, so that the memory of one lookup is fetched during others.
 */
static void answer_batch(struct worker *worker, struct batch *batch, size_t count) {
  rcu_thread_online();
  query_worker_tick(&worker->query);
  const struct view *view = atomic_load_explicit(worker->view, memory_order_acquire);
  for (size_t i = 0; i < count; i++) {
    struct query *q = &batch->queries[i];
    q->packet = batch->packets[i].data;
    q->length = batch->packets[i].length;
    q->source = batch->packets[i].client;
    query_parse(q, view, &worker->query);
  }
  for (size_t i = 0; i < count; i++)
    query_locate(&batch->queries[i]);
  query_look_ahead(batch->queries, count, &worker->query);
  for (size_t i = 0; i < count; i++)
    batch->packets[i].length = answer_one(worker, &batch->queries[i], view);
  rcu_thread_offline();
}

static void serve(struct worker *worker, struct batch *batch, size_t count) {
  answer_batch(worker, batch, count);
  size_t refused = worker->ops->send(worker->source, batch->packets, count);
  if (refused > 0)
    atomic_store_explicit(&worker->send_errors,
                          atomic_load_explicit(&worker->send_errors, memory_order_relaxed) +
                              refused,
                          memory_order_relaxed);
}

static void *worker_main(void *arg) {
  struct worker *worker = arg;
  struct batch *batch = calloc(1, sizeof *batch);
  if (batch == NULL)
    abort(); /* at start, before anything is served */
  for (size_t i = 0; i < PACKET_BATCH; i++) {
    batch->queries[i].capacity = PACKET_CAPACITY;
    batch->queries[i].transport = TRANSPORT_UDP;
  }
  rcu_register_thread();
  rcu_thread_offline(); /* while it waits, nobody needs to wait for it */
  while (!atomic_load_explicit(&worker->stop, memory_order_relaxed)) {
    size_t count = worker->ops->receive(worker->source, batch->packets, true);
    if (count > 0)
      serve(worker, batch, count);
  }
  for (unsigned i = 0; i < DRAIN_BATCHES; i++) {
    size_t count = worker->ops->receive(worker->source, batch->packets, false);
    if (count == 0)
      break;
    serve(worker, batch, count);
  }
  rcu_thread_online();
  rcu_unregister_thread();
  free(batch);
  return NULL;
}

static bool start_one(struct worker *worker) {
  /* Signals belong to the main thread. */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&worker->thread, NULL, worker_main, worker);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  worker->started = error == 0;
  if (worker->started)
    pthread_setname_np(worker->thread, "udp");
  return worker->started;
}

/* The worker's share of the rates: the kernel spreads clients evenly over the sockets. */
static bool open_limit(struct worker *worker, const struct ratelimit_config *limit,
                       unsigned workers, char *why) {
  struct ratelimit_config share = *limit;
  for (int c = 0; c < RATELIMIT_CATEGORIES; c++)
    if (share.rate[c] != 0)
      share.rate[c] = share.rate[c] / workers + 1;
  uint8_t seed[16];
  if (getrandom(seed, sizeof seed, 0) != (ssize_t)sizeof seed) {
    snprintf(why, 512, "the kernel gives no random numbers");
    return false;
  }
  char reason[RATELIMIT_WHY];
  worker->query.limit = ratelimit_open(&share, seed, reason);
  if (worker->query.limit != NULL)
    return true;
  snprintf(why, 512, "rate-limit: %s", reason);
  return false;
}

bool worker_start(struct worker_pool *pool, const struct view *_Atomic *view,
                  const struct query_config *config, const struct ratelimit_config *limit,
                  char *why) {
  for (unsigned i = 0; i < pool->count; i++) {
    struct worker *worker = &pool->workers[i];
    if (limit != NULL && !open_limit(worker, limit, pool->count, why))
      return false;
    worker->view = view;
    worker->query.config = config;
    worker->query.exposure = exposure_ring_new();
    worker->query.exposure_left = 1;
    if (worker->query.exposure == NULL) {
      snprintf(why, 512, "out of memory");
      return false;
    }
    rng_seed_kernel(&worker->query.rng);
    if (!start_one(worker)) {
      snprintf(why, 512, "cannot start a worker thread");
      return false;
    }
  }
  return true;
}

void worker_stop(struct worker_pool *pool) {
  if (pool == NULL)
    return;
  for (unsigned i = 0; i < pool->count; i++) {
    atomic_store(&pool->workers[i].stop, true);
    pool->workers[i].ops->wake(pool->workers[i].source);
  }
  for (unsigned i = 0; i < pool->count; i++) {
    if (pool->workers[i].started)
      pthread_join(pool->workers[i].thread, NULL);
    pool->workers[i].ops->close(pool->workers[i].source);
    ratelimit_close(pool->workers[i].query.limit);
    free(pool->workers[i].query.exposure);
  }
  free(pool);
}

unsigned worker_count(const struct worker_pool *pool) {
  return pool->count;
}

struct exposure_ring *worker_exposure(const struct worker_pool *pool, unsigned worker) {
  return pool->workers[worker].query.exposure;
}

uint64_t worker_add_counters(const struct worker_pool *pool, uint64_t totals[QUERY_COUNTERS]) {
  uint64_t send_errors = 0;
  for (unsigned i = 0; i < pool->count; i++) {
    const struct worker *worker = &pool->workers[i];
    for (size_t c = 0; c < QUERY_COUNTERS; c++)
      totals[c] += atomic_load_explicit(&worker->query.counters[c], memory_order_relaxed);
    send_errors += atomic_load_explicit(&worker->send_errors, memory_order_relaxed);
  }
  return send_errors;
}
