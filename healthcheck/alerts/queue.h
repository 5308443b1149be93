/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on their way: which one may be sent to which route now, and when a failed one is tried
 * again.
 *
 * For one key of a route the order is kept: a resolve waits until its trigger is through or given
 * up.  One message of a route is in flight at a time.  After a failure that may pass, the message
 * waits (1 s, doubled each time up to 5 minutes, with jitter) and so does its route, less long, so
 * that a dead receiver is asked now and then and a message that it does not like does not hold up
 * the others.  After a day a message is given up.  Pure: time and random numbers are passed in.
 */
#ifndef SLUICE_HEALTHCHECK_ALERTS_QUEUE_H
#define SLUICE_HEALTHCHECK_ALERTS_QUEUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

enum {
  QUEUE_MESSAGES = 10000,
  QUEUE_FIRST_MS = 1000,
  QUEUE_MOST_MS = 300000,
  QUEUE_ROUTE_MOST_MS = 30000,
  QUEUE_ASKED_MOST_MS = 3600000, /* of a receiver's Retry-After */
  QUEUE_AGE_MS = 86400000,
};

struct queue;

struct queue_message {
  uint64_t id; /* rising */
  char *route;
  char *key;
  json_t *event;
  int64_t born; /* Unix ms */
  unsigned tries;
  /* the rest is the queue's */
  uint64_t due; /* mono ms */
  bool in_flight;
  struct queue_message *next;
};

struct queue *queue_open(uint64_t seed);
void queue_close(struct queue *queue);

/* Adds a message at the end; takes the event over also when it fails (full, or no memory). */
struct queue_message *queue_add(struct queue *queue, uint64_t id, const char *route,
                                const char *key, json_t *event, int64_t born);

/* A message that may be sent now; it counts as in flight until one of the functions below is called
 * for it.  NULL: none. */
struct queue_message *queue_next(struct queue *queue, uint64_t now);
/* Milliseconds until queue_next() may have one; UINT64_MAX: only after a change. */
uint64_t queue_wait(const struct queue *queue, uint64_t now);

/* It is through, or given up: freed. */
void queue_done(struct queue *queue, struct queue_message *message, uint64_t now);
/* It failed for now; `after_ms`: what the receiver asked for, or 0.  False: it is too old, to be
 * given up with queue_done(). */
bool queue_failed(struct queue *queue, struct queue_message *message, uint64_t after_ms,
                  uint64_t now, int64_t unix_ms);
/* It was not really tried: it may be sent again at once. */
void queue_back(struct queue *queue, struct queue_message *message);

/* The message of that id, or NULL. */
struct queue_message *queue_find(const struct queue *queue, uint64_t id);
size_t queue_count(const struct queue *queue);
/* In order; NULL at the end.  Start with NULL. */
struct queue_message *queue_each(const struct queue *queue, const struct queue_message *before);

#endif
