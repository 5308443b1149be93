/* SPDX-License-Identifier: Apache-2.0 */
/* From a provider's objects to plain record sets and steered domains. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/sync/import.h"
#include "zones/domain_json.h"
#include "zones/host_name.h"
#include "zones/record.h"

enum { FILE_NAME_MAX = 255, WHY = 512, DEFAULT_TTL = 3600 };

struct sorting {
  struct import *import;
  void *self;      /* the open provider */
  bool *steered;   /* of each object: the kind says that it belongs to a steered name */
  json_t *strange; /* "NAME/TYPE" of what is beyond the model */
  const struct provider_object **parts; /* of steered names, a domain's side by side */
  size_t part_count;
};

/* ---- what an object is ---------------------------------------------------------------------- */

/* Records that whoever signs the zone makes anew. */
static bool is_of_dnssec(const char *type) {
  static const char *const types[] = {"RRSIG",  "NSEC", "NSEC3",   "NSEC3PARAM",
                                      "DNSKEY", "CDS",  "CDNSKEY", "TYPE65534"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(type, types[i]) == 0)
      return true;
  return false;
}

/* True if all values are marks; others at such a name would be taken for some. */
static bool is_mark(const struct provider_object *object) {
  static const char head[] = "\"sluice owner=";
  size_t i;
  const json_t *value;
  if (object->opaque || json_array_size(json_object_get(object->body, "values")) == 0)
    return false;
  json_array_foreach(json_object_get(object->body, "values"), i, value) {
    const char *text = json_string_value(value);
    if (!text || strncmp(text, head, sizeof head - 1) != 0)
      return false;
  }
  return true;
}

static const char *why_of_xml(const char *xml) {
  static const char *const reasons[][2] = {
      {"<CidrRoutingConfig", "an IP-based record set"},
      {"<GeoProximityLocation", "a geoproximity record set"},
      {"<GeoLocation", "a geolocation record set"},
      {"<Failover", "a failover record set"},
      {"<MultiValueAnswer", "a multivalue record set"},
      {"<Region", "a latency record set"},
      {"<Weight", "a weighted record set"},
      {"<AliasTarget", "an alias record set"},
  };
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
    if (strstr(xml, reasons[i][0]))
      return reasons[i][1];
  return NULL;
}

static bool has_disabled(const json_t *records) {
  size_t i;
  const json_t *record;
  json_array_foreach(records, i, record) {
    if (json_is_true(json_object_get(record, "disabled")))
      return true;
  }
  return false;
}

static void miss_strange(struct import *import, const struct provider_object *o) {
  const char *xml = json_string_value(json_object_get(o->raw, "xml"));
  const char *kind = xml ? why_of_xml(xml) : NULL;
  const char *stored = json_string_value(json_object_get(o->raw, "type"));
  const char *name = o->domain ? o->domain : o->name;
  if (kind) {
    size_t skip = strlen(o->name) + 1 + strlen(o->type);
    const char *set = strlen(o->key) > skip + 1 ? o->key + skip + 1 : NULL;
    import_miss(import, o->name, o->type, false,
                "%s that sluice did not make, or that was changed by hand%s%.130s", kind,
                set ? "; its identifier is " : "", set ? set : "");
  } else if (stored && strcmp(stored, "LUA") == 0) {
    import_miss(import, name, o->type, false,
                "a LUA record that sluice did not make, or that was changed by hand");
  } else if (has_disabled(json_object_get(o->raw, "records"))) {
    import_miss(import, name, o->type, false, "one of its records is disabled there");
  } else if (json_object_get(o->raw, "answers")) {
    import_miss(import, name, o->type, false,
                "a record with filters or metadata that sluice did not make");
  } else {
    import_miss(import, name, o->type, false, "its data cannot be read");
  }
}

/* ---- plain sets ----------------------------------------------------------------------------- */

