/* SPDX-License-Identifier: Apache-2.0 */
/* From Route 53's XML to objects.  All of it is hostile. */
#include <libxml/parser.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/providers/route53_private.h"

enum { TTL_MAX = 2147483647, RECORDS_PER_SET = 1000 };

/* ---- XML ------------------------------------------------------------------------------------ */

static void quiet(void *arg, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void quiet(void *arg, const char *format, ...) {
  (void)arg;
  (void)format;
}

static void start_xml(void) {
  xmlInitParser();
}

xmlDoc *route53_parse(const char *text, size_t len, const char *root) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start_xml);
  xmlSetGenericErrorFunc(NULL, quiet); /* per thread */
  /* A document with a DTD is none of this API's; entities are never replaced. */
  if (!text || len == 0 || len > ROUTE53_XML_MAX || memmem(text, len, "<!DOCTYPE", 9) ||
      memmem(text, len, "<!ENTITY", 8))
    return NULL;
  xmlDoc *doc = xmlReadMemory(text, (int)len, NULL, NULL,
                              XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING |
                                  XML_PARSE_NOBLANKS | XML_PARSE_NOCDATA);
  const xmlNode *top = doc ? xmlDocGetRootElement(doc) : NULL;
  if (top && (!root || strcmp((const char *)top->name, root) == 0))
    return doc;
  xmlFreeDoc(doc);
  return NULL;
}

xmlNode *route53_child(const xmlNode *node, const char *name) {
  for (xmlNode *child = node ? node->children : NULL; child; child = child->next)
    if (child->type == XML_ELEMENT_NODE && strcmp((const char *)child->name, name) == 0)
      return child;
  return NULL;
}

char *route53_text(const xmlNode *node, const char *name) {
  const xmlNode *child = name ? route53_child(node, name) : node;
  xmlChar *content = child ? xmlNodeGetContent(child) : NULL;
  char *out = content ? strdup((const char *)content) : NULL;
  xmlFree(content);
  return out;
}

static bool is_number(const char *text, long long most, long long *out) {
  char *end;
  if (!text || *text < '0' || *text > '9' || strlen(text) > 12)
    return false;
  *out = strtoll(text, &end, 10);
  return *end == '\0' && *out <= most;
}

static bool number_of(const xmlNode *node, const char *name, long long most, long long *out) {
  char *text = route53_text(node, name);
  bool ok = is_number(text, most, out);
  free(text);
  return ok;
}

static bool is_true(const xmlNode *node, const char *name) {
  char *text = route53_text(node, name);
  bool out = text && strcmp(text, "true") == 0;
  free(text);
  return out;
}

static bool wrong(struct route53_reading *r, const char *why) {
  snprintf(r->why, sizeof r->why, "%s", why);
  return false;
}

static bool no_memory(struct route53_reading *r) {
  r->why[0] = '\0';
  return false;
}

/* ---- resource record sets ------------------------------------------------------------------- */

/* One set, as its parts say. */
struct set {
  const xmlNode *node;
  char name[NAME_MAX_TEXT];
  char *type, *identifier, *health;
  bool simple;   /* name, type, TTL and values only */
  bool advanced; /* something that this model does not know */
};

static void close_set(struct set *set) {
  free(set->type);
  free(set->identifier);
  free(set->health);
}

static bool is_one_of(const char *name, const char *const *list) {
  for (; *list; list++)
    if (strcmp(name, *list) == 0)
      return true;
  return false;
}

