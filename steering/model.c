/* SPDX-License-Identifier: Apache-2.0 */
#include "steering/model.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "steering/atom.h"

static void region_close(struct steer_region *region) {
  for (uint32_t i = 0; region->levels && i < region->level_count; i++)
    free(region->levels[i].entries);
  free(region->levels);
  free(region->atoms);
  free(region->name);
}

void steer_domain_free(struct steer_domain *domain) {
  if (!domain)
    return;
  for (uint32_t i = 0; domain->endpoints && i < domain->endpoint_count; i++) {
    struct steer_endpoint *e = &domain->endpoints[i];
    free(e->name);
    free(e->addr4);
    free(e->addr6);
    free(e->host);
  }
  for (uint32_t i = 0; domain->regions && i < domain->region_count; i++)
    region_close(&domain->regions[i]);
  free(domain->endpoints);
  free(domain->regions);
  free(domain->owner);
  free(domain);
}

long steer_endpoint_find(const struct steer_domain *domain, const char *name) {
  for (uint32_t i = 0; i < domain->endpoint_count; i++)
    if (strcmp(domain->endpoints[i].name, name) == 0)
      return (long)i;
  return -1;
}

long steer_region_find(const struct steer_domain *domain, const char *name) {
  for (uint32_t i = 0; i < domain->region_count; i++)
    if (strcasecmp(domain->regions[i].name, name) == 0)
      return (long)i;
  return -1;
}

bool steer_endpoint_has(const struct steer_endpoint *endpoint, enum steer_type type) {
  switch (type) {
  case STEER_A:
    return endpoint->addr4_count > 0;
  case STEER_AAAA:
    return endpoint->addr6_count > 0;
  default:
    return endpoint->host != NULL;
  }
}

/* Each check returns the static text of what is wrong, or NULL. */
static const char *check_endpoints(const struct steer_domain *d) {
  if (d->endpoint_count == 0 || d->endpoint_count > STEER_MAX_ENDPOINTS || !d->endpoints)
    return "a domain needs 1 to 65535 endpoints";
  bool has[STEER_TYPES] = {false, false, false};
  for (uint32_t i = 0; i < d->endpoint_count; i++) {
    const struct steer_endpoint *e = &d->endpoints[i];
    if (!e->name || !e->name[0])
      return "an endpoint has no name";
    if ((e->addr4_count && !e->addr4) || (e->addr6_count && !e->addr6))
      return "an endpoint's addresses are missing";
    bool addresses = e->addr4_count > 0 || e->addr6_count > 0;
    if (addresses == (e->host != NULL))
      return "an endpoint needs either addresses or a host name";
    for (int t = 0; t < STEER_TYPES; t++)
      has[t] = has[t] || steer_endpoint_has(e, (enum steer_type)t);
  }
  if (has[STEER_CNAME] && (has[STEER_A] || has[STEER_AAAA]))
    return "a domain is all addresses or all host names";
  if (!d->offers[STEER_A] && !d->offers[STEER_AAAA] && !d->offers[STEER_CNAME])
    return "a domain offers no type";
  for (int t = 0; t < STEER_TYPES; t++)
    if (d->offers[t] && !has[t])
      return "a domain offers a type that no endpoint has";
  return NULL;
}

static bool code_ends(const char code[8], size_t len) {
  for (size_t i = 0; i < len; i++)
    if (code[i] == '\0')
      return false;
  return code[len] == '\0';
}

static const char *check_net(const struct steer_atom *a) {
  if (a->net_family != 4 && a->net_family != 6)
    return "a net atom has no address family";
  if (a->net_bits > (a->net_family == 4 ? 32 : 128))
    return "a net atom's prefix is too long";
  for (unsigned bit = a->net_bits; bit < 128; bit++)
    if (a->net[bit / 8] & (0x80 >> (bit % 8)))
      return "a net atom has host bits set";
  return NULL;
}

static const char *check_atom(const struct steer_atom *a) {
  switch (a->kind) {
  case ATOM_GLOBAL:
    return NULL;
  case ATOM_CONTINENT:
  case ATOM_COUNTRY:
    return code_ends(a->code, 2) ? NULL : "an atom's code does not have two letters";
  case ATOM_SUBDIVISION:
    if (a->code[7] != '\0' || strlen(a->code) < 4 || strlen(a->code) > 6 || a->code[2] != '-')
      return "a subdivision atom is malformed";
    return NULL;
  case ATOM_ASN:
    return a->asn ? NULL : "an AS number is 0";
  case ATOM_NET:
    return check_net(a);
  }
  return "an atom is of an unknown kind";
}

/* An atom and where it came from, to find the same atom in two regions. */
struct owned_atom {
  const struct steer_atom *atom;
  uint32_t region;
};

