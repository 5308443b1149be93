/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three functions of the address are laid over each other: net atoms beat AS numbers, and these
 * beat the place (the order of fence.c).  Each is constant on ranges, so one sweep finds the
 * result.
 */
#include "steering/geo_runs.h"

#include <stdlib.h>
#include <string.h>

#include "steering/fence.h"

struct net {
  u128 first, last;
  uint32_t region;
};

struct asn {
  uint32_t asn;
  uint16_t region;
};

struct rules {
  const struct geo_db *db;
  const struct steer_domain *domain;
  uint16_t
      *of_location; /* index of a location -> region by subdivision, country, continent, global */
  struct asn *asns; /* sorted */
  size_t asn_count;
  struct geo_map nets4, nets6; /* address -> region + 1, 0 where no net is */
};

/* The region of a place, without its AS number and address. */
static void place_regions(struct rules *rules) {
  const struct steer_domain *d = rules->domain;
  for (uint32_t i = 0; i < rules->db->location_count; i++) {
    unsigned best = 0;
    for (uint32_t r = 0; r < d->region_count; r++) {
      for (uint32_t a = 0; a < d->regions[r].atom_count; a++) {
        const struct steer_atom *atom = &d->regions[r].atoms[a];
        if (atom->kind >= ATOM_ASN)
          continue;
        unsigned rank = fence_rank(atom, &rules->db->locations[i], NULL);
        if (rank <= best)
          continue;
        best = rank;
        rules->of_location[i] = (uint16_t)r;
      }
    }
  }
}

static size_t count_atoms(const struct steer_domain *d) {
  size_t count = 0;
  for (uint32_t r = 0; r < d->region_count; r++)
    count += d->regions[r].atom_count;
  return count;
}

static int asn_order(const void *a, const void *b) {
  const struct asn *x = a, *y = b;
  return x->asn < y->asn ? -1 : x->asn > y->asn;
}

static bool collect_asns(struct rules *rules) {
  const struct steer_domain *d = rules->domain;
  rules->asns = calloc(count_atoms(d), sizeof *rules->asns);
  if (!rules->asns)
    return false;
  for (uint32_t r = 0; r < d->region_count; r++) {
    for (uint32_t a = 0; a < d->regions[r].atom_count; a++) {
      const struct steer_atom *atom = &d->regions[r].atoms[a];
      if (atom->kind == ATOM_ASN)
        rules->asns[rules->asn_count++] = (struct asn){atom->asn, (uint16_t)r};
    }
  }
  qsort(rules->asns, rules->asn_count, sizeof *rules->asns, asn_order);
  return true;
}

static int net_order(const void *a, const void *b) {
  const struct net *x = a, *y = b;
  if (x->first != y->first)
    return x->first < y->first ? -1 : 1;
  return x->last > y->last ? -1 : x->last < y->last; /* the shorter prefix first */
}

static size_t collect_nets(const struct steer_domain *d, uint8_t family, struct net *out) {
  size_t count = 0;
  unsigned bits = family == 4 ? 32 : 128;
  for (uint32_t r = 0; r < d->region_count; r++) {
    for (uint32_t a = 0; a < d->regions[r].atom_count; a++) {
      const struct steer_atom *atom = &d->regions[r].atoms[a];
      if (atom->kind != ATOM_NET || atom->net_family != family)
        continue;
      struct geo_address address = {.family = family};
      memcpy(address.octets, atom->net, sizeof atom->net);
      u128 first = geo_address_number(&address);
      u128 size = atom->net_bits == 0 ? geo_last(bits) : geo_last(bits - atom->net_bits);
      out[count++] = (struct net){first, first + size, r};
    }
  }
  return count;
}

/* Ends the nets on the stack that end before `before` (all of them if `all`). */
static bool pop_nets(struct geo_map *map, const struct net **stack, size_t *depth, u128 before,
                     bool all) {
  while (*depth > 0 && (all || stack[*depth - 1]->last < before)) {
    const struct net *gone = stack[--*depth];
    if (gone->last == geo_last(map->bits))
      continue;
    uint32_t value = *depth > 0 ? stack[*depth - 1]->region + 1 : 0;
    if (!geo_map_add(map, gone->last + 1, value))
      return false;
  }
  return true;
}