static bool open_set(struct route53_reading *r, const xmlNode *node, struct set *set) {
  static const char *const plain[] = {"Name", "Type", "TTL", "ResourceRecords", NULL};
  static const char *const known[] = {
      "Name",        "Type",        "TTL",           "Weight",        "Failover", "ResourceRecords",
      "GeoLocation", "AliasTarget", "SetIdentifier", "HealthCheckId", NULL};
  char *name = route53_text(node, "Name");
  *set = (struct set){.node = node, .simple = true};
  bool ok = name && route53_name(name, set->name);
  size_t n = strlen(set->name);
  size_t z = strlen(r->zone);
  free(name);
  set->type = route53_text(node, "Type");
  set->identifier = route53_text(node, "SetIdentifier");
  set->health = route53_text(node, "HealthCheckId");
  if (!ok || !set->type || strlen(set->type) > 16 || !*set->type ||
      (set->identifier && strlen(set->identifier) >= ROUTE53_IDENTIFIER))
    return wrong(r, "a record set has no proper name or type");
  if (n < z || strcmp(set->name + n - z, r->zone) != 0 ||
      (n > z && z > 1 && set->name[n - z - 1] != '.'))
    return wrong(r, "a record set is not in the zone");
  for (const xmlNode *child = node->children; child; child = child->next) {
    if (child->type != XML_ELEMENT_NODE)
      continue;
    set->simple = set->simple && is_one_of((const char *)child->name, plain);
    set->advanced = set->advanced || !is_one_of((const char *)child->name, known);
  }
  return true;
}

/* The values in canonical form, or NULL: not all of them are data of the type. */
static json_t *values_of(const struct set *set) {
  const xmlNode *list = route53_child(set->node, "ResourceRecords");
  json_t *values = json_array();
  bool ok = list && values;
  for (const xmlNode *child = list ? list->children : NULL; ok && child; child = child->next) {
    if (child->type != XML_ELEMENT_NODE)
      continue;
    char *octal = route53_text(child, "Value");
    char *text = octal ? route53_decimal(octal) : NULL;
    char *canonical = text ? provider_rdata_text(set->type, text) : NULL;
    ok = canonical && json_array_size(values) < RECORDS_PER_SET &&
         json_array_append_new(values, json_string(canonical)) == 0;
    free(octal);
    free(text);
    free(canonical);
  }
  if (ok && json_array_size(values) > 0)
    return values;
  json_decref(values);
  return NULL;
}

/* The set as it is in XML, for deletes. */
static json_t *raw_of(const xmlNode *node) {
  xmlBuffer *buffer = xmlBufferCreate();
  json_t *out = NULL;
  if (buffer && xmlNodeDump(buffer, node->doc, (xmlNode *)(uintptr_t)node, 0, 0) >= 0)
    out = json_pack("{s:s}", "xml", (const char *)xmlBufferContent(buffer));
  xmlBufferFree(buffer);
  return out;
}

/* "continent:eu" of a GeoLocation, or NULL. */
static bool atom_of(const xmlNode *geo, char out[24]) {
  char *continent = route53_text(geo, "ContinentCode");
  char *country = route53_text(geo, "CountryCode");
  char *state = route53_text(geo, "SubdivisionCode");
  bool ok = true;
  if (continent && strlen(continent) == 2 && !country && !state)
    snprintf(out, 24, "continent:%s", continent);
  else if (country && strcmp(country, "*") == 0 && !continent &&
           (!state || strcmp(state, "*") == 0))
    snprintf(out, 24, "global");
  else if (country && strlen(country) == 2 && !continent && !state)
    snprintf(out, 24, "country:%s", country);
  else if (country && strlen(country) == 2 && !continent && strlen(state) <= 3)
    snprintf(out, 24, "subdivision:%s-%s", country, state);
  else
    ok = false;
  for (char *c = out; ok && *c; c++)
    if (*c >= 'A' && *c <= 'Z')
      *c = (char)(*c - 'A' + 'a');
  free(continent);
  free(country);
  free(state);
  return ok;
}

/* The body of an alias to a name of this zone, or NULL. */
static json_t *alias_body(const struct set *set, const char *key, const char *value) {
  const xmlNode *alias = route53_child(set->node, "AliasTarget");
  char target[NAME_MAX_TEXT];
  char *name = route53_text(alias, "DNSName");
  json_t *body = NULL;
  if (name && route53_name(name, target) && !set->health)
    body = json_pack("{s:s, s:s, s:b}", key, value, "alias", target, "evaluate",
                     is_true(alias, "EvaluateTargetHealth"));
  free(name);
  return body;
}

