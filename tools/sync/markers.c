/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership in TXT records, for providers whose objects cannot carry a mark. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/name.h"
#include "tools/sync/plan.h"

static const char prefix[] = "_sluice.";
static const char star[] = "_wildcard";
static const char head[] = "\"sluice owner=";

bool sync_is_marker(const struct provider_object *object) {
  return strcmp(object->type, "TXT") == 0 && strncmp(object->name, prefix, sizeof prefix - 1) == 0;
}

bool sync_is_steered_type(const char *type) {
  return strcmp(type, "A") == 0 || strcmp(type, "AAAA") == 0 || strcmp(type, "CNAME") == 0;
}

/* "_sluice.cdn.example.com." of "cdn.example.com.": malloc'd. */
static char *marker_name(const char *name) {
  bool wildcard = strncmp(name, "*.", 2) == 0;
  char *out;
  if (asprintf(&out, "%s%s%s", prefix, wildcard ? star : "", wildcard ? name + 1 : name) < 0)
    return NULL;
  return out;
}

/* One value of a marker. */
struct mark {
  char owner[256];
  const char *types; /* "A,AAAA" in the value's text */
  size_t types_len;
  bool steered;
};

static bool read_mark(const char *value, struct mark *mark) {
  if (strncmp(value, head, sizeof head - 1) != 0)
    return false;
  const char *owner = value + sizeof head - 1;
  size_t len = strcspn(owner, " \"");
  if (len == 0 || len >= sizeof mark->owner || strncmp(owner + len, " types=", 7) != 0)
    return false;
  memcpy(mark->owner, owner, len);
  mark->owner[len] = '\0';
  mark->types = owner + len + 7;
  mark->types_len = strcspn(mark->types, " \"");
  mark->steered = strstr(mark->types, " steered") != NULL;
  return true;
}

static bool mark_has(const struct mark *mark, const char *type) {
  size_t len = strlen(type);
  for (const char *at = mark->types; at < mark->types + mark->types_len;) {
    size_t n = strcspn(at, ", \"");
    if (n == len && memcmp(at, type, len) == 0)
      return true;
    at += n + 1;
  }
  return false;
}

