/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A domain's document from its records.  What the notes say is believed only if it compiles to the
 * very records that are there.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "steering/layers.h"
#include "tools/providers/ns1_private.h"
#include "zones/domain_json.h"

enum { LEVELS_MAX = 4096 };

static const char head[] = "sluice ";

/* The text behind " KEY=" in a note; for the last key it is the rest. */
static const char *field(const char *note, const char *key, char *out, size_t size) {
  char wanted[16];
  snprintf(wanted, sizeof wanted, " %s=", key);
  const char *at = note ? strstr(note, wanted) : NULL;
  if (!at)
    return NULL;
  at += strlen(wanted);
  bool last = strcmp(key, "e") == 0 || strcmp(key, "r") == 0;
  size_t len = last ? strlen(at) : strcspn(at, " ");
  if (len >= size)
    return NULL;
  memcpy(out, at, len);
  out[len] = '\0';
  return out;
}

static const char *note_of(const json_t *meta) {
  const char *note = json_string_value(json_object_get(meta, "note"));
  return note && strncmp(note, head, sizeof head - 1) == 0 ? note : NULL;
}

char *ns1_owner(const json_t *canonical) {
  const char *name;
  json_t *region;
  char owner[NS1_NOTE_MAX + 1];
  json_object_foreach(json_object_get(canonical, "regions"), name, region) {
    if (field(note_of(region), "o", owner, sizeof owner))
      return strdup(owner);
  }
  return NULL;
}

/* ---- the document --------------------------------------------------------------------------- */

struct reading {
  json_t *document;
  json_t *endpoints; /* name -> the document's endpoint */
  json_t *regions;   /* name -> the document's region */
  json_t *seen;      /* "region\nlevel\nendpoint" */
  json_t *down;      /* type -> [names] */
  json_t *health;    /* name -> {} of endpoints with a feed */
  json_t *feeds;     /* KEY -> whether it says up */
};

static json_t *named(json_t *index, json_t *list, const char *name, json_t *fresh) {
  json_t *found = json_object_get(index, name);
  if (found) {
    json_decref(fresh);
    return found;
  }
  if (!fresh || json_object_set(index, name, fresh) != 0) {
    json_decref(fresh);
    return NULL;
  }
  return json_array_append_new(list, fresh) == 0 ? fresh : NULL;
}

static bool append_once(json_t *list, const char *text) {
  size_t i;
  const json_t *item;
  json_array_foreach(list, i, item) {
    if (strcmp(json_string_value(item), text) == 0)
      return true;
  }
  return json_array_append_new(list, json_string(text)) == 0;
}

static bool add_atom(json_t *region, const char *kind, const json_t *value) {
  char text[128];
  if (json_is_integer(value))
    snprintf(text, sizeof text, "%s%lld", kind, (long long)json_integer_value(value));
  else if (json_is_string(value))
    snprintf(text, sizeof text, "%s%.90s", kind, json_string_value(value));
  else
    return false;
  for (char *c = text; *c; c++)
    *c = (char)tolower((unsigned char)*c);
  return append_once(json_object_get(region, "atoms"), text);
}

static bool add_atoms(json_t *region, const json_t *meta) {
  static const char *const kinds[][2] = {{"ip_prefixes", "net:"},
                                         {"asn", "asn:"},
                                         {"us_state", "subdivision:us-"},
                                         {"ca_province", "subdivision:ca-"},
                                         {"country", "country:"}};
  char list[64];
  char *rest = NULL;
  const char *continents = field(note_of(meta), "c", list, sizeof list);
  bool any = continents;
  bool ok = true;
  for (char *c = continents ? strtok_r(list, ",", &rest) : NULL; c;
       c = strtok_r(NULL, ",", &rest)) {
    json_t *code = json_string(c);
    ok = ok && code && add_atom(region, "continent:", code);
    json_decref(code);
  }
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    const json_t *values = json_object_get(meta, kinds[k][0]);
    size_t i;
    const json_t *value;
    if (continents && strcmp(kinds[k][0], "country") == 0)
      continue;
    json_array_foreach(values, i, value) {
      ok = ok && add_atom(region, kinds[k][1], value);
      any = true;
    }
  }
  return ok && (any || append_once(json_object_get(region, "atoms"), "global"));
}

