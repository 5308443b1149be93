/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data feeds: made with their value before a record uses them, pushed in one request, and removed
 * when no record uses them any more.
 *
 * NS1 takes a feed away from all records when it is removed, and all feeds of a source with it:
 * a source goes only if a new look shows it empty.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/providers/ns1_private.h"
#include "tools/providers/web.h"

enum { WHAT = 300, LABEL = NS1_PREFIX + NS1_KEY, FEED_NAME = 200 };

static bool is_feed(const struct provider_object *object) {
  return strcmp(object->type, NS1_FEED) == 0;
}

static const char *key_of(const struct provider_object *object) {
  return object->key + strlen(NS1_FEED) + 1;
}

static void set_label(const struct ns1 *n, const char *key, char out[LABEL]) {
  snprintf(out, LABEL, "%s%.24s", n->prefix, key);
}

/* ---- what is needed ------------------------------------------------------------------------- */

static bool uses_feeds(const struct provider_object *object) {
  size_t i;
  const json_t *answer;
  json_array_foreach(object ? json_object_get(object->body, "answers") : NULL, i, answer) {
    if (json_object_get(json_object_get(answer, "up"), "feed"))
      return true;
  }
  return false;
}

/* True if it must be known which feeds are there: to push or to remove, what was read is enough. */
static bool needs_look(const struct provider_change *changes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const struct provider_change *c = &changes[i];
    if ((c->op == PROVIDER_CREATE && is_feed(c->new)) || uses_feeds(c->new) ||
        (c->op != PROVIDER_UPDATE && uses_feeds(c->old)))
      return true;
  }
  return false;
}

/* ---- making --------------------------------------------------------------------------------- */

static bool make_source(struct ns1 *n, struct provider_error *error) {
  char name[300];
  json_t *reply = NULL;
  snprintf(name, sizeof name, "sluice owner=%.250s", n->marker);
  if (!ns1_request(n, NS1_PUT, ns1_url(n, "data/sources", NULL, NULL, NULL),
                   json_pack("{s:s, s:s, s:{}}", "name", name, "sourcetype", "nsone_v1", "config"),
                   true, "a data source", &reply, NULL, error))
    return false;
  const char *id = json_string_value(json_object_get(reply, "id"));
  bool ok = id && *id ? json_array_append_new(n->sources, json_string(id)) == 0 ||
                            web_no_memory(n->name, error)
                      : ns1_garbage(n, "data sources", "the new one has no id", error);
  json_decref(reply);
  return ok;
}

static bool fill_create(const struct ns1 *n, const struct provider_object *feed,
                        struct ns1_call *call, struct provider_error *error) {
  char label[LABEL];
  char name[FEED_NAME];
  const char *source = json_string_value(json_array_get(n->sources, 0));
  set_label(n, key_of(feed), label);
  snprintf(name, sizeof name, "sluice %.190s", feed->name);
  call->wanted = true;
  call->once = true; /* a second one would be another feed */
  return ns1_call_fill(n, call, ns1_url(n, "data/feeds", source, NULL, NULL),
                       json_pack("{s:s, s:{s:s}}", "name", name, "config", "label", label),
                       "a data feed", error);
}

static bool take_created(struct ns1 *n, const struct provider_object *feed, const json_t *reply,
                         struct provider_error *error) {
  const char *id = json_string_value(json_object_get(reply, "id"));
  if (!id || !*id)
    return ns1_garbage(n, "data feeds", "the new one has no id", error);
  return json_object_set_new(
             n->by_key, key_of(feed),
             json_pack("{s:O, s:s}", "source", json_array_get(n->sources, 0), "id", id)) == 0 ||
         web_no_memory(n->name, error);
}

/* Makes the feeds that are not there. */
static bool make_feeds(struct ns1 *n, const struct provider_change *changes, size_t count,
                       struct provider_error *error) {
  struct ns1_call *calls = calloc(count + 1, sizeof *calls);
  const struct provider_object **made = calloc(count + 1, sizeof *made);
  size_t calls_count = 0;
  bool ok = calls && made ? true : web_no_memory(n->name, error);
  for (size_t i = 0; ok && i < count; i++) {
    const struct provider_object *feed = changes[i].new;
    if (changes[i].op != PROVIDER_CREATE || !is_feed(feed) ||
        json_object_get(n->by_key, key_of(feed)))
      continue;
    made[calls_count] = feed;
    ok = (json_array_size(n->sources) > 0 || make_source(n, error)) &&
         fill_create(n, feed, &calls[calls_count++], error);
  }
  ok = ok && ns1_calls(n, NS1_PUT, calls, calls_count, error);
  for (size_t i = 0; ok && i < calls_count; i++)
    ok = take_created(n, made[i], calls[i].reply, error);
  ns1_calls_close(calls, calls_count);
  free(made);
  return ok;
}

