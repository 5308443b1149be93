/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sync/plan.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"

/* The objects of one side in the order of their keys, and of their names. */
struct index {
  const struct provider_object **by_key;
  const struct provider_object **by_name;
  size_t count;
};

struct planner {
  const struct sync_plan_input *input;
  struct sync_plan *plan;
  struct index actual, desired;
  bool others_go; /* there are deletes of what is not ours */
};

/* ---- indexes -------------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b) {
  const struct provider_object *const *x = a;
  const struct provider_object *const *y = b;
  return strcmp((*x)->key, (*y)->key);
}

static int compare_names(const void *a, const void *b) {
  const struct provider_object *const *x = a;
  const struct provider_object *const *y = b;
  int c = strcmp((*x)->name, (*y)->name);
  return c != 0 ? c : compare_keys(a, b);
}

static bool index_open(struct index *index, const struct provider_objects *objects) {
  size_t size = objects->count ? objects->count : 1;
  index->count = objects->count;
  index->by_key = malloc(size * sizeof *index->by_key);
  index->by_name = malloc(size * sizeof *index->by_name);
  if (!index->by_key || !index->by_name)
    return false;
  for (size_t i = 0; i < objects->count; i++)
    index->by_key[i] = index->by_name[i] = &objects->items[i];
  qsort(index->by_key, index->count, sizeof *index->by_key, compare_keys);
  qsort(index->by_name, index->count, sizeof *index->by_name, compare_names);
  return true;
}

static void index_close(struct index *index) {
  free(index->by_key);
  free(index->by_name);
}

static const struct provider_object *index_find(const struct index *index, const char *key) {
  struct provider_object wanted = {.key = (char *)(uintptr_t)key};
  const struct provider_object *pointer = &wanted;
  const struct provider_object **found =
      bsearch(&pointer, index->by_key, index->count, sizeof *index->by_key, compare_keys);
  return found ? *found : NULL;
}

static int compare_to_name(const void *name, const void *item) {
  return strcmp(name, (*(const struct provider_object *const *)item)->name);
}

/* Position of the first object with this name or a later one. */
static size_t index_lower(const struct index *index, const char *name) {
  return search_first(name, index->by_name, index->count, sizeof *index->by_name, compare_to_name);
}

/* ---- what an object is ---------------------------------------------------------------------- */

/* Made by the provider itself: neither compared nor told. */
static bool is_providers_own(const struct provider_object *object) {
  static const char *const types[] = {"SOA",    "RRSIG", "NSEC",    "NSEC3",    "NSEC3PARAM",
                                      "DNSKEY", "CDS",   "CDNSKEY", "TYPE65534"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(object->type, types[i]) == 0)
      return true;
  return false;
}

static bool is_apex_ns(const struct planner *p, const struct provider_object *object) {
  return strcmp(object->type, "NS") == 0 && strcmp(object->name, p->input->zone) == 0;
}

static bool is_ours(const struct planner *p, const struct provider_object *object) {
  return object->owner && strcmp(object->owner, p->input->mark) == 0;
}

static bool is_ignored(const struct planner *p, const struct provider_object *object) {
  return is_providers_own(object) || sync_is_marker(object) ||
         (is_apex_ns(p, object) && !p->input->can->apex_ns);
}

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_other(const struct sync_plan_input *input, const char *name) {
  return name && input->other_count > 0 &&
         bsearch(&name, input->others, input->other_count, sizeof *input->others, compare_texts);
}

bool sync_plan_selects(const struct sync_plan_input *input, const struct provider_object *object) {
  if (is_other(input, object->name) || is_other(input, object->domain))
    return false;
  if (!input->names)
    return true;
  for (size_t i = 0; i < input->name_count; i++)
    if (strcmp(input->names[i], object->name) == 0 ||
        (object->domain && strcmp(input->names[i], object->domain) == 0))
      return true;
  return false;
}

/* ---- items ---------------------------------------------------------------------------------- */

struct sync_item *sync_plan_add(struct sync_plan *plan, enum provider_op op,
                                const struct provider_object *old,
                                const struct provider_object *new) {
  size_t n = plan->count;
  if (n == 0 || (n >= 8 && (n & (n - 1)) == 0)) {
    struct sync_item *items = realloc(plan->items, (n == 0 ? 8 : n * 2) * sizeof *items);
    if (!items)
      return NULL;
    plan->items = items;
  }
  struct sync_item *item = &plan->items[plan->count++];
  *item = (struct sync_item){.op = op, .old = old, .new = new};
  item->domain = new &&new->domain ? new->domain : old ? old->domain : NULL;
  return item;
}

static unsigned without(const struct planner *p, unsigned consent) {
  return p->input->consents & consent ? 0 : consent;
}

