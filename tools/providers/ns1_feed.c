/* SPDX-License-Identifier: Apache-2.0 */
/* Data feeds as they are there, and in records: see ns1_private.h. */
#include <ctype.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/providers/ns1_private.h"
#include "tools/providers/web.h"

enum { ID_MAX = 64, SHORT_NAME = 40 };

/* ---- names ---------------------------------------------------------------------------------- */

bool ns1_digest(const char *text, size_t digits, char *out) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned len = 0;
  bool ok = EVP_Digest(text, strlen(text), hash, &len, EVP_sha256(), NULL) == 1;
  for (size_t i = 0; ok && i < digits / 2 && i < len; i++)
    snprintf(out + 2 * i, 3, "%02x", hash[i]);
  return ok;
}

bool ns1_feed_key(const char *domain, const char *endpoint, const char *type, char out[NS1_KEY]) {
  char *text;
  if (asprintf(&text, "%s\n%s\n%s", domain, type, endpoint) < 0)
    return false;
  bool ok = ns1_digest(text, NS1_KEY - 1, out);
  free(text);
  return ok;
}

bool ns1_feeds_prefix(struct ns1 *n, const char *zone) {
  if (!ns1_digest(zone, NS1_PREFIX - 2, n->prefix))
    return false;
  memcpy(n->prefix + NS1_PREFIX - 2, "-", 2);
  return true;
}

