/* SPDX-License-Identifier: Apache-2.0 */
/* A steered domain as a record of NS1: see ns1_private.h. */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "steering/atom.h"
#include "steering/layers.h"
#include "tools/providers/ns1_private.h"

enum { ID = 64, SCALE_MAX = 5040 };

static const char *const types[STEER_TYPES] = {"A", "AAAA", "CNAME"};

struct placed {
  const struct steer_atom *atom;
  uint32_t region;
};

struct compiling {
  const char *provider;
  const char *mark;
  const struct provider_domain *domain;
  const struct steer_domain *steer;
  enum steer_type type;
  struct steer_facts facts;    /* what the `up` filter decides by */
  struct steer_facts fallback; /* as if every health check said healthy */
  json_t *answers, *regions;
  json_t *feeds; /* KEY -> {"endpoint", "up"}; NULL: health is in the record */
  bool used[ATOM_NET + 1];
  bool countries, georegions; /* a filter for them is needed */
  uint32_t scale;             /* of all weights: endpoints with several addresses share theirs */
  struct provider_error *error;
};

static bool no_memory(const struct compiling *c) {
  return provider_fail(c->error, PROVIDER_LOCAL, "%s: out of memory", c->provider);
}

/* ---- places --------------------------------------------------------------------------------- */

static const char *georegion_of(const char *continent) {
  static const char *const own[][2] = {{"af", "AFRICA"}, {"eu", "EUROPE"}, {"sa", "SOUTH-AMERICA"}};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (strcmp(continent, own[i][0]) == 0)
      return own[i][1];
  return NULL;
}

/* Lists of countries and georegions are matched by different filters: an NS1 region with both
 * would have to match twice. */
static bool is_georegion(const struct steer_atom *atom) {
  return atom->kind == ATOM_CONTINENT && georegion_of(atom->code);
}

/* The countries of a continent; NULL: NS1 has the continent itself, as *georegion says. */
static json_t *countries_of(const char *continent, const char **georegion) {
  *georegion = georegion_of(continent);
  json_t *list = *georegion ? NULL : json_array();
  for (char a = 'a'; list && a <= 'z'; a++)
    for (char b = 'a'; b <= 'z'; b++) {
      const char code[3] = {a, b, '\0'};
      const char upper[3] = {(char)toupper(a), (char)toupper(b), '\0'};
      const char *is = steer_country_continent(code);
      if (is && strcmp(is, continent) == 0)
        json_array_append_new(list, json_string(upper));
    }
  return list;
}

/* NS1 knows the states of the US and the provinces of Canada. */
static const char *subdivision_key(const struct steer_atom *atom) {
  if (strlen(atom->code) != 5)
    return NULL;
  if (strncmp(atom->code, "us-", 3) == 0)
    return "us_state";
  return strncmp(atom->code, "ca-", 3) == 0 ? "ca_province" : NULL;
}

static bool extend(json_t *meta, const char *key, json_t *value) {
  json_t *list = json_object_get(meta, key);
  if (!list) {
    list = json_array();
    json_object_set_new(meta, key, list);
  }
  return list && json_array_append_new(list, value) == 0;
}

static json_t *upper(const char *text) {
  char out[16];
  size_t i = 0;
  for (; text[i] && i < sizeof out - 1; i++)
    out[i] = (char)toupper((unsigned char)text[i]);
  out[i] = '\0';
  return json_string(out);
}

static bool add_continent(struct compiling *c, json_t *meta, const char *code) {
  const char *georegion;
  json_t *list = countries_of(code, &georegion);
  size_t i;
  json_t *country;
  bool ok = list || georegion;
  if (georegion)
    ok = extend(meta, "georegion", json_string(georegion));
  json_array_foreach(list, i, country) ok = ok && extend(meta, "country", json_incref(country));
  c->countries = c->countries || list;
  c->georegions = c->georegions || georegion;
  json_decref(list);
  return ok;
}

