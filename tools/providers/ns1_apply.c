/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of a zone: each record is a request of its own.  PUT makes it, POST replaces it as a
 * whole, DELETE removes it.
 *
 * Feeds come first, so that a record never goes by one that is not there or has no value, and go
 * last.  In between, changes that follow one another and do the same are sent several at a time:
 * they are of different records, and what must come before or after them is in another group.
 * What must go before something else can come is removed right before, and restored if that fails.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/providers/ns1_private.h"
#include "tools/providers/web.h"

enum { WHAT = 300 };

struct applying {
  struct ns1 *n;
  const char *zone;
  const struct provider_change *changes;
  size_t count;
  bool *finished;
};

static const enum ns1_method methods[] = {NS1_PUT, NS1_POST, NS1_DELETE};

static const struct provider_object *object_of(const struct provider_change *change) {
  return change->new ? change->new : change->old;
}

static bool is_feed(const struct provider_change *change) {
  return strcmp(object_of(change)->type, NS1_FEED) == 0;
}

/* ---- one record ----------------------------------------------------------------------------- */

/* The body of a request that makes the object; what is not understood goes back as it was read. */
static json_t *body_of(const struct applying *a, const struct provider_object *object,
                       struct provider_error *error) {
  const char *missing = NULL;
  if (object->opaque)
    return json_incref(object->raw);
  json_t *wire = ns1_wire(a->zone, object->name, object->type, object->body);
  json_t *body = wire ? ns1_feeds_resolve(a->n, wire, &missing) : NULL;
  if (missing)
    provider_fail(error, PROVIDER_CONFLICT,
                  "%s: the feed %.30s of %.250s went meanwhile; run it again", a->n->name, missing,
                  object->name);
  else if (!body)
    provider_fail(error, PROVIDER_LOCAL, "%s: no memory, or %.250s cannot be written", a->n->name,
                  object->name);
  json_decref(wire);
  return body;
}

static bool fill(const struct applying *a, enum provider_op op,
                 const struct provider_object *object, struct ns1_call *call,
                 struct provider_error *error) {
  char what[WHAT];
  json_t *body = op == PROVIDER_DELETE ? NULL : body_of(a, object, error);
  snprintf(what, sizeof what, "%.250s %.16s", object->name, object->type);
  if (op != PROVIDER_DELETE && !body)
    return false;
  return ns1_call_fill(a->n, call, ns1_url(a->n, "zones", a->zone, object->name, object->type),
                       body, what, error);
}

static bool send_one(const struct applying *a, enum provider_op op,
                     const struct provider_object *object, struct provider_error *error) {
  struct ns1_call *call = calloc(1, sizeof *call);
  bool ok = call ? fill(a, op, object, call, error) && ns1_calls(a->n, methods[op], call, 1, error)
                 : web_no_memory(a->n->name, error);
  ns1_calls_close(call, 1);
  return ok;
}

/* ---- what is in the way --------------------------------------------------------------------- */

static bool is_alias(const struct provider_object *object) {
  return strcmp(object->type, "CNAME") == 0;
}

/* True if the old record must go before the new one can come (RFC 1034 section 3.6.2). */
static bool in_the_way(const struct provider_change *going, const struct provider_object *coming) {
  return going->op == PROVIDER_DELETE && strcmp(going->old->name, coming->name) == 0 &&
         (is_alias(going->old) || is_alias(coming));
}

static bool has_obstacle(const struct applying *a, const struct provider_change *change) {
  for (size_t i = 0; change->op == PROVIDER_CREATE && i < a->count; i++)
    if (!a->finished[i] && in_the_way(&a->changes[i], change->new))
      return true;
  return false;
}

/* What was removed for the sake of a record that then was refused is brought back, as far as
 * possible. */
static void restore(struct applying *a, const bool *removed) {
  struct provider_error ignored;
  for (size_t i = 0; i < a->count; i++)
    if (removed[i] && send_one(a, PROVIDER_CREATE, a->changes[i].old, &ignored))
      a->finished[i] = false;
}

