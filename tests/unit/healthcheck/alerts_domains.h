/* SPDX-License-Identifier: Apache-2.0 */
/* Domains for fixture_configure(), as text. */
#ifndef SLUICE_TESTS_ALERTS_DOMAINS_H
#define SLUICE_TESTS_ALERTS_DOMAINS_H

/* Text of domains, with ' for ". */
#define ALL "'alerts':{'on':['endpoint','failover','all-down','recovered'],"
#define TO(page, routes) "'page':" page ",'to':[" routes "]}"
#define HEAD(name) "{'owner':'" name "','ttl':30,'answers':1,'draw_per':'query',"
#define ENDPOINT(name, address) "{'name':'" name "','enabled':true,'addresses':[" address "]}"
#define GLOBAL(levels) "'regions':[{'name':'global','atoms':['global'],'levels':[" levels "]}]"
#define E1 ENDPOINT("e1", "'192.0.2.1'")
#define E2 ENDPOINT("e2", "'192.0.2.2'")
#define E3 ENDPOINT("e3", "'192.0.2.3'")

/* Two levels, p1 and p2. */
#define P1 ENDPOINT("p1", "'192.0.2.1'")
#define P2 ENDPOINT("p2", "'192.0.2.2'")
#define P1_THEN_P2 GLOBAL("[['p1',1]],[['p2',1]]")
#define TWO(name, alerts)                                                                          \
  HEAD(name) "'types':['A'],'endpoints':[" P1 "," P2 "]," P1_THEN_P2 "," alerts "}"

#define EVERYTHING "'endpoint','failover','all-down','recovered'"

/* Two domains of whose endpoints the pager hears. */
#define ENDPOINTS_ONLY "'alerts':{'on':['endpoint','recovered']," TO("false", "'pager'")
#define DOMAINS                                                                                    \
  "[" TWO("a.example.com.", ENDPOINTS_ONLY) "," TWO("b.example.com.", ENDPOINTS_ONLY) "]"

#endif
