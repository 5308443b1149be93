/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/alerts/judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/name.h"
#include "base/utf8.h"
#include "healthcheck/alerts/judge_private.h"

enum { ROUTES_MAX = 1000 };

static const char out_of_memory[] = "out of memory";

static uint64_t hash_of(const char *text) {
  return XXH3_64bits(text, strlen(text));
}

struct judge *judge_open(struct book *book, const char *host) {
  struct judge *judge = calloc(1, sizeof *judge);
  if (judge == NULL)
    return NULL;
  judge->book = book;
  judge->host = strdup(host);
  if (judge->host != NULL)
    return judge;
  free(judge);
  return NULL;
}

static void close_domain(struct judge_domain *domain) {
  for (size_t i = 0; domain->endpoints != NULL && i < domain->endpoint_count; i++)
    free(domain->endpoints[i].why);
  free(domain->endpoints);
  free(domain->checked);
  free(domain->by_hand);
  free(domain->weights);
  free(domain->policy.routes);
  free(domain->team);
  free(domain->name);
  free(domain->key);
}

static void close_domains(struct judge_domain *domains, size_t count) {
  for (size_t i = 0; domains != NULL && i < count; i++)
    close_domain(&domains[i]);
  free(domains);
}

void judge_close(struct judge *judge) {
  if (judge == NULL)
    return;
  close_domains(judge->domains, judge->count);
  map_close(&judge->by_name);
  json_decref(judge->overrides);
  free(judge->isolated.routes);
  free(judge->dirty);
  free(judge->host);
  free(judge);
}

void judge_mark(struct judge *judge, struct judge_domain *domain) {
  if (domain->dirty || domain->steer == NULL)
    return;
  domain->dirty = true;
  size_t at = (judge->dirty_first + judge->dirty_count++) % judge->count;
  judge->dirty[at] = (uint32_t)(domain - judge->domains);
}

/* ---- policies ---------------------------------------------------------------------------------
 */

static bool has_word(const json_t *list, const char *word) {
  size_t i;
  json_t *item;
  json_array_foreach((json_t *)list, i, item) {
    const char *text = json_string_value(item);
    if (text != NULL && strcmp(text, word) == 0)
      return true;
  }
  return false;
}

/* True if everything that the route is told pages somebody. */
static bool is_pager(const json_t *route) {
  const char *format = json_string_value(json_object_get(route, "format"));
  return format != NULL && strcmp(format, "pagerduty") == 0;
}

static bool read_policy(struct judge *judge, const json_t *routes, const json_t *alerts,
                        struct book_policy *policy, char *why) {
  const json_t *on = json_object_get(alerts, "on");
  const json_t *to = json_object_get(alerts, "to");
  if (!json_is_array(on) || !json_is_array(to) || json_array_size(to) > ROUTES_MAX) {
    snprintf(why, JUDGE_WHY, "`alerts` of a domain has no lists `on` and `to`");
    return false;
  }
  policy->wanted[INCIDENT_ENDPOINT] = has_word(on, "endpoint");
  policy->wanted[INCIDENT_FAILOVER] = has_word(on, "failover");
  policy->wanted[INCIDENT_BY_HAND] = policy->wanted[INCIDENT_FAILOVER];
  policy->wanted[INCIDENT_ALL_DOWN] = has_word(on, "all-down");
  policy->recovered = has_word(on, "recovered");
  policy->page = json_is_true(json_object_get(alerts, "page"));
  policy->routes = calloc(json_array_size(to) + 1, sizeof *policy->routes);
  if (policy->routes == NULL) {
    snprintf(why, JUDGE_WHY, out_of_memory);
    return false;
  }
  for (size_t i = 0; i < json_array_size(to); i++) {
    const char *name = json_string_value(json_array_get(to, i));
    const json_t *route = name != NULL ? json_object_get(routes, name) : NULL;
    if (route == NULL) {
      snprintf(why, JUDGE_WHY, "a domain alerts to the route %.60s, which does not exist",
               name != NULL ? name : "(no text)");
      return false;
    }
    struct book_route *known = book_route(judge->book, name, is_pager(route));
    bool again = false;
    for (size_t k = 0; k < policy->route_count; k++)
      again = again || policy->routes[k] == known;
    if (known == NULL) {
      snprintf(why, JUDGE_WHY, out_of_memory);
      return false;
    }
    if (!again)
      policy->routes[policy->route_count++] = known;
  }
  return true;
}

