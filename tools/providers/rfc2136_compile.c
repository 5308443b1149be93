/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The static answer of a steered domain at a server that knows no steering: level 1 of `global` by
 * the weights, statuses and (if pushed) health in force.  It is the default answer of a copy of the
 * domain in which these facts are its configuration.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steering/layers.h"
#include "tools/providers/rfc2136_private.h"

static const double ERROR_LEAST = 1e-9; /* below, it is rounding */

/* Level 1 of `global`, and the place of its first entry among all weights. */
struct top {
  const struct steer_level *level;
  uint32_t region, index;
};

static bool is_global(const struct steer_region *region) {
  for (uint32_t i = 0; i < region->atom_count; i++)
    if (region->atoms[i].kind == ATOM_GLOBAL)
      return true;
  return false;
}

static bool find_top(const struct steer_domain *d, struct top *top) {
  uint32_t at = 0;
  for (uint32_t r = 0; r < d->region_count; r++) {
    if (is_global(&d->regions[r]) && d->regions[r].level_count > 0) {
      *top = (struct top){&d->regions[r].levels[0], r, at};
      return true;
    }
    for (uint32_t l = 0; l < d->regions[r].level_count; l++)
      at += d->regions[r].levels[l].entry_count;
  }
  return false;
}

static bool is_enabled(const struct provider_domain *domain, uint32_t e) {
  const struct steer_status *status = domain->facts.status;
  if (status && status[e].manual != MANUAL_NONE)
    return status[e].manual == MANUAL_ENABLED;
  return domain->steer->endpoints[e].enabled;
}

static bool is_down(const struct provider_domain *domain, uint32_t e, enum steer_type type) {
  const struct steer_status *status = domain->facts.status;
  if (!status || !domain->pushed)
    return false;
  bool down4 = status[e].health4 == HEALTH_DOWN;
  bool down6 = status[e].health6 == HEALTH_DOWN;
  return type == STEER_A ? down4 : type == STEER_AAAA ? down6 : down4 && down6;
}

/* The copy; only what differs is its own. */
struct copy {
  struct steer_domain domain;
  struct steer_endpoint *endpoints;
  struct steer_region *regions;
  struct steer_level level;
};

static bool copy_open(struct copy *c, const struct provider_domain *domain, const struct top *top) {
  const struct steer_domain *d = domain->steer;
  c->domain = *d;
  c->endpoints = malloc((d->endpoint_count + 1) * sizeof *c->endpoints);
  c->regions = malloc((d->region_count + 1) * sizeof *c->regions);
  c->level = *top->level;
  c->level.entries = malloc((top->level->entry_count + 1) * sizeof *c->level.entries);
  if (!c->endpoints || !c->regions || !c->level.entries)
    return false;
  memcpy(c->endpoints, d->endpoints, d->endpoint_count * sizeof *c->endpoints);
  memcpy(c->regions, d->regions, d->region_count * sizeof *c->regions);
  for (uint32_t i = 0; i < top->level->entry_count; i++) {
    int32_t weight = domain->facts.weights ? domain->facts.weights[top->index + i] : -1;
    c->level.entries[i] = top->level->entries[i];
    if (weight >= 0)
      c->level.entries[i].weight = (uint16_t)weight;
  }
  c->domain.endpoints = c->endpoints;
  c->domain.regions = c->regions;
  c->regions[top->region].levels = &c->level;
  c->regions[top->region].level_count = 1;
  return true;
}

static void copy_close(struct copy *c) {
  free(c->endpoints);
  free(c->regions);
  free(c->level.entries);
}

/* Sets what is in the answer for one type: all that is up, or (never an empty set) as if all were.
 */
static void choose(struct copy *c, const struct provider_domain *domain, enum steer_type type) {
  bool any = false;
  for (uint32_t i = 0; i < c->level.entry_count; i++) {
    uint32_t e = c->level.entries[i].endpoint;
    any = any ||
          (c->level.entries[i].weight > 0 && is_enabled(domain, e) && !is_down(domain, e, type) &&
           steer_endpoint_has(&domain->steer->endpoints[e], type));
  }
  for (uint32_t e = 0; e < c->domain.endpoint_count; e++)
    c->endpoints[e].enabled = is_enabled(domain, e) && !(any && is_down(domain, e, type));
  for (int t = 0; t < STEER_TYPES; t++)
    c->domain.offers[t] = t == (int)type;
}

/* ---- fidelity ------------------------------------------------------------------------------- */

/* The addresses of an endpoint among the records; a host name is one, if it is the one. */
static uint32_t record_count(const struct copy *c, uint32_t entry, enum steer_type type) {
  const struct steer_entry *e = &c->level.entries[entry];
  const struct steer_endpoint *endpoint = &c->endpoints[e->endpoint];
  return type == STEER_A ? endpoint->addr4_count : type == STEER_AAAA ? endpoint->addr6_count : 1;
}

