/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "zones/domain_json.h"

static const char addresses[] =
    "{'owner': 'cdn.tm.example.com.', 'ttl': 30, 'answers': 2, 'draw_per': 'subnet',"
    " 'types': ['A', 'AAAA'], 'endpoints': ["
    "{'name': 'central-4', 'enabled': true, 'addresses': ['192.0.2.4', '2001:db8::4']},"
    "{'name': 'central-5', 'enabled': false, 'addresses': ['192.0.2.5', '192.0.2.6',"
    " '2001:db8::5']}],"
    " 'regions': [{'name': 'global', 'atoms': ['global'],"
    "  'levels': [[['central-4', 100], ['central-5', 0]], [['central-5', 65535]]]},"
    " {'name': 'Canada', 'atoms': ['country:ca', 'net:192.0.2.0/24', 'subdivision:us-ny',"
    "  'asn:64500', 'net:2001:db8::/32', 'continent:eu'], 'levels': [[['central-5', 1]]]}]}";

static const char hosts[] =
    "{'owner': '*.tm.example.com.', 'ttl': 0, 'answers': 1, 'draw_per': 'query',"
    " 'types': ['CNAME'], 'endpoints': [{'name': 'one', 'enabled': true, 'host': 'a.example.'}],"
    " 'regions': [{'name': 'global', 'atoms': ['global'], 'levels': [[['one', 0]]]}]}";

static json_t *parse(const char *text) {
  char *copy = strdup(text);
  for (char *c = copy; *c; c++)
    if (*c == '\'')
      *c = '"';
  json_error_t error;
  json_t *json = json_loads(copy, 0, &error);
  cr_assert(json, "%s: %s", error.text, copy);
  free(copy);
  return json;
}

static void round_trip(const char *text) {
  char why[DOMAIN_JSON_WHY] = "";
  json_t *json = parse(text);
  struct steer_domain *domain = domain_json_decode(json, why);
  cr_assert(domain, "%s", why);
  json_t *again = domain_json_encode(domain);
  cr_expect(json_equal(json, again));
  json_decref(again);
  json_decref(json);
  steer_domain_free(domain);
}

Test(domain_json, round_trips) {
  round_trip(addresses);
  round_trip(hosts);
}

Test(domain_json, what_is_in_the_domain) {
  char why[DOMAIN_JSON_WHY] = "";
  json_t *json = parse(addresses);
  json_object_set_new(json, "owner", json_string("CDN.tm.example.com"));
  json_object_set_new(json, "later", json_string("unknown keys are ignored"));
  struct steer_domain *d = domain_json_decode(json, why);
  cr_assert(d, "%s", why);
  cr_expect_arr_eq(d->owner, "\3cdn\2tm\7example\3com", 20);
  cr_expect(d->offers[STEER_A] && d->offers[STEER_AAAA] && !d->offers[STEER_CNAME]);
  cr_expect_eq(d->answers, 2);
  cr_expect_eq(d->draw_per, DRAW_PER_SUBNET);
  cr_assert_eq(d->endpoint_count, 2);
  cr_expect_eq(d->endpoints[1].addr4_count, 2);
  cr_expect(!d->endpoints[1].enabled);
  cr_assert_eq(d->region_count, 2);
  cr_expect_eq(d->entry_count, 4);
  cr_expect_eq(d->regions[0].levels[1].entries[0].weight, 65535);
  cr_expect_eq(d->regions[1].atoms[3].asn, 64500);
  json_decref(json);
  steer_domain_free(d);
}

