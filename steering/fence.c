/* SPDX-License-Identifier: Apache-2.0 */
/* Layer 1 in plain form: the most specific atom that matches the client decides the region. */
#include <string.h>

#include "steering/fence.h"
#include "steering/layers.h"

/* Ranks of atoms that match, by rising specificity; nets add their length to the last. */
enum {
  RANK_NONE,
  RANK_GLOBAL,
  RANK_CONTINENT,
  RANK_COUNTRY,
  RANK_SUBDIVISION, /* the index of the subdivision level is added */
  RANK_ASN = RANK_SUBDIVISION + 2,
  RANK_NET,
};

static bool net_contains(const struct steer_atom *atom, const struct geo_address *address) {
  if (atom->net_family != address->family)
    return false;
  unsigned bytes = atom->net_bits / 8, rest = atom->net_bits % 8;
  if (memcmp(atom->net, address->octets, bytes) != 0)
    return false;
  return rest == 0 || ((atom->net[bytes] ^ address->octets[bytes]) >> (8 - rest)) == 0;
}

static unsigned subdivision_rank(const struct steer_atom *atom, const struct geo_location *at) {
  /* The second level is the more specific one: look there first. */
  for (unsigned i = at->subdivision_count; i-- > 0;)
    if (strcmp(atom->code, at->subdivisions[i]) == 0)
      return RANK_SUBDIVISION + i;
  return RANK_NONE;
}

unsigned fence_rank(const struct steer_atom *atom, const struct geo_location *location,
                    const struct geo_address *address) {
  switch (atom->kind) {
  case ATOM_GLOBAL:
    return RANK_GLOBAL;
  case ATOM_CONTINENT:
    return strcmp(atom->code, location->continent) == 0 ? RANK_CONTINENT : RANK_NONE;
  case ATOM_COUNTRY:
    return strcmp(atom->code, location->country) == 0 ? RANK_COUNTRY : RANK_NONE;
  case ATOM_SUBDIVISION:
    return subdivision_rank(atom, location);
  case ATOM_ASN:
    return location->asn && atom->asn == location->asn ? RANK_ASN : RANK_NONE;
  case ATOM_NET:
    return address && net_contains(atom, address) ? RANK_NET + (unsigned)atom->net_bits : RANK_NONE;
  }
  return RANK_NONE;
}

uint32_t fence_match(const struct steer_domain *domain, const struct geo_location *location,
                     const struct geo_address *address) {
  uint32_t best = 0;
  unsigned best_rank = RANK_NONE;
  for (uint32_t r = 0; r < domain->region_count; r++) {
    const struct steer_region *region = &domain->regions[r];
    for (uint32_t i = 0; i < region->atom_count; i++) {
      unsigned rank = fence_rank(&region->atoms[i], location, address);
      if (rank <= best_rank)
        continue;
      best_rank = rank;
      best = r;
    }
  }
  return best;
}