/* Nets nest but never cross: a stack of those that are open gives the longest one at each place. */
static bool flatten_nets(const struct net *nets, size_t count, struct geo_map *map) {
  const struct net *stack[130]; /* prefixes of 0..128 bits, each strictly inside the one before */
  size_t depth = 0;
  bool ok = geo_map_add(map, 0, 0);
  for (size_t i = 0; ok && i < count; i++) {
    if (i > 0 && nets[i].first == nets[i - 1].first && nets[i].last == nets[i - 1].last)
      continue; /* the same atom twice in one region */
    ok = pop_nets(map, stack, &depth, nets[i].first, false) &&
         geo_map_add(map, nets[i].first, nets[i].region + 1);
    stack[depth++] = &nets[i];
  }
  return ok && pop_nets(map, stack, &depth, 0, true);
}

static bool build_nets(const struct steer_domain *d, uint8_t family, struct geo_map *map) {
  struct net *nets = calloc(count_atoms(d), sizeof *nets);
  if (!nets)
    return false;
  size_t count = collect_nets(d, family, nets);
  qsort(nets, count, sizeof *nets, net_order);
  bool ok = flatten_nets(nets, count, map);
  free(nets);
  return ok;
}

/* The region of an AS number, or -1. */
static int32_t asn_region(const struct rules *rules, uint32_t asn) {
  struct asn key = {.asn = asn};
  if (asn == 0 || rules->asn_count == 0)
    return -1;
  const struct asn *found = bsearch(&key, rules->asns, rules->asn_count, sizeof key, asn_order);
  return found ? found->region : -1;
}

static u128 lower(u128 a, u128 b) {
  return a < b ? a : b;
}

static bool sweep(const struct rules *rules, const struct geo_map *places,
                  const struct geo_map *asns, const struct geo_map *nets, struct geo_map *runs) {
  struct geo_cursor place, asn, net;
  geo_cursor_init(&place, places, &rules->db->place4);
  geo_cursor_init(&asn, asns, &rules->db->asn4);
  geo_cursor_init(&net, nets, NULL);
  int32_t by_asn = asn_region(rules, asn.value);
  const u128 last = geo_last(runs->bits);
  for (u128 start = 0;;) {
    uint32_t region = rules->of_location[place.value];
    if (net.value)
      region = net.value - 1;
    else if (by_asn >= 0)
      region = (uint32_t)by_asn;
    if (!geo_map_add(runs, start, region))
      return false;
    u128 end = lower(net.end, lower(asn.end, place.end));
    if (end == last)
      return true;
    start = end + 1;
    if (place.end == end)
      geo_cursor_next(&place);
    if (net.end == end)
      geo_cursor_next(&net);
    if (asn.end == end) {
      geo_cursor_next(&asn);
      by_asn = asn_region(rules, asn.value);
    }
  }
}

static bool build(struct rules *rules, struct geo_map *runs4, struct geo_map *runs6) {
  const struct geo_db *db = rules->db;
  rules->of_location = calloc(db->location_count, sizeof *rules->of_location);
  if (!rules->of_location || !collect_asns(rules) || !build_nets(rules->domain, 4, &rules->nets4) ||
      !build_nets(rules->domain, 6, &rules->nets6))
    return false;
  place_regions(rules);
  return sweep(rules, &db->place4, &db->asn4, &rules->nets4, runs4) &&
         sweep(rules, &db->place6, &db->asn6, &rules->nets6, runs6);
}

bool geo_runs_build(const struct geo_db *db, const struct steer_domain *domain,
                    struct geo_map *runs4, struct geo_map *runs6) {
  struct geo_db *none = NULL;
  char why[512];
  geo_map_init(runs4, 32);
  geo_map_init(runs6, 128);
  if (!db && !geo_db_load(NULL, NULL, &none, why))
    return false;
  struct rules rules = {.db = db ? db : none, .domain = domain};
  geo_map_init(&rules.nets4, 32);
  geo_map_init(&rules.nets6, 128);
  bool ok = build(&rules, runs4, runs6);
  free(rules.of_location);
  free(rules.asns);
  geo_map_close(&rules.nets4);
  geo_map_close(&rules.nets6);
  geo_db_free(none);
  return ok;
}