/* ---- the list of domains ----------------------------------------------------------------------
 */

static bool make_domain(struct judge *judge, const json_t *routes, const struct alerts_domain *from,
                        struct judge_domain *out, char *why) {
  char text[NAME_MAX_TEXT];
  if (from->alerts == NULL || json_is_null(from->alerts))
    return true;
  name_to_text(text, from->steer->owner);
  size_t length = strlen(text);
  out->steer = from->steer;
  out->key = strdup(text);
  out->name = length > 1 ? strndup(text, length - 1) : strdup(text);
  out->team = from->owner != NULL ? strdup(from->owner) : NULL;
  out->owner = out->team;
  out->endpoint_count = from->steer->endpoint_count;
  out->endpoints = calloc(from->steer->endpoint_count, sizeof *out->endpoints);
  out->checked = calloc(from->steer->endpoint_count, sizeof *out->checked);
  if (out->key == NULL || out->name == NULL || out->endpoints == NULL || out->checked == NULL ||
      (from->owner != NULL && out->team == NULL)) {
    snprintf(why, JUDGE_WHY, out_of_memory);
    return false;
  }
  for (uint32_t i = 0; i < from->steer->endpoint_count; i++)
    out->endpoints[i].name = hash_of(from->steer->endpoints[i].name);
  return read_policy(judge, routes, from->alerts, &out->policy, why);
}

/* Takes over what was known of the endpoints of the same names. */
static void inherit(struct judge_domain *domain, struct judge_domain *before) {
  size_t before_count = before->endpoint_count;
  for (uint32_t i = 0; i < domain->steer->endpoint_count; i++) {
    struct judge_endpoint *to = &domain->endpoints[i];
    size_t k = i;
    if (k >= before_count || before->endpoints[k].name != to->name)
      for (k = 0; k < before_count && before->endpoints[k].name != to->name;)
        k++;
    if (k >= before_count)
      continue;
    to->down = before->endpoints[k].down;
    to->hushed = before->endpoints[k].hushed;
    to->why = before->endpoints[k].why;
    before->endpoints[k].why = NULL;
  }
}

/* Puts the incidents on their domains; those whose domain is gone have ended. */
static void attach(struct judge *judge, const struct moment *now) {
  size_t at = 0;
  judge->checker = NULL;
  for (struct incident *i; (i = book_next(judge->book, &at)) != NULL;) {
    i->sibling = NULL;
    if (i->kind == INCIDENT_ISOLATED) {
      if (i->region != NULL && strcmp(i->region, judge->host) == 0)
        judge->checker = i;
      continue;
    }
    char key[NAME_MAX_TEXT + 2];
    snprintf(key, sizeof key, "%s%s", i->domain, strcmp(i->domain, ".") == 0 ? "" : ".");
    struct judge_domain *domain = map_get(&judge->by_name, key);
    if (domain == NULL) {
      char text[INCIDENT_SUMMARY];
      snprintf(text, sizeof text, "%.700s: removed from the configuration, or without alerts now",
               i->domain);
      book_end(judge->book, i, text, NULL, now);
      continue;
    }
    i->sibling = domain->incidents;
    domain->incidents = i;
  }
}

/* All routes that some domain uses. */
static bool collect_routes(struct book_policy *all, const struct judge_domain *domains,
                           size_t count) {
  *all = (struct book_policy){.recovered = true, .page = true};
  all->wanted[INCIDENT_ISOLATED] = true;
  all->routes = calloc(ROUTES_MAX, sizeof *all->routes);
  if (all->routes == NULL)
    return false;
  for (size_t i = 0; i < count; i++)
    for (size_t r = 0; r < domains[i].policy.route_count; r++) {
      size_t k = 0;
      while (k < all->route_count && all->routes[k] != domains[i].policy.routes[r])
        k++;
      if (k == all->route_count && k < ROUTES_MAX)
        all->routes[all->route_count++] = domains[i].policy.routes[r];
    }
  return true;
}

static void inherit_all(struct judge *judge, struct judge_domain *domains, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (domains[i].steer == NULL)
      continue;
    struct judge_domain *before = map_get(&judge->by_name, domains[i].key);
    if (before != NULL)
      inherit(&domains[i], before);
  }
}

