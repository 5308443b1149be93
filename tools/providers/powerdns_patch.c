/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One PATCH for all changes of a zone, if its size allows: it is atomic there, and each one makes a
 * new serial, so it holds nothing that is as wanted already.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/providers/powerdns_private.h"
#include "tools/providers/powerdns_text.h"

struct patching {
  const char *marker;
  const json_t *before; /* as read */
  json_t *after;        /* of what changes: the RRset to be, without records if it goes */
};

static bool is_lua(const struct provider_object *object) {
  const char *type = json_string_value(json_object_get(object->raw, "type"));
  return type ? strcmp(type, "LUA") == 0 : json_object_get(object->body, "lua") != NULL;
}

static char *key_of(const struct provider_object *object) {
  char *key = NULL;
  return asprintf(&key, "%s/%s", object->name, is_lua(object) ? "LUA" : object->type) < 0 ? NULL
                                                                                          : key;
}

/* The RRset of the object as it is to be so far, begun as it is; NULL without memory. */
static json_t *begin(struct patching *p, const struct provider_object *object) {
  char *key = key_of(object);
  json_t *rrset = key ? json_object_get(p->after, key) : NULL;
  if (key && !rrset) {
    const json_t *old = json_object_get(p->before, key);
    rrset = old ? json_deep_copy(old)
                : json_pack("{s:s, s:s, s:i, s:[], s:[]}", "name", object->name, "type",
                            is_lua(object) ? "LUA" : object->type, "ttl", 0, "records", "comments");
    if (json_object_set_new(p->after, key, rrset) != 0)
      rrset = NULL;
  }
  free(key);
  return rrset;
}

/* Takes the object's records out. */
static bool take_out(struct patching *p, const struct provider_object *object) {
  json_t *rrset = begin(p, object);
  json_t *records = json_object_get(rrset, "records");
  char type[POWERDNS_TYPE];
  if (!rrset)
    return false;
  for (size_t i = json_array_size(records); i-- > 0;) {
    const char *content = json_string_value(json_object_get(json_array_get(records, i), "content"));
    if (!is_lua(object) || !content || !powerdns_type(content, type) ||
        strcmp(type, object->type) == 0)
      json_array_remove(records, i);
  }
  return true;
}

static bool put_record(json_t *records, const char *content) {
  return content && json_array_append_new(
                        records, json_pack("{s:s, s:b}", "content", content, "disabled", 0)) == 0;
}

static bool put_in(struct patching *p, const struct provider_object *object) {
  json_t *rrset = begin(p, object);
  json_t *records = json_object_get(rrset, "records");
  const char *lua = json_string_value(json_object_get(object->body, "lua"));
  const json_t *values = json_object_get(object->body, "values");
  bool ok = rrset && json_object_set(rrset, "ttl", json_object_get(object->body, "ttl")) == 0 &&
            json_object_set_new(rrset, "ours", json_true()) == 0;
  if (ok && lua)
    return put_record(records, lua);
  for (size_t i = 0; ok && i < json_array_size(values); i++)
    ok = put_record(records, json_string_value(json_array_get(values, i)));
  return ok && json_array_size(values) > 0;
}

/* ---- comments ------------------------------------------------------------------------------- */

static bool is_mark(const json_t *comment) {
  const char *content = json_string_value(json_object_get(comment, "content"));
  return content && strcmp(content, POWERDNS_COMMENT) == 0;
}

/* True if a LUA RRset still holds a record from here. */
static bool holds_ours(const json_t *rrset) {
  size_t i;
  const json_t *record;
  json_array_foreach(json_object_get(rrset, "records"), i, record) {
    json_t *model;
    const char *content = json_string_value(json_object_get(record, "content"));
    if (content && powerdns_unwrap(content, &model) != POWERDNS_FOREIGN) {
      json_decref(model);
      return true;
    }
  }
  return false;
}

/* Other people's comments stay; ours is there if the RRset is ours. */
static json_t *comments_for(const struct patching *p, const json_t *rrset) {
  bool ours = json_object_get(rrset, "ours") || holds_ours(rrset);
  json_t *out = json_array();
  size_t i;
  json_t *comment;
  json_array_foreach(json_object_get(rrset, "comments"), i, comment) {
    const char *account = json_string_value(json_object_get(comment, "account"));
    if (is_mark(comment) && ours && account && strcmp(account, p->marker) == 0)
      ours = false; /* it is there */
    else if (is_mark(comment))
      continue;
    json_array_append(out, comment);
  }
  if (ours)
    json_array_append_new(
        out, json_pack("{s:s, s:s}", "content", POWERDNS_COMMENT, "account", p->marker));
  return out;
}

/* ---- the body ------------------------------------------------------------------------------- */

