/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One PATCH for all changes of a zone: it is atomic there, and each one makes a new serial, so it
 * holds nothing that is as wanted already.
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

static json_t *body_of(const struct patching *p, bool *lua) {
  json_t *deletes = json_array();
  json_t *replaces = json_array();
  const char *key;
  json_t *rrset;
  bool ok = deletes && replaces;
  *lua = false;
  json_object_foreach(p->after, key, rrset) {
    const json_t *before = json_object_get(p->before, key);
    json_t *name = json_object_get(rrset, "name");
    json_t *type = json_object_get(rrset, "type");
    json_t *records = json_object_get(rrset, "records");
    if (json_array_size(records) == 0) {
      ok = ok && (!before ||
                  json_array_append_new(deletes, json_pack("{s:O, s:O, s:s}", "name", name, "type",
                                                           type, "changetype", "DELETE")) == 0);
      continue;
    }
    json_t *comments = comments_for(p, rrset);
    *lua = *lua || strcmp(json_string_value(type), "LUA") == 0;
    ok = ok && comments &&
         (is_same(before, rrset, comments) ||
          json_array_append_new(
              replaces, json_pack("{s:O, s:O, s:O, s:s, s:O, s:O}", "name", name, "type", type,
                                  "ttl", json_object_get(rrset, "ttl"), "changetype", "REPLACE",
                                  "records", records, "comments", comments)) == 0);
    json_decref(comments);
  }
  /* What goes stands first: a CNAME clashes with all that is still there. */
  ok = ok && json_array_extend(deletes, replaces) == 0;
  json_t *body = NULL;
  if (ok)
    body = json_array_size(deletes) ? json_pack("{s:O}", "rrsets", deletes) : json_null();
  json_decref(deletes);
  json_decref(replaces);
  return body;
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
  json_t *body = ok ? body_of(&p, lua) : NULL;
  json_decref(p.after);
  if (!body)
    provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", provider);
  return body;
}
