/* SPDX-License-Identifier: Apache-2.0 */
/* domain.yaml: one steered name. */
#include "zones/config_domain.h"

#include <stdio.h>
#include <stdlib.h>

#include "zones/config_health.h"
#include "zones/record.h"
#include "zones/zone_check.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { DEFAULT_TTL = 30 };

/* ---- types, answers, draw_per -----------------------------------------------------------------
 */

static void offer_what_endpoints_have(struct steer_domain *s) {
  for (uint32_t i = 0; i < s->endpoint_count; i++)
    for (int type = 0; type < STEER_TYPES; type++)
      if (domain_endpoint_has(&s->endpoints[i], (enum steer_type)type))
        s->offers[type] = true;
}

static void read_types(struct domain_reading *d, const struct yaml_node *key,
                       const struct yaml_node *node) {
  static const char *const words[] = {"A", "AAAA"};
  struct steer_domain *s = d->steer;
  bool chosen[STEER_TYPES] = {false};
  if (d->endpoints_ok && s->offers[STEER_CNAME]) {
    config_error(&d->file, key,
                 "`types` is for addresses only; a domain of host names answers "
                 "every type with a CNAME. Remove it");
    return;
  }
  size_t count = node->kind == YAML_LIST ? node->count : 1;
  if (count == 0)
    config_error(&d->file, node, "`types` must not be empty; write [A], [AAAA] or remove it");
  for (size_t i = 0; i < count; i++) {
    const struct yaml_node *item = node->kind == YAML_LIST ? node->items[i] : node;
    int type = config_choice(&d->file, item, "`types`", words, COUNT(words));
    if (type < 0)
      continue;
    if (d->endpoints_ok && !s->offers[type])
      config_error(&d->file, item, "no endpoint has an %s address, so %s cannot be offered",
                   type == STEER_A ? "IPv4" : "IPv6", words[type]);
    chosen[type] = true;
  }
  if (chosen[STEER_A] || chosen[STEER_AAAA])
    for (int type = 0; type < STEER_TYPES; type++)
      s->offers[type] = s->offers[type] && chosen[type];
}

static void read_answers(struct domain_reading *d, const struct yaml_node *node) {
  uint32_t answers = 1;
  if (!config_number(&d->file, node, "`answers`", 1, STEER_MAX_ANSWERS, &answers))
    return;
  if (answers > 1 && d->endpoints_ok && d->steer->offers[STEER_CNAME]) {
    config_error(&d->file, node,
                 "`answers` above 1 is for addresses only; a name can have one "
                 "CNAME. Remove it");
    return;
  }
  d->steer->answers = (uint8_t)answers;
}

static void read_draw_per(struct domain_reading *d, const struct yaml_node *node) {
  static const char *const words[] = {"query", "subnet"};
  int i = config_choice(&d->file, node, "`draw_per`", words, COUNT(words));
  d->steer->draw_per = i == 1 ? DRAW_PER_SUBNET : DRAW_PER_QUERY;
}

/* ---- health -----------------------------------------------------------------------------------
 */

static void look_program_up(struct domain_reading *d, const struct yaml_node *where,
                            const json_t *health) {
  const struct config_source *source = d->config->source;
  const char *type = json_string_value(json_object_get(health, "type"));
  const char *check = json_string_value(json_object_get(health, "check"));
  if (type == NULL || strcmp(type, "exec") != 0 || check == NULL)
    return;
  if (source->has_program != NULL && !source->has_program(source->programs, check))
    config_error(&d->file, where, "%.200s defines no check `%s`; add it there under `checks:`",
                 source->programs_path, check);
  else if (source->has_program == NULL && !source->programs_known)
    config_warning(&d->file, where,
                   "whether the program `%s` exists is not known here; it must be defined in the "
                   "machine's settings",
                   check);
}

/* The key `check` that counts: the endpoint's, else the domain's; that of defaults.yaml is in
 * another file, so `otherwise` then. */
static const struct yaml_node *place_of_check(const struct yaml_node *own,
                                              const struct yaml_node *domain,
                                              const struct yaml_node *otherwise) {
  const struct yaml_node *key = own != NULL ? yaml_get_key(own, "check") : NULL;
  if (key == NULL)
    key = yaml_get_key(domain, "check");
  return key != NULL ? key : otherwise;
}

