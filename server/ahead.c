/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a batch of queries can know one step ahead of its answers.
 *
 * A steered answer hangs on a chain of places in memory: domain, location table, draw tables, the
 * endpoint's records; an answer from a wildcard or a referral on the node above the name.  In a
 * large configuration with clients from everywhere hardly any of them is in the cache, and one
 * query after the other would wait for each.  Here every step goes over all queries of the batch
 * before the next one, so that these waits overlap.
 */
#include "server/answer.h"

enum { AHEAD_MAX = 64 }; /* queries of a batch of either kind; more go without */

/* ---- names that are not there: wildcards and referrals -----------------------------------------
 */

/* True if the lookup of the encloser will begin at the name above. */
static bool asks_above(const struct query *q) {
  if (q->verdict != VERDICT_LOOK_UP || !q->zone || q->hint)
    return false;
  const struct image_header *h = q->zone->image->header;
  return q->name.labels > h->apex_labels + 1 && q->name.labels <= h->max_labels + 1;
}

static void fetch_enclosers(struct query *queries, size_t count) {
  const struct image_node *enclosers[AHEAD_MAX];
  const struct image *images[AHEAD_MAX];
  size_t n = 0;
  for (size_t i = 0; i < count && n < AHEAD_MAX; i++) {
    if (!asks_above(&queries[i]))
      continue;
    images[n] = queries[i].zone->image;
    enclosers[n] = qname_probe(images[n], queries[i].name.hash[1]);
    if (enclosers[n])
      qname_prefetch_node(enclosers[n++]);
  }
  for (size_t i = 0; i < n; i++)
    if (enclosers[i]->wildcard != 0)
      qname_prefetch_node(image_node_at(images[i], enclosers[i]->wildcard));
}

/* ---- steered names -----------------------------------------------------------------------------
 */

static bool may_be_steered(const struct query *q) {
  return q->verdict == VERDICT_LOOK_UP && q->zone && q->hint && q->hint->domain != 0;
}

static size_t find_steered(struct query *queries, size_t count, struct query *steered[AHEAD_MAX]) {
  size_t n = 0;
  for (size_t i = 0; i < count && n < AHEAD_MAX; i++)
    if (may_be_steered(&queries[i]))
      steered[n++] = &queries[i];
  return n;
}

static const struct view_domain *domain_of(const struct query *q) {
  return &q->zone->domains[q->hint->domain - 1];
}

static void fetch_domain(struct query *q) {
  uint32_t domain = q->hint->domain - 1;
  __builtin_prefetch(&q->zone->domains[domain]);
  __builtin_prefetch(&q->zone->image->records[domain]);
}

static void fetch_facts(struct query *q) {
  const struct view_domain *d = domain_of(q);
  struct geo_address client;
  answer_client(q, &client);
  geo_table_prefetch(d->geo, &client);
  __builtin_prefetch(d->steer);
  __builtin_prefetch(atomic_load_explicit(&d->draws, memory_order_acquire));
  __builtin_prefetch(q->zone->image->records[d->index]);
}

/* Kept for the answer: it holds for this domain, whatever the name turns out to be. */
static void decide_region(struct query *q) {
  const struct view_domain *d = domain_of(q);
  struct geo_address client;
  answer_client(q, &client);
  q->ahead.outcome = geo_table_lookup(d->geo, &client);
  const struct view_draws *draws = atomic_load_explicit(&d->draws, memory_order_acquire);
  q->ahead.tables = &draws->tables[q->ahead.outcome.region * STEER_TYPES];
  q->ahead.domain = d;
  __builtin_prefetch(q->ahead.tables);
}

static void fetch_draw(struct query *q) {
  if (answer_is_steered(q->ahead.domain, q->qtype, &q->ahead.type))
    __builtin_prefetch(q->ahead.tables[q->ahead.type]);
  else
    q->ahead.domain = NULL;
}

static const struct image_records_ref *drawn_records(const struct query *q) {
  const struct image_records_ref *refs = q->zone->image->records[q->ahead.domain->index];
  return &refs[(size_t)q->ahead.endpoint * STEER_TYPES + q->ahead.type];
}

static void draw(struct query *q, struct query_worker *worker) {
  if (!q->ahead.domain)
    return;
  const struct draw_table *table = q->ahead.tables[q->ahead.type];
  if (table->answers > 1)
    return;
  q->ahead.endpoint = draw_one(table, &worker->rng);
  q->ahead.drawn = true;
  __builtin_prefetch(drawn_records(q));
}

static void fetch_records(struct query *q) {
  if (q->ahead.drawn)
    __builtin_prefetch(q->zone->image->base + drawn_records(q)->offset);
}

void query_look_ahead(struct query *queries, size_t count, struct query_worker *worker) {
  struct query *steered[AHEAD_MAX];
  fetch_enclosers(queries, count);
  size_t n = find_steered(queries, count, steered);
  for (size_t i = 0; i < n; i++)
    fetch_domain(steered[i]);
  for (size_t i = 0; i < n; i++)
    fetch_facts(steered[i]);
  for (size_t i = 0; i < n; i++)
    decide_region(steered[i]);
  for (size_t i = 0; i < n; i++)
    fetch_draw(steered[i]);
  for (size_t i = 0; i < n; i++)
    draw(steered[i], worker);
  for (size_t i = 0; i < n; i++)
    fetch_records(steered[i]);
}