/* An identifier that can be a part of an address. */
static const char *proper_id(const json_t *item) {
  const char *id = json_string_value(json_object_get(item, "id"));
  return id && *id && strlen(id) < ID_MAX &&
                 strspn(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-") ==
                     strlen(id)
             ? id
             : NULL;
}

/* ---- objects -------------------------------------------------------------------------------- */

static struct provider_object *add_object(struct provider_objects *out, const char *key,
                                          const char *again, json_t *body) {
  struct provider_object *object = provider_objects_add(out);
  if (!object) {
    json_decref(body);
    return NULL;
  }
  object->body = body;
  object->part = object->health = true;
  object->type = strdup(NS1_FEED);
  if (asprintf(&object->key, NS1_FEED "/%s%s%s", key, again ? "/" : "", again ? again : "") < 0)
    object->key = NULL;
  return body && object->type && object->key ? object : NULL;
}

/* "_feed-ENDPOINT-TYPE.DOMAIN", for people: nothing is read from it. */
static char *object_name(const char *domain, const char *endpoint, const char *type) {
  char text[SHORT_NAME + 1];
  char *name;
  size_t n = 0;
  for (const char *c = endpoint; *c && n < SHORT_NAME; c++)
    text[n++] = isalnum((unsigned char)*c) ? *c : '-';
  text[n] = '\0';
  if (asprintf(&name, "_feed-%s-%s.%s", text, type, domain) < 0)
    return NULL;
  for (char *c = name; *c; c++)
    *c = (char)tolower((unsigned char)*c);
  return name;
}

bool ns1_feed_add(struct provider_objects *out, const char *domain, const char *endpoint,
                  const char *type, const char *key, bool up) {
  struct provider_object *object = add_object(out, key, NULL, json_pack("{s:b}", "up", (int)up));
  if (!object)
    return false;
  object->name = object_name(domain, endpoint, type);
  object->domain = strdup(domain);
  return object->name && object->domain;
}

/* ---- reading -------------------------------------------------------------------------------- */

void ns1_feeds_forget(struct ns1 *n) {
  json_decref(n->sources);
  json_decref(n->by_key);
  json_decref(n->by_id);
  n->sources = n->by_key = n->by_id = NULL;
}

bool ns1_feeds_sources(void *arg, json_t *page, struct provider_error *error) {
  struct ns1 *n = arg;
  char ours[300];
  size_t i;
  const json_t *item;
  snprintf(ours, sizeof ours, "sluice owner=%.250s", n->marker);
  if (!json_is_array(page))
    return ns1_garbage(n, "data sources", "it gives no list", error);
  json_array_foreach(page, i, item) {
    const char *name = json_string_value(json_object_get(item, "name"));
    const char *type = json_string_value(json_object_get(item, "sourcetype"));
    const char *id = proper_id(item);
    if (!name || !type || strcmp(name, ours) != 0 || strcmp(type, "nsone_v1") != 0)
      continue;
    if (!id)
      return ns1_garbage(n, "data sources", "one has no proper id", error);
    if (json_array_append_new(n->sources, json_string(id)) != 0)
      return web_no_memory(n->name, error);
  }
  return true;
}

/* Whether the feed says that its endpoint is up: true, false, or null if it does not say. */
static json_t *value_of(const json_t *item) {
  const json_t *up = json_object_get(json_object_get(item, "data"), "up");
  const char *text = json_string_value(up);
  if (json_is_boolean(up))
    return json_boolean(json_is_true(up));
  if (json_is_integer(up))
    return json_boolean(json_integer_value(up) != 0);
  if (text && (strcmp(text, "1") == 0 || strcmp(text, "true") == 0))
    return json_true();
  if (text && (strcmp(text, "0") == 0 || strcmp(text, "false") == 0))
    return json_false();
  return json_null();
}

/* Two feeds with one key: the first one that was listed is used, others are told and removed. */
static bool take_feed(const struct ns1_feeds *f, const char *key, const json_t *item,
                      const char *id) {
  struct ns1 *n = f->n;
  char name[256 + NS1_KEY + 16];
  bool again = json_object_get(n->by_key, key);
  json_t *raw = json_pack("{s:s, s:s}", "source", f->source, "id", id);
  bool ok = raw && (again || (json_object_set(n->by_key, key, raw) == 0 &&
                              json_object_set_new(n->by_id, id, json_string(key)) == 0));
  struct provider_object *object =
      ok && f->out
          ? add_object(f->out, key, again ? id : NULL, json_pack("{s:o}", "up", value_of(item)))
          : NULL;
  if (object) {
    snprintf(name, sizeof name, "_feed-%s.%.255s", key, f->zone);
    object->raw = json_incref(raw);
    object->name = strdup(name);
    object->owner = strdup(n->marker);
    ok = object->name && object->owner;
  }
  json_decref(raw);
  return ok && (object || !f->out);
}

bool ns1_feeds_page(void *arg, json_t *page, struct provider_error *error) {
  const struct ns1_feeds *f = arg;
  size_t i;
  const json_t *item;
  if (!json_is_array(page))
    return ns1_garbage(f->n, "data feeds", "it gives no list", error);
  json_array_foreach(page, i, item) {
    const char *label =
        json_string_value(json_object_get(json_object_get(item, "config"), "label"));
    const char *id = proper_id(item);
    size_t skip = strlen(f->n->prefix);
    if (!label || strncmp(label, f->n->prefix, skip) != 0 ||
        strspn(label + skip, "0123456789abcdef") != NS1_KEY - 1 || label[skip + NS1_KEY - 1])
      continue; /* of another zone */
    if (!id)
      return ns1_garbage(f->n, "data feeds", "one has no proper id", error);
    if (!take_feed(f, label + skip, item, id))
      return web_no_memory(f->n->name, error);
  }
  return true;
}

bool ns1_feeds_begin(struct ns1 *n, const char *zone) {
  ns1_feeds_forget(n);
  n->sources = json_array();
  n->by_key = json_object();
  n->by_id = json_object();
  return n->sources && n->by_key && n->by_id && ns1_feeds_prefix(n, zone);
}

bool ns1_feeds_read(struct ns1 *n, const char *zone, struct provider_objects *out,
                    struct provider_error *error) {
  bool ok = ns1_feeds_begin(n, zone) ? ns1_list(n, ns1_url(n, "data/sources", NULL, NULL, NULL),
                                                "data sources", ns1_feeds_sources, n, error)
                                     : web_no_memory(n->name, error);
  for (size_t i = 0; ok && i < json_array_size(n->sources); i++) {
    struct ns1_feeds f = {n, zone, json_string_value(json_array_get(n->sources, i)), out};
    ok = ns1_list(n, ns1_url(n, "data/feeds", f.source, NULL, NULL), "data feeds", ns1_feeds_page,
                  &f, error);
    if (!ok && error->failure == PROVIDER_GONE)
      error->failure = PROVIDER_CONFLICT;
  }
  if (!ok && error->failure == PROVIDER_DENIED)
    provider_fail(error, PROVIDER_DENIED,
                  "%s: the API key is refused for data sources and feeds; give it the rights to "
                  "manage them, or set `feeds: false` for this provider",
                  n->name);
  return ok;
}

/* ---- records -------------------------------------------------------------------------------- */

/* The feed of an answer, or NULL. */
static json_t *feed_of(const json_t *answer) {
  json_t *up = json_object_get(json_object_get(answer, "meta"), "up");
  return json_is_string(json_object_get(up, "feed")) ? up : NULL;
}

bool ns1_has_feed(const json_t *record) {
  size_t i;
  const json_t *answer;
  json_array_foreach(json_object_get(record, "answers"), i, answer) {
    if (feed_of(answer))
      return true;
  }
  return false;
}

json_t *ns1_feeds_name(const struct ns1 *n, json_t *record) {
  if (!ns1_has_feed(record))
    return json_incref(record);
  json_t *out = json_deep_copy(record);
  size_t i;
  const json_t *answer;
  bool ok = out;
  json_array_foreach(json_object_get(out, "answers"), i, answer) {
    json_t *up = feed_of(answer);
    const char *id = json_string_value(json_object_get(up, "feed"));
    json_t *key = id ? json_object_get(n->by_id, id) : NULL;
    if (id)
      ok = ok && (key ? json_object_set(up, "feed", key)
                      : json_object_set_new(up, "feed", json_sprintf("id:%s", id))) == 0;
  }
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

json_t *ns1_feeds_resolve(const struct ns1 *n, json_t *record, const char **missing) {
  *missing = NULL;
  if (!ns1_has_feed(record))
    return json_incref(record);
  json_t *out = json_deep_copy(record);
  size_t i;
  const json_t *answer;
  bool ok = out;
  json_array_foreach(json_object_get(out, "answers"), i, answer) {
    json_t *up = feed_of(answer);
    const char *key = json_string_value(json_object_get(up, "feed"));
    json_t *id = key ? json_object_get(json_object_get(n->by_key, key), "id") : NULL;
    if (!key || !ok)
      continue;
    if (strncmp(key, "id:", 3) == 0)
      ok = json_object_set_new(up, "feed", json_string(key + 3)) == 0;
    else if (id)
      ok = json_object_set(up, "feed", id) == 0;
    else
      ok = false;
    if (!id && !ok) {
      const json_t *old = json_array_get(json_object_get(record, "answers"), i);
      *missing = json_string_value(json_object_get(feed_of(old), "feed"));
    }
  }
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

/* ---- which domain's ------------------------------------------------------------------------- */

static bool note_users(json_t *users, const struct provider_object *object) {
  size_t i;
  const json_t *answer;
  json_array_foreach(json_object_get(object->body, "answers"), i, answer) {
    const char *key = json_string_value(json_object_get(json_object_get(answer, "up"), "feed"));
    if (key && json_object_set_new(users, key, json_string(object->name)) != 0)
      return false;
  }
  return true;
}

bool ns1_feeds_link(struct provider_objects *objects) {
  json_t *users = json_object(); /* KEY -> name of the record */
  bool ok = users;
  for (size_t i = 0; ok && i < objects->count; i++)
    if (strcmp(objects->items[i].type, NS1_FEED) != 0)
      ok = note_users(users, &objects->items[i]);
  for (size_t i = 0; ok && i < objects->count; i++) {
    struct provider_object *object = &objects->items[i];
    if (strcmp(object->type, NS1_FEED) != 0)
      continue;
    const char *user =
        json_string_value(json_object_get(users, object->key + strlen(NS1_FEED) + 1));
    ok = !user || (object->domain = strdup(user)) != NULL;
  }
  json_decref(users);
  return ok;
}
