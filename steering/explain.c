/* SPDX-License-Identifier: Apache-2.0 */
#include "steering/explain.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "steering/atom.h"
#include "steering/fence.h"

/* jansson's setters take NULL as a failure, so one check at the end of an object is enough. */
static bool set(json_t *object, const char *key, json_t *value) {
  return json_object_set_new(object, key, value) == 0;
}

static json_t *text_or_null(const char *text) {
  return text[0] ? json_string(text) : json_null();
}

static const char *type_name(enum steer_type type) {
  static const char *const names[STEER_TYPES] = {"A", "AAAA", "CNAME"};
  return names[type];
}

static json_t *location_json(const struct geo_location *at) {
  json_t *object = json_object(), *subdivisions = json_array();
  bool ok = object && subdivisions;
  for (unsigned i = 0; ok && i < at->subdivision_count; i++)
    if (at->subdivisions[i][0])
      ok = json_array_append_new(subdivisions, json_string(at->subdivisions[i])) == 0;
  ok = ok && set(object, "continent", text_or_null(at->continent)) &&
       set(object, "country", text_or_null(at->country)) &&
       set(object, "subdivisions", json_incref(subdivisions)) &&
       set(object, "asn", at->asn ? json_integer(at->asn) : json_null());
  json_decref(subdivisions);
  if (ok)
    return object;
  json_decref(object);
  return NULL;
}

static json_t *address_json(int family, const void *octets) {
  char text[INET6_ADDRSTRLEN];
  return json_string(inet_ntop(family, octets, text, sizeof text) ? text : "");
}

static json_t *rdata_json(const struct steer_endpoint *e, enum steer_type type) {
  json_t *list = json_array();
  char host[NAME_MAX_TEXT];
  bool ok = list != NULL;
  if (type == STEER_CNAME)
    ok = ok && json_array_append_new(list, json_string(name_to_text(host, e->host))) == 0;
  for (uint32_t i = 0; ok && type == STEER_A && i < e->addr4_count; i++)
    ok = json_array_append_new(list, address_json(AF_INET, e->addr4[i])) == 0;
  for (uint32_t i = 0; ok && type == STEER_AAAA && i < e->addr6_count; i++)
    ok = json_array_append_new(list, address_json(AF_INET6, e->addr6[i])) == 0;
  if (ok)
    return list;
  json_decref(list);
  return NULL;
}

/* The ECS scope for the client as a /32 or /128 network; -1 without memory. */
static int scope_of(const struct explain_input *in) {
  struct geo_table *built = in->table ? NULL : geo_table_build(in->db, in->domain);
  const struct geo_table *table = in->table ? in->table : built;
  if (!table)
    return -1;
  int scope = geo_table_lookup(table, &in->client).scope;
  geo_table_free(built);
  int subnet = in->client.family == 4 ? 24 : 56;
  if (in->domain->draw_per == DRAW_PER_SUBNET && scope < subnet)
    scope = subnet;
  /* For mapped IPv6 networks the scope is the IPv4 one plus 96; 0 still says "for everyone". */
  return in->client.mapped && scope > 0 ? scope + 96 : scope;
}

/* All atoms that match, the most specific one first in "atom". */
static json_t *fence_json(const struct explain_input *in, const struct geo_location *at,
                          uint32_t region) {
  const struct steer_domain *d = in->domain;
  json_t *layer = json_object(), *matches = json_array();
  char text[64], best_text[64] = "";
  unsigned best = 0;
  bool ok = layer && matches;
  for (uint32_t r = 0; ok && r < d->region_count; r++) {
    for (uint32_t i = 0; ok && i < d->regions[r].atom_count; i++) {
      unsigned rank = fence_rank(&d->regions[r].atoms[i], at, &in->client);
      if (rank == 0)
        continue;
      steer_atom_text(&d->regions[r].atoms[i], text);
      ok = json_array_append_new(
               matches, json_pack("{s:s,s:s}", "atom", text, "region", d->regions[r].name)) == 0;
      if (rank > best) {
        best = rank;
        memcpy(best_text, text, sizeof text);
      }
    }
  }
  ok = ok && set(layer, "layer", json_integer(1)) && set(layer, "name", json_string("fence")) &&
       set(layer, "matches", json_incref(matches)) && set(layer, "atom", json_string(best_text)) &&
       set(layer, "region", json_string(d->regions[region].name));
  json_decref(matches);
  if (ok)
    return layer;
  json_decref(layer);
  return NULL;
}

static const char *health_name(const struct steer_status *status, enum steer_type type,
                               const struct steer_endpoint *endpoint) {
  struct steer_endpoint enabled = *endpoint;
  struct steer_status measured = *status;
  enabled.enabled = true;
  measured.manual = MANUAL_NONE;
  if (status_is_down(&enabled, &measured, type))
    return "down";
  uint8_t health = type == STEER_AAAA ? status->health6 : status->health4;
  if (type == STEER_CNAME && health == HEALTH_UNKNOWN)
    health = status->health6;
  return health == HEALTH_UNKNOWN ? "unknown" : "up";
}