/* Settings of one endpoint; `block` is the domain's as JSON, `own` the endpoint's node or NULL. */
static json_t *read_endpoint_health(struct domain_reading *d, const struct yaml_node *key,
                                    const struct yaml_node *node, const json_t *block,
                                    const struct yaml_node *own) {
  json_t *own_block = NULL;
  if (own != NULL) {
    own_block = config_health_block(&d->file, own);
    if (own_block == NULL)
      return NULL;
  }
  const struct yaml_node *where = own != NULL ? own : key;
  json_t *merged = config_health_merge(&d->file, where, own != NULL ? own : node,
                                       d->config->defaults.health, block, own_block);
  if (merged != NULL) {
    const char *type = json_string_value(json_object_get(merged, "type"));
    bool ok = own == NULL || config_health_check_keys(&d->file, own, type);
    /* The domain's own keys are judged by the type that the domain itself asks for. */
    if (ok && json_object_get(own_block, "type") == NULL)
      ok = config_health_check_keys(&d->file, node, type);
    if (ok)
      look_program_up(d, place_of_check(own, node, where), merged);
  }
  json_decref(own_block);
  return merged;
}

static void read_health(struct domain_reading *d, const struct yaml_node *key,
                        const struct yaml_node *node) {
  json_t *block = config_health_block(&d->file, node);
  json_t *common = NULL; /* of all endpoints without settings of their own */
  bool common_read = false;
  d->domain->health = json_object();
  for (uint32_t i = 0; block != NULL && i < d->steer->endpoint_count; i++) {
    const struct yaml_node *own = d->endpoint_health != NULL ? d->endpoint_health[i] : NULL;
    json_t *merged = NULL;
    if (own != NULL) {
      merged = read_endpoint_health(d, key, node, block, own);
    } else {
      if (!common_read)
        common = read_endpoint_health(d, key, node, block, NULL);
      common_read = true;
      merged = json_incref(common);
    }
    if (merged != NULL)
      json_object_set_new(d->domain->health, d->steer->endpoints[i].name, merged);
  }
  json_decref(common);
  json_decref(block);
}

/* Without `health` of the domain there are no checks, so an endpoint's would be lost silently. */
static void refuse_lone_health(struct domain_reading *d) {
  for (uint32_t i = 0; d->endpoint_health != NULL && i < d->steer->endpoint_count; i++) {
    if (d->endpoint_health[i] == NULL)
      continue;
    json_decref(config_health_block(&d->file, d->endpoint_health[i]));
    config_warning(&d->file, d->endpoint_health[i],
                   "this has no effect: the domain has no `health`, so nothing is checked");
  }
}

/* ---- profiles ---------------------------------------------------------------------------------
 */

/* A profile of defaults.yaml serves the domains that have all its endpoints. */
static bool profile_fits(const json_t *known, const json_t *profile) {
  const char *endpoint;
  json_t *weight;
  json_object_foreach((json_t *)profile, endpoint, weight) {
    if (json_object_get(known, endpoint) == NULL)
      return false;
  }
  return true;
}

static json_t *endpoint_names(const struct steer_domain *s) {
  json_t *names = json_object();
  for (uint32_t i = 0; i < s->endpoint_count; i++)
    json_object_set_new(names, s->endpoints[i].name, json_true());
  return names;
}

static void read_profiles(struct domain_reading *d, const struct yaml_node *node) {
  json_t *all = json_object();
  d->domain->profiles = all;
  if (node == NULL && json_object_size(d->config->defaults.profiles) == 0)
    return;
  json_t *known = endpoint_names(d->steer);
  const char *name;
  json_t *profile;
  json_object_foreach(d->config->defaults.profiles, name, profile) {
    if (profile_fits(known, profile))
      json_object_set(all, name, profile);
  }
  json_t *own = node != NULL ? config_profiles_read(&d->file, node, known) : NULL;
  if (own != NULL)
    json_object_update(all, own);
  json_decref(own);
  json_decref(known);
}

/* ---- the file ---------------------------------------------------------------------------------
 */

static void check_apex(struct domain_reading *d) {
  if (!d->endpoints_ok || !d->steer->offers[STEER_CNAME] ||
      !name_equal(d->steer->owner, d->zone->apex))
    return;
  config_error(
      &d->file, d->endpoint_keys[0],
      "the domain is the apex of its zone and needs addresses; a host name would be a CNAME "
      "beside SOA and NS");
}

