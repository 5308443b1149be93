/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/alerts/queue.h"

#include <stdlib.h>
#include <string.h>

struct lane { /* one for each route that ever had a message */
  struct lane *next;
  char *route;
  bool busy;
  unsigned failures; /* in a row */
  uint64_t due;
};

struct queue {
  struct queue_message *first, *last;
  size_t count;
  struct lane *lanes;
  struct rng rng;
};

struct queue *queue_open(uint64_t seed) {
  struct queue *queue = calloc(1, sizeof *queue);
  if (queue != NULL)
    rng_seed(&queue->rng, seed);
  return queue;
}

static void free_message(struct queue_message *message) {
  json_decref(message->event);
  free(message->route);
  free(message->key);
  free(message);
}

void queue_close(struct queue *queue) {
  if (queue == NULL)
    return;
  for (struct queue_message *m = queue->first, *next; m != NULL; m = next) {
    next = m->next;
    free_message(m);
  }
  for (struct lane *lane = queue->lanes, *next; lane != NULL; lane = next) {
    next = lane->next;
    free(lane->route);
    free(lane);
  }
  free(queue);
}

static struct lane *find_lane(const struct queue *queue, const char *route) {
  struct lane *lane = queue->lanes;
  while (lane != NULL && strcmp(lane->route, route) != 0)
    lane = lane->next;
  return lane;
}

static bool make_lane(struct queue *queue, const char *route) {
  if (find_lane(queue, route) != NULL)
    return true;
  struct lane *lane = calloc(1, sizeof *lane);
  char *name = strdup(route);
  if (lane == NULL || name == NULL) {
    free(lane);
    free(name);
    return false;
  }
  lane->route = name;
  lane->next = queue->lanes;
  queue->lanes = lane;
  return true;
}

struct queue_message *queue_add(struct queue *queue, uint64_t id, const char *route,
                                const char *key, json_t *event, int64_t born) {
  struct queue_message *message = calloc(1, sizeof *message);
  if (message == NULL || queue->count >= QUEUE_MESSAGES || !make_lane(queue, route)) {
    free(message);
    json_decref(event);
    return NULL;
  }
  message->id = id;
  message->event = event;
  message->born = born;
  message->route = strdup(route);
  message->key = strdup(key);
  if (message->route == NULL || message->key == NULL) {
    free_message(message);
    return NULL;
  }
  if (queue->last != NULL)
    queue->last->next = message;
  else
    queue->first = message;
  queue->last = message;
  queue->count++;
  return message;
}

/* True if an earlier message of the same route has the same key. */
static bool has_to_wait(const struct queue *queue, const struct queue_message *message) {
  for (const struct queue_message *m = queue->first; m != message; m = m->next)
    if (strcmp(m->key, message->key) == 0 && strcmp(m->route, message->route) == 0)
      return true;
  return false;
}

/* The first message of the lane that is due, or else when the next one will be. */
static struct queue_message *first_of(const struct queue *queue, const struct lane *lane,
                                      uint64_t now, uint64_t *due) {
  *due = UINT64_MAX;
  if (lane->busy)
    return NULL;
  for (struct queue_message *m = queue->first; m != NULL; m = m->next) {
    if (strcmp(m->route, lane->route) != 0)
      continue;
    uint64_t when = m->due > lane->due ? m->due : lane->due;
    if (when >= *due || has_to_wait(queue, m))
      continue;
    *due = when;
    if (when <= now)
      return m;
    if (when == lane->due) /* none can be due earlier */
      return NULL;
  }
  return NULL;
}

struct queue_message *queue_next(struct queue *queue, uint64_t now) {
  for (struct lane *lane = queue->lanes; lane != NULL; lane = lane->next) {
    uint64_t due;
    struct queue_message *message = first_of(queue, lane, now, &due);
    if (message == NULL)
      continue;
    lane->busy = true;
    message->in_flight = true;
    return message;
  }
  return NULL;
}

uint64_t queue_wait(const struct queue *queue, uint64_t now) {
  uint64_t first = UINT64_MAX;
  for (const struct lane *lane = queue->lanes; lane != NULL; lane = lane->next) {
    uint64_t due;
    (void)first_of(queue, lane, now, &due);
    if (due < first)
      first = due;
  }
  if (first == UINT64_MAX)
    return UINT64_MAX;
  return first > now ? first - now : 0;
}

static void release(struct queue *queue, struct queue_message *message) {
  struct lane *lane = find_lane(queue, message->route);
  if (message->in_flight && lane != NULL)
    lane->busy = false;
  message->in_flight = false;
}

void queue_done(struct queue *queue, struct queue_message *message, uint64_t now) {
  struct lane *lane = find_lane(queue, message->route);
  if (message->in_flight && lane != NULL) {
    lane->failures = 0;
    lane->due = now;
  }
  release(queue, message);
  struct queue_message *before = NULL;
  for (struct queue_message *m = queue->first; m != message; m = m->next)
    before = m;
  if (before != NULL)
    before->next = message->next;
  else
    queue->first = message->next;
  if (queue->last == message)
    queue->last = before;
  queue->count--;
  free_message(message);
}

/* Doubled for each failure, and a quarter more or less. */
static uint64_t backoff(struct queue *queue, unsigned failures, uint64_t most) {
  uint64_t delay = QUEUE_FIRST_MS;
  for (unsigned i = 1; i < failures && delay < most; i++)
    delay *= 2;
  if (delay > most)
    delay = most;
  return delay * 3 / 4 + rng_below(&queue->rng, (uint32_t)(delay / 2));
}

bool queue_failed(struct queue *queue, struct queue_message *message, uint64_t after_ms,
                  uint64_t now, int64_t unix_ms) {
  struct lane *lane = find_lane(queue, message->route);
  release(queue, message);
  message->tries++;
  if (after_ms > QUEUE_ASKED_MOST_MS)
    after_ms = QUEUE_ASKED_MOST_MS;
  uint64_t delay = backoff(queue, message->tries, QUEUE_MOST_MS);
  message->due = now + (after_ms > delay ? after_ms : delay);
  if (lane != NULL) {
    lane->failures++;
    delay = backoff(queue, lane->failures, QUEUE_ROUTE_MOST_MS);
    lane->due = now + (after_ms > delay ? after_ms : delay);
  }
  return unix_ms - message->born < QUEUE_AGE_MS;
}

void queue_back(struct queue *queue, struct queue_message *message) {
  release(queue, message);
}

struct queue_message *queue_find(const struct queue *queue, uint64_t id) {
  struct queue_message *m = queue->first;
  while (m != NULL && m->id != id)
    m = m->next;
  return m;
}

size_t queue_count(const struct queue *queue) {
  return queue->count;
}

struct queue_message *queue_each(const struct queue *queue, const struct queue_message *before) {
  return before == NULL ? queue->first : before->next;
}