static void free_set(struct import_set *set) {
  for (size_t i = 0; i < set->count; i++)
    free(set->values[i].rdata);
  free(set->values);
}

static bool take_values(struct import_set *set, const char *type, const json_t *values) {
  size_t i;
  const json_t *value;
  set->values = calloc(json_array_size(values) + 1, sizeof *set->values);
  if (!set->values)
    return false;
  json_array_foreach(values, i, value) {
    struct import_value *out = &set->values[set->count];
    const char *text = json_string_value(value);
    if (!text || !provider_rdata_parse(type, text, &out->rdata, &out->len))
      return false;
    set->count++;
  }
  return set->count > 0;
}

static bool wire_name(const struct import *import, const char *text, uint8_t out[NAME_BUF]) {
  uint8_t name[NAME_BUF];
  const char *why;
  if (!name_from_text(name, text, strlen(text), NULL, &why))
    return false;
  memset(out, 0, NAME_BUF);
  name_copy_lower(out, name);
  return name_is_below_or_equal(out, import->apex);
}

static void take_plain(struct import *import, const struct provider_object *o) {
  struct import_set set = {.place = IMPORT_YAML, .type = record_type(o->type, strlen(o->type))};
  json_int_t ttl = json_integer_value(json_object_get(o->body, "ttl"));
  if (!wire_name(import, o->name, set.name)) {
    import_miss(import, o->name, o->type, false, "its name cannot be read, or is not in the zone");
    return;
  }
  if (set.type == RECORD_SOA && !name_equal(set.name, import->apex)) {
    import_miss(import, o->name, o->type, false, "a zone has one SOA, at its apex");
    return;
  }
  if (set.type == 0 || ttl < 0 || ttl > INT32_MAX ||
      !take_values(&set, o->type, json_object_get(o->body, "values"))) {
    free_set(&set);
    import_miss(import, o->name, o->type, false, "its data cannot be read");
    return;
  }
  set.ttl = (uint32_t)ttl;
  if (o->domain && (set.type == RECORD_A || set.type == RECORD_AAAA || set.type == RECORD_CNAME))
    import_miss(import, o->name, o->type, true,
                "by its mark it was made from a steered name; here is only what it is now, a "
                "plain record set");
  import->sets[import->set_count++] = set;
}

static int compare_sets(const void *a, const void *b) {
  const struct import_set *x = a;
  const struct import_set *y = b;
  int c = name_compare(x->name, y->name);
  return c != 0 ? c : (x->type > y->type) - (x->type < y->type);
}

/* One name may come in two spellings. */
static void drop_repeated(struct import *import) {
  size_t kept = 0;
  qsort(import->sets, import->set_count, sizeof *import->sets, compare_sets);
  for (size_t i = 0; i < import->set_count; i++) {
    struct import_set *set = &import->sets[i];
    if (kept > 0 && compare_sets(&import->sets[kept - 1], set) == 0) {
      char name[NAME_MAX_TEXT];
      char type[16];
      import_miss(import, name_to_text(name, set->name), record_type_text(set->type, type), false,
                  "the record set comes twice; the first one was taken");
      free_set(set);
      continue;
    }
    import->sets[kept++] = *set;
  }
  import->set_count = kept;
}

/* A zone needs a SOA, and not every provider shows one. */
static void make_soa(struct import *import) {
  const struct import_set *servers = NULL;
  struct import_set set = {.type = RECORD_SOA, .count = 1, .ttl = DEFAULT_TTL};
  char mname[NAME_MAX_TEXT];
  char text[2 * NAME_MAX_TEXT + 80];
  for (size_t i = 0; i < import->set_count; i++) {
    if (import->sets[i].type == RECORD_SOA)
      return;
    if (import->sets[i].type == RECORD_NS && name_equal(import->sets[i].name, import->apex))
      servers = &import->sets[i];
  }
  if (!servers) /* the checker will say it */
    return;
  name_to_text(mname, servers->values[0].rdata);
  snprintf(text, sizeof text, "%s hostmaster.%s 0 7200 900 1209600 60", mname, import->zone);
  set.values = calloc(1, sizeof *set.values);
  if (!set.values || !provider_rdata_parse("SOA", text, &set.values[0].rdata, &set.values[0].len)) {
    free(set.values);
    import_note(import, "it shows no SOA, and none can be made up for this name");
    return;
  }
  memcpy(set.name, import->apex, sizeof set.name);
  import->sets[import->set_count++] = set;
  qsort(import->sets, import->set_count, sizeof *import->sets, compare_sets);
  import_note(import, "it shows no SOA; the one in zone.yaml is made up, look at it");
}