static json_t *weighted_body(const struct route53_reading *r, const struct set *set) {
  long long weight;
  long long ttl;
  if (route53_child(set->node, "AliasTarget") || route53_child(set->node, "Failover") ||
      route53_child(set->node, "GeoLocation") ||
      !number_of(set->node, "Weight", ROUTE53_WEIGHT_MAX, &weight) ||
      !number_of(set->node, "TTL", TTL_MAX, &ttl))
    return NULL;
  json_t *values = values_of(set);
  struct provider_objects sorted;
  provider_objects_init(&sorted);
  struct provider_object *object =
      values ? provider_add_rrset(&sorted, set->name, set->type, 0, values) : NULL;
  json_t *body = object
                     ? json_pack("{s:I, s:I, s:O}", "weight", (json_int_t)weight, "ttl",
                                 (json_int_t)ttl, "values", json_object_get(object->body, "values"))
                     : NULL;
  provider_objects_close(&sorted);
  if (body && set->health) {
    const char *key = json_string_value(json_object_get(r->ids, set->health));
    char other[100];
    snprintf(other, sizeof other, "id:%.90s", set->health);
    json_object_set_new(body, "health", json_string(key ? key : other));
  }
  return body;
}

/* The first word of a set identifier with `count` words, or NULL; malloc'd. */
static char *mark_of(const char *identifier, int count) {
  int words = 1;
  for (const char *at = identifier; at && *at; at++)
    words += *at == ' ';
  return identifier && words == count && *identifier != ' '
             ? strndup(identifier, strcspn(identifier, " "))
             : NULL;
}

/* What cannot be compared: a digest over all of it. */
static bool add_opaque(struct route53_reading *r, const struct set *set, const char *domain,
                       const char *owner) {
  char digest[ROUTE53_KEY];
  json_t *raw = raw_of(set->node);
  const char *const texts[] = {json_string_value(json_object_get(raw, "xml")), NULL};
  struct provider_object *object = NULL;
  if (texts[0] && route53_digest(texts, digest))
    object = route53_add(r->out, set->name, set->type, set->identifier, domain, owner,
                         json_pack("{s:s}", "digest", digest));
  if (object) {
    object->opaque = true;
    object->raw = raw;
    return true;
  }
  json_decref(raw);
  return no_memory(r);
}

/* A set of sluice's: at the public name a place, below it levels and pairs. */
static bool add_steered(struct route53_reading *r, const struct set *set) {
  char domain[NAME_MAX_TEXT];
  char atom[24];
  char kind = 0;
  unsigned level;
  char *role = route53_text(set->node, "Failover");
  bool helper = route53_helper_domain(set->name, domain, &kind, &level);
  char *owner = mark_of(set->identifier, helper ? 2 : 3);
  const xmlNode *geo = route53_child(set->node, "GeoLocation");
  json_t *body = NULL;
  if (!helper)
    snprintf(domain, sizeof domain, "%s", set->name);
  if (owner && !set->advanced && helper && kind == 'p')
    body = weighted_body(r, set);
  else if (owner && !set->advanced && helper && role && !geo &&
           (strcmp(role, "PRIMARY") == 0 || strcmp(role, "SECONDARY") == 0))
    body = alias_body(set, "failover", role);
  else if (owner && !set->advanced && !helper && geo && !role && atom_of(geo, atom))
    body = alias_body(set, "geo", atom);
  free(role);
  bool ok;
  if (body) {
    struct provider_object *object =
        route53_add(r->out, set->name, set->type, set->identifier, domain, owner, body);
    ok = object && (object->raw = raw_of(set->node)) != NULL ? true : no_memory(r);
  } else {
    ok = add_opaque(r, set, helper && owner ? domain : NULL, helper ? owner : NULL);
  }
  free(owner);
  return ok;
}

