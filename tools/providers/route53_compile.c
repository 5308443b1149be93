/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a domain to resource record sets.  For each type:
 *
 *   NAME              one geolocation alias for each place; never evaluates its target, so that a
 *                     region whose endpoints are all down keeps its clients
 *   _st-REGION-fN     failover alias pair: level N, or the next pair (or the last level)
 *   _st-REGION-pN     weighted sets of the endpoints of level N, with their health checks
 *
 * What can never be drawn while something else is left (disabled, weight 0 above the last level)
 * is not there at all: Route 53 would use it once the others are down.
 */
#include <arpa/inet.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steering/layers.h"
#include "tools/providers/route53_private.h"
#include "zones/domain_json.h"

static const char *const qtypes[STEER_TYPES] = {"A", "AAAA", "CNAME"};

struct compiling {
  const char *provider, *marker;
  const struct provider_domain *domain;
  struct provider_objects *out;
  struct provider_fidelity *fidelity;
  struct provider_error *error;
  json_t *checks; /* KEY of the health checks that are there */
  enum steer_type type;
  const char *region; /* its name */
};

/* ---- fidelity ------------------------------------------------------------------------------- */

static void grade(struct compiling *c, enum provider_layer layer, enum provider_grade to,
                  double error, const char *why) {
  struct provider_fidelity *f = c->fidelity;
  if (error > f->error[layer])
    f->error[layer] = error;
  if (to <= f->grade[layer])
    return;
  f->grade[layer] = to;
  snprintf(f->why[layer], sizeof f->why[layer], "%s", why);
}

static bool no_memory(struct compiling *c) {
  return provider_fail(c->error, PROVIDER_LOCAL, "%s: out of memory", c->provider);
}

/* ---- weights -------------------------------------------------------------------------------- */

/* Largest error of a share over all subsets; `count` is small. */
static double error_of_subsets(const uint32_t *a, const uint32_t *b, size_t count) {
  double most = 0;
  for (uint32_t set = 1; set < (1U << count); set++) {
    double sum_a = 0;
    double sum_b = 0;
    for (size_t i = 0; i < count; i++) {
      sum_a += set >> i & 1 ? a[i] : 0;
      sum_b += set >> i & 1 ? b[i] : 0;
    }
    for (size_t i = 0; i < count && sum_a > 0; i++)
      if (set >> i & 1)
        most = fmax(most, fabs(a[i] / sum_a - b[i] / sum_b));
  }
  return most;
}

/* A bound of it for many: of two parts whose weights were scaled by factors r apart, no share can
 * move further than (sqrt r - 1) / (sqrt r + 1). */
static double error_bound(const uint32_t *a, const uint32_t *b, size_t count) {
  double low = INFINITY;
  double high = 0;
  for (size_t i = 0; i < count; i++) {
    if (a[i] == 0)
      continue;
    low = fmin(low, (double)b[i] / a[i]);
    high = fmax(high, (double)b[i] / a[i]);
  }
  double root = low > 0 && high > 0 ? sqrt(high / low) : 1;
  return (root - 1) / (root + 1);
}

/* Gives one more to those with the largest remainders until `left` is used up. */
static void hand_out(double *remainders, size_t count, double left, uint32_t *out) {
  for (; left >= 1; left--) {
    size_t best = count;
    for (size_t i = 0; i < count; i++)
      if (remainders[i] >= 0 && out[i] < ROUTE53_WEIGHT_MAX &&
          (best == count || remainders[i] > remainders[best]))
        best = i;
    if (best == count)
      return;
    out[best]++;
    remainders[best] = -1;
  }
}

double route53_scale(const uint32_t *weights, size_t count, uint32_t *out) {
  double remainders[ROUTE53_GROUP_MAX];
  double sum = 0;
  uint32_t most = 0;
  if (count > ROUTE53_GROUP_MAX)
    return 1;
  for (size_t i = 0; i < count; i++) {
    out[i] = weights[i];
    sum += weights[i];
    most = weights[i] > most ? weights[i] : most;
  }
  if (most <= ROUTE53_WEIGHT_MAX)
    return 0;
  double total = floor(ROUTE53_WEIGHT_MAX * sum / most);
  double left = total;
  for (size_t i = 0; i < count; i++) {
    double quota = weights[i] * total / sum;
    out[i] = (uint32_t)quota;
    remainders[i] = weights[i] > 0 ? quota - out[i] : -1; /* 0 stays 0 */
    if (out[i] == 0 && weights[i] > 0) {
      out[i] = 1;
      remainders[i] = -1;
      continue;
    }
    left -= out[i];
  }
  hand_out(remainders, count, left, out);
  return count <= 12 ? error_of_subsets(weights, out, count) : error_bound(weights, out, count);
}

