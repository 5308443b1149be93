/* SPDX-License-Identifier: Apache-2.0 */
#include "server/transfer_share.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct shared {
  struct shared *next;
  struct stat
      file; /* as it was read; st_ino 0: it was replaced meanwhile, nobody else may use it */
  struct records records;
  unsigned references;
};

static struct shared *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_same(const struct stat *a, const struct stat *b) {
  return a->st_ino != 0 && a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
         a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
         a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* One more user of the file if it is open; with the lock held. */
static bool take(struct records *records, const struct stat *file) {
  struct shared *shared = all;
  while (shared != NULL && !is_same(&shared->file, file))
    shared = shared->next;
  if (shared == NULL)
    return false;
  shared->references++;
  *records = shared->records;
  return true;
}

static bool take_open(struct records *records, const struct stat *file) {
  pthread_mutex_lock(&lock);
  bool found = take(records, file);
  pthread_mutex_unlock(&lock);
  return found;
}

/* Makes a file that was read known, unless another thread was faster. */
static void add(struct shared *fresh, struct records *records) {
  pthread_mutex_lock(&lock);
  bool found = take(records, &fresh->file);
  if (!found) {
    fresh->next = all;
    fresh->references = 1;
    all = fresh;
    *records = fresh->records;
  }
  pthread_mutex_unlock(&lock);
  if (!found)
    return;
  records_close(&fresh->records);
  free(fresh);
}

bool transfer_share_open(struct records *records, const char *path, char *why) {
  struct stat before = {.st_ino = 0};
  struct stat after;
  *records = (struct records){.base = NULL};
  if (stat(path, &before) == 0 && take_open(records, &before))
    return true;
  struct shared *fresh = calloc(1, sizeof *fresh);
  if (fresh == NULL) {
    snprintf(why, 512, "out of memory");
    return false;
  }
  if (!records_open(&fresh->records, path, why)) {
    free(fresh);
    return false;
  }
  if (stat(path, &after) == 0 && is_same(&before, &after))
    fresh->file = after;
  add(fresh, records);
  return true;
}

/* Takes the entry out of the list if that was its last user; NULL if not. */
static struct shared *drop(const struct records *records) {
  struct shared **at = &all;
  while (*at != NULL && (*at)->records.base != records->base)
    at = &(*at)->next;
  struct shared *shared = *at;
  if (shared == NULL || --shared->references > 0)
    return NULL;
  *at = shared->next;
  return shared;
}

void transfer_share_close(struct records *records) {
  if (records->base == NULL)
    return;
  pthread_mutex_lock(&lock);
  struct shared *last = drop(records);
  pthread_mutex_unlock(&lock);
  *records = (struct records){.base = NULL};
  if (last == NULL)
    return;
  records_close(&last->records);
  free(last);
}
