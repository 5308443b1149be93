/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the four layers work on: one steered domain as the configuration describes it, and the facts
 * that change while it is served (status and weights).
 *
 * A `steer_domain` is made by the configuration reader or decoded from a zone image, and is
 * immutable afterwards; any number of threads may read it.  All memory of a domain belongs to it
 * and is freed by steer_domain_free().  Everything was validated before a domain exists: indexes
 * are in range, `global` is present, no level is empty.  (A decoder of untrusted bytes must
 * establish the same with steer_domain_validate().)
 */
#ifndef SLUICE_STEERING_MODEL_H
#define SLUICE_STEERING_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  STEER_MAX_ENDPOINTS = 65535,
  STEER_MAX_WEIGHT = 65535,
  STEER_MAX_ANSWERS = 16,
};

/* The query types that steering knows.  A domain of host names answers every type with a CNAME. */
enum steer_type { STEER_A, STEER_AAAA, STEER_CNAME };
enum { STEER_TYPES = 3 };

struct steer_endpoint {
  char *name;
  bool enabled;         /* `enabled:` of the configuration */
  uint32_t addr4_count; /* duplicates removed, order as written */
  uint32_t addr6_count;
  uint8_t (*addr4)[4];
  uint8_t (*addr6)[16];
  uint8_t *host; /* wire name in lower case, or NULL for an endpoint of addresses */
};

struct steer_entry {
  uint16_t endpoint; /* index into the domain's endpoints */
  uint16_t weight;
};

struct steer_level {
  uint32_t entry_count;
  struct steer_entry *entries;
};

/* Atoms in order of rising specificity (spec: net > asn > subdivision > country > continent >
 * global). The second subdivision level beats the first; which one a code is, the location tells.
 */
enum steer_atom_kind {
  ATOM_GLOBAL,
  ATOM_CONTINENT,
  ATOM_COUNTRY,
  ATOM_SUBDIVISION,
  ATOM_ASN,
  ATOM_NET,
};

struct steer_atom {
  enum steer_atom_kind kind;
  char code[8]; /* lower case, NUL-terminated: "eu", "ca", "ca-qc" */
  uint32_t asn;
  uint8_t net[16];    /* IPv4 nets in the first 4 octets; host bits are zero */
  uint8_t net_bits;   /* 0..32 or 0..128 */
  uint8_t net_family; /* 4 or 6 */
};

struct steer_region {
  char *name; /* as spelled in the configuration */
  uint32_t atom_count;
  struct steer_atom *atoms;
  uint32_t level_count;
  struct steer_level *levels; /* levels[0] is level 1 */
};

enum steer_draw_per { DRAW_PER_QUERY, DRAW_PER_SUBNET };

struct steer_domain {
  uint8_t *owner; /* wire name in lower case (a wildcard's is "*.…") */
  uint32_t ttl;
  bool offers[STEER_TYPES]; /* offered types; {A, AAAA} of the endpoints and `types:`, or CNAME
                               alone */
  uint8_t answers;          /* 1..STEER_MAX_ANSWERS */
  enum steer_draw_per draw_per;
  uint32_t endpoint_count;
  struct steer_endpoint *endpoints;
  uint32_t region_count;
  struct steer_region *regions; /* in the order of the configuration */
  uint32_t entry_count; /* of all levels of all regions, in order: the index space of weights */
};

/* Status of one endpoint, as known now.  `manual` wins over the configuration's `enabled:`. */
enum steer_manual { MANUAL_NONE, MANUAL_ENABLED, MANUAL_DISABLED };
enum steer_health { HEALTH_UNKNOWN, HEALTH_UP, HEALTH_DOWN }; /* unknown counts as up */

struct steer_status {
  uint8_t manual;  /* enum steer_manual */
  uint8_t health4; /* enum steer_health, for A */
  uint8_t health6; /* for AAAA; a host name is judged as down if both are */
};

/* The changing facts of a domain; NULL members mean "nothing known, nothing overridden". */
struct steer_facts {
  const struct steer_status *status; /* endpoint_count items, or NULL */
  const int32_t *weights;            /* entry_count items, -1 = the configuration's; or NULL */
};

/* True if the endpoint has what answers the type: addresses of the family, or for CNAME a host
 * name. */
bool steer_endpoint_has(const struct steer_endpoint *endpoint, enum steer_type type);

/* Frees a domain and all that it owns; NULL is allowed. */
void steer_domain_free(struct steer_domain *domain);

/* True if the invariants above hold; else false and *why says which does not (static text). */
bool steer_domain_validate(const struct steer_domain *domain, const char **why);

/* Index of an endpoint or region by name (endpoints exact, regions without case), or -1. */
long steer_endpoint_find(const struct steer_domain *domain, const char *name);
long steer_region_find(const struct steer_domain *domain, const char *name);

#endif
