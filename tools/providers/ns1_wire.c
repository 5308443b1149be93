/* SPDX-License-Identifier: Apache-2.0 */
/* Canonical records as the bodies of requests. */
#include <string.h>

#include "tools/providers/ns1_private.h"

static const char *const outside[] = {"rdata", "region"};

/* The keys that are not in `outside`. */
static json_t *meta_of(const json_t *canonical) {
  json_t *out = json_copy((json_t *)(uintptr_t)canonical);
  for (size_t i = 0; out && i < sizeof outside / sizeof *outside; i++)
    json_object_del(out, outside[i]);
  return out;
}

static json_t *wire_answer(const char *type, const json_t *answer) {
  const char *rdata = json_string_value(json_object_get(answer, "rdata"));
  json_t *region = json_object_get(answer, "region");
  json_t *parts = rdata ? ns1_answer_parts(type, rdata) : NULL;
  json_t *out = parts ? json_pack("{s:o, s:o}", "answer", parts, "meta", meta_of(answer)) : NULL;
  if (out && region)
    json_object_set(out, "region", region);
  return out;
}

static json_t *wire_answers(const char *type, const json_t *canonical) {
  json_t *out = json_array();
  size_t i;
  const json_t *item;
  bool ok = out;
  json_array_foreach(json_object_get(canonical, "values"), i, item) {
    json_t *parts = ns1_answer_parts(type, json_string_value(item));
    ok = ok && parts && json_array_append_new(out, json_pack("{s:O}", "answer", parts)) == 0;
    json_decref(parts);
  }
  json_array_foreach(json_object_get(canonical, "answers"), i, item) ok =
      ok && json_array_append_new(out, wire_answer(type, item)) == 0;
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

static json_t *wire_filters(const json_t *canonical) {
  json_t *out = json_array();
  size_t i;
  const json_t *item;
  bool ok = out;
  json_array_foreach(json_object_get(canonical, "filters"), i, item) {
    json_t *config = json_copy((json_t *)(uintptr_t)item);
    json_t *name = json_object_get(item, "filter");
    json_t *off = json_object_get(item, "disabled");
    json_t *filter = config ? json_pack("{s:O, s:O}", "filter", name, "config", config) : NULL;
    if (config) {
      json_object_del(config, "filter");
      json_object_del(config, "disabled");
    }
    if (filter && off)
      json_object_set(filter, "disabled", off);
    ok = ok && filter && json_array_append(out, filter) == 0;
    json_decref(filter);
    json_decref(config);
  }
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

static json_t *wire_regions(const json_t *canonical) {
  json_t *out = json_object();
  const char *name;
  json_t *item;
  bool ok = out;
  json_object_foreach(json_object_get(canonical, "regions"), name, item) ok =
      ok && json_object_set_new(out, name, json_pack("{s:O}", "meta", item)) == 0;
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

/* Names in its API have no final dot. */
static json_t *undotted(const char *name) {
  size_t len = strlen(name);
  return json_stringn(name, len > 1 && name[len - 1] == '.' ? len - 1 : len);
}

json_t *ns1_wire(const char *zone, const char *name, const char *type, const json_t *canonical) {
  json_t *answers = wire_answers(type, canonical);
  json_t *filters = wire_filters(canonical);
  json_t *regions = wire_regions(canonical);
  json_t *out = NULL;
  if (answers && filters && regions)
    out = json_pack(
        "{s:o, s:o, s:s, s:O, s:b, s:O, s:O, s:O, s:{}}", "zone", undotted(zone), "domain",
        undotted(name), "type", type, "ttl", json_object_get(canonical, "ttl"), "use_client_subnet",
        !json_object_get(canonical, "subnet") || json_is_true(json_object_get(canonical, "subnet")),
        "answers", answers, "filters", filters, "regions", regions, "meta");
  json_decref(answers);
  json_decref(filters);
  json_decref(regions);
  return out;
}