/* ---- objects -------------------------------------------------------------------------------- */

struct provider_object *route53_add(struct provider_objects *out, const char *name,
                                    const char *type, const char *identifier, const char *domain,
                                    const char *owner, json_t *body) {
  struct provider_object *object = body ? provider_objects_add(out) : NULL;
  if (!object) {
    json_decref(body);
    return NULL;
  }
  object->body = body;
  object->name = strdup(name);
  object->type = strdup(type);
  object->domain = domain ? strdup(domain) : NULL;
  object->owner = owner ? strdup(owner) : NULL;
  object->part = domain && strcmp(domain, name) != 0;
  if (asprintf(&object->key, "%s/%s%s%s", name, type, identifier ? "/" : "",
               identifier ? identifier : "") < 0)
    object->key = NULL;
  bool ok = object->name && object->type && object->key && (!domain || object->domain) &&
            (!owner || object->owner);
  return ok ? object : NULL;
}

static bool add(struct compiling *c, const char *name, const char *identifier, json_t *body) {
  return route53_add(c->out, name, qtypes[c->type], identifier, c->domain->name, NULL, body)
             ? true
             : no_memory(c);
}

/* ---- health checks -------------------------------------------------------------------------- */

/* Adds the health check of the endpoint once and gives its key; "" if there is none. */
static bool add_check(struct compiling *c, uint32_t endpoint, char key[ROUTE53_KEY]) {
  const struct steer_endpoint *e = &c->domain->steer->endpoints[endpoint];
  const char *why;
  char name[NAME_MAX_TEXT + ROUTE53_KEY + 8];
  char interval[24];
  json_t *body = route53_check(c->domain, endpoint, c->type, &why);
  key[0] = '\0';
  if (why)
    grade(c, LAYER_STATUS, FIDELITY_LOST, 1, why);
  if (!body)
    return true;
  if (!c->domain->pushed)
    grade(c, LAYER_STATUS, FIDELITY_APPROX, 1,
          "its own probes: every 10 or 30 s from several places, of an endpoint's first address, "
          "status 200 to 399, any certificate");
  snprintf(interval, sizeof interval, "%lld",
           (long long)json_integer_value(json_object_get(body, "interval")));
  const char *const texts[] = {c->domain->name, e->name,
                               qtypes[c->type], json_string_value(json_object_get(body, "type")),
                               interval,        NULL};
  if (!route53_digest(texts, key) || json_object_get(c->checks, key)) {
    json_decref(body);
    return key[0] || no_memory(c);
  }
  snprintf(name, sizeof name, "_hc-%s.%s", key, c->domain->name);
  struct provider_object *object =
      route53_add(c->out, name, ROUTE53_HEALTH, NULL, c->domain->name, NULL, body);
  if (!object || json_object_set_new(c->checks, key, json_true()) != 0)
    return no_memory(c);
  object->health = c->domain->pushed;
  /* The key is known without the domain's name, for checks that no record uses. */
  free(object->key);
  object->key = NULL;
  return asprintf(&object->key, "%s/%s", ROUTE53_HEALTH, key) >= 0 || no_memory(c);
}

/* ---- weighted groups ------------------------------------------------------------------------ */

static json_t *values_of(const struct steer_endpoint *e, enum steer_type type) {
  char text[NAME_MAX_TEXT];
  json_t *values = json_array();
  if (type == STEER_CNAME)
    json_array_append_new(values, json_string(name_to_text(text, e->host)));
  for (uint32_t i = 0; type == STEER_A && i < e->addr4_count; i++)
    json_array_append_new(values, json_string(inet_ntop(AF_INET, e->addr4[i], text, sizeof text)));
  for (uint32_t i = 0; type == STEER_AAAA && i < e->addr6_count; i++)
    json_array_append_new(values, json_string(inet_ntop(AF_INET6, e->addr6[i], text, sizeof text)));
  return values;
}

static bool identify(struct compiling *c, const char *a, const char *b, char *out) {
  int n = snprintf(out, ROUTE53_IDENTIFIER, "%s %s%s%s", c->marker, a, b ? " " : "", b ? b : "");
  return n < ROUTE53_IDENTIFIER
             ? true
             : provider_fail(c->error, PROVIDER_REFUSED,
                             "%s: %.255s: the name %.100s is too long for a set identifier of 128 "
                             "characters",
                             c->provider, c->domain->name, a);
}

