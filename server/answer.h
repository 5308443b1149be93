/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The response under construction, written over the request behind its question.  Private to the
 * query path: answer.c finds what the name comes to and copies finished bodies, compose.c goes on
 * where an alias leads to what could not be finished at build time.
 */
#ifndef SLUICE_SERVER_ANSWER_H
#define SLUICE_SERVER_ANSWER_H

#include "server/query.h"

struct answer {
  struct query *q;
  const struct view *view;
  struct query_worker *worker;
  size_t at;    /* where the next octet goes */
  size_t limit; /* octets that the response may have, OPT left out */
  uint16_t ancount, nscount, arcount;
  uint16_t rcode;
  bool aa;
  bool truncated; /* it did not fit */
  bool steered;   /* some name in it was steered */
  uint8_t scope;  /* longest ECS scope of the steered names in it */
};

/* Makes the whole response of a query whose question was read; returns its length. */
size_t answer_make(struct query *q, const struct view *view, struct query_worker *worker);

/* Turns a finished response into one without records that has TC set; returns its length. */
size_t answer_slip(struct query *q, struct query_worker *worker);

/* Counts one event; only the worker's own thread may call it. */
void query_count(struct query_worker *worker, enum query_counter counter);

/* Room for `n` more octets, or NULL: then the answer is truncated. */
uint8_t *answer_room(struct answer *a, size_t n);

/* The entry of a type; of an alias, the entry for all types without their own; or NULL. */
const struct image_entry *answer_find_entry(const struct image_node *node, uint16_t type);

/*
 * Draws and appends the records of a steered domain for a query type that it offers, under owners
 * that are a pointer to `owner_at`.  The result is the host name drawn (wire, lower case), or NULL
 * for addresses.
 */
const uint8_t *answer_steer(struct answer *a, const struct view_zone *zone, uint32_t domain,
                            enum steer_type type, uint16_t owner_at);

/* Whom to steer: the network of the client subnet option, or the packet's source. */
void answer_client(const struct query *q, struct geo_address *client);

/* True if the domain is to be drawn for this query type, and as which. */
bool answer_is_steered(const struct view_domain *domain, uint16_t qtype, enum steer_type *type);

/* compose.c: goes on from an alias whose target `target` (wire) stands at `target_at` in the
 * message. */
void compose_chase(struct answer *a, const uint8_t *target, size_t target_at);

/* compose.c: answers a query for a name below the DNAME `node`. */
void compose_dname(struct answer *a, const struct image_node *node);

#endif