/* ---- facts ------------------------------------------------------------------------------------
 */

static void set_why(char **why, const char *text) {
  if (*why != NULL && text != NULL && strcmp(*why, text) == 0)
    return;
  free(*why);
  *why = text != NULL ? strdup(text) : NULL;
  if (*why != NULL)
    utf8_repair(*why);
}

void judge_health(struct judge *judge, uint32_t domain, uint16_t endpoint,
                  enum steer_health health4, enum steer_health health6, const char *why,
                  bool quiet) {
  if (domain >= judge->count || judge->domains[domain].steer == NULL ||
      endpoint >= judge->domains[domain].endpoint_count)
    return;
  struct judge_domain *d = &judge->domains[domain];
  struct judge_endpoint *e = &d->endpoints[endpoint];
  struct steer_status *status = &d->checked[endpoint];
  bool down = health4 == HEALTH_DOWN || health6 == HEALTH_DOWN;
  bool same = status->health4 == health4 && status->health6 == health6;
  set_why(&e->why, why);
  if (!down || !quiet)
    e->hushed = false;
  else if (!e->down)
    e->hushed = true;
  e->down = down;
  status->health4 = (uint8_t)health4;
  status->health6 = (uint8_t)health6;
  if (!same || !quiet)
    judge_mark(judge, d);
}

/* The weight's place among all of the domain, or NULL. */
static int32_t *find_weight(struct judge_domain *d, const char *region_name, json_int_t level,
                            uint16_t endpoint) {
  size_t at = 0;
  for (uint32_t r = 0; r < d->steer->region_count; r++) {
    const struct steer_region *region = &d->steer->regions[r];
    bool here = (long)r == steer_region_find(d->steer, region_name);
    for (uint32_t l = 0; l < region->level_count; l++)
      for (uint32_t i = 0; i < region->levels[l].entry_count; i++, at++)
        if (here && level == (json_int_t)l + 1 && region->levels[l].entries[i].endpoint == endpoint)
          return &d->weights[at];
  }
  return NULL;
}

static void override_weight(struct judge_domain *d, const json_t *item, uint16_t endpoint,
                            json_int_t value) {
  const char *region = json_string_value(json_object_get(item, "region"));
  if (region == NULL || value < 0 || value > STEER_MAX_WEIGHT)
    return;
  if (d->weights == NULL) {
    d->weights = calloc(d->steer->entry_count + 1, sizeof *d->weights);
    for (size_t i = 0; d->weights != NULL && i < d->steer->entry_count; i++)
      d->weights[i] = -1;
  }
  if (d->weights == NULL)
    return;
  int32_t *weight =
      find_weight(d, region, json_integer_value(json_object_get(item, "level")), endpoint);
  if (weight != NULL)
    *weight = (int32_t)value;
}

static void override_status(struct judge_domain *d, const json_t *item, uint16_t endpoint,
                            json_int_t value, bool health) {
  json_int_t family = json_integer_value(json_object_get(item, "family"));
  if (value < 1 || value > 2)
    return;
  if (d->by_hand == NULL)
    d->by_hand = calloc(d->endpoint_count, sizeof *d->by_hand);
  if (d->by_hand == NULL)
    return;
  struct steer_status *status = &d->by_hand[endpoint];
  uint8_t forced = value == 1 ? HEALTH_UP : HEALTH_DOWN;
  if (!health)
    status->manual = value == 1 ? MANUAL_ENABLED : MANUAL_DISABLED;
  if (health && family != 6)
    status->health4 = forced;
  if (health && family != 4)
    status->health6 = forced;
}

struct judge_domain *judge_find(struct judge *judge, const char *name) {
  struct judge_domain *d = name != NULL ? map_get(&judge->by_name, name) : NULL;
  char key[NAME_MAX_TEXT + 2];
  if (d != NULL || name == NULL || strlen(name) >= NAME_MAX_TEXT)
    return d;
  snprintf(key, sizeof key, "%s.", name);
  return map_get(&judge->by_name, key);
}