static int compare_ttls(const void *a, const void *b) {
  const uint32_t *x = a;
  const uint32_t *y = b;
  return (*x > *y) - (*x < *y);
}

/* The most common one; of several the largest. */
static bool find_ttl(struct import *import) {
  uint32_t *ttls = malloc((import->set_count + 1) * sizeof *ttls);
  size_t count = 0;
  size_t most = 0;
  if (!ttls)
    return false;
  for (size_t i = 0; i < import->set_count; i++)
    if (import->sets[i].type != RECORD_SOA)
      ttls[count++] = import->sets[i].ttl;
  qsort(ttls, count, sizeof *ttls, compare_ttls);
  import->ttl = DEFAULT_TTL;
  for (size_t i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count && ttls[end] == ttls[i];)
      end++;
    if (end - i < most)
      continue;
    most = end - i;
    import->ttl = ttls[i];
  }
  free(ttls);
  return true;
}

/* ---- steered names -------------------------------------------------------------------------- */

/* One line for each type that the name answers. */
static void miss_domain(struct import *import, const struct provider_object *const *objects,
                        size_t count, bool part, const char *why) {
  const char *domain = objects[0]->domain;
  bool any = false;
  for (size_t i = 0; i < count; i++) {
    bool again = strcmp(objects[i]->name, domain) != 0;
    for (size_t k = 0; !again && k < i; k++)
      again =
          strcmp(objects[k]->name, domain) == 0 && strcmp(objects[k]->type, objects[i]->type) == 0;
    if (again)
      continue;
    import_miss(import, domain, objects[i]->type, part, "%s", why);
    any = true;
  }
  if (!any)
    import_miss(import, objects[0]->name, objects[0]->type, part, "%s", why);
}

/* The name of its directory; NULL: it can have none. */
static char *directory_of(const struct import *import, const uint8_t *owner) {
  char text[2 * NAME_MAX_WIRE] = "@";
  char why[HOST_NAME_WHY];
  uint8_t back[NAME_BUF];
  size_t at = 0;
  unsigned labels = name_labels(owner) - name_labels(import->apex);
  const uint8_t *label = owner;
  for (unsigned i = 0; i < labels; i++, label += *label + 1u) {
    if (i == 0 && label[0] == 1 && label[1] == '*') {
      at = (size_t)snprintf(text, sizeof text, "_wildcard");
      continue;
    }
    if (i > 0)
      text[at++] = '.';
    for (unsigned k = 1; k <= *label; k++) {
      char c = (char)label[k];
      if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'))
        return NULL;
      text[at++] = c;
    }
    text[at] = '\0';
  }
  if (strlen(text) > FILE_NAME_MAX || strcmp(text, "zone.yaml") == 0 ||
      !host_name_read_domain(back, text, strlen(text), import->apex, why) ||
      !name_equal(back, owner))
    return NULL;
  return strdup(text);
}

static struct steer_status *status_of(const struct steer_domain *steer, const json_t *down) {
  struct steer_status *status = calloc((size_t)steer->endpoint_count + 1, sizeof *status);
  const char *type;
  json_t *list;
  json_object_foreach((json_t *)(uintptr_t)down, type, list) {
    size_t i;
    const json_t *name;
    json_array_foreach(list, i, name) {
      const char *text = json_string_value(name);
      long at = text ? steer_endpoint_find(steer, text) : -1;
      if (!status || at < 0)
        continue;
      if (strcmp(type, "AAAA") != 0)
        status[at].health4 = HEALTH_DOWN;
      if (strcmp(type, "A") != 0)
        status[at].health6 = HEALTH_DOWN;
    }
  }
  return status;
}