/* Which of the entries are in the answer: as zones/default_answer.h has it. */
static void mark_answered(const struct copy *c, enum steer_type type, bool *answered) {
  const struct steer_entry *entries = c->level.entries;
  uint32_t best = UINT32_MAX;
  bool any = false;
  for (uint32_t i = 0; i < c->level.entry_count; i++) {
    answered[i] = entries[i].weight > 0 && c->endpoints[entries[i].endpoint].enabled &&
                  steer_endpoint_has(&c->endpoints[entries[i].endpoint], type);
    any = any || answered[i];
  }
  for (uint32_t i = 0; !any && i < c->level.entry_count; i++)
    answered[i] = steer_endpoint_has(&c->endpoints[entries[i].endpoint], type);
  for (uint32_t i = 0; type == STEER_CNAME && i < c->level.entry_count; i++) {
    bool better = answered[i] && (best == UINT32_MAX || entries[i].weight > entries[best].weight);
    best = better ? i : best;
  }
  for (uint32_t i = 0; type == STEER_CNAME && i < c->level.entry_count; i++)
    answered[i] = i == best;
}

static double drawn_share(const struct draw_table *table, uint16_t endpoint) {
  for (uint16_t i = 0; i < table->count; i++)
    if (table->items[i].endpoint == endpoint)
      return (double)(table->items[i].up_to - (i ? table->items[i - 1].up_to : 0)) / table->total;
  return 0;
}

/* The shares of one type in `global`, as drawn and as static records give them. */
struct shares {
  const struct copy *copy;
  enum steer_type type;
  const bool *answered; /* of each entry of level 1 */
  double *drawn;        /* of each entry of level 1 */
  uint32_t total;       /* records of the entries that are answered, repeated ones counted twice */
  uint32_t different;   /* each once */
};

static const struct steer_endpoint *entry_endpoint(const struct shares *s, uint32_t entry) {
  return &s->copy->endpoints[s->copy->level.entries[entry].endpoint];
}

static const uint8_t *record_at(const struct shares *s, uint32_t entry, uint32_t i) {
  const struct steer_endpoint *e = entry_endpoint(s, entry);
  return s->type == STEER_A ? e->addr4[i] : e->addr6[i];
}

static bool holds(const struct shares *s, uint32_t entry, const uint8_t *record) {
  for (uint32_t i = 0; i < record_count(s->copy, entry, s->type); i++)
    if (memcmp(record_at(s, entry, i), record, s->type == STEER_A ? 4 : 16) == 0)
      return true;
  return false;
}

/* Whether no entry before has the record: endpoints may share addresses. */
static bool is_first(const struct shares *s, uint32_t entry, const uint8_t *record, bool answered) {
  for (uint32_t i = 0; i < entry; i++)
    if ((s->answered[i] || !answered) && holds(s, i, record))
      return false;
  return true;
}

static void count_records(struct shares *s) {
  for (uint32_t i = 0; i < s->copy->level.entry_count; i++) {
    uint32_t count = s->answered[i] ? record_count(s->copy, i, s->type) : 0;
    s->total += count;
    for (uint32_t k = 0; k < count; k++)
      s->different += s->type == STEER_CNAME || is_first(s, i, record_at(s, i, k), true);
  }
}

/* Of one address: whose endpoint is drawn gives each of its addresses the same part. */
static double record_error(const struct shares *s, const uint8_t *record) {
  double drawn = 0;
  bool given = false;
  for (uint32_t i = 0; i < s->copy->level.entry_count; i++) {
    if (!holds(s, i, record))
      continue;
    drawn += s->drawn[i] / record_count(s->copy, i, s->type);
    given = given || s->answered[i];
  }
  return fabs(drawn - (given ? 1.0 / s->different : 0));
}

/* The largest error of a share, of an endpoint or of one of its addresses. */
static double largest_error(const struct shares *s) {
  double most = 0;
  double in_level = 0;
  for (uint32_t i = 0; i < s->copy->level.entry_count; i++) {
    uint32_t count = record_count(s->copy, i, s->type);
    double given = s->answered[i] ? (double)count / s->total : 0;
    in_level += s->drawn[i];
    most = fmax(most, fabs(s->drawn[i] - given));
    for (uint32_t k = 0; s->type != STEER_CNAME && k < count; k++)
      if (is_first(s, i, record_at(s, i, k), false))
        most = fmax(most, record_error(s, record_at(s, i, k)));
  }
  return fmax(most, 1 - in_level); /* a share that another level has */
}