static bool add_plain(struct route53_reading *r, const struct set *set) {
  long long ttl;
  json_t *values = number_of(set->node, "TTL", TTL_MAX, &ttl) ? values_of(set) : NULL;
  struct provider_object *object =
      values ? provider_add_rrset(r->out, set->name, set->type, (uint32_t)ttl, values) : NULL;
  if (!object)
    return values ? no_memory(r) : add_opaque(r, set, NULL, NULL);
  object->raw = raw_of(set->node);
  return object->raw ? true : no_memory(r);
}

static bool add_set(struct route53_reading *r, const struct set *set) {
  bool ok = set->simple       ? add_plain(r, set)
            : set->identifier ? add_steered(r, set)
                              : add_opaque(r, set, NULL, NULL);
  if (!ok)
    return false;
  const char *key = r->out->items[r->out->count - 1].key;
  if (json_object_get(r->seen, key))
    return wrong(r, "a record set comes twice");
  return json_object_set_new(r->seen, key, json_true()) == 0 || no_memory(r);
}

bool route53_read_sets(struct route53_reading *r, const xmlNode *root) {
  const xmlNode *list = route53_child(root, "ResourceRecordSets");
  if (!list)
    return wrong(r, "the list of record sets is missing");
  for (const xmlNode *child = list->children; child; child = child->next) {
    struct set set;
    if (child->type != XML_ELEMENT_NODE)
      continue;
    bool ok = open_set(r, child, &set) && add_set(r, &set);
    close_set(&set);
    if (!ok)
      return false;
  }
  return true;
}

/* ---- zones ---------------------------------------------------------------------------------- */

static bool has_text(const json_t *list, const char *text) {
  size_t i;
  const json_t *item;
  json_array_foreach(list, i, item) {
    if (strcmp(json_string_value(item), text) == 0)
      return true;
  }
  return false;
}

bool route53_read_zones(json_t *zones, const xmlNode *root) {
  const xmlNode *list = route53_child(root, "HostedZones");
  bool ok = list;
  for (const xmlNode *child = list ? list->children : NULL; ok && child; child = child->next) {
    char name[NAME_MAX_TEXT];
    char id[ROUTE53_ID];
    char *text = route53_text(child, "Name");
    char *private = route53_text(route53_child(child, "Config"), "PrivateZone");
    char *given = route53_text(child, "Id");
    if (text && route53_name(text, name) && !(private && strcmp(private, "true") == 0)) {
      json_t *ids = json_object_get(zones, name);
      ok = route53_take_id(given, "/hostedzone/", id) &&
           (ids || json_object_set_new(zones, name, ids = json_array()) == 0) &&
           (has_text(ids, id) || json_array_append_new(ids, json_string(id)) == 0);
    }
    free(text);
    free(private);
    free(given);
  }
  return ok;
}

/* ---- health checks -------------------------------------------------------------------------- */

static bool take_text(const xmlNode *config, const char *element, json_t *body, const char *key) {
  char *text = route53_text(config, element);
  bool ok = !text || json_object_set_new(body, key, json_string(text)) == 0;
  free(text);
  return ok;
}

static json_t *check_body(const xmlNode *config) {
  long long port = 0;
  long long interval = 0;
  long long threshold = 0;
  number_of(config, "Port", 65535, &port);
  number_of(config, "RequestInterval", 3600, &interval);
  number_of(config, "FailureThreshold", 100, &threshold);
  json_t *body = json_pack("{s:I, s:I, s:I, s:b, s:b}", "port", (json_int_t)port, "interval",
                           (json_int_t)interval, "threshold", (json_int_t)threshold, "disabled",
                           is_true(config, "Disabled"), "inverted", is_true(config, "Inverted"));
  if (body && take_text(config, "Type", body, "type") &&
      take_text(config, "IPAddress", body, "address") &&
      take_text(config, "FullyQualifiedDomainName", body, "host") &&
      take_text(config, "ResourcePath", body, "path") &&
      take_text(config, "SearchString", body, "search") &&
      (!is_true(config, "EnableSNI") || json_object_set_new(body, "sni", json_true()) == 0))
    return body;
  json_decref(body);
  return NULL;
}