/* Health beside the records: Route 53's checks, NS1's feeds. */
static bool is_check(const struct provider_object *object) {
  return strcmp(object->type, "HEALTHCHECK") == 0 || strcmp(object->type, "FEED") == 0;
}

/* Key -> body, without checks and what leads to them: their settings may not be known. */
static json_t *bodies(const struct provider_object *const *objects, size_t count) {
  json_t *out = json_object();
  for (size_t i = 0; out && i < count; i++) {
    if (is_check(objects[i]))
      continue;
    json_t *body = json_copy(objects[i]->body);
    json_object_del(body, "health");
    json_object_set_new(out, objects[i]->key, body);
  }
  return out;
}

static const char *first_difference(const json_t *a, const json_t *b) {
  const char *key;
  json_t *body;
  json_object_foreach((json_t *)(uintptr_t)a, key, body) {
    const json_t *other = json_object_get(b, key);
    if (!other || !json_equal(body, other))
      return key;
  }
  return NULL;
}

/* What is there must be what the domain compiles to: else something by hand has been overlooked.
 * False without memory. */
static bool check_back(struct sorting *s, struct import_domain *domain,
                       const struct provider_object *const *objects, size_t count) {
  struct import *import = s->import;
  const struct provider_kind *kind = import->provider.kind;
  const char *health = json_string_value(json_object_get(import->provider.settings, "health"));
  bool pushed = !health ? !kind->can.native : strcmp(health, "pushed") == 0;
  struct steer_status *status = status_of(domain->steer, json_object_get(domain->document, "down"));
  const struct provider_domain compiled = {
      .steer = domain->steer,
      .name = domain->name,
      .health = json_object_get(domain->document, pushed ? "checked" : "health"),
      .facts = {.status = pushed ? status : NULL},
      .pushed = pushed,
  };
  struct provider_objects wanted;
  struct provider_error error;
  provider_objects_init(&wanted);
  bool ok = status;
  if (ok && !kind->compile(s->self, &compiled, &wanted, &domain->fidelity, &error)) {
    miss_domain(import, objects, count, true, error.text);
  } else if (ok) {
    const struct provider_object **list = malloc((wanted.count + 1) * sizeof *list);
    for (size_t i = 0; list && i < wanted.count; i++)
      list[i] = &wanted.items[i];
    json_t *there = bodies(objects, count);
    json_t *made = list ? bodies(list, wanted.count) : NULL;
    ok = there && made;
    const char *key = first_difference(there, made);
    if (!key)
      key = first_difference(made, there);
    char why[WHY];
    snprintf(why, sizeof why,
             "what is there does not follow from it, first %.200s; `sluice sync plan` shows the "
             "difference",
             key ? key : "");
    if (key)
      miss_domain(import, objects, count, true, why);
    json_decref(there);
    json_decref(made);
    free(list);
  }
  provider_objects_close(&wanted);
  free(status);
  return ok;
}

/* The settings of its checks, if each endpoint has some: a domain cannot check a part of them. */
static const json_t *health_of_all(const struct import_domain *domain) {
  const json_t *health = json_object_get(domain->document, "health");
  for (uint32_t i = 0; health && i < domain->steer->endpoint_count; i++)
    if (!json_is_object(json_object_get(health, domain->steer->endpoints[i].name)))
      return NULL;
  return health;
}

