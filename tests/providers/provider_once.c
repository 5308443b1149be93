/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses one provider, for tests: standard input is
 *
 * {"settings": {"type", "url", ...}, "key": "...", "marker": "sluice", "zone": "e.test.",
 *  "domains": [{"steer": {...}, "health": {...}, "pushed": bool, "weights": [...],
 *               "status": [{"manual", "health4", "health6"} as numbers...]}...],
 *  "static": [{"name", "type", "ttl", "values"}...], "do": ["create_zone", "read", "compile",
 *  "apply", "decompile", "servers", "delete_zone"]}
 *
 * It does the steps in this order, applies what differs by key, and prints one document: "read",
 * "wanted" and "seen" (lists of objects), "fidelity", "documents", "done", "error".
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "tools/providers/provider.h"
#include "zones/domain_json.h"

enum { DOMAINS = 512 };

struct domain {
  struct steer_domain *steer;
  struct provider_domain provider;
  struct steer_status *status;
  int32_t *weights;
  char name[NAME_MAX_TEXT];
};

static const char *const failures[] = {"ok",       "unreachable", "throttled", "denied", "gone",
                                       "conflict", "refused",     "garbage",   "local"};

static bool give_secret(void *arg, const char *name, char *out, size_t size, char *why) {
  const char *key = json_string_value(json_object_get(arg, "key"));
  (void)name;
  (void)why;
  if (!key)
    return false;
  snprintf(out, size, "%s", key);
  return true;
}

static bool is_asked(const json_t *input, const char *step) {
  size_t i;
  const json_t *item;
  json_array_foreach(json_object_get(input, "do"), i,
                     item) if (strcmp(json_string_value(item), step) == 0) return true;
  return false;
}

/* ---- domains -------------------------------------------------------------------------------- */

static uint8_t number(const json_t *json, const char *key) {
  return (uint8_t)json_integer_value(json_object_get(json, key));
}

static bool take_domain(const json_t *json, struct domain *out) {
  char why[DOMAIN_JSON_WHY] = "";
  const json_t *weights = json_object_get(json, "weights");
  const json_t *status = json_object_get(json, "status");
  out->steer = domain_json_decode(json_object_get(json, "steer"), why);
  if (!out->steer) {
    fprintf(stderr, "provider_once: %s\n", why);
    return false;
  }
  name_to_text(out->name, out->steer->owner);
  out->weights = weights ? calloc(out->steer->entry_count, sizeof *out->weights) : NULL;
  for (uint32_t i = 0; out->weights && i < out->steer->entry_count; i++)
    out->weights[i] = (int32_t)json_integer_value(json_array_get(weights, i));
  out->status = status ? calloc(out->steer->endpoint_count, sizeof *out->status) : NULL;
  for (uint32_t i = 0; out->status && i < out->steer->endpoint_count; i++) {
    const json_t *s = json_array_get(status, i);
    out->status[i] =
        (struct steer_status){number(s, "manual"), number(s, "health4"), number(s, "health6")};
  }
  out->provider = (struct provider_domain){
      .steer = out->steer,
      .name = out->name,
      .health = json_object_get(json, "health"),
      .facts = {.status = out->status, .weights = out->weights},
      .pushed = json_is_true(json_object_get(json, "pushed")),
  };
  return true;
}

/* ---- output --------------------------------------------------------------------------------- */

static json_t *text_or_null(const char *text) {
  return text ? json_string(text) : json_null();
}

static json_t *objects_json(const struct provider_objects *objects) {
  json_t *list = json_array();
  for (size_t i = 0; i < objects->count; i++) {
    const struct provider_object *o = &objects->items[i];
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:o, s:b, s:O}", "key", o->key,
                                          "name", o->name, "type", o->type, "domain",
                                          text_or_null(o->domain), "owner", text_or_null(o->owner),
                                          "opaque", o->opaque, "body", o->body));
  }
  return list;
}