static void override_one(struct judge *judge, const json_t *item) {
  const char *kind = json_string_value(json_object_get(item, "kind"));
  const char *name = json_string_value(json_object_get(item, "endpoint"));
  const json_t *value = json_object_get(item, "value");
  struct judge_domain *d = judge_find(judge, json_string_value(json_object_get(item, "domain")));
  long endpoint = d != NULL && name != NULL ? steer_endpoint_find(d->steer, name) : -1;
  if (kind == NULL || endpoint < 0 || !json_is_integer(value))
    return; /* of another build, or of a domain without alerts */
  if (strcmp(kind, "weight") == 0)
    override_weight(d, item, (uint16_t)endpoint, json_integer_value(value));
  else if (strcmp(kind, "status") == 0 || strcmp(kind, "health") == 0)
    override_status(d, item, (uint16_t)endpoint, json_integer_value(value), kind[0] == 'h');
  judge_mark(judge, d);
}

/* What is set by hand, from the list that was told last; the domains have none yet. */
static void apply_overrides(struct judge *judge) {
  size_t i;
  json_t *item;
  json_array_foreach(judge->overrides, i, item) {
    override_one(judge, item);
  }
}

void judge_overrides(struct judge *judge, const json_t *list) {
  for (size_t i = 0; i < judge->count; i++) {
    struct judge_domain *d = &judge->domains[i];
    if (d->by_hand == NULL && d->weights == NULL)
      continue;
    free(d->by_hand);
    free(d->weights);
    d->by_hand = NULL;
    d->weights = NULL;
    judge_mark(judge, d);
  }
  json_decref(judge->overrides);
  judge->overrides = json_deep_copy(list);
  apply_overrides(judge);
}

void judge_isolated(struct judge *judge, bool isolated, const struct moment *now) {
  char text[INCIDENT_SUMMARY];
  struct book_report report = {
      .name = {.kind = INCIDENT_ISOLATED, .region = judge->host},
      .news = "",
      .severity = SEVERITY_ERROR,
      .page = true,
      .summary = text,
  };
  if (isolated) {
    snprintf(text, sizeof text,
             "checker on %.200s is isolated: all of its checks fail at once; other alerts are held "
             "back until it is not",
             judge->host);
    judge->checker = book_set(judge->book, &report, &judge->isolated, now);
  } else if (judge->checker != NULL) {
    snprintf(text, sizeof text, "checker on %.200s is no longer isolated", judge->host);
    book_end(judge->book, judge->checker, text, &judge->isolated, now);
  }
  book_hold(judge->book, isolated, now);
}

void judge_forget(struct judge *judge, struct incident *incident) {
  if (incident == judge->checker)
    judge->checker = NULL;
  if (incident->domain == NULL)
    return;
  struct judge_domain *d = judge_find(judge, incident->domain);
  for (struct incident **at = d != NULL ? &d->incidents : NULL; at != NULL && *at != NULL;
       at = &(*at)->sibling)
    if (*at == incident) {
      *at = incident->sibling;
      return;
    }
}

/* ---- a new list ------------------------------------------------------------------------------
 */

bool judge_configure(struct judge *judge, const json_t *routes, const struct alerts_domain *domains,
                     size_t count, const struct moment *now, char *why) {
  struct judge_domain *made = calloc(count + 1, sizeof *made);
  uint32_t *dirty = calloc(count + 1, sizeof *dirty);
  struct map by_name = {0};
  struct book_policy isolated = {0};
  snprintf(why, JUDGE_WHY, out_of_memory);
  bool ok = made != NULL && dirty != NULL;
  book_routes_begin(judge->book);
  for (size_t i = 0; ok && i < count; i++)
    ok = make_domain(judge, routes, &domains[i], &made[i], why) &&
         (made[i].steer == NULL || map_put(&by_name, made[i].key, &made[i]));
  ok = ok && collect_routes(&isolated, made, count);
  if (!ok) {
    close_domains(made, count);
    map_close(&by_name);
    free(dirty);
    return false;
  }
  inherit_all(judge, made, count);
  close_domains(judge->domains, judge->count);
  map_close(&judge->by_name);
  free(judge->isolated.routes);
  free(judge->dirty);
  judge->domains = made;
  judge->count = count;
  judge->by_name = by_name;
  judge->isolated = isolated;
  judge->dirty = dirty;
  judge->dirty_first = judge->dirty_count = 0;
  book_routes_end(judge->book);
  attach(judge, now);
  apply_overrides(judge);
  for (size_t i = 0; i < count; i++)
    judge_mark(judge, &judge->domains[i]);
  return true;
}
