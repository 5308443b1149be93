/* SPDX-License-Identifier: Apache-2.0 */
/* Which objects belong to which domain of a target, and the documents that they stand for. */
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "tools/sync/run.h"

/* Objects of steered names, those of one name side by side and in their order. */
struct owned {
  const struct provider_object **items;
  size_t count;
};

static int compare_owned(const void *a, const void *b) {
  const struct provider_object *x = *(const struct provider_object *const *)a;
  const struct provider_object *y = *(const struct provider_object *const *)b;
  int c = strcmp(x->domain, y->domain);
  return c != 0 ? c : (x > y) - (x < y);
}

static void open_owned(struct owned *owned, const struct provider_objects *objects) {
  *owned = (struct owned){.items = malloc((objects->count + 1) * sizeof *owned->items)};
  for (size_t i = 0; owned->items && i < objects->count; i++)
    if (objects->items[i].domain)
      owned->items[owned->count++] = &objects->items[i];
  if (owned->count > 0)
    qsort(owned->items, owned->count, sizeof *owned->items, compare_owned);
}

static int compare_to_domain(const void *domain, const void *item) {
  return strcmp(domain, (*(const struct provider_object *const *)item)->domain);
}

/* Position of the first object of the domain, or of a later one. */
static size_t first_of(const struct owned *owned, const char *domain) {
  return search_first(domain, owned->items, owned->count, sizeof *owned->items, compare_to_domain);
}

/* The document that the objects of one domain stand for, or NULL. */
static json_t *document(const struct sync_target *t, void *self, const struct owned *owned,
                        const char *domain) {
  struct provider_error ignored;
  size_t first = first_of(owned, domain);
  size_t end = first;
  bool opaque = false;
  for (; end < owned->count && strcmp(owned->items[end]->domain, domain) == 0; end++)
    opaque = opaque || owned->items[end]->opaque;
  return end > first && !opaque && t->provider->kind->decompile
             ? t->provider->kind->decompile(self, owned->items + first, end - first, &ignored)
             : NULL;
}

void sync_documents_make(struct sync_target *t, void *self) {
  struct owned before;
  struct owned after;
  open_owned(&before, &t->actual);
  open_owned(&after, &t->desired);
  for (size_t i = 0; i < t->zone->zone->domain_count; i++) {
    json_decref(t->before[i]);
    json_decref(t->after[i]);
    t->before[i] = document(t, self, &before, t->zone->domains[i].name);
    t->after[i] = document(t, self, &after, t->zone->domains[i].name);
  }
  free(before.items);
  free(after.items);
}

/* ---- plain records -------------------------------------------------------------------------- */

static int compare_domains(const void *a, const void *b) {
  const struct sync_domain *const *x = a;
  const struct sync_domain *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

/* A domain answers A, AAAA and CNAME of its name; beside it records of other types live on their
 * own.  A CNAME has nothing beside it, so what is there goes with it. */
static bool belongs(const struct provider_object *object, const struct sync_domain *domain) {
  return domain->domain->steer->offers[STEER_CNAME] || sync_is_steered_type(object->type);
}

bool sync_documents_adopt(struct sync_target *t) {
  size_t count = t->zone->zone->domain_count;
  const struct sync_domain **domains = malloc((count + 1) * sizeof *domains);
  bool ok = domains;
  for (size_t i = 0; ok && i < count; i++)
    domains[i] = &t->zone->domains[i];
  if (ok && count > 0)
    qsort(domains, count, sizeof *domains, compare_domains);
  for (size_t i = 0; ok && count > 0 && i < t->actual.count; i++) {
    struct provider_object *o = &t->actual.items[i];
    struct sync_domain wanted;
    const struct sync_domain *pointer = &wanted;
    if (o->domain || strlen(o->name) >= sizeof wanted.name)
      continue;
    strcpy(wanted.name, o->name);
    const struct sync_domain **found =
        bsearch(&pointer, domains, count, sizeof *domains, compare_domains);
    if (!found || !belongs(o, *found))
      continue;
    o->domain = strdup(o->name);
    ok = o->domain;
  }
  free(domains);
  return ok;
}
