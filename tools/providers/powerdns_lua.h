/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A steered domain as LUA records of PowerDNS (4.7 or later): one for each offered type, in which
 * all four layers run.  The fence is a chain of conditions, the most specific first; inside of a
 * region the draw is among what layers 2 and 3 leave, computed here (pushed health) or in the
 * record (native).
 *
 * Not for use outside of tools/providers/powerdns*.c.
 */
#ifndef SLUICE_TOOLS_PROVIDERS_POWERDNS_LUA_H
#define SLUICE_TOOLS_PROVIDERS_POWERDNS_LUA_H

#include "base/buf.h"
#include "tools/providers/provider.h"

/* What is known of a server's settings (GET config); a server that does not tell has all. */
struct powerdns_server {
  bool known;
  bool lua;        /* enable-lua-records */
  bool subnet;     /* edns-subnet-processing */
  bool places;     /* the geoip backend with a database */
  bool as_numbers; /* more than one database, so perhaps one with AS numbers */
};

/* The call by which a LUA record checks health itself, or why it cannot. */
struct powerdns_probe {
  bool possible;
  char why[160];
  struct buf before, after; /* around the list of addresses, if possible */
};

/* Looks for one check that all endpoints share and that a LUA record can do. */
void powerdns_probe_find(const struct provider_domain *domain, struct powerdns_probe *probe);
void powerdns_probe_close(struct powerdns_probe *probe);

/* Appends the code for one type; `probe` is NULL unless the record is to check itself. */
void powerdns_lua_code(const struct provider_domain *domain, enum steer_type type,
                       const struct powerdns_probe *probe, struct buf *out);

/* What the record keeps of the domain: the document of zones/domain_json.h with weights and
 * `enabled` as in force, and "down": {"A": [endpoints], ...} if health is written into the record.
 * A new reference, or NULL without memory. */
json_t *powerdns_lua_model(const struct provider_domain *domain, bool pushed);

/* How faithful it is. */
void powerdns_lua_judge(const struct provider_domain *domain, const struct powerdns_server *server,
                        const struct powerdns_probe *probe, struct provider_fidelity *fidelity);

#endif