static int atom_order(const struct steer_atom *a, const struct steer_atom *b) {
  if (a->kind != b->kind)
    return a->kind < b->kind ? -1 : 1;
  if (a->kind == ATOM_ASN)
    return a->asn < b->asn ? -1 : a->asn > b->asn;
  if (a->kind != ATOM_NET)
    return a->kind == ATOM_GLOBAL ? 0 : strcmp(a->code, b->code);
  if (a->net_family != b->net_family)
    return (int)a->net_family - (int)b->net_family;
  if (a->net_bits != b->net_bits)
    return (int)a->net_bits - (int)b->net_bits;
  return memcmp(a->net, b->net, sizeof a->net);
}

static int owned_atom_order(const void *a, const void *b) {
  const struct owned_atom *x = a, *y = b;
  int order = atom_order(x->atom, y->atom);
  if (order)
    return order;
  return x->region < y->region ? -1 : x->region > y->region;
}

static const char *check_atoms(const struct steer_domain *d) {
  size_t count = 0;
  bool global = false;
  for (uint32_t r = 0; r < d->region_count; r++) {
    const struct steer_region *region = &d->regions[r];
    if (region->atom_count == 0 || !region->atoms)
      return "a region has no atoms";
    count += region->atom_count;
    for (uint32_t i = 0; i < region->atom_count; i++) {
      const char *why = check_atom(&region->atoms[i]);
      if (why)
        return why;
      global = global || region->atoms[i].kind == ATOM_GLOBAL;
    }
  }
  if (!global)
    return "there is no global region";

  struct owned_atom *all = calloc(count, sizeof *all);
  if (!all)
    return "out of memory";
  size_t n = 0;
  for (uint32_t r = 0; r < d->region_count; r++)
    for (uint32_t i = 0; i < d->regions[r].atom_count; i++)
      all[n++] = (struct owned_atom){&d->regions[r].atoms[i], r};
  qsort(all, count, sizeof *all, owned_atom_order);
  const char *why = NULL;
  for (size_t i = 1; i < count && !why; i++)
    if (all[i].region != all[i - 1].region && steer_atom_equal(all[i].atom, all[i - 1].atom))
      why = "the same atom is in two regions";
  free(all);
  return why;
}

/* `seen` has a slot for each endpoint: the number of the last level that named it. */
static const char *check_level(const struct steer_domain *d, const struct steer_level *level,
                               uint32_t stamp, uint32_t *seen) {
  if (level->entry_count == 0 || !level->entries)
    return "a level is empty";
  bool has[STEER_TYPES] = {false, false, false};
  for (uint32_t i = 0; i < level->entry_count; i++) {
    uint16_t index = level->entries[i].endpoint;
    if (index >= d->endpoint_count)
      return "a level names an endpoint that does not exist";
    if (seen[index] == stamp)
      return "a level names an endpoint twice";
    seen[index] = stamp;
    for (int t = 0; t < STEER_TYPES; t++)
      has[t] = has[t] || steer_endpoint_has(&d->endpoints[index], (enum steer_type)t);
  }
  for (int t = 0; t < STEER_TYPES; t++)
    if (d->offers[t] && !has[t])
      return "a level has no endpoint for a type that the domain offers";
  return NULL;
}

static const char *check_levels(const struct steer_domain *d) {
  uint32_t *seen = calloc(d->endpoint_count, sizeof *seen);
  if (!seen)
    return "out of memory";
  const char *why = NULL;
  uint32_t stamp = 0;
  uint64_t entries = 0;
  for (uint32_t r = 0; r < d->region_count && !why; r++) {
    const struct steer_region *region = &d->regions[r];
    if (region->level_count == 0 || region->level_count > UINT16_MAX || !region->levels)
      why = "a region needs 1 to 65535 levels";
    for (uint32_t l = 0; l < region->level_count && !why; l++) {
      why = check_level(d, &region->levels[l], ++stamp, seen);
      entries += region->levels[l].entry_count;
    }
  }
  free(seen);
  if (!why && entries != d->entry_count)
    why = "the count of entries is wrong";
  return why;
}

static const char *check_options(const struct steer_domain *d) {
  if (!d->owner)
    return "a domain has no owner name";
  if (d->ttl > INT32_MAX)
    return "the TTL is above 2147483647";
  if (d->answers < 1 || d->answers > STEER_MAX_ANSWERS)
    return "answers is not in 1..16";
  if (d->offers[STEER_CNAME] && d->answers > 1)
    return "a domain of host names gives one answer";
  if (d->draw_per != DRAW_PER_QUERY && d->draw_per != DRAW_PER_SUBNET)
    return "draw_per is unknown";
  if (d->region_count == 0 || d->region_count > UINT16_MAX || !d->regions)
    return "a domain needs 1 to 65535 regions";
  for (uint32_t r = 0; r < d->region_count; r++)
    if (!d->regions[r].name || !d->regions[r].name[0])
      return "a region has no name";
  return NULL;
}

bool steer_domain_validate(const struct steer_domain *domain, const char **why) {
  *why = check_options(domain);
  if (!*why)
    *why = check_endpoints(domain);
  if (!*why)
    *why = check_atoms(domain);
  if (!*why)
    *why = check_levels(domain);
  return *why == NULL;
}
