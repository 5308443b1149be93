/* SPDX-License-Identifier: Apache-2.0 */
#include "server/override_table.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

#include "base/name.h"

/* ---- overrides --------------------------------------------------------------------------------
 */

static size_t text_size(const char *text) {
  return text != NULL ? strlen(text) + 1 : 0;
}

static const char *put_text(char **to, const char *text) {
  if (text == NULL)
    return NULL;
  char *copy = *to;
  size_t size = strlen(text) + 1;
  memcpy(copy, text, size);
  *to += size;
  return copy;
}

struct override *override_copy(const struct store_override *from) {
  const struct store_key *key = &from->key;
  size_t size = text_size(key->domain) + text_size(key->endpoint) + text_size(key->region) +
                text_size(from->who) + text_size(from->origin) + text_size(from->reason) +
                text_size(from->cause) + text_size(from->before);
  struct override *copy = malloc(sizeof *copy + size);
  if (copy == NULL)
    return NULL;
  char *to = (char *)(copy + 1);
  *copy = (struct override){.data = *from, .state = OVERRIDE_IN_FORCE};
  copy->data.key.domain = put_text(&to, key->domain);
  copy->data.key.endpoint = put_text(&to, key->endpoint);
  copy->data.key.region = key->region != NULL ? put_text(&to, key->region) : "";
  copy->data.who = put_text(&to, from->who);
  copy->data.origin = put_text(&to, from->origin);
  copy->data.reason = put_text(&to, from->reason);
  copy->data.cause = put_text(&to, from->cause);
  copy->data.before = put_text(&to, from->before);
  return copy;
}

static int compare_numbers(uint32_t a, uint32_t b) {
  return a < b ? -1 : a > b;
}

/* Within one domain; in the order of the store. */
static int compare(const struct store_key *a, const struct store_key *b) {
  int order = compare_numbers((uint32_t)a->kind, (uint32_t)b->kind);
  if (order == 0)
    order = strcasecmp(a->region != NULL ? a->region : "", b->region != NULL ? b->region : "");
  if (order == 0)
    order = compare_numbers(a->level, b->level);
  if (order == 0)
    order = strcmp(a->endpoint, b->endpoint);
  return order != 0 ? order : compare_numbers(a->family, b->family);
}

/* Where the key is among the items of its domain, or belongs; *found tells. */
static size_t position(const struct override_domain *domain, const struct store_key *key,
                       bool *found) {
  size_t low = 0, high = domain->count;
  *found = false;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = compare(&domain->items[middle]->data.key, key);
    if (order == 0) {
      *found = true;
      return middle;
    }
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* ---- domains ----------------------------------------------------------------------------------
 */

static uint64_t hash_of(const char *name) {
  return XXH3_64bits(name, strlen(name));
}

static struct override_domain **slot_of(const struct override_table *table, uint64_t hash,
                                        const char *name) {
  for (size_t i = (size_t)hash & (table->capacity - 1);; i = (i + 1) & (table->capacity - 1)) {
    struct override_domain *domain = table->slots[i];
    if (domain == NULL || (domain->hash == hash && strcmp(domain->name, name) == 0))
      return &table->slots[i];
  }
}

bool override_table_init(struct override_table *table) {
  *table = (struct override_table){.capacity = 16};
  table->slots = calloc(table->capacity, sizeof *table->slots);
  return table->slots != NULL;
}

static void domain_free(struct override_domain *domain) {
  for (size_t i = 0; i < domain->count; i++)
    free(domain->items[i]);
  free(domain->items);
  free(domain->owner);
  free(domain->name);
  free(domain);
}

void override_table_close(struct override_table *table) {
  for (size_t i = 0; table->slots != NULL && i < table->capacity; i++)
    if (table->slots[i] != NULL)
      domain_free(table->slots[i]);
  free(table->slots);
  *table = (struct override_table){.slots = NULL};
}

static bool grow(struct override_table *table) {
  struct override_table next = *table;
  next.capacity = table->capacity * 2;
  next.slots = calloc(next.capacity, sizeof *next.slots);
  if (next.slots == NULL)
    return false;
  for (size_t i = 0; i < table->capacity; i++)
    if (table->slots[i] != NULL)
      *slot_of(&next, table->slots[i]->hash, table->slots[i]->name) = table->slots[i];
  free(table->slots);
  *table = next;
  return true;
}

static struct override_domain *domain_new(const char *name, uint64_t hash) {
  uint8_t mixed[NAME_BUF], owner[NAME_BUF];
  const char *why;
  if (name_from_text(mixed, name, strlen(name), NULL, &why) == 0)
    return NULL;
  size_t length = name_copy_lower(owner, mixed);
  struct override_domain *domain = calloc(1, sizeof *domain);
  if (domain == NULL)
    return NULL;
  domain->hash = hash;
  domain->name = strdup(name);
  domain->owner = malloc(length);
  if (domain->name == NULL || domain->owner == NULL) {
    domain_free(domain);
    return NULL;
  }
  memcpy(domain->owner, owner, length);
  return domain;
}

struct override_domain *override_table_domain(const struct override_table *table,
                                              const char *name) {
  return *slot_of(table, hash_of(name), name);
}

struct override *override_table_find(const struct override_table *table,
                                     const struct store_key *key) {
  const struct override_domain *domain = override_table_domain(table, key->domain);
  bool found = false;
  size_t at = domain != NULL ? position(domain, key, &found) : 0;
  return found ? domain->items[at] : NULL;
}

bool override_table_reserve(struct override_table *table, const char *name, size_t more) {
  uint64_t hash = hash_of(name);
  struct override_domain *domain = *slot_of(table, hash, name);
  if (domain == NULL) {
    if (table->domain_count * 2 >= table->capacity && !grow(table))
      return false;
    domain = domain_new(name, hash);
    if (domain == NULL)
      return false;
    *slot_of(table, hash, name) = domain;
    table->domain_count++;
  }
  if (domain->room - domain->count >= more)
    return true;
  size_t room = domain->room * 2 > domain->count + more ? domain->room * 2 : domain->count + more;
  struct override **items = realloc(domain->items, room * sizeof(struct override *));
  if (items == NULL)
    return false;
  domain->items = items;
  domain->room = room;
  return true;
}

struct override *override_table_put(struct override_table *table, struct override *override) {
  struct override_domain *domain = override_table_domain(table, override->data.key.domain);
  bool found;
  size_t at = position(domain, &override->data.key, &found);
  if (found) {
    struct override *old = domain->items[at];
    domain->items[at] = override;
    return old;
  }
  memmove(&domain->items[at + 1], &domain->items[at],
          (domain->count - at) * sizeof(struct override *));
  domain->items[at] = override;
  domain->count++;
  table->count++;
  return NULL;
}

struct override *override_table_take(struct override_table *table, const struct store_key *key) {
  struct override_domain *domain = override_table_domain(table, key->domain);
  bool found = false;
  size_t at = domain != NULL ? position(domain, key, &found) : 0;
  if (!found)
    return NULL;
  struct override *old = domain->items[at];
  domain->count--;
  table->count--;
  memmove(&domain->items[at], &domain->items[at + 1],
          (domain->count - at) * sizeof(struct override *));
  return old;
}

bool override_table_visit(const struct override_table *table,
                          bool (*visit)(void *arg, const struct override_domain *domain,
                                        struct override *override),
                          void *arg) {
  for (size_t i = 0; i < table->capacity; i++) {
    const struct override_domain *domain = table->slots[i];
    for (size_t k = 0; domain != NULL && k < domain->count; k++)
      if (!visit(arg, domain, domain->items[k]))
        return false;
  }
  return true;
}