static json_t *fidelity_json(const struct provider_fidelity *f) {
  static const char *const grades[] = {"exact", "approx", "lost"};
  json_t *out = json_object();
  for (int l = 0; l < PROVIDER_LAYERS; l++)
    json_object_set_new(out, provider_layer_name((enum provider_layer)l),
                        json_pack("{s:s, s:f, s:s}", "grade", grades[f->grade[l]], "error",
                                  f->error[l], "why", f->why[l]));
  return out;
}

/* The document of each steered name that is ours, or the reason why there is none. */
static json_t *documents_json(const struct provider_kind *kind, void *self,
                              const struct provider_objects *objects) {
  json_t *out = json_object();
  for (size_t i = 0; i < objects->count; i++) {
    const char *name = objects->items[i].domain;
    const struct provider_object *of[256];
    struct provider_error error = {0};
    size_t count = 0;
    if (!name || json_object_get(out, name))
      continue;
    for (size_t k = i; k < objects->count && count < 256; k++)
      if (objects->items[k].domain && strcmp(objects->items[k].domain, name) == 0)
        of[count++] = &objects->items[k];
    json_t *document = kind->decompile(self, of, count, &error);
    json_object_set_new(out, name, document ? document : json_string(error.text));
  }
  return out;
}

/* ---- what differs --------------------------------------------------------------------------- */

/* key -> index */
static json_t *index_of(const struct provider_objects *objects) {
  json_t *index = json_object();
  for (size_t i = 0; i < objects->count; i++)
    json_object_set_new(index, objects->items[i].key, json_integer((json_int_t)i));
  return index;
}

/* Ours that are not wanted go; others stay. */
static size_t differences(const struct provider_objects *actual,
                          const struct provider_objects *wanted, const char *marker,
                          struct provider_change *changes) {
  json_t *there = index_of(actual);
  json_t *asked = index_of(wanted);
  size_t n = 0;
  for (size_t i = 0; i < wanted->count; i++) {
    const struct provider_object *new = &wanted->items[i];
    const json_t *at = json_object_get(there, new->key);
    const struct provider_object *old = at ? &actual->items[json_integer_value(at)] : NULL;
    if (!old || old->opaque || !json_equal(old->body, new->body))
      changes[n++] = (struct provider_change){old ? PROVIDER_UPDATE : PROVIDER_CREATE, old, new};
  }
  for (size_t i = 0; i < actual->count; i++) {
    const struct provider_object *old = &actual->items[i];
    if (old->owner && strcmp(old->owner, marker) == 0 && !json_object_get(asked, old->key))
      changes[n++] = (struct provider_change){PROVIDER_DELETE, old, NULL};
  }
  json_decref(there);
  json_decref(asked);
  return n;
}

/* ---- the steps ------------------------------------------------------------------------------ */

struct run {
  const json_t *input;
  json_t *out;
  const struct provider_kind *kind;
  void *self;
  const char *zone, *marker;
  struct domain domains[DOMAINS];
  size_t count;
  struct provider_objects actual, wanted;
  struct provider_error error;
};

static bool compile(struct run *run) {
  json_t *fidelity = json_object();
  bool ok = true;
  for (size_t i = 0; ok && i < run->count; i++) {
    struct provider_fidelity f;
    ok = run->kind->compile(run->self, &run->domains[i].provider, &run->wanted, &f, &run->error);
    if (ok)
      json_object_set_new(fidelity, run->domains[i].name, fidelity_json(&f));
  }
  size_t i;
  json_t *item;
  json_array_foreach(json_object_get(run->input, "static"), i, item) ok =
      ok && provider_add_rrset(&run->wanted, json_string_value(json_object_get(item, "name")),
                               json_string_value(json_object_get(item, "type")),
                               (uint32_t)json_integer_value(json_object_get(item, "ttl")),
                               json_incref(json_object_get(item, "values")));
  json_object_set_new(run->out, "fidelity", fidelity);
  json_object_set_new(run->out, "wanted", objects_json(&run->wanted));
  return ok;
}

