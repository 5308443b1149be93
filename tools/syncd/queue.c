/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/syncd/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

enum {
  QUEUE_MAX = 256 << 20,
  FORMAT = 1,
  MODE = 0600,
  KEYS_MAX = 4000000,
  NAME_MOST = 2048,
  TEXT_MAX = 4096,
  ATTEMPTS_MAX = 1000000,
  ASIDE_MAX = 100,
};

static const json_int_t SECONDS_MAX = 253402300799; /* the end of year 9999 */

/* Names are checked by the configuration's reader, but become file names here. */
static bool is_file_name(const char *name) {
  size_t len = strlen(name);
  return len > 0 && len < 200 && name[0] != '.' && strchr(name, '/') == NULL;
}

static bool is_number(const json_t *job, const char *key, json_int_t most) {
  const json_t *value = json_object_get(job, key);
  json_int_t number = json_integer_value(value);
  return json_is_integer(value) && number >= 0 && number <= most;
}

static bool is_text_or_none(const json_t *job, const char *key) {
  const json_t *value = json_object_get(job, key);
  return !value || (json_is_string(value) && json_string_length(value) < TEXT_MAX);
}

static bool is_true_or_none(const json_t *job, const char *key) {
  const json_t *value = json_object_get(job, key);
  return !value || json_is_true(value);
}

static const char *job_fault(const json_t *job) {
  if (!is_number(job, "since", SECONDS_MAX) || !is_number(job, "attempts", ATTEMPTS_MAX) ||
      !is_number(job, "next", SECONDS_MAX * 1000))
    return "a job needs `since`, `attempts` and `next`";
  if (!is_text_or_none(job, "want") || !is_text_or_none(job, "error") ||
      !is_true_or_none(job, "alone"))
    return "`want`, `error` or `alone` of a job is none";
  return NULL;
}

static const char *fault(const json_t *root) {
  const char *key;
  json_t *item;
  json_t *jobs = json_object_get(root, "jobs");
  json_t *level = json_object_get(root, "level");
  if (json_integer_value(json_object_get(root, "format")) != FORMAT)
    return "`format` must be 1";
  if (!json_is_object(jobs) || !json_is_object(level))
    return "`jobs` and `level` must be objects";
  if (json_object_size(jobs) > KEYS_MAX || json_object_size(level) > KEYS_MAX)
    return "there are too many names";
  json_object_foreach(jobs, key, item) {
    const char *wrong = strlen(key) < NAME_MOST ? job_fault(item) : "a name is too long";
    if (wrong)
      return wrong;
  }
  json_object_foreach(level, key, item) {
    if (strlen(key) >= NAME_MOST || !json_is_string(item) || json_string_length(item) >= TEXT_MAX)
      return "what is in `level` must be texts";
  }
  return NULL;
}

bool queue_parse(struct queue *queue, const uint8_t *text, size_t len, char *why) {
  json_error_t error;
  const char *key;
  json_t *job;
  json_t *root = json_loadb((const char *)text, len, JSON_REJECT_DUPLICATES, &error);
  const char *wrong = root ? fault(root) : error.text;
  if (wrong) {
    snprintf(why, QUEUE_WHY, "%.200s", wrong);
    json_decref(root);
    return false;
  }
  json_object_foreach(json_object_get(root, "jobs"), key, job) {
    json_object_del(job, "again"); /* of a round that has ended with its process */
  }
  bool ok = json_object_update(queue->jobs, json_object_get(root, "jobs")) == 0 &&
            json_object_update(queue->level, json_object_get(root, "level")) == 0;
  json_decref(root);
  if (ok)
    return true;
  json_object_clear(queue->jobs);
  json_object_clear(queue->level);
  snprintf(why, QUEUE_WHY, "out of memory");
  return false;
}

/* Never over one that was set aside earlier. */
static bool set_aside(const char *path, char *out, size_t size) {
  for (int n = 1; n <= ASIDE_MAX; n++) {
    if (n == 1)
      snprintf(out, size, "%.4000s.damaged", path);
    else
      snprintf(out, size, "%.4000s.damaged.%d", path, n);
    if (renameat2(AT_FDCWD, path, AT_FDCWD, out, RENAME_NOREPLACE) == 0)
      return true;
    if (errno != EEXIST)
      return false;
  }
  return false;
}

static bool load(struct queue *queue, bool *damaged, char *why) {
  uint8_t *text = NULL;
  size_t len = 0;
  char reason[QUEUE_WHY];
  char aside[4096];
  if (access(queue->path, F_OK) != 0)
    return true;
  if (!fs_read(queue->path, QUEUE_MAX, &text, &len, why))
    return false;
  *damaged = !queue_parse(queue, text, len, reason);
  free(text);
  if (!*damaged)
    return true;
  bool ok = set_aside(queue->path, aside, sizeof aside);
  snprintf(why, QUEUE_WHY,
           ok ? "%.150s; it is %.200s now" : "%.150s; it cannot be renamed to %.200s", reason,
           aside);
  return ok;
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
  for (long long i = 1; i < attempts && wait < QUEUE_BACKOFF_MAX; i++)
    wait *= 2;
  if (wait > QUEUE_BACKOFF_MAX)
    wait = QUEUE_BACKOFF_MAX;
  return wait - (int64_t)((double)wait * random / 4);
}