static bool add_atom(struct compiling *c, json_t *meta, const struct steer_atom *atom) {
  char text[INET6_ADDRSTRLEN];
  char net[INET6_ADDRSTRLEN + 8];
  switch (atom->kind) {
  case ATOM_NET:
    inet_ntop(atom->net_family == 4 ? AF_INET : AF_INET6, atom->net, text, sizeof text);
    snprintf(net, sizeof net, "%s/%u", text, (unsigned)atom->net_bits);
    return extend(meta, "ip_prefixes", json_string(net));
  case ATOM_ASN:
    return extend(meta, "asn", json_integer(atom->asn));
  case ATOM_SUBDIVISION:
    c->countries = true;
    return extend(meta, subdivision_key(atom), upper(atom->code + 3));
  case ATOM_COUNTRY:
    c->countries = true;
    return extend(meta, "country", upper(atom->code));
  case ATOM_CONTINENT:
    return add_continent(c, meta, atom->code);
  default:
    return true;
  }
}

/* ---- NS1 regions ---------------------------------------------------------------------------- */

/* A name that says something and that no other has: letters, digits and dashes. */
static void region_id(const char *name, const struct steer_atom *first, unsigned part,
                      char out[ID]) {
  static const char *const kinds[] = {"any", "continent", "country", "subdivision", "asn", "net"};
  uint32_t hash = 2166136261U;
  char short_name[17];
  size_t n = 0;
  for (const char *at = name; *at; at++) {
    char low = (char)tolower((unsigned char)*at);
    hash = (hash ^ (uint8_t)low) * 16777619U;
    if (n < sizeof short_name - 1)
      short_name[n++] = isalnum((unsigned char)low) ? low : '-';
  }
  short_name[n] = '\0';
  int len = snprintf(out, ID, "%s-%08x-%s", short_name, (unsigned)hash,
                     is_georegion(first) ? "georegion" : kinds[first->kind]);
  if (first->kind == ATOM_NET)
    len += snprintf(out + len, ID - (size_t)len, "%u", (unsigned)first->net_bits);
  if (part > 0)
    snprintf(out + len, ID - (size_t)len, "-%u", part);
}

static bool set_note(struct compiling *c, json_t *meta, const char *note, const char *what) {
  if (strlen(note) > NS1_NOTE_MAX)
    return provider_fail(c->error, PROVIDER_REFUSED,
                         "%s: %.200s: the name %.60s... is too long for a note of %d octets there; "
                         "give it a shorter one",
                         c->provider, c->domain->name, what, NS1_NOTE_MAX);
  return json_object_set_new(meta, "note", json_string(note)) == 0 ? true : no_memory(c);
}

/* "sluice o=MARK c=as,oc d=subnet r=NAME" */
static bool note_region(struct compiling *c, json_t *meta, const struct placed *atoms, size_t count,
                        const char *name) {
  char note[1024];
  char continents[64] = "";
  for (size_t i = 0; i < count; i++)
    if (atoms[i].atom->kind == ATOM_CONTINENT)
      snprintf(continents + strlen(continents), sizeof continents - strlen(continents), "%s%.2s",
               *continents ? "," : " c=", atoms[i].atom->code);
  bool subnet = atoms[0].atom->kind == ATOM_GLOBAL && c->steer->draw_per == DRAW_PER_SUBNET;
  snprintf(note, sizeof note, "sluice o=%.200s%s%s r=%.700s", c->mark, continents,
           subnet ? " d=subnet" : "", name);
  return set_note(c, meta, note, name);
}

/* ---- answers -------------------------------------------------------------------------------- */

static uint32_t address_count(const struct steer_endpoint *e, enum steer_type type) {
  return type == STEER_A ? e->addr4_count : type == STEER_AAAA ? e->addr6_count : 1;
}

