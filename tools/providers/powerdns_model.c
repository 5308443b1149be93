/* SPDX-License-Identifier: Apache-2.0 */
/* What a LUA record keeps of its domain, which checks it can do itself, and how faithful it is. */
#include <stdio.h>
#include <string.h>

#include "steering/layers.h"
#include "tools/providers/powerdns_lua.h"
#include "tools/providers/powerdns_text.h"
#include "zones/domain_json.h"

/* ---- the document --------------------------------------------------------------------------- */

static const struct steer_status *status_of(const struct provider_domain *domain, uint32_t i) {
  return domain->facts.status ? &domain->facts.status[i] : NULL;
}

static bool set_enabled(const struct provider_domain *domain, json_t *document) {
  json_t *list = json_object_get(document, "endpoints");
  bool ok = true;
  for (uint32_t i = 0; ok && i < domain->steer->endpoint_count; i++) {
    bool enabled = !status_is_disabled(&domain->steer->endpoints[i], status_of(domain, i));
    ok = json_object_set_new(json_array_get(list, i), "enabled", json_boolean(enabled)) == 0;
  }
  return ok;
}

static bool set_weights(const struct provider_domain *domain, json_t *document) {
  const int32_t *weights = domain->facts.weights;
  json_t *regions = json_object_get(document, "regions");
  size_t r, l, e, index = 0;
  json_t *region, *level, *entry;
  bool ok = true;
  if (!weights)
    return true;
  json_array_foreach(regions, r, region) {
    json_array_foreach(json_object_get(region, "levels"), l, level) {
      json_array_foreach(level, e, entry) {
        int32_t weight = weights[index++];
        ok = ok && (weight < 0 || json_array_set_new(entry, 1, json_integer(weight)) == 0);
      }
    }
  }
  return ok;
}