/* Health, which is not part of the document. */
static void tell_health(struct import *import, const struct import_domain *domain,
                        const struct provider_object *const *objects, size_t count) {
  size_t checks = 0;
  const char *type;
  json_t *list;
  for (size_t i = 0; i < count; i++)
    checks += is_check(objects[i]);
  if (checks > 0 && !domain->health)
    import_miss(import, domain->name, "health", true,
                "%zu check%s or feed%s of its health, whose settings are not kept there; add "
                "`health:` to its domain.yaml, or `sluice sync` will remove them",
                checks, cli_s((long long)checks), cli_s((long long)checks));
  json_object_foreach(json_object_get(domain->document, "down"), type, list) {
    size_t i;
    const json_t *name;
    json_array_foreach(list, i, name) import_note(
        import, "%s: the endpoint %.63s is down there for %s; that is health, not configuration",
        domain->name, json_string_value(name) ? json_string_value(name) : "", type);
  }
}

static void tell_fidelity(struct import *import, const struct import_domain *domain) {
  static const char *const grades[] = {"exact", "approximate", "lost"};
  for (int layer = 0; layer < PROVIDER_LAYERS; layer++)
    if (domain->fidelity.grade[layer] != FIDELITY_EXACT)
      json_array_append_new(import->approximate,
                            json_pack("{s:s, s:s, s:s, s:s}", "name", domain->name, "layer",
                                      provider_layer_name((enum provider_layer)layer), "grade",
                                      grades[domain->fidelity.grade[layer]], "why",
                                      domain->fidelity.why[layer]));
}

static bool is_beside_strange(const struct sorting *s, const struct provider_object *const *objects,
                              size_t count) {
  char key[NAME_MAX_TEXT + 40];
  for (size_t i = 0; i < count; i++) {
    snprintf(key, sizeof key, "%s/%s", objects[i]->name, objects[i]->type);
    if (json_object_get(s->strange, key))
      return true;
  }
  return false;
}

static json_t *read_document(struct sorting *s, const struct provider_object *const *objects,
                             size_t count, char *why) {
  struct provider_error error = {.text = ""};
  if (is_beside_strange(s, objects, count)) {
    snprintf(why, WHY, "a record set beside its own was not made by sluice");
    return NULL;
  }
  json_t *document = s->import->provider.kind->decompile(s->self, objects, count, &error);
  size_t skip = strlen(s->import->provider.name);
  bool named = strncmp(error.text, s->import->provider.name, skip) == 0 && error.text[skip] == ':';
  if (!document)
    snprintf(why, WHY, "%s", named ? error.text + skip + 2 : error.text);
  return document;
}

/* False without memory. */
static bool take_domain(struct sorting *s, const struct provider_object *const *objects,
                        size_t count) {
  struct import *import = s->import;
  struct import_domain *domain = &import->domains[import->domain_count];
  char why[WHY] = "";
  uint8_t name[NAME_BUF];
  *domain = (struct import_domain){.document = read_document(s, objects, count, why)};
  if (domain->document)
    domain->steer = domain_json_decode(domain->document, why);
  if (!domain->steer || !wire_name(import, objects[0]->domain, name) ||
      !name_equal(name, domain->steer->owner)) {
    miss_domain(import, objects, count, false,
                domain->steer ? "it says that it was made for another name" : why);
  } else if (!(domain->directory = directory_of(import, domain->steer->owner))) {
    miss_domain(import, objects, count, false,
                "no directory can have its name (it needs letters, digits, - and _)");
  } else if (!import_domain_fits(import, domain->steer, why, sizeof why)) {
    miss_domain(import, objects, count, false, why);
  } else {
    name_to_text(domain->name, domain->steer->owner);
    import->domain_count++;
    domain->health = health_of_all(domain);
    tell_health(import, domain, objects, count);
    if (!check_back(s, domain, objects, count))
      return false;
    tell_fidelity(import, domain);
    return true;
  }
  free(domain->directory);
  steer_domain_free(domain->steer);
  json_decref(domain->document);
  return true;
}

