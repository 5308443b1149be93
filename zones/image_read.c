/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/image_read.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

enum {
  PIECE = 512 << 10,   /* is still in the cache when its checksum is made */
  SHARE = 16 * PIECE,  /* whole huge pages, so that no two threads clear the same one */
  PARALLEL = 32 << 20, /* below, threads cost more than they bring */
  MOST_THREADS = 4,    /* then it is the memory that is busy */
};

/* A file that is read by several threads: each takes the next share of it that nobody has taken;
 * the one that called also makes the checksum, in order, of what has come. */
struct reading {
  int fd;
  uint8_t *to;
  size_t size, share_count;
  _Atomic size_t next;
  _Atomic int error;
  pthread_mutex_t lock;
  pthread_cond_t came;
  bool *there; /* of each share; under the lock */
};

/* ---- one thread ----------------------------------------------------------------------------- */

struct sum {
  XXH3_state_t *state;
  size_t done; /* octets of the file */
};

static void sum_up_to(struct sum *sum, const uint8_t *data, size_t end) {
  if (end <= sum->done)
    return;
  XXH3_64bits_update(sum->state, data + sum->done, end - sum->done);
  sum->done = end;
}

/* Reads from `at` to `end`; `sum` NULL: without the checksum.  0 or an errno. */
static int read_span(int fd, uint8_t *to, size_t at, size_t end, struct sum *sum) {
  while (at < end) {
    ssize_t n = pread(fd, to + at, end - at < PIECE ? end - at : PIECE, (off_t)at);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n == 0 ? EIO : errno; /* 0: it became shorter */
    at += (size_t)n;
    if (sum)
      sum_up_to(sum, to, at);
  }
  return 0;
}

/* ---- several -------------------------------------------------------------------------------- */

static size_t share_end(const struct reading *r, size_t share) {
  size_t end = (share + 1) * SHARE;
  return end < r->size ? end : r->size;
}

/* Reads the next share; false: there is none left to be read, or a thread has failed. */
static bool read_share(struct reading *r) {
  if (atomic_load(&r->error) != 0)
    return false;
  size_t share = atomic_fetch_add(&r->next, 1);
  if (share >= r->share_count)
    return false;
  int error = read_span(r->fd, r->to, share * SHARE, share_end(r, share), NULL);
  if (error != 0)
    atomic_store(&r->error, error);
  pthread_mutex_lock(&r->lock);
  r->there[share] = error == 0;
  pthread_cond_signal(&r->came);
  pthread_mutex_unlock(&r->lock);
  return error == 0;
}

static void *read_shares(void *arg) {
  while (read_share(arg)) {
  }
  return NULL;
}

static bool is_there(struct reading *r, size_t share, bool wait) {
  pthread_mutex_lock(&r->lock);
  while (wait && !r->there[share] && atomic_load(&r->error) == 0)
    pthread_cond_wait(&r->came, &r->lock);
  bool there = r->there[share];
  pthread_mutex_unlock(&r->lock);
  return there;
}

/* The caller's part: what has come is summed up, else it reads like the others, else it waits. */
static void read_and_sum(struct reading *r, struct sum *sum) {
  bool more = true;
  for (size_t share = 0; share < r->share_count;) {
    if (is_there(r, share, !more)) {
      sum_up_to(sum, r->to, share_end(r, share));
      share++;
    } else if (!more) {
      return; /* a thread has failed */
    } else {
      more = read_share(r);
    }
  }
}

static size_t threads_to_use(void) {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
    return 1;
  int count = CPU_COUNT(&cpus);
  return count > MOST_THREADS ? MOST_THREADS : (size_t)count;
}

static int read_parallel(int fd, uint8_t *to, size_t size, struct sum *sum) {
  struct reading r = {.fd = fd, .to = to, .size = size, .share_count = (size + SHARE - 1) / SHARE};
  pthread_t threads[MOST_THREADS];
  size_t started = 0;
  size_t wanted = threads_to_use();
  r.there = calloc(r.share_count, sizeof *r.there);
  if (!r.there)
    return ENOMEM;
  pthread_mutex_init(&r.lock, NULL);
  pthread_cond_init(&r.came, NULL);
  while (started + 1 < wanted && pthread_create(&threads[started], NULL, read_shares, &r) == 0)
    started++;
  read_and_sum(&r, sum);
  for (size_t i = 0; i < started; i++)
    pthread_join(threads[i], NULL);
  pthread_cond_destroy(&r.came);
  pthread_mutex_destroy(&r.lock);
  free(r.there);
  return atomic_load(&r.error);
}

bool image_read_file(int fd, uint8_t *to, size_t size, size_t uncovered, uint64_t *checksum) {
  struct sum sum = {.state = XXH3_createState(), .done = uncovered};
  if (!sum.state || XXH3_64bits_reset(sum.state) != XXH_OK) {
    XXH3_freeState(sum.state);
    errno = ENOMEM;
    return false;
  }
  int error =
      size < PARALLEL ? read_span(fd, to, 0, size, &sum) : read_parallel(fd, to, size, &sum);
  if (error == 0)
    *checksum = XXH3_64bits_digest(sum.state);
  XXH3_freeState(sum.state);
  errno = error;
  return error == 0;
}