static json_t *down_for(const struct provider_domain *domain, enum steer_type type) {
  const struct steer_domain *d = domain->steer;
  json_t *list = json_array();
  for (uint32_t i = 0; list && i < d->endpoint_count; i++) {
    const struct steer_status *status = status_of(domain, i);
    if (!steer_endpoint_has(&d->endpoints[i], type) || !status ||
        status_is_disabled(&d->endpoints[i], status) ||
        !status_is_down(&d->endpoints[i], status, type))
      continue;
    if (json_array_append_new(list, json_string(d->endpoints[i].name)) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

static bool set_down(const struct provider_domain *domain, json_t *document) {
  static const char *const types[STEER_TYPES] = {"A", "AAAA", "CNAME"};
  json_t *down = json_object();
  bool ok = down != NULL;
  for (int t = 0; ok && t < STEER_TYPES; t++) {
    if (!domain->steer->offers[t])
      continue;
    json_t *list = down_for(domain, (enum steer_type)t);
    if (list && json_array_size(list) == 0)
      json_decref(list);
    else
      ok = json_object_set_new(down, types[t], list) == 0;
  }
  ok = ok && json_object_set(document, "down", down) == 0;
  json_decref(down);
  return ok;
}

json_t *powerdns_lua_model(const struct provider_domain *domain, bool pushed) {
  json_t *document = domain_json_encode(domain->steer);
  if (document && set_enabled(domain, document) && set_weights(domain, document) &&
      (!pushed || set_down(domain, document)))
    return document;
  json_decref(document);
  return NULL;
}

/* ---- checks --------------------------------------------------------------------------------- */

static bool cannot(struct powerdns_probe *probe, const char *why) {
  probe->possible = false;
  snprintf(probe->why, sizeof probe->why, "%s", why);
  return false;
}

/* The settings that all endpoints share. */
static const json_t *shared_check(const struct provider_domain *domain,
                                  struct powerdns_probe *probe) {
  const json_t *shared = NULL;
  for (uint32_t i = 0; i < domain->steer->endpoint_count; i++) {
    const json_t *check = json_object_get(domain->health, domain->steer->endpoints[i].name);
    if (!json_is_object(check)) {
      cannot(probe, "LUA records can only check all endpoints of a domain");
      return NULL;
    }
    if (shared && !json_equal(shared, check)) {
      cannot(probe, "LUA records can only check all endpoints alike");
      return NULL;
    }
    shared = check;
  }
  return shared;
}

static long long port_of(const json_t *check) {
  return json_integer_value(json_object_get(check, "port"));
}

/* The options of both calls.  "all": every address that is up, and every one if none is. */
static void add_options(const json_t *check, struct buf *out) {
  json_int_t timeout = json_integer_value(json_object_get(check, "timeout"));
  json_int_t seconds = (timeout + 999) / 1000;
  buf_printf(out, ", {selector='all', backupSelector='all', timeout=%lld}",
             (long long)(seconds < 1    ? 1
                         : seconds > 60 ? 60
                                        : seconds));
}

static bool find_tcp(const json_t *check, struct powerdns_probe *probe) {
  if (json_object_get(check, "send") || json_object_get(json_object_get(check, "expect"), "data"))
    return cannot(probe, "LUA records cannot check what a tcp server says");
  buf_printf(&probe->before, "ifportup(%lld, ", port_of(check));
  add_options(check, &probe->after);
  buf_add_str(&probe->after, ")");
  return true;
}

static bool is_ok_status(const json_t *expect) {
  const json_t *status = json_object_get(expect, "status");
  const json_t *range = json_array_get(status, 0);
  return json_array_size(status) == 1 && json_integer_value(json_array_get(range, 0)) == 200 &&
         json_integer_value(json_array_get(range, 1)) < 300;
}

static bool find_web(const struct provider_domain *domain, const json_t *check, bool tls,
                     struct powerdns_probe *probe) {
  const char *path = json_string_value(json_object_get(check, "path"));
  const char *host = json_string_value(json_object_get(check, "host"));
  const char *method = json_string_value(json_object_get(check, "method"));
  const json_t *expect = json_object_get(check, "expect");
  if ((method && strcmp(method, "GET") != 0) ||
      json_object_size(json_object_get(check, "headers")) > 0 || json_object_get(expect, "body") ||
      !is_ok_status(expect) || json_is_true(json_object_get(check, "follow_redirects")))
    return cannot(probe, "LUA records can only check for GET and status 200");
  if (tls && (json_object_get(check, "ca_file") || json_is_false(json_object_get(check, "verify"))))
    return cannot(probe, "LUA records check certificates as their server is set up");
  if (!host && strncmp(domain->name, "*.", 2) == 0) /* no URL: it would be down for ever */
    return cannot(probe,
                  "LUA records cannot check by the name of a wildcard; set the check's host");
  struct buf url;
  size_t name_len = strlen(domain->name);
  buf_init(&url);
  buf_add_str(&url, tls ? "https://" : "http://");
  if (host)
    buf_add_str(&url, host);
  else
    buf_add(&url, domain->name, name_len > 1 ? name_len - 1 : name_len);
  if (!host || !strchr(host, ':'))
    buf_printf(&url, ":%lld", port_of(check));
  buf_add_str(&url, path ? path : "/");
  buf_add_str(&probe->before, "ifurlup(");
  powerdns_quote(&probe->before, buf_text(&url));
  buf_add_str(&probe->before, ", ");
  add_options(check, &probe->after);
  buf_add_str(&probe->after, ")");
  probe->before.failed = probe->before.failed || url.failed;
  buf_close(&url);
  return true;
}

void powerdns_probe_find(const struct provider_domain *domain, struct powerdns_probe *probe) {
  memset(probe, 0, sizeof *probe);
  buf_init(&probe->before);
  buf_init(&probe->after);
  if (domain->steer->offers[STEER_CNAME]) {
    cannot(probe, "LUA records cannot check host names");
    return;
  }
  const json_t *check = shared_check(domain, probe);
  const char *type = json_string_value(json_object_get(check, "type"));
  if (!check)
    return;
  if (type && strcmp(type, "tcp") == 0)
    probe->possible = find_tcp(check, probe);
  else if (type && strncmp(type, "http", 4) == 0)
    probe->possible = find_web(domain, check, type[4] == 's', probe);
  else
    cannot(probe, "LUA records can only check tcp, http and https");
}

void powerdns_probe_close(struct powerdns_probe *probe) {
  buf_close(&probe->before);
  buf_close(&probe->after);
}

/* ---- fidelity ------------------------------------------------------------------------------- */

static void grade(struct provider_fidelity *f, enum provider_layer layer, enum provider_grade to,
                  const char *why) {
  if (to < f->grade[layer])
    return;
  f->grade[layer] = to;
  f->error[layer] = 1; /* of a client that is treated otherwise */
  snprintf(f->why[layer], sizeof f->why[layer], "%s", why);
}

static void judge_geo(const struct steer_domain *d, const struct powerdns_server *server,
                      struct provider_fidelity *f) {
  bool used[ATOM_NET + 1] = {false};
  for (uint32_t r = 0; d->region_count > 1 && r < d->region_count; r++)
    for (uint32_t i = 0; i < d->regions[r].atom_count; i++)
      used[d->regions[r].atoms[i].kind] = true;
  bool places = used[ATOM_CONTINENT] || used[ATOM_COUNTRY] || used[ATOM_SUBDIVISION];
  if (used[ATOM_SUBDIVISION])
    grade(f, LAYER_GEO, FIDELITY_APPROX,
          "its location data: only the first level of subdivisions, no registered country, no "
          "continent from the country; its scope is the client's whole prefix");
  else if (places)
    grade(f, LAYER_GEO, FIDELITY_APPROX,
          "its location data: no registered country, no continent from the country; its scope is "
          "the client's whole prefix");
  if (!server->known || d->region_count == 1)
    return;
  if (!server->subnet)
    grade(f, LAYER_GEO, FIDELITY_APPROX,
          "it ignores client subnets, so resolvers are placed; set edns-subnet-processing=yes");
  if ((places || used[ATOM_ASN]) && !server->places)
    grade(f, LAYER_GEO, FIDELITY_LOST,
          "it has no location data, so every place is unknown; set launch=...,geoip and "
          "geoip-database-files");
  else if (used[ATOM_ASN] && !server->as_numbers)
    grade(f, LAYER_GEO, FIDELITY_APPROX,
          "it has one location file, perhaps without AS numbers; add one to geoip-database-files");
}

void powerdns_lua_judge(const struct provider_domain *domain, const struct powerdns_server *server,
                        const struct powerdns_probe *probe, struct provider_fidelity *fidelity) {
  memset(fidelity, 0, sizeof *fidelity);
  judge_geo(domain->steer, server, fidelity);
  if (domain->pushed || !domain->health)
    return;
  if (probe->possible)
    grade(fidelity, LAYER_STATUS, FIDELITY_APPROX,
          "each server checks for itself, from its first query on and without rise and fall; until "
          "then all count as up");
  else
    grade(fidelity, LAYER_STATUS, FIDELITY_LOST, probe->why);
}