static json_t *address(const struct steer_endpoint *e, enum steer_type type, uint32_t i) {
  char text[NAME_MAX_TEXT];
  if (type == STEER_CNAME)
    return json_string(name_to_text(text, e->host));
  inet_ntop(type == STEER_A ? AF_INET : AF_INET6,
            type == STEER_A ? (const void *)e->addr4[i] : (const void *)e->addr6[i], text,
            sizeof text);
  return json_string(text);
}

/* Adds an answer for each address; takes `up` over. */
static bool add_answer(struct compiling *c, const char *id, uint16_t endpoint, json_t *up,
                       unsigned priority, uint32_t weight, const char *note) {
  const struct steer_endpoint *e = &c->steer->endpoints[endpoint];
  uint32_t count = address_count(e, c->type);
  bool ok = up ? true : no_memory(c);
  for (uint32_t i = 0; ok && i < count; i++) {
    json_t *meta = json_pack("{s:O, s:i, s:I}", "up", up, "priority", (int)priority, "weight",
                             (json_int_t)weight * c->scale / count);
    ok = meta ? set_note(c, meta, note, e->name) : no_memory(c);
    json_t *answer = ok ? json_pack("{s:[o], s:s, s:O}", "answer", address(e, c->type, i), "region",
                                    id, "meta", meta)
                        : NULL;
    if (ok && (!answer || json_array_append_new(c->answers, answer) != 0))
      ok = no_memory(c);
    json_decref(meta);
  }
  json_decref(up);
  return ok;
}

static const struct steer_status *status_of(const struct steer_facts *facts, uint16_t endpoint) {
  return facts->status ? &facts->status[endpoint] : NULL;
}

/* True if our checker's verdict on the endpoint goes by a feed. */
static bool has_feed(const struct compiling *c, const struct steer_endpoint *e) {
  return c->feeds && c->domain->pushed && json_object_get(c->domain->health, e->name);
}

/* {"feed": KEY}, and the feed itself with its value. */
static json_t *feed(struct compiling *c, const struct steer_endpoint *e, bool up) {
  char key[NS1_KEY];
  if (!ns1_feed_key(c->domain->name, e->name, types[c->type], key) ||
      json_object_set_new(c->feeds, key,
                          json_pack("{s:s, s:b}", "endpoint", e->name, "up", (int)up)) != 0)
    return NULL;
  return json_pack("{s:s}", "feed", key);
}

/*
 * An entry of weight 0 counts as down, but in the last level: there it stands behind the others,
 * as it is drawn only if none of them is up.
 */
static bool add_entry(struct compiling *c, const char *id, const struct layer_entry *e,
                      unsigned last) {
  char note[1024];
  const struct steer_endpoint *endpoint = &c->steer->endpoints[e->endpoint];
  const struct steer_status *status = status_of(&c->facts, e->endpoint);
  bool drained = e->weight == 0 && e->level != last;
  bool off = status_is_disabled(endpoint, status);
  bool down = status_is_down(endpoint, status, c->type);
  bool fed = !off && !drained && has_feed(c, endpoint);
  snprintf(note, sizeof note, "sluice l=%u w=%u s=%s e=%.900s", (unsigned)e->level,
           (unsigned)e->weight,
           off    ? "off"
           : fed  ? "feed"
           : down ? "down"
                  : "up",
           endpoint->name);
  return add_answer(
      c, id, e->endpoint, fed ? feed(c, endpoint, !down) : json_boolean(!down && !drained),
      e->weight == 0 && e->level == last ? last + 1 : e->level, e->weight ? e->weight : 1, note);
}

/* What is answered if no entry is up: always up, behind all others. */
static bool add_fallback(struct compiling *c, const char *id, uint32_t region) {
  char note[1024];
  unsigned last = c->steer->regions[region].level_count;
  struct draw_table *table = draw_table_build(c->steer, region, c->type, &c->fallback);
  bool ok = table ? true : no_memory(c);
  for (uint16_t i = 0; ok && i < table->count; i++) {
    snprintf(note, sizeof note, "sluice fallback e=%.900s",
             c->steer->endpoints[table->items[i].endpoint].name);
    uint32_t weight = table->items[i].up_to - (i ? table->items[i - 1].up_to : 0);
    ok = add_answer(c, id, table->items[i].endpoint, json_true(), last + 2, weight, note);
  }
  free(table);
  return ok;
}