static bool read_regions(struct reading *r, const json_t *body) {
  json_t *list = json_object_get(r->document, "regions");
  const json_t *metas = json_object_get(body, "regions");
  size_t i;
  const json_t *id;
  json_array_foreach(json_object_get(body, "order"), i, id) {
    const json_t *meta = json_object_get(metas, json_string_value(id));
    char name[NS1_NOTE_MAX + 1];
    char draw[16];
    if (!field(note_of(meta), "r", name, sizeof name))
      return false;
    json_t *region = named(r->regions, list, name,
                           json_pack("{s:s, s:[], s:[]}", "name", name, "atoms", "levels"));
    if (!region || !add_atoms(region, meta))
      return false;
    if (field(note_of(meta), "d", draw, sizeof draw))
      json_object_set_new(r->document, "draw_per", json_string("subnet"));
  }
  return true;
}

static bool add_entry(struct reading *r, json_t *region, long level, const char *endpoint,
                      long weight) {
  char key[3 * NS1_NOTE_MAX];
  json_t *levels = json_object_get(region, "levels");
  snprintf(key, sizeof key, "%s\n%ld\n%s", json_string_value(json_object_get(region, "name")),
           level, endpoint);
  if (json_object_get(r->seen, key))
    return true;
  bool ok =
      level >= 1 && level <= LEVELS_MAX && json_object_set_new(r->seen, key, json_true()) == 0;
  while (ok && json_array_size(levels) < (size_t)level)
    ok = json_array_append_new(levels, json_array()) == 0;
  return ok && json_array_append_new(json_array_get(levels, (size_t)level - 1),
                                     json_pack("[s, I]", endpoint, (json_int_t)weight)) == 0;
}

static bool note_down(struct reading *r, const char *type, const char *name) {
  json_t *list = json_object_get(r->down, type);
  if (!list) {
    list = json_array();
    if (json_object_set_new(r->down, type, list) != 0)
      return false;
  }
  return append_once(list, name);
}

/* An endpoint whose health goes by a feed: one that is not there counts as up. */
static bool note_feed(struct reading *r, const char *type, const json_t *answer, const char *name) {
  const char *key = json_string_value(json_object_get(json_object_get(answer, "up"), "feed"));
  if (!key || json_object_set_new(r->health, name, json_object()) != 0)
    return false;
  return !json_is_false(json_object_get(r->feeds, key)) || note_down(r, type, name);
}

static bool take_answer(struct reading *r, const char *type, const json_t *body,
                        const json_t *answer) {
  const char *note = note_of(answer);
  const char *rdata = json_string_value(json_object_get(answer, "rdata"));
  const char *id = json_string_value(json_object_get(answer, "region"));
  char name[NS1_NOTE_MAX + 1], region_name[NS1_NOTE_MAX + 1], level[16], weight[16], state[16];
  if (note && strncmp(note, "sluice fallback ", 16) == 0)
    return true;
  if (!note || !rdata || !id || !field(note, "l", level, sizeof level) ||
      !field(note, "w", weight, sizeof weight) || !field(note, "s", state, sizeof state) ||
      !field(note, "e", name, sizeof name) ||
      !field(note_of(json_object_get(json_object_get(body, "regions"), id)), "r", region_name,
             sizeof region_name))
    return false;
  bool host = strcmp(type, "CNAME") == 0;
  bool on = strcmp(state, "off") != 0;
  json_t *endpoint =
      named(r->endpoints, json_object_get(r->document, "endpoints"), name,
            host ? json_pack("{s:s, s:b, s:s}", "name", name, "enabled", on, "host", rdata)
                 : json_pack("{s:s, s:b, s:[]}", "name", name, "enabled", on, "addresses"));
  bool ok = endpoint && (host || append_once(json_object_get(endpoint, "addresses"), rdata));
  if (ok && strcmp(state, "down") == 0)
    ok = note_down(r, type, name);
  if (ok && strcmp(state, "feed") == 0)
    ok = note_feed(r, type, answer, name);
  return ok && add_entry(r, json_object_get(r->regions, region_name), strtol(level, NULL, 10), name,
                         strtol(weight, NULL, 10));
}

static bool read_record(struct reading *r, const struct provider_object *object) {
  const json_t *body = object->body;
  size_t i;
  const json_t *item;
  if (object->opaque || !read_regions(r, body))
    return false;
  json_object_set(r->document, "ttl", json_object_get(body, "ttl"));
  json_array_foreach(json_object_get(body, "filters"), i, item) {
    json_t *n = json_object_get(item, "N");
    if (n)
      json_object_set(r->document, "answers", n);
  }
  json_array_foreach(json_object_get(body, "answers"), i, item) {
    if (!take_answer(r, object->type, body, item))
      return false;
  }
  return json_array_append_new(json_object_get(r->document, "types"), json_string(object->type)) ==
         0;
}

/* ---- believed, or not ----------------------------------------------------------------------- */

