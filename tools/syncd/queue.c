/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/syncd/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

enum { QUEUE_MAX = 256 << 20, BACKOFF_MAX = 300000, FORMAT = 1, MODE = 0600 };

/* Names are checked by the configuration's reader, but become file names here. */
static bool is_file_name(const char *name) {
  size_t len = strlen(name);
  return len > 0 && len < 200 && name[0] != '.' && strchr(name, '/') == NULL;
}

static bool is_number(const json_t *job, const char *key) {
  return json_is_integer(json_object_get(job, key));
}

static bool take(struct queue *queue, const json_t *root) {
  const char *key;
  json_t *item;
  const json_t *jobs = json_object_get(root, "jobs");
  const json_t *level = json_object_get(root, "level");
  if (json_integer_value(json_object_get(root, "format")) != FORMAT || !json_is_object(jobs) ||
      !json_is_object(level))
    return false;
  json_object_foreach((json_t *)(uintptr_t)jobs, key, item) {
    if (!is_number(item, "since") || !is_number(item, "attempts") || !is_number(item, "next"))
      return false;
  }
  json_object_foreach((json_t *)(uintptr_t)level, key, item) {
    if (!json_is_string(item))
      return false;
  }
  return json_object_update(queue->jobs, (json_t *)(uintptr_t)jobs) == 0 &&
         json_object_update(queue->level, (json_t *)(uintptr_t)level) == 0;
}

static bool load(struct queue *queue, bool *damaged, char *why) {
  uint8_t *text = NULL;
  size_t len = 0;
  if (access(queue->path, F_OK) != 0)
    return true;
  if (!fs_read(queue->path, QUEUE_MAX, &text, &len, why))
    return false;
  json_t *root = json_loadb((const char *)text, len, JSON_REJECT_DUPLICATES, NULL);
  bool ok = take(queue, root);
  json_decref(root);
  free(text);
  if (ok)
    return true;
  char aside[4096];
  *damaged = true;
  json_object_clear(queue->jobs);
  json_object_clear(queue->level);
  snprintf(aside, sizeof aside, "%.4000s.damaged", queue->path);
  if (rename(queue->path, aside) == 0)
    return true;
  snprintf(why, QUEUE_WHY, "%.400s is damaged and cannot be renamed", queue->path);
  return false;
}

bool queue_open(struct queue *queue, const char *folder, const char *name, bool *damaged,
                char *why) {
  *queue = (struct queue){0};
  *damaged = false;
  if (!is_file_name(name)) {
    snprintf(why, QUEUE_WHY, "`%.100s` cannot be the name of a provider", name);
    return false;
  }
  queue->name = strdup(name);
  queue->jobs = json_object();
  queue->level = json_object();
  if (asprintf(&queue->path, "%s/%s.json", folder, name) < 0)
    queue->path = NULL;
  if (queue->name && queue->jobs && queue->level && queue->path)
    return load(queue, damaged, why);
  snprintf(why, QUEUE_WHY, "out of memory");
  return false;
}

void queue_close(struct queue *queue) {
  free(queue->name);
  free(queue->path);
  json_decref(queue->jobs);
  json_decref(queue->level);
  *queue = (struct queue){0};
}

bool queue_save(struct queue *queue, char *why) {
  if (!queue->dirty)
    return true;
  json_t *root = json_pack("{s:i, s:s, s:O, s:O}", "format", FORMAT, "provider", queue->name,
                           "jobs", queue->jobs, "level", queue->level);
  char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
  snprintf(why, QUEUE_WHY, "out of memory");
  bool ok = text && fs_write_atomic(queue->path, text, strlen(text), MODE, why);
  if (ok)
    queue->dirty = false;
  free(text);
  json_decref(root);
  return ok;
}

json_t *queue_add(struct queue *queue, const char *domain, int64_t now_s) {
  json_t *job = json_object_get(queue->jobs, domain);
  if (job)
    return job;
  job = json_pack("{s:I, s:i, s:i}", "since", (json_int_t)now_s, "attempts", 0, "next", 0);
  if (!job || json_object_set_new(queue->jobs, domain, job) != 0)
    return NULL;
  queue->dirty = true;
  return job;
}

int64_t queue_backoff(int64_t first, long long attempts, double random) {
  int64_t wait = first;
  for (long long i = 1; i < attempts && wait < BACKOFF_MAX; i++)
    wait *= 2;
  if (wait > BACKOFF_MAX)
    wait = BACKOFF_MAX;
  return wait - (int64_t)((double)wait * random / 4);
}