static int compare_by_name(const void *a, const void *b) {
  const struct provider_object *const *x = a;
  const struct provider_object *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

/* The markers among the objects, sorted by name; malloc'd. */
static const struct provider_object **find_markers(const struct provider_objects *objects,
                                                   size_t *count) {
  const struct provider_object **list = malloc((objects->count + 1) * sizeof *list);
  *count = 0;
  for (size_t i = 0; list && i < objects->count; i++)
    if (sync_is_marker(&objects->items[i]))
      list[(*count)++] = &objects->items[i];
  if (list)
    qsort(list, *count, sizeof *list, compare_by_name);
  return list;
}

static const struct provider_object *marker_of(const struct provider_object *const *markers,
                                               size_t count, const char *name) {
  char *wanted = marker_name(name);
  struct provider_object key = {.name = wanted};
  const struct provider_object *pointer = &key;
  const struct provider_object *const *found =
      wanted && count > 0 ? bsearch(&pointer, markers, count, sizeof *markers, compare_by_name)
                          : NULL;
  free(wanted);
  return found ? *found : NULL;
}

/* The value of the marker that names the type, whoever's it is. */
static bool find_mark(const struct provider_object *marker, const char *type, struct mark *mark) {
  size_t i;
  const json_t *value;
  if (!marker)
    return false;
  json_array_foreach(json_object_get(marker->body, "values"), i, value) {
    if (json_is_string(value) && read_mark(json_string_value(value), mark) && mark_has(mark, type))
      return true;
  }
  return false;
}

bool sync_markers_read(struct provider_objects *actual) {
  size_t count;
  const struct provider_object **markers = find_markers(actual, &count);
  bool ok = markers;
  for (size_t i = 0; ok && i < actual->count; i++) {
    struct provider_object *object = &actual->items[i];
    struct mark mark;
    if (sync_is_marker(object) || object->owner ||
        !find_mark(marker_of(markers, count, object->name), object->type, &mark))
      continue;
    object->owner = strdup(mark.owner);
    bool steered = mark.steered && sync_is_steered_type(object->type);
    if (steered && !object->domain)
      object->domain = strdup(object->name);
    ok = object->owner && (!steered || object->domain);
  }
  free(markers);
  return ok;
}

/* ---- planning ------------------------------------------------------------------------------- */

/* An RRset that is ours after the plan, or before it. */
struct held {
  const char *name, *type;
  bool steered;
  bool going; /* by the plan */
};

struct ours {
  struct held *items;
  size_t count;
};

static int compare_held(const void *a, const void *b) {
  const struct held *x = a;
  const struct held *y = b;
  int c = strcmp(x->name, y->name);
  return c != 0 ? c : strcmp(x->type, y->type);
}

static bool is_of(const struct provider_object *object, const char *mark) {
  return object && object->owner && strcmp(object->owner, mark) == 0;
}

static int compare_old(const void *a, const void *b) {
  const struct sync_item *const *x = a;
  const struct sync_item *const *y = b;
  return ((*x)->old > (*y)->old) - ((*x)->old < (*y)->old);
}

/* What the plan makes of an object as read: gone, or no longer another's. */
static const struct sync_item *item_of(const struct sync_item *const *sorted, size_t count,
                                       const struct provider_object *old) {
  const struct sync_item wanted = {.old = old};
  const struct sync_item *key = &wanted;
  const struct sync_item *const *found = bsearch(&key, sorted, count, sizeof *sorted, compare_old);
  return found ? *found : NULL;
}

/* Gathers the RRsets that are ours when all that is not held back is done, and those that go by it.
 */
static bool gather(const struct sync_plan_input *input, const struct sync_plan *plan,
                   const struct sync_item *const *sorted, struct ours *ours) {
  ours->items = malloc((input->actual->count + plan->count + 1) * sizeof *ours->items);
  if (!ours->items)
    return false;
  for (size_t i = 0; i < input->actual->count; i++) {
    const struct provider_object *object = &input->actual->items[i];
    const struct sync_item *item = item_of(sorted, plan->count, object);
    bool was = is_of(object, input->mark);
    bool is = !item || item->held ? was : item->op != PROVIDER_DELETE;
    const struct provider_object *named = item && item->new ? item->new : object;
    if ((is || was) && !named->part && !sync_is_marker(object))
      ours->items[ours->count++] =
          (struct held){named->name, named->type, named->domain != NULL, !is};
  }
  for (size_t i = 0; i < plan->count; i++)
    if (plan->items[i].op == PROVIDER_CREATE && !plan->items[i].held && !plan->items[i].new->part)
      ours->items[ours->count++] = (struct held){plan->items[i].new->name, plan->items[i].new->type,
                                                 plan->items[i].new->domain != NULL, false};
  qsort(ours->items, ours->count, sizeof *ours->items, compare_held);
  return true;
}

/* Our value for the RRsets of one name: `"sluice owner=MARK types=A,AAAA steered"`. */
static char *make_value(const char *mark, const struct held *items, size_t count) {
  bool steered = false;
  struct buf out;
  buf_init(&out);
  buf_printf(&out, "%s%s types=", head, mark);
  for (size_t i = 0; i < count; i++) {
    steered = steered || items[i].steered;
    if (i == 0 || strcmp(items[i].type, items[i - 1].type) != 0)
      buf_printf(&out, "%s%s", i ? "," : "", items[i].type);
  }
  buf_add_str(&out, steered ? " steered\"" : "\"");
  buf_add_u8(&out, 0);
  char *text = out.failed ? NULL : strdup((const char *)out.data);
  buf_close(&out);
  return text;
}

/* Values of other owners stay, but for types that are ours now. */
static char *trim_value(const char *value, const struct held *items, size_t count) {
  struct mark mark;
  if (!read_mark(value, &mark))
    return strdup(value);
  struct held left[64];
  char names[64][16];
  size_t n = 0;
  for (const char *at = mark.types; at < mark.types + mark.types_len && n < 64;) {
    size_t len = strcspn(at, ", \"");
    bool taken = len == 0 || len >= sizeof names[0];
    if (!taken)
      snprintf(names[n], sizeof names[n], "%.*s", (int)len, at);
    for (size_t i = 0; !taken && i < count; i++)
      taken = strcmp(items[i].type, names[n]) == 0;
    if (!taken) {
      left[n] = (struct held){"", names[n], mark.steered, false};
      n++;
    }
    at += len + 1;
  }
  return n > 0 ? make_value(mark.owner, left, n) : strdup("");
}

/* The values that the marker of a name should have, as an array. */
static json_t *wanted_values(const struct sync_plan_input *input,
                             const struct provider_object *marker, const struct held *items,
                             size_t count) {
  json_t *values = json_array();
  struct mark mark;
  size_t i;
  const json_t *value;
  bool ok = values;
  json_array_foreach(marker ? json_object_get(marker->body, "values") : NULL, i, value) {
    const char *text = json_string_value(value);
    if (!ok || !text || (read_mark(text, &mark) && strcmp(mark.owner, input->mark) == 0))
      continue;
    char *left = trim_value(text, items, count);
    ok = left && (!*left || json_array_append_new(values, json_string(left)) == 0);
    free(left);
  }
  char *mine = ok && count > 0 ? make_value(input->mark, items, count) : NULL;
  ok = ok && (count == 0 || (mine && json_array_append_new(values, json_string(mine)) == 0));
  free(mine);
  if (ok)
    return values;
  json_decref(values);
  return NULL;
}

/* Our value of the marker. */
static bool own_mark(const struct sync_plan_input *input, const struct provider_object *marker,
                     struct mark *mark) {
  size_t i;
  const json_t *value;
  json_array_foreach(marker ? json_object_get(marker->body, "values") : NULL, i, value) {
    if (json_is_string(value) && read_mark(json_string_value(value), mark) &&
        strcmp(mark->owner, input->mark) == 0)
      return true;
  }
  return false;
}

/* True if one of these types has no mark of ours yet. */
static bool gains_types(const struct sync_plan_input *input, const struct provider_object *marker,
                        const struct held *items, size_t count) {
  struct mark mark;
  bool marked = own_mark(input, marker, &mark);
  for (size_t i = 0; i < count; i++)
    if (!marked || !mark_has(&mark, items[i].type))
      return true;
  return false;
}

/* True if a type that the marker has named for us is not ours any more. */
static bool loses_types(const struct sync_plan_input *input, const struct provider_object *marker,
                        const struct held *items, size_t count) {
  struct mark mark;
  size_t kept = 0;
  size_t types = 1;
  if (!own_mark(input, marker, &mark))
    return false;
  for (size_t k = 0; k < count; k++)
    if (k == 0 || strcmp(items[k].type, items[k - 1].type) != 0)
      kept += mark_has(&mark, items[k].type);
  for (size_t k = 0; k < mark.types_len; k++)
    types += mark.types[k] == ',';
  return kept < types;
}

/* Brings the marker of one name to what is given; `marker` NULL: there is none. */
static bool put_marker(const struct sync_plan_input *input, struct sync_plan *plan,
                       const struct provider_object *marker, const char *name,
                       const struct held *items, size_t count, struct sync_item **out) {
  json_t *values = wanted_values(input, marker, items, count);
  *out = NULL;
  if (!values)
    return false;
  if (json_array_size(values) == 0) {
    json_decref(values);
    *out = marker ? sync_plan_add(plan, PROVIDER_DELETE, marker, NULL) : NULL;
    if (*out)
      (*out)->marker = true;
    return !marker || *out;
  }
  struct provider_object *made =
      provider_add_rrset(&plan->made, name, "TXT", SYNC_MARKER_TTL, values);
  if (!made)
    return false;
  if (marker &&
      json_equal(json_object_get(marker->body, "values"), json_object_get(made->body, "values")))
    return true;
  *out = sync_plan_add(plan, marker ? PROVIDER_UPDATE : PROVIDER_CREATE, marker, NULL);
  if (*out) {
    (*out)->made = plan->made.count;
    (*out)->marker = true;
  }
  return *out;
}

/* Brings the marker of one name level: before all else where a type comes, and then it goes on to
 * name what is there until the end; after all else where types only go. */
static bool level_marker(const struct sync_plan_input *input, struct sync_plan *plan,
                         const struct provider_object *marker, const char *name,
                         const struct held *items, size_t count) {
  struct sync_item *item;
  struct held *after = malloc((count + 1) * sizeof *after);
  size_t left = 0;
  for (size_t i = 0; after && i < count; i++)
    if (!items[i].going)
      after[left++] = items[i];
  bool gains = after && gains_types(input, marker, after, left);
  bool widens = gains && left < count;
  bool ok = after && put_marker(input, plan, marker, name, widens ? items : after,
                                widens ? count : left, &item);
  if (ok && item) {
    item->widened = widens;
    item->last = !gains && marker && (left == 0 || loses_types(input, marker, after, left));
  }
  free(after);
  return ok;
}

/* A marker that has a value of ours but no RRset any more. */
static bool level_orphan(const struct sync_plan_input *input, struct sync_plan *plan,
                         const struct provider_object *marker) {
  struct mark mark;
  return !own_mark(input, marker, &mark) ||
         level_marker(input, plan, marker, marker->name, NULL, 0);
}

/* The name whose marker this is; `out` holds NAME_MAX_TEXT. */
static const char *marked_name(const struct provider_object *marker, char *out) {
  const char *name = marker->name + sizeof prefix - 1;
  bool wildcard = strncmp(name, star, sizeof star - 1) == 0 && name[sizeof star - 1] == '.';
  snprintf(out, NAME_MAX_TEXT, "%s%s", wildcard ? "*" : "",
           wildcard ? name + sizeof star - 1 : name);
  return out;
}

static int compare_held_name(const void *a, const void *b) {
  return strcmp(((const struct held *)a)->name, ((const struct held *)b)->name);
}

static bool is_selected(const struct sync_plan_input *input, const char *name) {
  struct provider_object object = {.name = (char *)(uintptr_t)name};
  return sync_plan_selects(input, &object);
}

static bool level_orphans(const struct sync_plan_input *input, struct sync_plan *plan,
                          const struct provider_object *const *markers, size_t count,
                          const struct ours *ours) {
  for (size_t i = 0; i < count; i++) {
    char name[NAME_MAX_TEXT];
    struct held wanted = {.name = marked_name(markers[i], name)};
    if (is_selected(input, name) &&
        !bsearch(&wanted, ours->items, ours->count, sizeof wanted, compare_held_name) &&
        !level_orphan(input, plan, markers[i]))
      return false;
  }
  return true;
}

bool sync_markers_plan(const struct sync_plan_input *input, struct sync_plan *plan) {
  size_t marker_count = 0;
  struct ours ours = {0};
  const struct provider_object **markers = find_markers(input->actual, &marker_count);
  const struct sync_item **sorted = malloc((plan->count + 1) * sizeof *sorted);
  bool ok = markers && sorted;
  for (size_t i = 0; ok && i < plan->count; i++)
    sorted[i] = &plan->items[i];
  if (ok)
    qsort(sorted, plan->count, sizeof *sorted, compare_old);
  ok = ok && gather(input, plan, sorted, &ours);
  for (size_t i = 0, end; ok && i < ours.count; i = end) {
    for (end = i; end < ours.count && strcmp(ours.items[end].name, ours.items[i].name) == 0;)
      end++;
    if (!is_selected(input, ours.items[i].name))
      continue;
    char *name = marker_name(ours.items[i].name);
    ok = name && level_marker(input, plan, marker_of(markers, marker_count, ours.items[i].name),
                              name, ours.items + i, end - i);
    free(name);
  }
  ok = ok && level_orphans(input, plan, markers, marker_count, &ours);
  for (size_t i = 0; i < plan->count; i++) /* they stay where they are from now on */
    if (plan->items[i].made)
      plan->items[i].new = &plan->made.items[plan->items[i].made - 1];
  free(ours.items);
  free(sorted);
  free(markers);
  return ok;
}