static json_t *entry_json(const struct explain_input *in, enum steer_type type,
                          const struct layer_entry *entry, uint32_t level_count) {
  static const struct steer_status nothing;
  const struct steer_endpoint *e = &in->domain->endpoints[entry->endpoint];
  const struct steer_status *status =
      in->facts.status ? &in->facts.status[entry->endpoint] : &nothing;
  bool drained = entry->weight == 0 && entry->level != level_count;
  bool up = !drained && !status_is_down(e, status, type);
  return json_pack("{s:s,s:i,s:i,s:b,s:s,s:b,s:b,s:b}", "endpoint", e->name, "level",
                   (int)entry->level, "weight", (int)entry->weight, "disabled",
                   (int)status_is_disabled(e, status), "health", health_name(status, type, e),
                   "drained", (int)drained, "up", (int)up, "goes_on", (int)entry->present);
}

static json_t *status_json(const struct explain_input *in, enum steer_type type, uint32_t region,
                           bool fallback) {
  uint32_t level_count = in->domain->regions[region].level_count;
  struct layer_entry *entries = calloc(layer_entry_max(in->domain, region), sizeof *entries);
  json_t *layer = json_object(), *list = json_array();
  bool ok = entries && layer && list;
  size_t count = 0;
  if (ok) {
    count = layer_entries(in->domain, region, type, &in->facts, entries);
    status_filter(in->domain, type, &in->facts, level_count, entries, count);
  }
  for (size_t i = 0; ok && i < count; i++)
    ok = json_array_append_new(list, entry_json(in, type, &entries[i], level_count)) == 0;
  ok = ok && set(layer, "layer", json_integer(2)) && set(layer, "name", json_string("status")) &&
       set(layer, "entries", json_incref(list)) && set(layer, "fallback", json_boolean(fallback));
  json_decref(list);
  free(entries);
  if (ok)
    return layer;
  json_decref(layer);
  return NULL;
}

static json_t *weight_json(const struct explain_input *in, const struct draw_table *table) {
  json_t *layer = json_object(), *list = json_array();
  bool ok = layer && list;
  for (size_t i = 0; ok && i < table->count; i++) {
    const char *name = in->domain->endpoints[table->items[i].endpoint].name;
    json_t *item = json_pack("{s:s,s:i}", "endpoint", name, "weight", (int)table->items[i].weight);
    ok = json_array_append_new(list, item) == 0;
  }
  ok = ok && set(layer, "layer", json_integer(4)) && set(layer, "name", json_string("weight")) &&
       set(layer, "draws", json_integer(table->answers)) &&
       set(layer, "total", json_integer(table->total)) && set(layer, "entries", json_incref(list));
  json_decref(list);
  if (ok)
    return layer;
  json_decref(layer);
  return NULL;
}

static json_t *answers_json(const struct explain_input *in, const struct draw_table *table,
                            enum steer_type type) {
  double *chances = calloc(table->count, sizeof *chances);
  json_t *list = json_array();
  bool ok = chances && list;
  if (ok)
    draw_probabilities(table, chances);
  for (size_t i = 0; ok && i < table->count; i++) {
    const struct steer_endpoint *e = &in->domain->endpoints[table->items[i].endpoint];
    json_t *answer = json_pack("{s:s,s:f,s:o}", "endpoint", e->name, "probability", chances[i],
                               "rdata", rdata_json(e, type));
    ok = json_array_append_new(list, answer) == 0;
  }
  free(chances);
  if (ok)
    return list;
  json_decref(list);
  return NULL;
}

/* Layers 2 to 4 of an offered type. */
static bool add_decision(const struct explain_input *in, enum steer_type type, uint32_t region,
                         json_t *document, json_t *layers) {
  struct draw_table *table = draw_table_build(in->domain, region, type, &in->facts);
  if (!table)
    return false;
  bool ok = set(document, "level", json_integer(table->level)) &&
            set(document, "fallback", json_boolean(table->fallback)) &&
            set(document, "answers", answers_json(in, table, type)) &&
            json_array_append_new(layers, status_json(in, type, region, table->fallback)) == 0 &&
            json_array_append_new(layers, json_pack("{s:i,s:s,s:i}", "layer", 3, "name", "priority",
                                                    "level", (int)table->level)) == 0 &&
            json_array_append_new(layers, weight_json(in, table)) == 0;
  free(table);
  return ok;
}

json_t *explain_json(const struct explain_input *input) {
  const struct steer_domain *d = input->domain;
  enum steer_type type = d->offers[STEER_CNAME] ? STEER_CNAME : input->type;
  bool nodata = !d->offers[type];
  struct geo_location at;
  geo_db_locate(input->db, &input->client, &at);
  uint32_t region = fence_match(d, &at, &input->client);
  /* RFC 7871 section 7.4: negative answers are the same for everyone, so scope 0. */
  int scope = nodata ? 0 : scope_of(input);

  json_t *document = json_object(), *layers = json_array();
  bool ok = document && layers && scope >= 0 &&
            set(document, "domain", json_string(input->domain_text)) &&
            set(document, "client", json_string(input->client_text)) &&
            set(document, "type", json_string(type_name(input->type))) &&
            set(document, "location", location_json(&at)) &&
            set(document, "region", json_string(d->regions[region].name)) &&
            set(document, "level", json_null()) && set(document, "fallback", json_false()) &&
            set(document, "nodata", json_boolean(nodata)) &&
            set(document, "scope", json_integer(scope)) && set(document, "answers", json_array()) &&
            json_array_append_new(layers, fence_json(input, &at, region)) == 0 &&
            (nodata || add_decision(input, type, region, document, layers)) &&
            set(document, "layers", json_incref(layers));
  json_decref(layers);
  if (ok)
    return document;
  json_decref(document);
  return NULL;
}