static void set_down(struct steer_status *status, const struct steer_domain *steer,
                     const json_t *down) {
  const char *type;
  json_t *list;
  json_object_foreach((json_t *)(uintptr_t)down, type, list) {
    size_t i;
    const json_t *name;
    json_array_foreach(list, i, name) {
      long at = steer_endpoint_find(steer, json_string_value(name));
      if (at < 0)
        continue;
      if (strcmp(type, "AAAA") != 0)
        status[at].health4 = HEALTH_DOWN;
      if (strcmp(type, "A") != 0)
        status[at].health6 = HEALTH_DOWN;
    }
  }
}

static enum steer_type type_number(const char *type) {
  return strcmp(type, "A") == 0 ? STEER_A : strcmp(type, "AAAA") == 0 ? STEER_AAAA : STEER_CNAME;
}

static bool is_feed(const struct provider_object *object) {
  return strcmp(object->type, NS1_FEED) == 0;
}

static bool compiles_to(const char *provider, const char *mark, const struct steer_domain *steer,
                        const struct reading *r, const struct provider_object *const *objects,
                        size_t count) {
  struct provider_error ignored;
  struct steer_status *status = calloc(steer->endpoint_count + 1, sizeof *status);
  bool ok = status;
  if (ok)
    set_down(status, steer, r->down);
  for (size_t i = 0; ok && i < count; i++) {
    const struct provider_domain domain = {.steer = steer,
                                           .name = objects[i]->name,
                                           .health = r->health,
                                           .facts = {.status = status},
                                           .pushed = true};
    enum steer_type type = type_number(objects[i]->type);
    if (is_feed(objects[i]))
      continue;
    json_t *feeds = json_object();
    json_t *body = steer->offers[type] && feeds
                       ? ns1_compile_type(provider, mark, &domain, type, feeds, &ignored)
                       : NULL;
    ok = body && json_equal(body, objects[i]->body);
    json_decref(body);
    json_decref(feeds);
  }
  free(status);
  return ok;
}

static bool verify(const char *provider, const char *mark, const struct reading *r,
                   const struct provider_object *const *objects, size_t count) {
  char why[DOMAIN_JSON_WHY];
  struct steer_domain *steer = domain_json_decode(r->document, why);
  bool ok = steer && compiles_to(provider, mark, steer, r, objects, count);
  steer_domain_free(steer);
  return ok;
}

/* The first that is a record, or NULL. */
static const struct provider_object *first_record(const struct provider_object *const *objects,
                                                  size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!is_feed(objects[i]))
      return objects[i];
  return NULL;
}

static bool read_all(struct reading *r, const struct provider_object *const *objects,
                     size_t count) {
  size_t skip = strlen(NS1_FEED "/");
  bool ok = true;
  for (size_t i = 0; ok && i < count; i++) {
    json_t *up = json_object_get(objects[i]->body, "up");
    if (is_feed(objects[i]) && up)
      ok = strlen(objects[i]->key) > skip &&
           json_object_set(r->feeds, objects[i]->key + skip, up) == 0;
  }
  for (size_t i = 0; ok && i < count; i++)
    ok = is_feed(objects[i]) || read_record(r, objects[i]);
  return ok;
}

json_t *ns1_decompile(const char *provider, const char *mark,
                      const struct provider_object *const *objects, size_t count,
                      struct provider_error *error) {
  const struct provider_object *first = first_record(objects, count);
  const char *name = first ? first->name : "";
  struct reading r = {
      .document = json_pack("{s:s, s:i, s:i, s:s, s:[], s:[], s:[]}", "owner", name, "ttl", 0,
                            "answers", 1, "draw_per", "query", "types", "endpoints", "regions"),
      .endpoints = json_object(),
      .regions = json_object(),
      .seen = json_object(),
      .down = json_object(),
      .health = json_object(),
      .feeds = json_object(),
  };
  bool ok = r.document && r.endpoints && r.regions && r.seen && r.down && r.health && r.feeds &&
            first && read_all(&r, objects, count);
  ok = ok && verify(provider, mark, &r, objects, count);
  if (ok && json_object_size(r.health) > 0)
    json_object_set(r.document, "checked", r.health);
  if (ok)
    json_object_set(r.document, "down", r.down);
  else
    provider_fail(error, PROVIDER_GARBAGE,
                  "%s: %.200s is not as sluice wrote it: a record made or changed by hand",
                  provider, name);
  json_decref(r.endpoints);
  json_decref(r.regions);
  json_decref(r.seen);
  json_decref(r.down);
  json_decref(r.health);
  json_decref(r.feeds);
  if (ok)
    return r.document;
  json_decref(r.document);
  return NULL;
}