static bool add_answers(struct compiling *c, const char *id, uint32_t region) {
  struct layer_entry *entries = calloc(layer_entry_max(c->steer, region) + 1, sizeof *entries);
  if (!entries)
    return no_memory(c);
  size_t count = layer_entries(c->steer, region, c->type, &c->facts, entries);
  bool ok = true;
  for (size_t i = 0; ok && i < count; i++)
    ok = add_entry(c, id, &entries[i], c->steer->regions[region].level_count);
  free(entries);
  return ok && add_fallback(c, id, region);
}

/* ---- the fence ------------------------------------------------------------------------------ */

static int compare_u32(uint32_t a, uint32_t b) {
  return (a > b) - (a < b);
}

/* The most specific first.  Among equals nothing depends on the order; it is by name then, and not
 * by place in the configuration. */
static int by_rank(const void *a, const void *b, void *arg) {
  const struct placed *x = a;
  const struct placed *y = b;
  const struct steer_domain *d = arg;
  int c = compare_u32(y->atom->kind, x->atom->kind);
  if (c == 0)
    c = compare_u32(y->atom->net_bits, x->atom->net_bits);
  if (c == 0)
    c = compare_u32(is_georegion(x->atom), is_georegion(y->atom));
  if (c == 0)
    c = strcmp(d->regions[x->region].name, d->regions[y->region].name);
  if (c == 0)
    c = strcmp(x->atom->code, y->atom->code);
  if (c == 0)
    c = compare_u32(x->atom->asn, y->atom->asn);
  if (c == 0)
    c = compare_u32(x->atom->net_family, y->atom->net_family);
  return c ? c : memcmp(x->atom->net, y->atom->net, sizeof x->atom->net);
}

static bool add_region(struct compiling *c, const struct placed *atoms, size_t count,
                       unsigned part) {
  char id[ID];
  const char *name = c->steer->regions[atoms[0].region].name;
  json_t *meta = json_object();
  region_id(name, atoms[0].atom, part, id);
  bool ok = meta;
  for (size_t i = 0; ok && i < count; i++)
    ok = add_atom(c, meta, atoms[i].atom);
  c->used[atoms[0].atom->kind] = true;
  ok = ok ? note_region(c, meta, atoms, count, name) : no_memory(c);
  if (ok && json_object_get(c->regions, id))
    ok = provider_fail(c->error, PROVIDER_REFUSED,
                       "%s: %.200s: two regions would have the name %s there; rename %.60s",
                       c->provider, c->domain->name, id, name);
  if (ok && json_object_set_new(c->regions, id, json_pack("{s:O}", "meta", meta)) != 0)
    ok = no_memory(c);
  json_decref(meta);
  return ok && add_answers(c, id, atoms[0].region);
}

static bool belong_together(const struct placed *a, const struct placed *b) {
  return a->region == b->region && a->atom->kind == b->atom->kind &&
         a->atom->net_bits == b->atom->net_bits && is_georegion(a->atom) == is_georegion(b->atom);
}

static bool add_regions(struct compiling *c) {
  const struct steer_domain *d = c->steer;
  size_t n = 0;
  size_t most = 1;
  for (uint32_t r = 0; r < d->region_count; r++)
    most += d->regions[r].atom_count;
  struct placed *atoms = calloc(most, sizeof *atoms);
  if (!atoms)
    return no_memory(c);
  for (uint32_t r = 0; r < d->region_count; r++)
    for (uint32_t i = 0; i < d->regions[r].atom_count; i++) {
      const struct steer_atom *atom = &d->regions[r].atoms[i];
      if (atom->kind != ATOM_SUBDIVISION || subdivision_key(atom))
        atoms[n++] = (struct placed){atom, r};
    }
  qsort_r(atoms, n, sizeof *atoms, by_rank, (void *)(uintptr_t)d);
  bool ok = true;
  unsigned part = 0;
  for (size_t i = 0, end; ok && i < n; i = end) {
    for (end = i + 1; end < n && end - i < NS1_LIST_MAX && belong_together(&atoms[i], &atoms[end]);)
      end++;
    ok = add_region(c, atoms + i, end - i, part);
    part = end < n && belong_together(&atoms[i], &atoms[end]) ? part + 1 : 0;
  }
  free(atoms);
  return ok;
}