/* ---- pushing -------------------------------------------------------------------------------- */

/* SOURCE -> {LABEL: {"up": ...}} of all changes that set a value; NULL without memory. */
static json_t *gather(const struct ns1 *n, const struct provider_change *changes, size_t count) {
  json_t *out = json_object();
  bool ok = out;
  for (size_t i = 0; ok && i < count; i++) {
    const struct provider_change *c = &changes[i];
    char label[LABEL];
    if (c->op == PROVIDER_DELETE || !is_feed(c->new))
      continue;
    const json_t *known = c->old ? c->old->raw : json_object_get(n->by_key, key_of(c->new));
    const char *source = json_string_value(json_object_get(known, "source"));
    json_t *values = source ? json_object_get(out, source) : NULL;
    if (source && !values)
      json_object_set_new(out, source, values = json_object());
    set_label(n, key_of(c->new), label);
    ok = values && json_object_set(values, label, c->new->body) == 0;
  }
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

static bool push(struct ns1 *n, const struct provider_change *changes, size_t count, bool *finished,
                 struct provider_error *error) {
  json_t *all = gather(n, changes, count);
  const char *source;
  json_t *values;
  bool ok = all ? true : web_no_memory(n->name, error);
  json_object_foreach(all, source, values) ok =
      ok && ns1_request(n, NS1_POST, ns1_url(n, "feed", source, NULL, NULL), json_incref(values),
                        false, "the data feeds", NULL, NULL, error);
  for (size_t i = 0; ok && i < count; i++)
    if (changes[i].op != PROVIDER_DELETE && is_feed(changes[i].new))
      finished[i] = true;
  json_decref(all);
  return ok;
}

bool ns1_feeds_set(struct ns1 *n, const char *zone, const struct provider_change *changes,
                   size_t count, bool *finished, struct provider_error *error) {
  if (!ns1_feeds_prefix(n, zone))
    return web_no_memory(n->name, error);
  if (needs_look(changes, count) &&
      (!ns1_feeds_read(n, zone, NULL, error) || !make_feeds(n, changes, count, error)))
    return false;
  return push(n, changes, count, finished, error);
}

/* ---- removing ------------------------------------------------------------------------------- */

static bool count_feeds(void *arg, json_t *page, struct provider_error *error) {
  size_t *count = arg;
  (void)error;
  *count += json_is_array(page) ? json_array_size(page) : 1;
  return true;
}

/* Removes sources that have become empty. */
static bool drop_sources(struct ns1 *n, const json_t *sources, struct provider_error *error) {
  const char *source;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)sources, source, value) {
    size_t count = 0;
    if (!ns1_list(n, ns1_url(n, "data/feeds", source, NULL, NULL), "data feeds", count_feeds,
                  &count, error))
      return error->failure == PROVIDER_GONE;
    if (count == 0 && !ns1_request(n, NS1_DELETE, ns1_url(n, "data/sources", source, NULL, NULL),
                                   NULL, false, "a data source", NULL, NULL, error))
      return false;
  }
  return true;
}

bool ns1_feeds_remove(struct ns1 *n, const struct provider_change *changes, size_t count,
                      bool *finished, struct provider_error *error) {
  struct ns1_call *calls = calloc(count + 1, sizeof *calls);
  size_t *places = calloc(count + 1, sizeof *places);
  json_t *sources = json_object();
  size_t calls_count = 0;
  bool ok = calls && places && sources ? true : web_no_memory(n->name, error);
  for (size_t i = 0; ok && i < count; i++) {
    if (changes[i].op != PROVIDER_DELETE || !is_feed(changes[i].old))
      continue;
    const char *source = json_string_value(json_object_get(changes[i].old->raw, "source"));
    const char *id = json_string_value(json_object_get(changes[i].old->raw, "id"));
    places[calls_count] = i;
    ok = source && id &&
         ns1_call_fill(n, &calls[calls_count++], ns1_url(n, "data/feeds", source, id, NULL), NULL,
                       "a data feed", error) &&
         json_object_set_new(sources, source, json_true()) == 0;
  }
  ok = ok && ns1_calls(n, NS1_DELETE, calls, calls_count, error);
  for (size_t i = 0; i < calls_count; i++)
    finished[places[i]] = calls[i].done;
  ok = ok && drop_sources(n, sources, error);
  ns1_calls_close(calls, calls_count);
  free(places);
  json_decref(sources);
  return ok;
}
