/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of alerts: what alerts.c (the loop) and delivery.c (routes and messages) have in common.
 */
#ifndef SLUICE_HEALTHCHECK_ALERTS_ALERTS_PRIVATE_H
#define SLUICE_HEALTHCHECK_ALERTS_ALERTS_PRIVATE_H

#include "healthcheck/alerts.h"
#include "healthcheck/alerts/book.h"
#include "healthcheck/alerts/format.h"
#include "healthcheck/alerts/judge.h"
#include "healthcheck/alerts/queue.h"
#include "healthcheck/alerts/sender.h"
#include "healthcheck/alerts/spool.h"

/* A route of defaults.yaml, and how it goes there. */
struct alerts_route {
  struct alerts_route *next;
  char *name;
  char *url;    /* or NULL */
  char *secret; /* its name, or NULL */
  enum format format;
  char error[SENDER_ERROR]; /* "": it works, as far as known */
  int64_t error_since;      /* Unix seconds */
};

struct alerts {
  uv_loop_t *loop;
  uv_timer_t timer;
  struct judge *judge;
  struct book *book;
  struct queue *queue;
  struct spool *spool; /* or NULL: in memory */
  struct sender *sender;
  json_t *secrets;
  struct alerts_route *routes;
  struct delivery *deliveries; /* under way */
  uint64_t next_id;
  bool configured;
  bool closing;
};

void alerts_wake(struct alerts *alerts);
/* Closing, the second half: when nothing is under way any more, or it took too long. */
void alerts_finish(struct alerts *alerts);
/* Writes the records that were added. */
void alerts_save(struct alerts *alerts);

/* Sinks of the book. */
void alerts_record(void *arg, json_t *record);
bool alerts_tell(void *arg, const char *route, const char *key, json_t *event);

/* Routes; trusts nothing.  False with one line in `why` (ALERTS_WHY octets). */
bool alerts_read_routes(const json_t *routes, struct alerts_route **out, char *why);
void alerts_free_routes(struct alerts_route *routes);
/* They are in force from now on; messages to others are dropped. */
void alerts_take_routes(struct alerts *alerts, struct alerts_route *routes);
json_t *alerts_failed_json(const struct alerts *alerts);

/* Records of the spool. */
json_t *alerts_head_record(const struct alerts *alerts);
json_t *alerts_message_record(const struct queue_message *message);
/* False if the record is none of a message. */
bool alerts_restore_message(struct alerts *alerts, const json_t *record);

/* Starts what may be sent now. */
void alerts_send(struct alerts *alerts, const struct moment *now);
/* Nothing that is under way tells any more. */
void alerts_end_jobs(struct alerts *alerts);

#endif
