/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overrides in memory, by domain: what the store holds, for the main thread, so that a reload reads
 * no file.  Putting in and taking out cannot fail once there is room, so that memory and store
 * never part.
 */
#ifndef SLUICE_SERVER_OVERRIDE_TABLE_H
#define SLUICE_SERVER_OVERRIDE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/store.h"

enum override_state {
  OVERRIDE_IN_FORCE,
  OVERRIDE_EXPIRED, /* its time is over; still to be taken out of the store */
  OVERRIDE_GONE,    /* the configuration has no such target any more; likewise */
};

/* One block of memory with its texts; freed by free(). */
struct override {
  struct store_override data;
  enum override_state state;
};

struct override_domain {
  uint64_t hash;
  char *name;     /* absolute, lower case, with the final dot */
  uint8_t *owner; /* the same in wire format */
  size_t count;
  size_t room;
  size_t planned;          /* of the commit that is being prepared */
  struct override **items; /* in the order of their keys */
};

struct override_table {
  struct override_domain **slots; /* open addressing, a power of two; NULL: empty */
  size_t capacity;
  size_t domain_count;
  size_t count; /* of all overrides */
};

bool override_table_init(struct override_table *table);
void override_table_close(struct override_table *table);

/* A copy, in force; NULL without memory. */
struct override *override_copy(const struct store_override *from);

/* The overrides of a domain, or NULL: there never were any. */
struct override_domain *override_table_domain(const struct override_table *table, const char *name);
struct override *override_table_find(const struct override_table *table,
                                     const struct store_key *key);

/* Makes room for `more` overrides of a domain; false without memory, or for what is no name. */
bool override_table_reserve(struct override_table *table, const char *name, size_t more);

/* Puts one in where there is room; returns the one with the same key that was there, or NULL. */
struct override *override_table_put(struct override_table *table, struct override *override);

/* Takes one out and returns it; NULL if there is none. */
struct override *override_table_take(struct override_table *table, const struct store_key *key);

/* Calls visit() for all, in any order, until it returns false; tells if it never did.  The table
 * must not change meanwhile, the overrides may. */
bool override_table_visit(const struct override_table *table,
                          bool (*visit)(void *arg, const struct override_domain *domain,
                                        struct override *override),
                          void *arg);

#endif