/* ---- the chain ------------------------------------------------------------------------------ */

static bool add_filter(json_t *filters, const char *name, const char *key, json_t *value) {
  json_t *config = json_object();
  if (key)
    json_object_set_new(config, key, value);
  return json_array_append_new(filters,
                               json_pack("{s:s, s:o}", "filter", name, "config", config)) == 0;
}

static json_t *chain(const struct compiling *c) {
  json_t *f = json_array();
  bool ok = f;
  if (c->used[ATOM_NET])
    ok = ok && add_filter(f, "netfence_prefix", "remove_no_ip_prefixes", json_true());
  if (c->used[ATOM_ASN])
    ok = ok && add_filter(f, "netfence_asn", "remove_no_asn", json_true());
  if (c->countries)
    ok = ok && add_filter(f, "geofence_country", "remove_no_location", json_true());
  if (c->georegions)
    ok = ok && add_filter(f, "geofence_regional", "remove_no_georegion", json_true());
  ok = ok && add_filter(f, "select_first_region", NULL, NULL) && add_filter(f, "up", NULL, NULL) &&
       add_filter(f, "priority", "eliminate", json_true()) &&
       add_filter(f, "weighted_shuffle", NULL, NULL) &&
       add_filter(f, "select_first_n", "N", json_integer(c->steer->answers));
  if (ok)
    return f;
  json_decref(f);
  return NULL;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static uint32_t common_multiple(uint32_t x, uint32_t y) {
  uint32_t a = x;
  uint32_t b = y;
  while (b) {
    uint32_t rest = a % b;
    a = b;
    b = rest;
  }
  uint64_t out = (uint64_t)x / a * y;
  return out > SCALE_MAX ? SCALE_MAX : (uint32_t)out;
}

/* The smallest factor by which every weight can be shared by the addresses of its endpoint. */
static uint32_t find_scale(const struct steer_domain *d, enum steer_type type) {
  uint32_t scale = 1;
  for (uint32_t r = 0; r < d->region_count; r++)
    for (uint32_t l = 0; l < d->regions[r].level_count; l++)
      for (uint32_t i = 0; i < d->regions[r].levels[l].entry_count; i++) {
        uint16_t e = d->regions[r].levels[l].entries[i].endpoint;
        uint32_t count = address_count(&d->endpoints[e], type);
        scale = common_multiple(scale, count ? count : 1);
      }
  return scale;
}

static json_t *finish(const struct compiling *c) {
  json_t *filters = chain(c);
  json_t *record = filters
                       ? json_pack("{s:I, s:b, s:O, s:O, s:O}", "ttl", (json_int_t)c->steer->ttl,
                                   "use_client_subnet", true, "filters", filters, "answers",
                                   c->answers, "regions", c->regions)
                       : NULL;
  json_t *out = record ? ns1_canonical(types[c->type], record) : NULL;
  json_decref(filters);
  json_decref(record);
  if (!out)
    no_memory(c);
  return out;
}

json_t *ns1_compile_type(const char *provider, const char *mark,
                         const struct provider_domain *domain, enum steer_type type, json_t *feeds,
                         struct provider_error *error) {
  uint32_t count = domain->steer->endpoint_count;
  struct steer_status *manual = calloc(count + 1, sizeof *manual);
  struct compiling c = {
      .provider = provider,
      .mark = mark,
      .domain = domain,
      .steer = domain->steer,
      .type = type,
      .answers = json_array(),
      .regions = json_object(),
      .feeds = feeds,
      .scale = find_scale(domain->steer, type),
      .error = error,
  };
  json_t *out = NULL;
  if (manual && c.answers && c.regions) {
    for (uint32_t i = 0; domain->facts.status && i < count; i++)
      manual[i].manual = domain->facts.status[i].manual;
    c.fallback = (struct steer_facts){.status = manual, .weights = domain->facts.weights};
    c.facts = domain->pushed ? domain->facts : c.fallback;
    out = add_regions(&c) ? finish(&c) : NULL;
  } else {
    no_memory(&c);
  }
  json_decref(c.answers);
  json_decref(c.regions);
  free(manual);
  return out;
}

/* ---- fidelity ------------------------------------------------------------------------------- */

static void grade(struct provider_fidelity *f, enum provider_layer layer, enum provider_grade to,
                  double error, const char *why) {
  if (to < f->grade[layer])
    return;
  f->grade[layer] = to;
  f->error[layer] = error;
  snprintf(f->why[layer], sizeof f->why[layer], "%s", why);
}

static void judge_geo(const struct steer_domain *d, struct provider_fidelity *f) {
  static const char placed[] = "clients are placed by its own location data";
  static const char lists[] =
      "clients are placed by its own location data, the continents AS, OC, NA and AN as lists of "
      "countries: one of which only the continent is known is in `global`";
  for (uint32_t r = 0; r < d->region_count; r++)
    for (uint32_t i = 0; i < d->regions[r].atom_count; i++) {
      const struct steer_atom *atom = &d->regions[r].atoms[i];
      bool is_place = atom->kind == ATOM_CONTINENT || atom->kind == ATOM_COUNTRY ||
                      atom->kind == ATOM_SUBDIVISION;
      if (atom->kind == ATOM_SUBDIVISION && !subdivision_key(atom))
        grade(f, LAYER_GEO, FIDELITY_LOST, 1,
              "of subdivisions it knows the states of the US and the provinces of Canada only");
      else if (atom->kind == ATOM_CONTINENT && !georegion_of(atom->code))
        grade(f, LAYER_GEO, FIDELITY_APPROX, 1, lists);
      else if (is_place && f->grade[LAYER_GEO] == FIDELITY_EXACT)
        grade(f, LAYER_GEO, FIDELITY_APPROX, 1, placed);
    }
}

static void judge_weights(const struct steer_domain *d, struct provider_fidelity *f) {
  uint32_t most = 1;
  for (uint32_t i = 0; i < d->endpoint_count; i++)
    for (int t = STEER_A; t <= STEER_AAAA; t++)
      if (d->offers[t] && address_count(&d->endpoints[i], (enum steer_type)t) > most)
        most = address_count(&d->endpoints[i], (enum steer_type)t);
  if (most > 1 && d->answers > 1)
    grade(f, LAYER_WEIGHT, FIDELITY_LOST, 1,
          "answers with several endpoints: it draws single addresses, perhaps all of one endpoint");
  else if (most > 1)
    grade(f, LAYER_WEIGHT, FIDELITY_APPROX, 1 - 1.0 / most,
          "an answer there is one address: of an endpoint with several one is drawn at a time; the "
          "endpoints' shares stay");
  else if (d->draw_per == DRAW_PER_SUBNET)
    grade(f, LAYER_WEIGHT, FIDELITY_APPROX, 0, "it draws for each query, not for each network");
}

void ns1_judge(const struct provider_domain *domain, struct provider_fidelity *fidelity) {
  memset(fidelity, 0, sizeof *fidelity);
  judge_geo(domain->steer, fidelity);
  judge_weights(domain->steer, fidelity);
  if (domain->health && !domain->pushed)
    grade(fidelity, LAYER_STATUS, FIDELITY_LOST, 1,
          "its own monitors are not set up by sluice; set `health: pushed` for this provider");
}