/* True if the two cannot stand side by side: one name, and one type or a CNAME. */
static bool clash(const struct provider_object *a, const struct provider_object *b) {
  return strcmp(a->type, b->type) == 0 || strcmp(a->type, "CNAME") == 0 ||
         strcmp(b->type, "CNAME") == 0;
}

static bool has_item_for(const struct sync_plan *plan, const struct provider_object *old) {
  for (size_t i = plan->count; i-- > 0;)
    if (plan->items[i].old == old)
      return true;
  return false;
}

/* Records of others in the way of a new one go only with consent. */
static bool plan_in_the_way(struct planner *p, const struct provider_object *new, unsigned *held) {
  for (size_t i = index_lower(&p->actual, new->name);
       i < p->actual.count && strcmp(p->actual.by_name[i]->name, new->name) == 0; i++) {
    const struct provider_object *old = p->actual.by_name[i];
    if (is_ignored(p, old) || is_apex_ns(p, old) || is_ours(p, old) || !clash(old, new) ||
        index_find(&p->desired, old->key))
      continue;
    *held |= without(p, SYNC_TAKE_OVER);
    if (*held & SYNC_TAKE_OVER || has_item_for(p->plan, old))
      continue;
    struct sync_item *item = sync_plan_add(p->plan, PROVIDER_DELETE, old, NULL);
    if (!item)
      return false;
    item->domain = new->domain;
    p->others_go = true;
  }
  return true;
}

/* The domain of ours that has to leave before the new object can come, or NULL: they are one. */
static const char *domain_in_the_way(const struct planner *p, const struct provider_object *new) {
  for (size_t i = index_lower(&p->actual, new->name);
       i < p->actual.count && strcmp(p->actual.by_name[i]->name, new->name) == 0; i++) {
    const struct provider_object *old = p->actual.by_name[i];
    if (old->domain && is_ours(p, old) && !is_ignored(p, old) && clash(old, new) &&
        !index_find(&p->desired, old->key))
      return old->domain;
  }
  return NULL;
}

static bool plan_desired(struct planner *p, const struct provider_object *new) {
  const struct provider_object *old = index_find(&p->actual, new->key);
  if (is_ignored(p, new) || !sync_plan_selects(p->input, new))
    return true;
  bool apex_ns = is_apex_ns(p, new);
  if (!old) {
    unsigned held = apex_ns ? without(p, SYNC_NS_CHANGE) : 0;
    struct sync_item *item = NULL;
    if (plan_in_the_way(p, new, &held))
      item = sync_plan_add(p->plan, PROVIDER_CREATE, NULL, new);
    if (item) {
      item->held = held;
      item->domain = new->domain ? new->domain : domain_in_the_way(p, new);
    }
    return item;
  }
  bool same = !old->opaque && json_equal(old->body, new->body);
  bool foreign = !apex_ns && !is_ours(p, old);
  if (same && !(foreign && p->input->consents & SYNC_TAKE_OVER)) {
    p->plan->equal++;
    p->plan->unmarked += foreign;
    return true;
  }
  struct sync_item *item = sync_plan_add(p->plan, PROVIDER_UPDATE, old, new);
  if (!item)
    return false;
  /* A delegation that is there is as grave as the apex, and `sync migrate` may be at work on it. */
  bool ns = strcmp(new->type, "NS") == 0;
  item->held = (ns ? without(p, SYNC_NS_CHANGE) : 0) | (foreign ? without(p, SYNC_TAKE_OVER) : 0);
  return true;
}

static bool plan_actual(struct planner *p, const struct provider_object *old) {
  if (is_ignored(p, old) || is_apex_ns(p, old))
    return true;
  p->plan->records += !old->part;
  if (!sync_plan_selects(p->input, old) || index_find(&p->desired, old->key) ||
      (p->others_go && has_item_for(p->plan, old)))
    return true;
  if (is_ours(p, old))
    return sync_plan_add(p->plan, PROVIDER_DELETE, old, NULL);
  p->plan->kept[p->plan->kept_count++] = old;
  return true;
}

/* ---- holding back --------------------------------------------------------------------------- */

static bool same_domain(const char *a, const char *b) {
  return a && b && strcmp(a, b) == 0;
}

static void hold_refused(struct planner *p) {
  for (size_t i = 0; i < p->plan->count; i++)
    for (size_t k = 0; k < p->input->refusal_count; k++)
      if (same_domain(p->plan->items[i].domain, p->input->refusals[k].domain))
        p->plan->items[i].held |= SYNC_LOSS;
}

static int compare_domains(const void *a, const void *b) {
  const struct sync_item *const *x = a;
  const struct sync_item *const *y = b;
  return strcmp((*x)->domain, (*y)->domain);
}