static int compare_parts(const void *a, const void *b) {
  const struct provider_object *x = *(const struct provider_object *const *)a;
  const struct provider_object *y = *(const struct provider_object *const *)b;
  int c = strcmp(x->domain, y->domain);
  /* As they were read: the order of endpoints and regions follows from it. */
  return c != 0 ? c : (x > y) - (x < y);
}

static bool take_domains(struct sorting *s) {
  bool ok = true;
  qsort(s->parts, s->part_count, sizeof *s->parts, compare_parts);
  for (size_t i = 0, end; ok && i < s->part_count; i = end) {
    for (end = i + 1;
         end < s->part_count && strcmp(s->parts[end]->domain, s->parts[i]->domain) == 0;)
      end++;
    ok = take_domain(s, s->parts + i, end - i);
  }
  return ok;
}

/* ---- all objects ---------------------------------------------------------------------------- */

static void sort_object(struct sorting *s, size_t i) {
  struct import *import = s->import;
  const struct provider_object *o = &import->objects.items[i];
  if (sync_is_marker(o)) {
    if (is_mark(o))
      import->marks++;
    else
      import_miss(import, o->name, o->type, false,
                  "names below _sluice. are for the marks of sluice, and this is none");
  } else if (is_of_dnssec(o->type)) {
    import->dnssec++;
  } else if (o->opaque) {
    miss_strange(import, o);
  } else if (s->steered[i]) {
    s->parts[s->part_count++] = o;
  } else if (is_check(o)) {
    import_miss(import, o->name, "health", false, "a check or feed that no record uses");
  } else if (!json_object_get(o->body, "values") || json_object_get(o->body, "weight")) {
    miss_strange(import, o);
  } else {
    take_plain(import, o);
  }
}

static bool prepare(struct sorting *s) {
  struct import *import = s->import;
  const struct provider_objects *objects = &import->objects;
  char key[NAME_MAX_TEXT + 40];
  s->steered = calloc(objects->count + 1, sizeof *s->steered);
  s->parts = calloc(objects->count + 1, sizeof *s->parts);
  s->strange = json_object();
  import->sets = calloc(objects->count + 1, sizeof *import->sets);
  import->domains = calloc(objects->count + 1, sizeof *import->domains);
  if (!s->steered || !s->parts || !s->strange || !import->sets || !import->domains)
    return false;
  for (size_t i = 0; i < objects->count; i++) {
    s->steered[i] = objects->items[i].domain != NULL;
    if (!objects->items[i].opaque)
      continue;
    snprintf(key, sizeof key, "%s/%s", objects->items[i].name, objects->items[i].type);
    json_object_set_new(s->strange, key, json_true());
  }
  return sync_markers_read(&import->objects);
}

/* What carries no mark of ours takes a consent to be changed, which the first plan would tell. */
static void tell_marks(struct import *import) {
  size_t others = 0;
  for (size_t i = 0; i < import->objects.count; i++) {
    const struct provider_object *o = &import->objects.items[i];
    bool ours = o->owner && strcmp(o->owner, import->provider.mark) == 0;
    others += !ours && !sync_is_marker(o) && !is_of_dnssec(o->type) && strcmp(o->type, "SOA") != 0;
  }
  if (others > 0)
    import_note(import,
                "%zu record set%s there without our mark: `sluice sync apply` changes %s only with "
                "--take-over",
                others, others == 1 ? " is" : "s are", others == 1 ? "it" : "them");
}

bool import_model(struct import *import, void *self) {
  struct sorting s = {.import = import, .self = self};
  bool ok = prepare(&s);
  for (size_t i = 0; ok && i < import->objects.count; i++)
    sort_object(&s, i);
  if (ok) {
    tell_marks(import);
    drop_repeated(import);
    make_soa(import);
    ok = find_ttl(import) && take_domains(&s) && !import->failed;
  }
  if (!ok)
    cli_error("out of memory");
  free(s.steered);
  free(s.parts);
  json_decref(s.strange);
  return ok;
}