static bool same_set(const json_t *a, const json_t *b) {
  size_t i;
  json_t *item;
  if (json_array_size(a) != json_array_size(b))
    return false;
  json_array_foreach(a, i, item) {
    bool found = false;
    for (size_t k = 0; !found && k < json_array_size(b); k++)
      found = json_equal(item, json_array_get(b, k));
    if (!found)
      return false;
  }
  return true;
}

static bool is_same(const json_t *before, const json_t *rrset, const json_t *comments) {
  return before && json_equal(json_object_get(before, "ttl"), json_object_get(rrset, "ttl")) &&
         same_set(json_object_get(before, "records"), json_object_get(rrset, "records")) &&
         same_set(json_object_get(before, "comments"), comments);
}

/* What is to be sent for one RRset: a new reference, JSON null if nothing. */
static json_t *item_of(const struct patching *p, const char *key, json_t *rrset) {
  const json_t *before = json_object_get(p->before, key);
  json_t *name = json_object_get(rrset, "name");
  json_t *type = json_object_get(rrset, "type");
  json_t *records = json_object_get(rrset, "records");
  if (json_array_size(records) == 0)
    return before ? json_pack("{s:O, s:O, s:s}", "name", name, "type", type, "changetype", "DELETE")
                  : json_null();
  json_t *item = NULL;
  json_t *comments = comments_for(p, rrset);
  if (comments && is_same(before, rrset, comments))
    item = json_null();
  else if (comments)
    item = json_pack("{s:O, s:O, s:O, s:s, s:O, s:O}", "name", name, "type", type, "ttl",
                     json_object_get(rrset, "ttl"), "changetype", "REPLACE", "records", records,
                     "comments", comments);
  json_decref(comments);
  return item;
}

/* The items of each name: {NAME: [deletes..., replaces...]}; NULL without memory.  What goes stands
 * first: a CNAME clashes with all that is still there. */
static json_t *items_by_name(const struct patching *p) {
  json_t *names = json_object();
  const char *key;
  json_t *rrset;
  bool ok = names;
  json_object_foreach(p->after, key, rrset) {
    json_t *item = ok ? item_of(p, key, rrset) : NULL;
    const char *name = json_string_value(json_object_get(rrset, "name"));
    json_t *list = json_object_get(names, name);
    ok = ok && item;
    if (!ok || json_is_null(item)) {
      json_decref(item);
      continue;
    }
    if (!list) {
      list = json_array();
      ok = json_object_set_new(names, name, list) == 0;
    }
    ok = ok && (json_object_get(item, "records") ? json_array_append_new(list, item)
                                                 : json_array_insert_new(list, 0, item)) == 0;
  }
  if (ok)
    return names;
  json_decref(names);
  return NULL;
}

static bool begin_body(json_t *bodies, json_t **list) {
  *list = json_array();
  return *list && json_array_append_new(bodies, json_pack("{s:o}", "rrsets", *list)) == 0;
}

/* As few bodies as the size allows; a name is never cut in two. */
static json_t *bodies_of(json_t *names) {
  json_t *bodies = json_array();
  json_t *list = NULL;
  size_t size = 0;
  const char *name;
  json_t *items;
  bool ok = bodies;
  json_object_foreach(names, name, items) {
    size_t more = json_dumpb(items, NULL, 0, JSON_COMPACT);
    if (ok && (!list || size + more > POWERDNS_BODY)) {
      ok = begin_body(bodies, &list);
      size = 0;
    }
    ok = ok && json_array_extend(list, items) == 0;
    size += more;
  }
  if (ok)
    return bodies;
  json_decref(bodies);
  return NULL;
}

static bool holds_lua(json_t *after) {
  const char *key;
  const json_t *rrset;
  json_object_foreach(after, key, rrset) {
    if (json_array_size(json_object_get(rrset, "records")) > 0 &&
        strcmp(json_string_value(json_object_get(rrset, "type")), "LUA") == 0)
      return true;
  }
  return false;
}

json_t *powerdns_patch(const char *provider, const char *marker, const json_t *rrsets,
                       const struct provider_change *changes, size_t count, bool *lua,
                       struct provider_error *error) {
  struct patching p = {.marker = marker, .before = rrsets, .after = json_object()};
  bool ok = p.after;
  for (size_t i = 0; ok && i < count; i++)
    ok = !changes[i].old || take_out(&p, changes[i].old);
  for (size_t i = 0; ok && i < count; i++)
    ok = !changes[i].new || put_in(&p, changes[i].new);
  json_t *names = ok ? items_by_name(&p) : NULL;
  json_t *bodies = names ? bodies_of(names) : NULL;
  *lua = holds_lua(p.after);
  json_decref(names);
  json_decref(p.after);
  if (!bodies)
    provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", provider);
  return bodies;
}