/* A domain changes as a whole. */
static bool hold_domains(struct sync_plan *plan) {
  size_t count = 0;
  struct sync_item **list = malloc((plan->count + 1) * sizeof *list);
  if (!list)
    return false;
  for (size_t i = 0; i < plan->count; i++)
    if (plan->items[i].domain)
      list[count++] = &plan->items[i];
  qsort(list, count, sizeof *list, compare_domains);
  for (size_t i = 0, end; i < count; i = end) {
    unsigned held = 0;
    for (end = i; end < count && same_domain(list[i]->domain, list[end]->domain); end++)
      held |= list[end]->held;
    for (size_t k = i; k < end; k++)
      list[k]->held = held;
  }
  free(list);
  return true;
}

/* True if a steered name of ours, or a new one, is there after the plan. */
static bool steered_remain(struct planner *p) {
  for (size_t i = 0; i < p->desired.count; i++)
    if (p->desired.by_key[i]->domain)
      return true;
  for (size_t i = 0; i < p->actual.count; i++) {
    const struct provider_object *object = p->actual.by_key[i];
    if (object->domain && is_ours(p, object) && !is_ignored(p, object) &&
        !has_item_for(p->plan, object))
      return true;
  }
  return false;
}

static void hold_last(struct planner *p) {
  bool deletes = false;
  for (size_t i = 0; i < p->plan->count; i++)
    deletes = deletes || (p->plan->items[i].op == PROVIDER_DELETE && p->plan->items[i].domain);
  if (!deletes || p->input->consents & SYNC_LAST || steered_remain(p))
    return;
  for (size_t i = 0; i < p->plan->count; i++)
    if (p->plan->items[i].op == PROVIDER_DELETE && p->plan->items[i].domain)
      p->plan->items[i].held |= SYNC_LAST;
}

static bool is_part(const struct sync_item *item) {
  return (item->old ? item->old : item->new)->part;
}

/* A verdict of our checker: an outage of much of a zone is not to be held back as a mistake. */
static bool is_verdict(const struct sync_item *item) {
  return item->op == PROVIDER_UPDATE && item->new->health;
}

/* Updates and deletes as the limit counts them: all changes of parts of a domain are one. */
static size_t count_changes(const struct sync_plan *plan) {
  json_t *domains = json_object();
  size_t changes = 0;
  for (int parts = 0; parts < 2; parts++)
    for (size_t i = 0; i < plan->count; i++) {
      const struct sync_item *item = &plan->items[i];
      bool known = item->domain && json_object_get(domains, item->domain);
      if (item->held || is_verdict(item) || is_part(item) != parts ||
          (!parts && item->op == PROVIDER_CREATE))
        continue;
      changes += !parts || !known;
      if (item->domain && !known)
        json_object_set_new(domains, item->domain, json_true());
    }
  json_decref(domains);
  return changes;
}

