/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of sluice-syncd: what is read is within bounds, and the same once written and read again;
 * of what is refused nothing is left. */
#include <stdlib.h>
#include <string.h>

#include "tools/syncd/queue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
  if (!condition)
    abort();
}

static void init(struct queue *queue) {
  *queue = (struct queue){.jobs = json_object(), .level = json_object()};
  require(queue->jobs && queue->level);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char why[QUEUE_WHY] = "";
  struct queue queue;
  struct queue again;
  const char *key;
  json_t *job;
  json_object_seed(1);
  init(&queue);
  if (!queue_parse(&queue, data, size, why)) {
    require(why[0] != 0 && json_object_size(queue.jobs) + json_object_size(queue.level) == 0);
    queue_close(&queue);
    return 0;
  }
  json_object_foreach(queue.jobs, key, job) {
    require(json_integer_value(json_object_get(job, "attempts")) >= 0);
    require(queue_backoff(1000, json_integer_value(json_object_get(job, "attempts")), 0.5) > 0);
    require(queue_add(&queue, key, 1) == job);
  }
  json_t *root =
      json_pack("{s:i, s:O, s:O}", "format", 1, "jobs", queue.jobs, "level", queue.level);
  char *text = json_dumps(root, JSON_COMPACT);
  init(&again);
  require(text && queue_parse(&again, (const uint8_t *)text, strlen(text), why));
  require(json_equal(again.jobs, queue.jobs) && json_equal(again.level, queue.level));
  free(text);
  json_decref(root);
  queue_close(&again);
  queue_close(&queue);
  return 0;
}
