/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts changes of record sets into batches that Route 53's limits allow. */
#include <stdlib.h>
#include <string.h>

#include "tools/providers/route53_private.h"

/* Where a change stands when its domain has to be parted. */
enum stage { STAGE_COMES, STAGE_PUBLIC, STAGE_GOES };

struct entry {
  const struct provider_change *change;
  const char *unit; /* what must change together: a domain, or an owner */
  size_t index;     /* in the list that was given */
  size_t first;     /* the smallest index of the unit: units stay in their order */
  size_t records, chars;
  enum stage stage;
};

struct cutting {
  struct route53_batches *out;
  size_t records, chars; /* of the last batch */
  bool full;             /* nothing more goes into it */
};

static const struct provider_object *object_of(const struct provider_change *change) {
  return change->new ? change->new : change->old;
}

const char *route53_action(const struct provider_change *change) {
  return change->op == PROVIDER_DELETE   ? "DELETE"
         : change->op == PROVIDER_CREATE ? "CREATE"
                                         : "UPSERT";
}

static bool is_set(const struct provider_change *change) {
  return strcmp(object_of(change)->type, ROUTE53_HEALTH) != 0;
}

static bool is_public(const struct provider_object *o) {
  return !o->domain || strcmp(o->domain, o->name) == 0;
}

/* ---- the order within a batch --------------------------------------------------------------- */

/* What stands at a public name goes before another kind comes, targets come before aliases and go
 * after them. */
static int rank_of(const struct provider_change *change) {
  const struct provider_object *o = object_of(change);
  bool alias = json_object_get(o->body, "alias") != NULL;
  if (change->op == PROVIDER_DELETE)
    return is_public(o) ? 0 : alias ? 5 : 6;
  return !alias ? 1 : json_object_get(o->body, "failover") ? 2 : 3;
}

/* Level of a pair: later ones are the targets of earlier ones. */
static int depth_of(const struct provider_change *change) {
  char domain[NAME_MAX_TEXT];
  char kind;
  unsigned level;
  return route53_helper_domain(object_of(change)->name, domain, &kind, &level) ? (int)level : 0;
}

static int compare_changes(const void *a, const void *b) {
  const struct provider_change *x = *(const struct provider_change *const *)a;
  const struct provider_change *y = *(const struct provider_change *const *)b;
  int rx = rank_of(x);
  int ry = rank_of(y);
  if (rx != ry)
    return rx - ry;
  int depth = depth_of(x) - depth_of(y);
  if (depth != 0)
    return rx < 5 ? -depth : depth;
  return strcmp(object_of(x)->key, object_of(y)->key);
}

/* ---- units ---------------------------------------------------------------------------------- */

/* The weight of a change against the limits. */
static bool weigh(struct entry *entry) {
  const struct provider_object *o = object_of(entry->change);
  const char *key = json_string_value(json_object_get(o->body, "health"));
  json_t *ids = json_object();
  struct buf out;
  buf_init(&out);
  if (ids && key)
    json_object_set_new(ids, key, json_pack("{s:s}", "id", "x"));
  bool ok = route53_write_change(&out, route53_action(entry->change), o, ids, "Z", &entry->records,
                                 &entry->chars);
  buf_close(&out);
  json_decref(ids);
  return ok;
}

static int compare_units(const void *a, const void *b) {
  const struct entry *x = a;
  const struct entry *y = b;
  int c = strcmp(x->unit, y->unit);
  return c != 0 ? c : (x->index > y->index) - (x->index < y->index);
}

