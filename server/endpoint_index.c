/* SPDX-License-Identifier: Apache-2.0 */
#include "server/endpoint_index.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 32 }; /* so many are searched through */

/* A domain with its endpoints by name. */
struct sorted {
  const struct steer_domain *domain;
  uint16_t *order;
};

struct endpoint_index {
  struct sorted *table; /* open addressing, a power of two */
  size_t capacity;
  size_t count;
  uint32_t next; /* after the one that was found last, for names in order */
};

struct endpoint_index *endpoint_index_new(void) {
  return calloc(1, sizeof(struct endpoint_index));
}

void endpoint_index_free(struct endpoint_index *index) {
  if (index == NULL)
    return;
  for (size_t i = 0; i < index->capacity; i++)
    free(index->table[i].order);
  free(index->table);
  free(index);
}

static struct sorted *slot_of(struct sorted *table, size_t capacity,
                              const struct steer_domain *domain) {
  size_t hash = (size_t)((uintptr_t)domain * UINT64_C(0x9e3779b97f4a7c15) >> 32);
  for (size_t i = hash & (capacity - 1);; i = (i + 1) & (capacity - 1))
    if (table[i].domain == NULL || table[i].domain == domain)
      return &table[i];
}

static bool grow(struct endpoint_index *index) {
  if (index->count * 2 < index->capacity)
    return true;
  size_t capacity = index->capacity > 0 ? index->capacity * 2 : 16;
  struct sorted *table = calloc(capacity, sizeof *table);
  if (table == NULL)
    return false;
  for (size_t i = 0; i < index->capacity; i++)
    if (index->table[i].domain != NULL)
      *slot_of(table, capacity, index->table[i].domain) = index->table[i];
  free(index->table);
  index->table = table;
  index->capacity = capacity;
  return true;
}

static int by_name(const void *a, const void *b, void *arg) {
  const struct steer_domain *domain = arg;
  return strcmp(domain->endpoints[*(const uint16_t *)a].name,
                domain->endpoints[*(const uint16_t *)b].name);
}

/* The domain's endpoints by name; NULL without memory: then they are searched through. */
static const uint16_t *order_of(struct endpoint_index *index, const struct steer_domain *domain) {
  if (!grow(index))
    return NULL;
  struct sorted *slot = slot_of(index->table, index->capacity, domain);
  if (slot->domain != NULL)
    return slot->order;
  uint16_t *order = calloc(domain->endpoint_count, sizeof *order);
  if (order == NULL)
    return NULL;
  for (uint32_t i = 0; i < domain->endpoint_count; i++)
    order[i] = (uint16_t)i;
  qsort_r(order, domain->endpoint_count, sizeof *order, by_name, (void *)(uintptr_t)domain);
  *slot = (struct sorted){.domain = domain, .order = order};
  index->count++;
  return order;
}

long endpoint_index_find(struct endpoint_index *index, const struct steer_domain *domain,
                         const char *name) {
  if (domain->endpoint_count <= FEW)
    return steer_endpoint_find(domain, name);
  if (index->next < domain->endpoint_count &&
      strcmp(domain->endpoints[index->next].name, name) == 0)
    return index->next++;
  const uint16_t *order = order_of(index, domain);
  if (order == NULL)
    return steer_endpoint_find(domain, name);
  size_t low = 0, high = domain->endpoint_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    uint16_t at = order[middle];
    int compared = strcmp(domain->endpoints[at].name, name);
    if (compared == 0) {
      index->next = at + 1u;
      return at;
    }
    if (compared < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}
