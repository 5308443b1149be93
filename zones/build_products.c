/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/build_products.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/name.h"

enum { MAX_THREADS = 16 };

struct crew {
  struct builddir *dir;
  struct build_product *items;
  size_t count;
  atomic_size_t next; /* item that nobody has begun */
  atomic_bool failed;
  pthread_mutex_t lock; /* of `why` */
  char *why;
};

static bool compile(struct builddir *dir, struct build_product *item, char *why) {
  struct buf out;
  char reason[FS_WHY] = "";
  char name[NAME_MAX_TEXT];
  buf_init(&out);
  bool ok = item->compile(item->zone, item->serial, &out, reason);
  if (!ok)
    snprintf(why, FS_WHY, "zone %.200s: %.300s", name_to_text(name, item->zone->apex), reason);
  else if (out.failed || !builddir_sha(out.data, out.len, item->sha)) {
    snprintf(why, FS_WHY, "out of memory");
    ok = false;
  } else
    ok = builddir_write(dir, item->file, out.data, out.len, why);
  buf_close(&out);
  item->made = true;
  return ok;
}

static bool make(struct builddir *dir, struct build_product *item, char *why) {
  item->made = false;
  if (item->sha[0] && builddir_has(dir, item->file, item->sha) && builddir_link(dir, item->file))
    return true;
  if (item->zone->kept) {
    char name[NAME_MAX_TEXT];
    item->lost = true;
    snprintf(why, FS_WHY, "%.200s of zone %.200s cannot be taken over from the live build",
             item->file, name_to_text(name, item->zone->apex));
    return false;
  }
  return compile(dir, item, why);
}

static void *work(void *arg) {
  struct crew *crew = arg;
  char why[FS_WHY];
  while (!atomic_load(&crew->failed)) {
    size_t i = atomic_fetch_add(&crew->next, 1);
    if (i >= crew->count)
      break;
    if (make(crew->dir, &crew->items[i], why))
      continue;
    pthread_mutex_lock(&crew->lock);
    if (!atomic_exchange(&crew->failed, true))
      memcpy(crew->why, why, sizeof why);
    pthread_mutex_unlock(&crew->lock);
  }
  return NULL;
}

static size_t thread_count(size_t items) {
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  size_t most = cpus > MAX_THREADS ? MAX_THREADS : cpus < 1 ? 1 : (size_t)cpus;
  return items < most ? items : most;
}

bool build_make_products(struct builddir *dir, struct build_product *items, size_t count,
                         char *why) {
  struct crew crew = {.dir = dir, .items = items, .count = count, .why = why};
  pthread_t threads[MAX_THREADS];
  size_t started = 0;
  size_t wanted = thread_count(count);
  pthread_mutex_init(&crew.lock, NULL);
  /* This thread works, too, so it does no harm if others cannot be started. */
  while (started + 1 < wanted && !pthread_create(&threads[started], NULL, work, &crew))
    started++;
  work(&crew);
  for (size_t i = 0; i < started; i++)
    pthread_join(threads[i], NULL);
  pthread_mutex_destroy(&crew.lock);
  return !atomic_load(&crew.failed);
}
