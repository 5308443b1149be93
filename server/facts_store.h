/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records behind server/facts.h: a table by (domain, endpoint), and its file.
 */
#ifndef SLUICE_SERVER_FACTS_STORE_H
#define SLUICE_SERVER_FACTS_STORE_H

#include <jansson.h>

#include <jansson.h>

#include "base/buf.h"
#include "server/facts.h"

struct fact {
  uint64_t hash;
  uint8_t *owner; /* wire format, lower case */
  char *endpoint;
  uint8_t values[FACT_FIELDS];
};

struct fact_table {
  struct fact **slots; /* open addressing, a power of two; NULL: empty */
  size_t count;
  size_t capacity;
};

bool fact_table_init(struct fact_table *table);
void fact_table_close(struct fact_table *table);

/* The record, or NULL; fact_table_get() makes an empty one if there is none (NULL without memory).
 */
struct fact *fact_table_find(const struct fact_table *table, const uint8_t *owner,
                             const char *endpoint);
struct fact *fact_table_get(struct fact_table *table, const uint8_t *owner, const char *endpoint);

/* Removes and frees the records for which keep() is false; false without memory, and then none. */
bool fact_table_filter(struct fact_table *table, bool (*keep)(void *arg, const struct fact *fact),
                       void *arg);

/* What layer 2 sees of a record. */
struct steer_status fact_status(const struct fact *fact);

/* Appends what is measured as down to `out`, for fact_copy_to_text(): for a thread that writes it
 * while the records change.  What is up or unknown counts the same, and is left out. */
void fact_table_copy(const struct fact_table *table, struct buf *out);

/* Measured health to the text of a JSON document and from it.  Reading trusts nothing: false if the
 * document is not of the right form.  Files of earlier versions hold more (server/migrate.h), told
 * by *more. */
void fact_copy_to_text(const struct buf *copy, struct buf *out);
bool fact_table_from_json(struct fact_table *table, const json_t *root, bool *more);

#endif