static void read_rest(struct domain_reading *d, const struct yaml_node *root) {
  const struct yaml_node *node;
  if ((node = yaml_get(root, "ttl")) != NULL)
    config_seconds(&d->file, node, "`ttl`", &d->steer->ttl);
  if ((node = yaml_get(root, "owner")) != NULL && config_line(&d->file, node, "`owner`")) {
    d->domain->owner_text = strdup(node->text);
    if (d->domain->owner_text == NULL)
      config_no_memory(d->config);
  }
  if ((node = yaml_get(root, "answers")) != NULL)
    read_answers(d, node);
  if ((node = yaml_get(root, "draw_per")) != NULL)
    read_draw_per(d, node);
  if ((node = yaml_get(root, "health")) != NULL)
    read_health(d, yaml_get_key(root, "health"), node);
  else
    refuse_lone_health(d);
  if ((node = yaml_get(root, "alerts")) != NULL)
    d->domain->alerts =
        config_domain_alerts(d->config, &d->file, yaml_get_key(root, "alerts"), node);
  if (node != NULL && yaml_get(root, "health") == NULL)
    config_warning(&d->file, yaml_get_key(root, "alerts"),
                   "this has no effect: the domain has no `health`, so nothing is checked");
  if ((node = yaml_get(root, "providers")) != NULL)
    d->domain->providers = config_domain_providers(d->config, &d->file, node);
  read_profiles(d, yaml_get(root, "profiles"));
}

static void read_root(struct domain_reading *d, const struct yaml_node *root) {
  static const char *const keys[] = {"ttl",     "owner",    "endpoints", "regions",
                                     "health",  "alerts",   "profiles",  "types",
                                     "answers", "draw_per", "providers"};
  config_keys(&d->file, root, "domain.yaml", keys, COUNT(keys));
  if (root->kind != YAML_MAP)
    return;
  const struct yaml_node *endpoints = yaml_get(root, "endpoints");
  const struct yaml_node *regions = yaml_get(root, "regions");
  const struct yaml_node *types = yaml_get(root, "types");
  struct diag_pos start = {d->file.path, 0, 0};
  if (endpoints == NULL)
    diag_error(
        d->file.problems, start,
        "no endpoints: `endpoints` is missing; add it, as `endpoints: {central: 192.0.2.4}`");
  else
    domain_read_endpoints(d, yaml_get_key(root, "endpoints"), endpoints);
  if (d->endpoints_ok)
    offer_what_endpoints_have(d->steer);
  if (types != NULL)
    read_types(d, yaml_get_key(root, "types"), types);
  check_apex(d);
  if (regions == NULL)
    diag_error(d->file.problems, start,
               "no `global`: `regions` is missing; add it, as `regions: {global: {central: 1}}`");
  else
    domain_read_regions(d, yaml_get_key(root, "regions"), regions);
  read_rest(d, root);
}

void config_domain_read(struct config *config, const char *path, const uint8_t *owner,
                        struct model_zone *zone, struct model_domain *domain) {
  struct domain_reading d = {.config = config, .zone = zone, .domain = domain};
  size_t len = name_wire_len(owner, NAME_MAX_WIRE);
  d.steer = calloc(1, sizeof *d.steer);
  if (d.steer == NULL || (d.steer->owner = calloc(1, len + NAME_PAD)) == NULL) {
    free(d.steer);
    config_no_memory(config);
    return;
  }
  domain->steer = d.steer;
  memcpy(d.steer->owner, owner, len);
  d.steer->ttl = DEFAULT_TTL;
  d.steer->answers = 1;
  size_t errors = config->problems->errors;
  struct arena tree;
  arena_init(&tree);
  const struct yaml_node *root = config_parse(config, path, &tree, &d.file);
  const char *shown = d.file.path;
  domain->path = shown != NULL ? strdup(shown) : NULL;
  if (domain->path == NULL)
    config_no_memory(config);
  if (root != NULL)
    read_root(&d, root);
  const char *why;
  if (config->problems->errors == errors && !steer_domain_validate(d.steer, &why))
    diag_error(config->problems, (struct diag_pos){shown, 0, 0}, "this domain cannot be used: %s",
               why);
  arena_close(&tree);
  free(d.endpoint_keys);
  free(d.endpoint_health);
  free(d.by_name);
}

/* ---- beside static records --------------------------------------------------------------------
 */

static void check_collision(struct config *config, const struct model_zone *zone,
                            const struct model_domain *domain) {
  static const uint16_t taken[] = {1, 28, 5, 39}; /* A AAAA CNAME DNAME */
  static const char *const names[] = {"A", "AAAA", "CNAME", "DNAME"};
  const struct steer_domain *s = domain->steer;
  char text[NAME_MAX_TEXT];
  name_to_text(text, s->owner);
  if (s->offers[STEER_CNAME]) { /* RFC 1034 section 3.6.2 */
    const struct model_rr *any = zone_check_find(zone, s->owner, 0);
    if (any != NULL && !name_equal(s->owner, zone->apex))
      diag_error(
          config->problems, any->pos,
          "a static record stands beside the CNAME of the steered name `%s` (%s); remove it, "
          "or give that domain addresses",
          text, domain->path);
    return;
  }
  for (size_t i = 0; i < COUNT(taken); i++) {
    const struct model_rr *rr = zone_check_find(zone, s->owner, taken[i]);
    if (rr != NULL)
      diag_error(
          config->problems, rr->pos,
          "the static %s record collides with the steered name `%s` (%s); remove one of them",
          names[i], text, domain->path);
  }
}