/* The canonical form of values sorts them. */
static json_t *canonical_values(struct compiling *c, json_t *values) {
  struct provider_objects sorted;
  provider_objects_init(&sorted);
  struct provider_object *object =
      provider_add_rrset(&sorted, c->domain->name, qtypes[c->type], 0, values);
  json_t *out = object ? json_incref(json_object_get(object->body, "values")) : NULL;
  provider_objects_close(&sorted);
  return out;
}

static bool add_group(struct compiling *c, const char *name, const struct layer_entry *entries,
                      size_t count, bool checked) {
  uint32_t wanted[ROUTE53_GROUP_MAX];
  uint32_t weights[ROUTE53_GROUP_MAX];
  if (count > ROUTE53_GROUP_MAX)
    return provider_fail(c->error, PROVIDER_REFUSED,
                         "%s: %.255s has %zu endpoints in one level of %.63s; Route 53 takes %d at "
                         "most",
                         c->provider, c->domain->name, count, c->region, ROUTE53_GROUP_MAX);
  for (size_t i = 0; i < count; i++)
    wanted[i] = entries[i].weight;
  double error = route53_scale(wanted, count, weights);
  if (error > 0)
    grade(c, LAYER_WEIGHT, FIDELITY_APPROX, error,
          "weights above 255 are scaled, by largest remainder");
  for (size_t i = 0; i < count; i++) {
    const struct steer_endpoint *e = &c->domain->steer->endpoints[entries[i].endpoint];
    char key[ROUTE53_KEY] = "";
    char identifier[ROUTE53_IDENTIFIER];
    if ((checked && !add_check(c, entries[i].endpoint, key)) ||
        !identify(c, e->name, NULL, identifier))
      return false;
    json_t *values = canonical_values(c, values_of(e, c->type));
    json_t *body = json_pack("{s:I, s:I, s:o}", "weight", (json_int_t)weights[i], "ttl",
                             (json_int_t)c->domain->steer->ttl, "values", values);
    if (body && key[0])
      json_object_set_new(body, "health", json_string(key));
    if (!add(c, name, identifier, body))
      return false;
  }
  return true;
}

/* ---- levels --------------------------------------------------------------------------------- */

static bool is_disabled(const struct compiling *c, const struct layer_entry *entry) {
  const struct steer_status *s = c->domain->facts.status;
  return status_is_disabled(&c->domain->steer->endpoints[entry->endpoint],
                            s ? &s[entry->endpoint] : NULL);
}

/*
 * Keeps what layer 2 could let through, and tells whether health has a say in it: the entries that
 * would be up if all were healthy; if there are none, those not disabled; if none, all.
 */
static bool keep_entries(const struct compiling *c, uint32_t level_count,
                         struct layer_entry *entries, size_t *count) {
  for (int rule = 0; rule < 2; rule++) {
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
      bool weighs = entries[i].weight > 0 || entries[i].level == level_count;
      entries[i].present = !is_disabled(c, &entries[i]) && (rule == 1 || weighs);
      kept += entries[i].present;
    }
    if (kept == 0)
      continue;
    kept = 0;
    for (size_t i = 0; i < *count; i++)
      if (entries[i].present)
        entries[kept++] = entries[i];
    *count = kept;
    return rule == 0;
  }
  return false;
}

static bool helper(struct compiling *c, char kind, unsigned level, char out[NAME_MAX_TEXT]) {
  return route53_helper(c->domain->name, c->region, kind, level, out)
             ? true
             : provider_fail(c->error, PROVIDER_REFUSED,
                             "%s: %.255s is too long a name for helper names below it; give it a "
                             "shorter name",
                             c->provider, c->domain->name);
}

static bool add_failover(struct compiling *c, const char *name, const char *role,
                         const char *target) {
  char identifier[ROUTE53_IDENTIFIER];
  return identify(c, strcmp(role, "PRIMARY") == 0 ? "primary" : "secondary", NULL, identifier) &&
         add(c, name, identifier,
             json_pack("{s:s, s:s, s:b}", "failover", role, "alias", target, "evaluate", 1));
}

/* The levels of `entries`, and in `first` the name that stands for them. */
static bool add_levels(struct compiling *c, const struct layer_entry *entries, size_t count,
                       bool checked, char first[NAME_MAX_TEXT]) {
  char name[NAME_MAX_TEXT];
  char group[NAME_MAX_TEXT];
  char next[NAME_MAX_TEXT];
  if (!helper(c, count > 0 && entries[count - 1].level != entries[0].level ? 'f' : 'p',
              entries[0].level, first))
    return false;
  for (size_t i = 0, end; i < count; i = end) {
    unsigned level = entries[i].level;
    for (end = i; end < count && entries[end].level == level;)
      end++;
    if (!helper(c, 'p', level, group) || !add_group(c, group, entries + i, end - i, checked))
      return false;
    if (end == count)
      break;
    bool last = entries[count - 1].level == entries[end].level;
    if (!helper(c, 'f', level, name) || !helper(c, last ? 'p' : 'f', entries[end].level, next) ||
        !add_failover(c, name, "PRIMARY", group) || !add_failover(c, name, "SECONDARY", next))
      return false;
  }
  return true;
}