/* What to put into the place of what, and a word of the message. */
static const struct {
  const char *from, *to, *why;
} wrong[] = {
    {"'owner': 'cdn.tm.example.com.'", "'owner': 'a..b'", "owner"},
    {"'owner': 'cdn.tm.example.com.'", "'owner': 7", "owner"},
    {"'owner': 'cdn.tm.example.com.',", "", "owner"},
    {"'ttl': 30", "'ttl': 2147483648", "ttl"},
    {"'ttl': 30", "'ttl': -1", "ttl"},
    {"'ttl': 30", "'ttl': '30'", "ttl"},
    {"'answers': 2", "'answers': 0", "answers"},
    {"'answers': 2", "'answers': 17", "answers"},
    {"'subnet'", "'network'", "draw_per"},
    {"'subnet'", "null", "draw_per"},
    {"['A', 'AAAA']", "[]", "types"},
    {"['A', 'AAAA']", "'A'", "types"},
    {"['A', 'AAAA']", "['A', 'MX']", "types"},
    {"['A', 'AAAA']", "['A', 'CNAME']", "CNAME"},
    {"['A', 'AAAA']", "['CNAME']", "host names"},
    {"'central-4', 'enabled': true", "'', 'enabled': true", "name"},
    {"'central-4', 'enabled': true", "'a\\u001b[2J', 'enabled': true", "name"},
    {"'central-4', 'enabled': true", "'central-4', 'enabled': 1", "enabled"},
    {"'central-4', 'enabled': true", "'central-5', 'enabled': true", "twice"},
    {"'192.0.2.5'", "'192.0.2.500'", "address"},
    {"'192.0.2.5'", "false", "address"},
    {"['192.0.2.4', '2001:db8::4']", "[]", "addresses"},
    {"'addresses': ['192.0.2.4', '2001:db8::4']", "'host': 'a.example.'", "host names"},
    {"'addresses': ['192.0.2.4', '2001:db8::4']", "'host': ''", "host"},
    {"'addresses': ['192.0.2.4', '2001:db8::4']", "'other': 1", "addresses"},
    {"['central-4', 100]", "['central-6', 100]", "central-6"},
    {"['central-4', 100]", "['central-4', 65536]", "weight"},
    {"['central-4', 100]", "['central-4', -1]", "weight"},
    {"['central-4', 100]", "['central-4', 1.5]", "entry"},
    {"['central-4', 100]", "['central-4', 1, 1]", "entry"},
    {"['central-4', 100]", "'central-4'", "entry"},
    {"['central-4', 100]", "['central-5', 100]", "twice"},
    {"[['central-5', 65535]]", "[]", "level"},
    {"[['central-5', 65535]]", "{}", "level"},
    {"'atoms': ['global']", "'atoms': ['country:us']", "global"},
    {"'atoms': ['global']", "'atoms': []", "atoms"},
    {"'atoms': ['global']", "'atoms': ['global', 'country:ca']", "same atom"},
    {"'country:ca'", "'country:qq'", "atom"},
    {"'country:ca'", "'nowhere'", "atom"},
    {"'country:ca'", "42", "atom"},
    {"'net:192.0.2.0/24'", "'net:192.0.2.1/24'", "atom"},
    {"'name': 'Canada'", "'name': 'GLOBAL'", "twice"},
    {"'name': 'Canada'", "'name': 'a b'", "name"},
    {"'name': 'Canada',", "", "name"},
    {"'levels': [[['central-5', 1]]]", "'levels': []", "levels"},
};

Test(domain_json, refuses_what_is_wrong) {
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char text[4096];
    char why[DOMAIN_JSON_WHY] = "";
    const char *at = strstr(addresses, wrong[i].from);
    cr_assert(at, "%s", wrong[i].from);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - addresses), addresses, wrong[i].to,
             at + strlen(wrong[i].from));
    json_t *json = parse(text);
    struct steer_domain *domain = domain_json_decode(json, why);
    cr_expect(!domain, "taken: %s", wrong[i].to);
    cr_expect(strstr(why, wrong[i].why), "%s -> %s: %s", wrong[i].from, wrong[i].to, why);
    steer_domain_free(domain);
    json_decref(json);
  }
}

Test(domain_json, refuses_what_is_no_object) {
  static const char *const texts[] = {"[]", "{}", "[1]", "{'owner': null}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char why[DOMAIN_JSON_WHY] = "";
    json_t *json = parse(texts[i]);
    cr_expect(!domain_json_decode(json, why));
    cr_expect_neq(why[0], '\0');
    json_decref(json);
  }
  char why[DOMAIN_JSON_WHY] = "";
  cr_expect(!domain_json_decode(NULL, why));
}