static bool apply(struct run *run) {
  size_t done = 0;
  struct provider_change *changes =
      calloc(run->actual.count + run->wanted.count + 1, sizeof *changes);
  size_t count = differences(&run->actual, &run->wanted, run->marker, changes);
  bool ok = run->kind->apply(run->self, run->zone, changes, count, &done, &run->error);
  json_object_set_new(run->out, "changes", json_integer((json_int_t)count));
  json_object_set_new(run->out, "done", json_integer((json_int_t)done));
  free(changes);
  if (!ok)
    return false;
  struct provider_objects seen;
  provider_objects_init(&seen);
  ok = run->kind->read(run->self, run->zone, &seen, &run->error);
  json_object_set_new(run->out, "seen", objects_json(&seen));
  if (ok && is_asked(run->input, "decompile"))
    json_object_set_new(run->out, "documents", documents_json(run->kind, run->self, &seen));
  provider_objects_close(&seen);
  return ok;
}

static bool steps(struct run *run) {
  const struct provider_kind *kind = run->kind;
  if (is_asked(run->input, "create_zone") && !kind->create_zone(run->self, run->zone, &run->error))
    return false;
  if (is_asked(run->input, "read")) {
    if (!kind->read(run->self, run->zone, &run->actual, &run->error))
      return false;
    json_object_set_new(run->out, "read", objects_json(&run->actual));
    if (is_asked(run->input, "decompile"))
      json_object_set_new(run->out, "documents", documents_json(kind, run->self, &run->actual));
  }
  if (is_asked(run->input, "compile") && !compile(run))
    return false;
  if (is_asked(run->input, "apply") && !apply(run))
    return false;
  if (is_asked(run->input, "servers")) {
    json_t *servers = kind->servers(run->self, run->zone, &run->error);
    if (!servers)
      return false;
    json_object_set_new(run->out, "servers", servers);
  }
  return !is_asked(run->input, "delete_zone") ||
         kind->delete_zone(run->self, run->zone, &run->error);
}

static bool start(struct run *run) {
  size_t i;
  const json_t *item;
  const json_t *settings = json_object_get(run->input, "settings");
  const char *type = json_string_value(json_object_get(settings, "type"));
  struct provider_context context = {
      .name = "dns-x",
      .settings = settings,
      .secret = give_secret,
      .secret_arg = (void *)(uintptr_t)run->input,
      .marker = run->marker,
      .deadline_ms = (uint64_t)json_integer_value(json_object_get(run->input, "deadline")),
      .read_only = json_is_true(json_object_get(run->input, "read_only")),
  };
  run->kind = type ? provider_find(type) : NULL;
  if (!run->kind)
    return provider_fail(&run->error, PROVIDER_LOCAL, "no such type");
  json_array_foreach(
      json_object_get(run->input, "domains"), i,
      item) if (i >= DOMAINS ||
                !take_domain(
                    item, &run->domains[run->count++])) return provider_fail(&run->error,
                                                                             PROVIDER_LOCAL,
                                                                             "a domain is wrong");
  run->self = run->kind->open(&context, &run->error);
  return run->self;
}

int main(void) {
  static struct run run;
  json_error_t where;
  json_t *input = json_loadf(stdin, 0, &where);
  if (!input) {
    fprintf(stderr, "provider_once: %s\n", where.text);
    return 2;
  }
  const char *marker = json_string_value(json_object_get(input, "marker"));
  run.input = input;
  run.out = json_object();
  run.zone = json_string_value(json_object_get(input, "zone"));
  run.marker = marker ? marker : "sluice";
  provider_objects_init(&run.actual);
  provider_objects_init(&run.wanted);
  bool ok = start(&run) && steps(&run);
  if (!ok)
    json_object_set_new(
        run.out, "error",
        json_pack("{s:s, s:s}", "failure", failures[run.error.failure], "text", run.error.text));
  if (run.self)
    run.kind->close(run.self);
  provider_objects_close(&run.actual);
  provider_objects_close(&run.wanted);
  for (size_t i = 0; i < run.count; i++) {
    steer_domain_free(run.domains[i].steer);
    free(run.domains[i].status);
    free(run.domains[i].weights);
  }
  json_dumpf(run.out, stdout, JSON_INDENT(1) | JSON_SORT_KEYS);
  putchar('\n');
  json_decref(run.out);
  json_decref(input);
  return ok ? 0 : 1;
}
