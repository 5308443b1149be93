/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/default_answer.h"

#include <ldns/ldns.h>
#include <string.h>

#include "base/name.h"

struct visitor {
  const struct steer_domain *domain;
  const struct steer_level *level; /* level 1 of global */
  void (*visit)(void *arg, const struct model_rr *rr);
  void *arg;
};

static const struct steer_level *first_global_level(const struct steer_domain *d) {
  for (uint32_t r = 0; r < d->region_count; r++)
    for (uint32_t i = 0; i < d->regions[r].atom_count; i++)
      if (d->regions[r].atoms[i].kind == ATOM_GLOBAL)
        return &d->regions[r].levels[0];
  return NULL;
}

static uint32_t address_count(const struct steer_endpoint *e, uint16_t type) {
  return type == LDNS_RR_TYPE_A ? e->addr4_count : e->addr6_count;
}

static const uint8_t *address(const struct steer_endpoint *e, uint16_t type, uint32_t i) {
  return type == LDNS_RR_TYPE_A ? e->addr4[i] : e->addr6[i];
}

static bool is_wanted(const struct visitor *v, const struct steer_entry *entry, bool all) {
  return all || (entry->weight > 0 && v->domain->endpoints[entry->endpoint].enabled);
}

/* True if an earlier entry or address gave the same record. */
static bool is_repeated(const struct visitor *v, uint16_t type, bool all, uint32_t entry,
                        uint32_t at, size_t size) {
  const struct steer_endpoint *mine = &v->domain->endpoints[v->level->entries[entry].endpoint];
  const uint8_t *octets = address(mine, type, at);
  for (uint32_t i = 0; i <= entry; i++) {
    if (!is_wanted(v, &v->level->entries[i], all))
      continue;
    const struct steer_endpoint *e = &v->domain->endpoints[v->level->entries[i].endpoint];
    uint32_t end = i == entry ? at : address_count(e, type);
    for (uint32_t k = 0; k < end; k++)
      if (memcmp(address(e, type, k), octets, size) == 0)
        return true;
  }
  return false;
}

static bool visit_addresses(const struct visitor *v, uint16_t type, bool all) {
  uint16_t size = type == LDNS_RR_TYPE_A ? 4 : 16;
  bool any = false;
  for (uint32_t i = 0; i < v->level->entry_count; i++) {
    if (!is_wanted(v, &v->level->entries[i], all))
      continue;
    const struct steer_endpoint *e = &v->domain->endpoints[v->level->entries[i].endpoint];
    for (uint32_t k = 0; k < address_count(e, type); k++) {
      any = true;
      if (is_repeated(v, type, all, i, k, size))
        continue;
      struct model_rr rr = {
          .owner = v->domain->owner,
          .rdata = (uint8_t *)(uintptr_t)address(e, type, k),
          .rdata_len = size,
          .type = type,
          .ttl = v->domain->ttl,
      };
      v->visit(v->arg, &rr);
    }
  }
  return any;
}

static bool visit_host(const struct visitor *v, bool all) {
  const struct steer_entry *best = NULL;
  for (uint32_t i = 0; i < v->level->entry_count; i++) {
    const struct steer_entry *entry = &v->level->entries[i];
    if (is_wanted(v, entry, all) && (!best || entry->weight > best->weight))
      best = entry;
  }
  if (!best)
    return false;
  uint8_t *host = v->domain->endpoints[best->endpoint].host;
  struct model_rr rr = {
      .owner = v->domain->owner,
      .rdata = host,
      .rdata_len = (uint16_t)name_wire_len(host, NAME_MAX_WIRE),
      .type = LDNS_RR_TYPE_CNAME,
      .ttl = v->domain->ttl,
  };
  v->visit(v->arg, &rr);
  return true;
}

void default_answer(const struct steer_domain *domain,
                    void (*visit)(void *arg, const struct model_rr *rr), void *arg) {
  struct visitor v = {domain, first_global_level(domain), visit, arg};
  if (!v.level)
    return;
  if (domain->offers[STEER_CNAME]) {
    if (!visit_host(&v, false))
      visit_host(&v, true);
    return;
  }
  static const uint16_t types[] = {LDNS_RR_TYPE_A, LDNS_RR_TYPE_AAAA};
  for (int t = 0; t < 2; t++)
    if (domain->offers[t] && !visit_addresses(&v, types[t], false))
      visit_addresses(&v, types[t], true);
}