static int compare_places(const void *a, const void *b) {
  const struct entry *x = a;
  const struct entry *y = b;
  if (x->first != y->first)
    return x->first < y->first ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

/* The changes of record sets, those of a unit side by side; malloc'd. */
static struct entry *gather(const struct provider_change *changes, size_t count, size_t *found) {
  struct entry *list = calloc(count + 1, sizeof *list);
  size_t n = 0;
  for (size_t i = 0; list && i < count; i++) {
    const struct provider_object *o = object_of(&changes[i]);
    if (!is_set(&changes[i]))
      continue;
    list[n++] =
        (struct entry){.change = &changes[i], .unit = o->domain ? o->domain : o->name, .index = i};
    if (!weigh(&list[n - 1])) {
      free(list);
      return NULL;
    }
  }
  if (n > 0)
    qsort(list, n, sizeof *list, compare_units);
  for (size_t i = 0; i < n; i++)
    list[i].first =
        i > 0 && strcmp(list[i].unit, list[i - 1].unit) == 0 ? list[i - 1].first : list[i].index;
  if (n > 0)
    qsort(list, n, sizeof *list, compare_places);
  *found = n;
  return list;
}

/* ---- cutting -------------------------------------------------------------------------------- */

static bool fits(size_t records, size_t chars) {
  return records <= ROUTE53_RECORDS_MAX && chars <= ROUTE53_VALUES_MAX;
}

/* Puts entries, which must stay together and fit, into the last batch or into a new one. */
static bool put(struct cutting *c, const struct entry *list, size_t count, size_t records,
                size_t chars) {
  struct route53_batches *out = c->out;
  size_t used = out->count ? (size_t)(out->items[out->count - 1].changes - out->changes) +
                                 out->items[out->count - 1].count
                           : 0;
  if (out->count == 0 || c->full || !fits(c->records + records, c->chars + chars)) {
    struct route53_batch *items = realloc(out->items, (out->count + 1) * sizeof *items);
    if (!items)
      return false;
    out->items = items;
    items[out->count++] = (struct route53_batch){.changes = out->changes + used};
    *c = (struct cutting){.out = out};
  }
  for (size_t i = 0; i < count; i++)
    out->changes[used + i] = list[i].change;
  out->items[out->count - 1].count += count;
  c->records += records;
  c->chars += chars;
  return true;
}

static void sum(const struct entry *list, size_t count, size_t *records, size_t *chars) {
  *records = *chars = 0;
  for (size_t i = 0; i < count; i++) {
    *records += list[i].records;
    *chars += list[i].chars;
  }
}

/* ---- parting a domain ----------------------------------------------------------------------- */

static bool same_group(const struct entry *a, const struct entry *b) {
  const struct provider_object *x = object_of(a->change);
  const struct provider_object *y = object_of(b->change);
  return strcmp(x->name, y->name) == 0 && strcmp(x->type, y->type) == 0;
}

static int compare_groups(const void *a, const void *b) {
  const struct provider_object *x = object_of(((const struct entry *)a)->change);
  const struct provider_object *y = object_of(((const struct entry *)b)->change);
  int c = strcmp(x->name, y->name);
  return c != 0 ? c : strcmp(x->type, y->type);
}

/* The order of the parts: stages, and within them as in a batch, groups together. */
static int compare_parts(const void *a, const void *b) {
  const struct entry *x = a;
  const struct entry *y = b;
  if (x->stage != y->stage)
    return x->stage < y->stage ? -1 : 1;
  bool ax = json_object_get(object_of(x->change)->body, "alias");
  bool ay = json_object_get(object_of(y->change)->body, "alias");
  if (ax != ay)
    return (x->stage == STAGE_GOES ? ay - ax : ax - ay);
  int depth = depth_of(x->change) - depth_of(y->change);
  if (depth != 0)
    return x->stage == STAGE_GOES ? depth : -depth;
  int c = compare_groups(a, b);
  return c != 0 ? c : strcmp(object_of(x->change)->key, object_of(y->change)->key);
}

/* Gives the entries their stages; false: a helper name turns from or to CNAME, which only one batch
 * can do. */
static bool set_stages(struct entry *list, size_t count) {
  qsort(list, count, sizeof *list, compare_groups);
  for (size_t i = 0, end; i < count; i = end) {
    const struct provider_object *o = object_of(list[i].change);
    bool comes = false;
    for (end = i; end < count && same_group(&list[i], &list[end]); end++)
      comes = comes || list[end].change->op != PROVIDER_DELETE;
    for (size_t k = i; k < end;
         k++) /* what goes from a group that stays goes with the rest of it */
      list[k].stage = is_public(o) ? STAGE_PUBLIC : comes ? STAGE_COMES : STAGE_GOES;
    bool turns = i > 0 && strcmp(object_of(list[i - 1].change)->name, o->name) == 0 &&
                 list[i - 1].stage != list[i].stage &&
                 (strcmp(o->type, "CNAME") == 0 ||
                  strcmp(object_of(list[i - 1].change)->type, "CNAME") == 0);
    if (turns && !is_public(o))
      return false;
  }
  return true;
}

/* A domain that is too large for one batch.  *fit: it could be parted. */
static bool part(struct cutting *c, struct entry *list, size_t count, bool *fit) {
  *fit = set_stages(list, count);
  qsort(list, count, sizeof *list, compare_parts);
  for (size_t i = 0, end; *fit && i < count; i = end) {
    size_t records;
    size_t chars;
    bool begins = i == 0 || list[i - 1].stage != list[i].stage;
    for (end = i + 1; end < count && list[end].stage == list[i].stage &&
                      (list[i].stage == STAGE_PUBLIC || same_group(&list[i], &list[end]));)
      end++;
    sum(list + i, end - i, &records, &chars);
    *fit = fits(records, chars);
    c->full = c->full || begins;
    if (*fit && !put(c, list + i, end - i, records, chars))
      return false;
    if (*fit && begins && i > 0)
      c->out->items[c->out->count - 1].waits = true;
  }
  c->full = true;
  return *fit;
}

/* ---- the whole ------------------------------------------------------------------------------ */

bool route53_batches_make(const struct provider_change *changes, size_t count,
                          struct route53_batches *out, const char **too_large) {
  struct cutting c = {.out = out};
  size_t n = 0;
  *too_large = NULL;
  *out = (struct route53_batches){.changes = calloc(count + 1, sizeof *out->changes)};
  struct entry *list = gather(changes, count, &n);
  bool ok = out->changes && list;
  for (size_t i = 0, end; ok && i < n; i = end) {
    size_t records;
    size_t chars;
    for (end = i + 1; end < n && list[end].first == list[i].first;)
      end++;
    sum(list + i, end - i, &records, &chars);
    bool fit = true;
    const char *unit = list[i].unit;
    ok = fits(records, chars) ? put(&c, list + i, end - i, records, chars)
                              : part(&c, list + i, end - i, &fit);
    if (!fit)
      *too_large = unit;
  }
  for (size_t i = 0; ok && i < out->count; i++)
    qsort(out->items[i].changes, out->items[i].count, sizeof *out->items[i].changes,
          compare_changes);
  free(list);
  return ok;
}

void route53_batches_close(struct route53_batches *batches) {
  free(batches->changes);
  free(batches->items);
  *batches = (struct route53_batches){0};
}