static bool is_address(const struct provider_object *object) {
  return strcmp(object->type, "A") == 0 || strcmp(object->type, "AAAA") == 0;
}

/* Addresses go last, right before what comes: most ask for those. */
static bool replace(struct applying *a, const struct provider_object *coming,
                    struct provider_error *error) {
  bool *removed = calloc(a->count + 1, sizeof *removed);
  bool ok = removed ? true : web_no_memory(a->n->name, error);
  for (size_t k = 0; ok && k < 2 * a->count; k++) {
    size_t i = k % a->count;
    if (a->finished[i] || !in_the_way(&a->changes[i], coming) ||
        is_address(a->changes[i].old) != (k >= a->count))
      continue;
    ok = send_one(a, PROVIDER_DELETE, a->changes[i].old, error);
    a->finished[i] = ok;
    removed[i] = true; /* of a request that failed nobody knows */
  }
  ok = ok && send_one(a, PROVIDER_CREATE, coming, error);
  if (!ok && removed)
    restore(a, removed);
  free(removed);
  return ok;
}

/* ---- groups --------------------------------------------------------------------------------- */

static bool is_marker(const struct provider_change *change) {
  return strncmp(object_of(change)->name, "_sluice.", 8) == 0;
}

/* The end of the group that begins at `from`. */
static size_t group_end(const struct applying *a, size_t from) {
  const struct provider_change *first = &a->changes[from];
  size_t end = from + 1;
  for (; end < a->count; end++) {
    const struct provider_change *c = &a->changes[end];
    if (c->op != first->op || is_marker(c) != is_marker(first) || is_feed(c) || has_obstacle(a, c))
      break;
  }
  return end;
}

static bool send_group(struct applying *a, size_t from, size_t end, struct provider_error *error) {
  size_t count = 0;
  struct ns1_call *calls = calloc(end - from, sizeof *calls);
  size_t *places = calloc(end - from, sizeof *places);
  bool ok = calls && places ? true : web_no_memory(a->n->name, error);
  for (size_t i = from; ok && i < end; i++) {
    if (a->finished[i])
      continue;
    places[count] = i;
    ok = fill(a, a->changes[i].op, object_of(&a->changes[i]), &calls[count++], error);
  }
  ok = ok && ns1_calls(a->n, methods[a->changes[from].op], calls, count, error);
  for (size_t i = 0; i < count; i++)
    a->finished[places[i]] = calls[i].done;
  ns1_calls_close(calls, count);
  free(places);
  return ok;
}

static bool send_records(struct applying *a, struct provider_error *error) {
  bool ok = true;
  for (size_t i = 0, end; ok && i < a->count; i = end) {
    end = i + 1;
    if (a->finished[i] || is_feed(&a->changes[i]))
      continue;
    if (has_obstacle(a, &a->changes[i])) {
      ok = a->finished[i] = replace(a, a->changes[i].new, error);
      continue;
    }
    end = group_end(a, i);
    ok = send_group(a, i, end, error);
  }
  return ok;
}

/* ---- the whole ------------------------------------------------------------------------------ */

bool ns1_apply(void *self, const char *zone, const struct provider_change *changes, size_t count,
               size_t *done, struct provider_error *error) {
  struct ns1 *n = self;
  *done = 0;
  if (n->read_only)
    return provider_fail(error, PROVIDER_LOCAL, "%s: opened for reading only", n->name);
  struct applying a = {.n = n,
                       .zone = zone,
                       .changes = changes,
                       .count = count,
                       .finished = calloc(count + 1, sizeof *a.finished)};
  if (!a.finished)
    return web_no_memory(n->name, error);
  bool ok = ns1_feeds_set(n, zone, changes, count, a.finished, error) && send_records(&a, error) &&
            ns1_feeds_remove(n, changes, count, a.finished, error);
  for (size_t i = 0; i < count; i++)
    *done += a.finished[i];
  free(a.finished);
  return ok;
}