static void check_cut(struct config *config, const struct model_zone *zone,
                      const struct model_domain *domain) {
  const uint8_t *owner = domain->steer->owner;
  const struct model_rr *top = zone_check_occluder(zone, owner);
  char text[NAME_MAX_TEXT];
  char above[NAME_MAX_TEXT];
  if (top == NULL)
    return;
  bool at = name_equal(top->owner, owner);
  diag_error(config->problems, (struct diag_pos){domain->path, 0, 0},
             "`%s` is %s the %s of `%s` (%s, line %u), which takes it out of this zone; remove one "
             "of them",
             name_to_text(text, owner), at ? "at" : "below",
             top->type == 39 ? "DNAME" : "zone cut (NS)", name_to_text(above, top->owner),
             top->pos.path, top->pos.line);
}

static bool name_exists(const struct model_zone *zone, const uint8_t *name) {
  for (size_t i = 0; i < zone->domain_count; i++)
    if (name_is_below_or_equal(zone->domains[i].steer->owner, name))
      return true;
  return zone_check_exists(zone, name);
}

/* The host of a wildcard that the wildcard itself answers for would be asked for without end. */
static void check_wildcard_host(struct config *config, const struct model_zone *zone,
                                const struct model_domain *domain) {
  const struct steer_domain *s = domain->steer;
  static const uint8_t star[] = {1, '*'};
  if (!s->offers[STEER_CNAME] || memcmp(s->owner, star, sizeof star) != 0)
    return;
  const uint8_t *encloser = s->owner + sizeof star;
  for (uint32_t i = 0; i < s->endpoint_count; i++) {
    const uint8_t *child = s->endpoints[i].host;
    char host[NAME_MAX_TEXT];
    if (child == NULL || name_equal(child, encloser) || !name_is_below_or_equal(child, encloser))
      continue;
    while (name_labels(child) > name_labels(encloser) + 1)
      child += *child + 1;
    if (!name_exists(zone, child)) /* RFC 4592 section 3.3.1: no closer encloser */
      diag_error(config->problems, (struct diag_pos){domain->path, 0, 0},
                 "the endpoint `%s` is `%s`, which this wildcard itself answers for; name a host "
                 "that exists",
                 s->endpoints[i].name, name_to_text(host, s->endpoints[i].host));
  }
}

static bool has_address_at(const struct model_zone *zone, const uint8_t *name) {
  for (size_t i = 0; i < zone->domain_count; i++) {
    const struct steer_domain *s = zone->domains[i].steer;
    if (name_equal(s->owner, name))
      return s->offers[STEER_A] || s->offers[STEER_AAAA];
  }
  return zone_check_find(zone, name, RECORD_A) != NULL ||
         zone_check_find(zone, name, RECORD_AAAA) != NULL;
}

/* Other servers refuse a zone whose own name server has no address (RFC 1912 section 2.8). */
static void check_name_servers(struct config *config, const struct model_zone *zone) {
  for (const struct model_rr *rr = zone_check_find(zone, zone->apex, RECORD_NS);
       rr != NULL && rr < zone->rrs + zone->rr_count; rr++) {
    char text[NAME_MAX_TEXT];
    uint8_t wildcard[NAME_BUF] = {1, '*'};
    if (rr->type != RECORD_NS || !name_equal(rr->owner, zone->apex))
      return;
    const uint8_t *target = rr->rdata;
    if (name_wire_len(target, rr->rdata_len) == 0 || !name_is_below_or_equal(target, zone->apex) ||
        has_address_at(zone, target))
      continue;
    if (*target != 0) {
      size_t len = name_wire_len(target + *target + 1, NAME_MAX_WIRE);
      if (len + 2 <= NAME_MAX_WIRE) {
        memcpy(wildcard + 2, target + *target + 1, len);
        if (has_address_at(zone, wildcard))
          continue;
      }
    }
    diag_warning(config->problems, rr->pos,
                 "the name server `%s` is in this zone but has no A or AAAA record here; other "
                 "servers refuse such a zone. Add one",
                 name_to_text(text, target));
  }
}

void config_check_collisions(struct config *config, const struct model_zone *zone) {
  for (size_t i = 0; i < zone->domain_count; i++) {
    const struct model_domain *domain = &zone->domains[i];
    if (domain->steer == NULL || domain->path == NULL)
      continue;
    check_cut(config, zone, domain);
    check_collision(config, zone, domain);
    check_wildcard_host(config, zone, domain);
  }
  check_name_servers(config, zone);
}