/* Two checks with one key: the first that was listed is used, others are told and removed. */
static bool add_check(struct route53_reading *r, const char *id, const char *key, long long version,
                      json_t *body) {
  char full[64 + ROUTE53_KEY];
  char name[NAME_MAX_TEXT + ROUTE53_KEY + 8];
  bool again = json_object_get(r->checks, key) != NULL;
  snprintf(name, sizeof name, "_hc-%s.%s", key, r->zone);
  struct provider_object *object =
      route53_add(r->out, name, ROUTE53_HEALTH, again ? id : NULL, NULL, r->marker, body);
  if (!object)
    return no_memory(r);
  object->part = true;
  object->raw = json_pack("{s:s, s:I}", "id", id, "version", (json_int_t)version);
  snprintf(full, sizeof full, ROUTE53_HEALTH "/%s%s%.40s", key, again ? "/" : "", again ? id : "");
  free(object->key);
  object->key = strdup(full);
  if (!object->raw || !object->key)
    return no_memory(r);
  return again || (json_object_set(r->checks, key, object->raw) == 0 &&
                   json_object_set_new(r->ids, id, json_string(key)) == 0)
             ? true
             : no_memory(r);
}

static bool take_check(struct route53_reading *r, const xmlNode *node) {
  char *id = route53_text(node, "Id");
  char *reference = route53_text(node, "CallerReference");
  const xmlNode *config = route53_child(node, "HealthCheckConfig");
  char key[ROUTE53_KEY];
  long long version = 0;
  size_t skip = strlen(r->prefix);
  bool ok = id && *id && strlen(id) <= 64 && strspn(id, "0123456789abcdefABCDEF-") == strlen(id) &&
            reference && config;
  if (!ok)
    wrong(r, "a health check has no proper id");
  /* "PREFIX:KEY:NONCE"; all others belong to somebody else. */
  bool ours = ok && strncmp(reference, r->prefix, skip) == 0 && reference[skip] == ':' &&
              strspn(reference + skip + 1, "0123456789abcdef") == ROUTE53_KEY - 1;
  if (ours) {
    snprintf(key, sizeof key, "%.24s", reference + skip + 1);
    ok = number_of(node, "HealthCheckVersion", 1LL << 40, &version)
             ? add_check(r, id, key, version, check_body(config))
             : wrong(r, "a health check has no version");
  }
  free(id);
  free(reference);
  return ok;
}

bool route53_read_checks(struct route53_reading *r, const xmlNode *root) {
  const xmlNode *list = route53_child(root, "HealthChecks");
  if (!list)
    return wrong(r, "the list of health checks is missing");
  for (const xmlNode *child = list->children; child; child = child->next)
    if (child->type == XML_ELEMENT_NODE && !take_check(r, child))
      return false;
  return true;
}

bool route53_link_checks(struct route53_reading *r) {
  json_t *users = json_object(); /* KEY -> domain */
  bool ok = users;
  for (size_t i = 0; ok && i < r->out->count; i++) {
    const struct provider_object *o = &r->out->items[i];
    const char *key = json_string_value(json_object_get(o->body, "health"));
    if (o->domain && key)
      ok = json_object_set_new(users, key, json_string(o->domain)) == 0;
  }
  for (size_t i = 0; ok && i < r->out->count; i++) {
    struct provider_object *o = &r->out->items[i];
    if (strcmp(o->type, ROUTE53_HEALTH) != 0)
      continue;
    const char *domain =
        json_string_value(json_object_get(users, o->key + strlen(ROUTE53_HEALTH) + 1));
    o->domain = domain ? strdup(domain) : NULL;
    ok = !domain || o->domain;
  }
  json_decref(users);
  return ok || no_memory(r);
}