/* The largest error of a share for clients in `global`, who take any one of the addresses. */
static double share_error(const struct copy *c, const struct provider_domain *domain,
                          uint32_t region, enum steer_type type) {
  struct draw_table *table = draw_table_build(domain->steer, region, type, &domain->facts);
  bool *answered = calloc(c->level.entry_count + 1, sizeof *answered);
  double *drawn = calloc(c->level.entry_count + 1, sizeof *drawn);
  struct shares s = {.copy = c, .type = type, .answered = answered, .drawn = drawn};
  double error = 1; /* without memory: nothing is known */
  if (table && answered && drawn) {
    mark_answered(c, type, answered);
    for (uint32_t i = 0; i < c->level.entry_count; i++)
      drawn[i] = drawn_share(table, c->level.entries[i].endpoint);
    count_records(&s);
    error = largest_error(&s);
  }
  free(table);
  free(answered);
  free(drawn);
  return error;
}

static void grade(struct provider_fidelity *f, enum provider_layer layer, enum provider_grade value,
                  double error, const char *why) {
  f->grade[layer] = value;
  f->error[layer] = error;
  snprintf(f->why[layer], sizeof f->why[layer], "%s", why);
}

/* Checks of its own, or an endpoint that was said to be down. */
static bool has_health(const struct provider_domain *domain) {
  if (domain->health)
    return true;
  for (uint32_t e = 0; domain->facts.status && e < domain->steer->endpoint_count; e++)
    if (domain->facts.status[e].health4 == HEALTH_DOWN ||
        domain->facts.status[e].health6 == HEALTH_DOWN)
      return true;
  return false;
}

/* How many can be drawn in level 1, and whether their weights differ; with all weights 0 all can.
 */
static uint32_t count_drawn(const struct copy *c, bool *differ) {
  uint32_t used = 0;
  uint16_t weight = 0;
  *differ = false;
  for (uint32_t i = 0; i < c->level.entry_count; i++) {
    uint16_t w = c->level.entries[i].weight;
    if (w == 0)
      continue;
    *differ = *differ || (used > 0 && w != weight);
    weight = w;
    used++;
  }
  return used > 0 ? used : c->level.entry_count;
}

/* Only what the domain uses can be lost.  `error`: of shares as they are now. */
static void judge(const struct provider_domain *domain, const struct copy *c, double error,
                  struct provider_fidelity *f) {
  const struct steer_domain *d = domain->steer;
  bool differ;
  uint32_t used = count_drawn(c, &differ);
  bool levels = false;
  for (uint32_t r = 0; r < d->region_count; r++)
    levels = levels || d->regions[r].level_count > 1;
  memset(f, 0, sizeof *f);
  if (d->region_count > 1)
    grade(f, LAYER_GEO, FIDELITY_LOST, 1, "static records: every client gets those of `global`");
  if (has_health(domain) && domain->pushed)
    grade(f, LAYER_STATUS, FIDELITY_APPROX, used > 1 ? 1.0 / used : 1,
          "static records: an endpoint that goes down stays until the next sync, and the TTL");
  else if (domain->health)
    grade(f, LAYER_STATUS, FIDELITY_LOST, 1,
          "static records: endpoints that are down stay; set the provider's health: pushed");
  if (levels)
    grade(f, LAYER_PRIORITY, FIDELITY_LOST, 1,
          "static records: level 1 only, also while all of it is down");
  if (d->offers[STEER_CNAME] && used > 1)
    grade(f, LAYER_WEIGHT, FIDELITY_LOST, 1,
          "static records: only the host with the largest weight");
  else if (differ)
    grade(f, LAYER_WEIGHT, FIDELITY_LOST, 1,
          "static records: all endpoints of level 1 in one answer, with equal shares");
  else if (!levels && error > ERROR_LEAST)
    grade(f, LAYER_WEIGHT, FIDELITY_APPROX, error,
          "static records: all addresses of level 1 in one answer, each with the same share; those "
          "of endpoints that are off too where no other has a weight");
}

/* ---- the whole ------------------------------------------------------------------------------ */

bool rfc2136_compile(const struct provider_domain *domain, struct provider_objects *out,
                     struct provider_fidelity *fidelity) {
  struct top top;
  struct copy c = {0};
  memset(fidelity, 0, sizeof *fidelity);
  if (!find_top(domain->steer, &top))
    return true;
  double error = 0;
  bool ok = copy_open(&c, domain, &top);
  for (int t = 0; ok && t < STEER_TYPES; t++) {
    struct provider_fidelity ignored;
    struct provider_domain one = *domain;
    if (!domain->steer->offers[t])
      continue;
    choose(&c, domain, (enum steer_type)t);
    one.steer = &c.domain;
    ok = provider_compile_default(&one, out, &ignored);
    error = fmax(error, share_error(&c, domain, top.region, (enum steer_type)t));
  }
  if (ok)
    judge(domain, &c, error, fidelity);
  copy_close(&c);
  return ok;
}