static void hold_large(struct planner *p) {
  size_t changes = count_changes(p->plan);
  if (p->plan->records < SYNC_LIMIT_FROM || p->input->consents & SYNC_LARGE ||
      changes * 100 <= p->plan->records * SYNC_LIMIT_PERCENT)
    return;
  for (size_t i = 0; i < p->plan->count; i++)
    if (!is_verdict(&p->plan->items[i]))
      p->plan->items[i].held |= SYNC_LARGE;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static const char *item_key(const struct sync_item *item) {
  return item->new ? item->new->key : item->old->key;
}

static int compare_items(const void *a, const void *b) {
  const struct sync_item *x = a;
  const struct sync_item *y = b;
  return x->op != y->op ? (x->op > y->op) - (x->op < y->op) : strcmp(item_key(x), item_key(y));
}

static void count_items(struct sync_plan *plan) {
  for (size_t i = 0; i < plan->count; i++) {
    const struct sync_item *item = &plan->items[i];
    if (item->marker)
      continue;
    plan->creates += item->op == PROVIDER_CREATE;
    plan->updates += item->op == PROVIDER_UPDATE;
    plan->deletes += item->op == PROVIDER_DELETE;
    plan->held += item->held != 0;
  }
}

bool sync_plan_make(const struct sync_plan_input *input, struct sync_plan *plan) {
  struct planner p = {.input = input, .plan = plan};
  *plan = (struct sync_plan){0};
  plan->kept = malloc((input->actual->count + 1) * sizeof *plan->kept);
  bool ok = plan->kept && (input->can->marks || sync_markers_read(input->actual)) &&
            index_open(&p.actual, input->actual) && index_open(&p.desired, input->desired);
  for (size_t i = 0; ok && i < p.desired.count; i++)
    ok = plan_desired(&p, p.desired.by_key[i]);
  for (size_t i = 0; ok && i < p.actual.count; i++)
    ok = plan_actual(&p, p.actual.by_key[i]);
  if (ok) {
    hold_refused(&p);
    hold_last(&p);
    ok = hold_domains(plan);
    hold_large(&p);
    for (size_t i = 0; input->can->deployed && i < plan->count; i++)
      plan->items[i].held = SYNC_DEPLOYED;
  }
  ok = ok && (input->can->marks || sync_markers_plan(input, plan));
  if (ok && plan->count > 0)
    qsort(plan->items, plan->count, sizeof *plan->items, compare_items);
  count_items(plan);
  index_close(&p.actual);
  index_close(&p.desired);
  return ok;
}

void sync_plan_close(struct sync_plan *plan) {
  free(plan->items);
  free(plan->kept);
  provider_objects_close(&plan->made);
  *plan = (struct sync_plan){0};
}

/* The place of a change: marks, then what is new or other, then what goes, then marks that go. */
static int phase(const struct sync_item *item) {
  if (item->marker)
    return item->last ? 3 : 0;
  return item->op == PROVIDER_DELETE ? 2 : 1;
}

struct provider_change *sync_plan_changes(const struct sync_plan *plan, size_t *count,
                                          bool *failed) {
  *count = 0;
  *failed = false;
  struct provider_change *changes = calloc(plan->count + 1, sizeof *changes);
  if (!changes) {
    *failed = true;
    return NULL;
  }
  for (int at = 0; at <= 3; at++)
    for (size_t i = 0; i < plan->count; i++)
      if (!plan->items[i].held && phase(&plan->items[i]) == at)
        changes[(*count)++] =
            (struct provider_change){plan->items[i].op, plan->items[i].old, plan->items[i].new};
  if (*count > 0)
    return changes;
  free(changes);
  return NULL;
}

bool sync_plan_has_widened(const struct sync_plan *plan) {
  for (size_t i = 0; i < plan->count; i++)
    if (plan->items[i].widened)
      return true;
  return false;
}

static bool has_widened(const struct sync_plan *plan, const char *key) {
  for (size_t i = 0; i < plan->count; i++)
    if (plan->items[i].widened && strcmp(item_key(&plan->items[i]), key) == 0)
      return true;
  return false;
}

struct provider_change *sync_plan_narrowing(const struct sync_plan *plan,
                                            const struct sync_plan *after, size_t *count,
                                            bool *failed) {
  *count = 0;
  struct provider_change *changes = calloc(after->count + 1, sizeof *changes);
  *failed = !changes;
  for (size_t i = 0; changes && i < after->count; i++) {
    const struct sync_item *item = &after->items[i];
    if (item->marker && has_widened(plan, item_key(item)))
      changes[(*count)++] = (struct provider_change){item->op, item->old, item->new};
  }
  if (*count > 0)
    return changes;
  free(changes);
  return NULL;
}

/* ---- digest --------------------------------------------------------------------------------- */

static json_t *body_of(const struct provider_object *object) {
  return object ? json_incref(object->body) : json_null();
}

json_t *sync_plan_json(const struct sync_plan *plan) {
  static const char *const ops[] = {"create", "update", "delete"};
  json_t *list = json_array();
  for (size_t i = 0; list && i < plan->count; i++) {
    const struct sync_item *item = &plan->items[i];
    json_t *entry =
        json_pack("{s:s, s:s, s:o, s:o, s:i}", "op", ops[item->op], "key", item_key(item), "old",
                  body_of(item->old), "new", body_of(item->new), "held", (int)item->held);
    if (!entry || json_array_append_new(list, entry) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

static int hash_text(const char *data, size_t len, void *arg) {
  return EVP_DigestUpdate(arg, data, len) == 1 ? 0 : -1;
}

bool sync_digest(const json_t *document, char out[SYNC_DIGEST]) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned len = 0;
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  bool ok = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1 &&
            json_dump_callback(document, hash_text, context,
                               JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) == 0 &&
            EVP_DigestFinal_ex(context, hash, &len) == 1 && len == 32;
  for (unsigned i = 0; ok && i < len; i++)
    snprintf(out + 2 * (size_t)i, 3, "%02x", hash[i]);
  EVP_MD_CTX_free(context);
  return ok;
}

const char *sync_hold_text(unsigned held) {
  if (held & SYNC_DEPLOYED)
    return "comes by a deploy";
  if (held & SYNC_LOSS)
    return "a layer would be lost; `providers: {NAME: {allow_loss: [...]}}` of the domain allows "
           "it";
  if (held & SYNC_LARGE)
    return "more than 30 % of the zone's records; --allow-large allows it";
  if (held & SYNC_NS_CHANGE)
    return "NS of the apex or of a delegation; --allow-ns-change allows it";
  if (held & SYNC_TAKE_OVER)
    return "the record is not ours; --take-over allows it";
  if (held & SYNC_LAST)
    return "the zone's last steered name; --allow-last allows it";
  return "";
}