/* ---- places --------------------------------------------------------------------------------- */

static bool supports(struct compiling *c, const struct steer_atom *atom) {
  switch (atom->kind) {
  case ATOM_GLOBAL:
    return true;
  case ATOM_CONTINENT:
  case ATOM_COUNTRY:
    grade(c, LAYER_GEO, FIDELITY_APPROX, 1, "clients are placed by its own location data");
    return true;
  case ATOM_SUBDIVISION:
    if (strncmp(atom->code, "us-", 3) == 0 && strlen(atom->code) == 5) {
      grade(c, LAYER_GEO, FIDELITY_APPROX, 1, "clients are placed by its own location data");
      return true;
    }
    grade(c, LAYER_GEO, FIDELITY_LOST, 1,
          "Route 53 knows no subdivisions but the states of the US: others are left out, their "
          "clients get the country's answer");
    return false;
  case ATOM_NET:
    grade(c, LAYER_GEO, FIDELITY_LOST, 1,
          "networks are left out: Route 53 cannot mix them with places on one name");
    return false;
  default:
    grade(c, LAYER_GEO, FIDELITY_LOST, 1, "Route 53 does not know AS numbers: they are left out");
    return false;
  }
}

static bool add_region(struct compiling *c, uint32_t r, const json_t *atoms) {
  const struct steer_domain *d = c->domain->steer;
  const struct steer_region *region = &d->regions[r];
  size_t size = layer_entry_max(d, r);
  char target[NAME_MAX_TEXT];
  char identifier[ROUTE53_IDENTIFIER];
  bool any = false;
  c->region = region->name;
  for (uint32_t i = 0; i < region->atom_count; i++)
    any = supports(c, &region->atoms[i]) || any;
  if (!any)
    return true;
  struct layer_entry *entries = calloc(size + 1, sizeof *entries);
  if (!entries)
    return no_memory(c);
  size_t count = layer_entries(d, r, c->type, &c->domain->facts, entries);
  bool checked = keep_entries(c, region->level_count, entries, &count);
  bool ok = count > 0 && add_levels(c, entries, count, checked, target);
  free(entries);
  for (uint32_t i = 0; ok && i < region->atom_count; i++) {
    const char *atom = json_string_value(json_array_get(atoms, i));
    if (!supports(c, &region->atoms[i]))
      continue;
    ok = atom ? identify(c, region->name, atom, identifier) : no_memory(c);
    ok = ok && add(c, c->domain->name, identifier,
                   json_pack("{s:s, s:s, s:b}", "geo", atom, "alias", target, "evaluate", 0));
  }
  return ok;
}

/* Only one endpoint is in an answer. */
static void judge_answers(struct compiling *c) {
  const struct steer_domain *d = c->domain->steer;
  uint32_t most = 0;
  for (uint32_t r = 0; r < d->region_count; r++)
    for (uint32_t l = 0; l < d->regions[r].level_count; l++)
      if (d->regions[r].levels[l].entry_count > most)
        most = d->regions[r].levels[l].entry_count;
  if (d->answers > 1 && most > 1)
    grade(c, LAYER_WEIGHT, FIDELITY_LOST, 1,
          "answers with several endpoints: Route 53 gives one in each");
}

bool route53_compile(const char *provider, const char *marker, const struct provider_domain *domain,
                     struct provider_objects *out, struct provider_fidelity *fidelity,
                     struct provider_error *error) {
  struct compiling c = {.provider = provider,
                        .marker = marker,
                        .domain = domain,
                        .out = out,
                        .fidelity = fidelity,
                        .error = error,
                        .checks = json_object()};
  json_t *document = domain_json_encode(domain->steer);
  const json_t *regions = json_object_get(document, "regions");
  bool ok = c.checks && document ? true : no_memory(&c);
  memset(fidelity, 0, sizeof *fidelity);
  judge_answers(&c);
  for (int t = 0; ok && t < STEER_TYPES; t++) {
    c.type = (enum steer_type)t;
    for (uint32_t r = 0; ok && domain->steer->offers[t] && r < domain->steer->region_count; r++)
      ok = add_region(&c, r, json_object_get(json_array_get(regions, r), "atoms"));
  }
  json_decref(document);
  json_decref(c.checks);
  return ok;
}
