/* SPDX-License-Identifier: Apache-2.0 */
/* `endpoints:` of a domain: addresses or host names. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zones/config_domain.h"
#include "zones/endpoint_address.h"
#include "zones/host_name.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { MAX_ADDRESSES = 2000 }; /* of one family: 28 octets each at most, in a message of 65535 */

bool domain_endpoint_has(const struct steer_endpoint *endpoint, enum steer_type type) {
  switch (type) {
  case STEER_A:
    return endpoint->addr4_count > 0;
  case STEER_AAAA:
    return endpoint->addr6_count > 0;
  case STEER_CNAME:
    return endpoint->host != NULL;
  }
  return false;
}

static bool add_address(struct domain_reading *d, struct steer_endpoint *e, const uint8_t *octets,
                        bool v6, const struct yaml_node *node) {
  size_t size = v6 ? 16 : 4;
  uint32_t *count = v6 ? &e->addr6_count : &e->addr4_count;
  uint8_t *list = v6 ? (uint8_t *)e->addr6 : (uint8_t *)e->addr4;
  char show[CONFIG_SHOW];
  for (uint32_t i = 0; i < *count; i++) {
    if (memcmp(list + i * size, octets, size) != 0)
      continue;
    config_warning(&d->file, node, "the address %s stands here twice; it is used once",
                   config_show(node, show));
    return true;
  }
  if (*count == MAX_ADDRESSES) {
    config_error(
        &d->file, node,
        "an endpoint may have at most %d addresses of a kind, as more would not fit into a "
        "DNS message; remove this and what follows",
        MAX_ADDRESSES);
    return false;
  }
  list = realloc(list, (*count + 1) * size);
  if (list == NULL)
    return config_no_memory(d->config);
  memcpy(list + *count * size, octets, size);
  ++*count;
  if (v6)
    e->addr6 = (uint8_t(*)[16])list;
  else
    e->addr4 = (uint8_t(*)[4])list;
  return true;
}

/* `[2001:db8::]` without quotes is a map to YAML: {"2001:db8:": nothing}. */
static bool is_mangled_ipv6(const struct yaml_node *node) {
  return node->kind == YAML_MAP && node->count >= 1 &&
         strchr(node->pairs[0].key->text, ':') != NULL && !node->pairs[0].key->quoted;
}

static bool not_an_address(struct domain_reading *d, const struct yaml_node *node) {
  char show[CONFIG_SHOW];
  if (is_mangled_ipv6(node)) {
    const char *key = node->pairs[0].key->text;
    config_error(&d->file, node,
                 "YAML reads `%.40s:` as a map here; write the address in quotes, as \"%.40s:\"",
                 key, key);
    return false;
  }
  bool url = node->kind == YAML_SCALAR && strstr(node->text, "://") != NULL;
  config_error(&d->file, node,
               "%s is not an address; write an IPv4 address such as 192.0.2.4 or an IPv6 address "
               "such as 2001:db8::4%s",
               config_show(node, show),
               url ? ", or a host name alone (path and port of checks stand under `health`)" : "");
  return false;
}

/* An address at which no endpoint can be is an error; that of an IPv4 address in IPv6 form says
 * what to write. */
static bool usable(struct domain_reading *d, const uint8_t *octets, bool v6,
                   const struct yaml_node *node) {
  char show[CONFIG_SHOW];
  const char *flaw = endpoint_address_flaw(octets, v6);
  if (flaw == NULL)
    return true;
  if (v6 && endpoint_address_is_mapped(octets) && endpoint_address_flaw(octets + 12, false) == NULL)
    config_error(&d->file, node,
                 "%s is %s, which no client can connect to; write %u.%u.%u.%u instead",
                 config_show(node, show), flaw, octets[12], octets[13], octets[14], octets[15]);
  else
    config_error(&d->file, node,
                 "%s is %s, where no endpoint can be; write the address that clients connect to",
                 config_show(node, show), flaw);
  return false;
}

static bool read_address(struct domain_reading *d, struct steer_endpoint *e,
                         const struct yaml_node *node) {
  uint8_t octets[16];
  if (node->kind != YAML_SCALAR)
    return not_an_address(d, node);
  bool v6 = inet_pton(AF_INET, node->text, octets) != 1;
  if (v6 && inet_pton(AF_INET6, node->text, octets) != 1)
    return not_an_address(d, node);
  return usable(d, octets, v6, node) && add_address(d, e, octets, v6, node);
}

static bool read_host(struct domain_reading *d, struct steer_endpoint *e,
                      const struct yaml_node *node) {
  uint8_t name[NAME_BUF];
  char show[CONFIG_SHOW];
  if (node->kind == YAML_SCALAR && strpbrk(node->text, "/*\\") != NULL) {
    config_error(
        &d->file, node,
        "%s is neither an address nor a host name; write it without a scheme, path, prefix "
        "length or pattern",
        config_show(node, show));
    return false;
  }
  if (!config_host(&d->file, node, "the endpoint", name))
    return false;
  if (name[0] == 0) {
    config_error(&d->file, node, "the root is no host; write a host name or an address");
    return false;
  }
  if (name_equal(name, d->steer->owner)) {
    config_error(&d->file, node,
                 "%s is this domain itself, which would answer with itself; name "
                 "another host",
                 config_show(node, show));
    return false;
  }
  uint8_t lower[NAME_BUF] = {0};
  size_t len = name_copy_lower(lower, name);
  e->host = calloc(1, len + NAME_PAD);
  if (e->host == NULL)
    return config_no_memory(d->config);
  memcpy(e->host, lower, len);
  return true;
}

/* An address, or a host name where `host_ok`. */
static bool read_target(struct domain_reading *d, struct steer_endpoint *e,
                        const struct yaml_node *node) {
  if (node->kind != YAML_SCALAR || host_name_is_address(node->text, node->len))
    return read_address(d, e, node);
  if (node->len == 0) {
    config_error(&d->file, node,
                 "an endpoint needs an address, a list of addresses or a host name");
    return false;
  }
  return read_host(d, e, node);
}

static bool read_list(struct domain_reading *d, struct steer_endpoint *e,
                      const struct yaml_node *node) {
  bool ok = true;
  if (node->count == 0) {
    config_error(&d->file, node, "an endpoint needs at least one address, this list is empty");
    return false;
  }
  for (size_t i = 0; i < node->count; i++) {
    const struct yaml_node *item = node->items[i];
    bool host =
        item->kind == YAML_SCALAR && item->len > 0 && !host_name_is_address(item->text, item->len);
    char show[CONFIG_SHOW];
    if (host && node->count == 1) {
      ok = read_host(d, e, item) && ok;
    } else if (host) {
      config_error(&d->file, item,
                   "%s is a host name; an endpoint has either addresses or one host name",
                   config_show(item, show));
      ok = false;
    } else {
      ok = read_address(d, e, item) && ok;
    }
    if (!ok && (e->addr4_count == MAX_ADDRESSES || e->addr6_count == MAX_ADDRESSES))
      break; /* said once */
  }
  return ok;
}

static bool read_map(struct domain_reading *d, struct steer_endpoint *e,
                     const struct yaml_node *key, const struct yaml_node *node) {
  static const char *const keys[] = {"addresses", "host", "enabled", "health"};
  bool ok = config_keys(&d->file, node, "an endpoint", keys, COUNT(keys));
  const struct yaml_node *addresses = yaml_get(node, "addresses");
  const struct yaml_node *host = yaml_get(node, "host");
  const struct yaml_node *enabled = yaml_get(node, "enabled");
  if (enabled != NULL)
    ok = config_bool(&d->file, enabled, "`enabled`", &e->enabled) && ok;
  if (addresses != NULL && host != NULL) {
    config_error(&d->file, yaml_get_key(node, "host"),
                 "an endpoint has either `addresses` or `host`, not both");
    return false;
  }
  if (host != NULL && host->kind == YAML_SCALAR && host_name_is_address(host->text, host->len)) {
    config_error(&d->file, host, "`host` is for a host name; write addresses under `addresses`");
    return false;
  }
  if (host != NULL)
    return read_host(d, e, host) && ok;
  if (addresses == NULL) {
    if (ok || yaml_get_key(node, "enabled") != NULL || yaml_get_key(node, "health") != NULL)
      config_error(&d->file, key, "the endpoint `%.63s` needs `addresses` (or `host`)", key->text);
    return false;
  }
  ok = (addresses->kind == YAML_LIST ? read_list(d, e, addresses) : read_target(d, e, addresses)) &&
       ok;
  return ok;
}

static bool read_endpoint(struct domain_reading *d, struct steer_endpoint *e,
                          const struct yaml_pair *pair) {
  bool ok = config_name(&d->file, pair->key, "the name of an endpoint");
  e->enabled = true;
  e->name = strdup(pair->key->text);
  if (e->name == NULL)
    return config_no_memory(d->config);
  if (pair->value->kind == YAML_LIST)
    return read_list(d, e, pair->value) && ok;
  if (pair->value->kind == YAML_SCALAR || (is_mangled_ipv6(pair->value)))
    return read_target(d, e, pair->value) && ok;
  return read_map(d, e, pair->key, pair->value) && ok;
}

/* A domain is all addresses or all host names. */
static bool check_mix(struct domain_reading *d) {
  const struct steer_domain *s = d->steer;
  for (uint32_t i = 1; i < s->endpoint_count; i++) {
    bool first = s->endpoints[0].host != NULL;
    bool host = s->endpoints[i].host != NULL;
    if (first == host)
      continue;
    config_error(&d->file, d->endpoint_keys[i],
                 "the endpoint `%s` has %s, but `%s` has %s; the endpoints of a domain must be all "
                 "addresses or all host names",
                 s->endpoints[i].name, host ? "a host name" : "addresses", s->endpoints[0].name,
                 host ? "addresses" : "a host name");
    return false;
  }
  return true;
}

static int compare_by_name(const void *va, const void *vb, void *arg) {
  const struct steer_domain *s = arg;
  return strcmp(s->endpoints[*(const uint16_t *)va].name, s->endpoints[*(const uint16_t *)vb].name);
}

/* Every level names endpoints: with thousands of them a search from the start would take minutes.
 */
static void index_names(struct domain_reading *d) {
  struct steer_domain *s = d->steer;
  d->by_name = calloc((size_t)s->endpoint_count + 1, sizeof *d->by_name);
  if (d->by_name == NULL) {
    config_no_memory(d->config);
    return;
  }
  bool whole = true; /* else memory ran out, which is said already */
  for (uint32_t i = 0; i < s->endpoint_count; i++) {
    whole = whole && s->endpoints[i].name != NULL;
    d->by_name[i] = (uint16_t)i;
  }
  if (!whole) {
    free(d->by_name);
    d->by_name = NULL;
    return;
  }
  qsort_r(d->by_name, s->endpoint_count, sizeof *d->by_name, compare_by_name, s);
}

long domain_find_endpoint(const struct domain_reading *d, const char *name) {
  const struct steer_domain *s = d->steer;
  size_t low = 0;
  size_t high = d->by_name != NULL ? s->endpoint_count : 0;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(s->endpoints[d->by_name[middle]].name, name);
    if (order == 0)
      return d->by_name[middle];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

void domain_read_endpoints(struct domain_reading *d, const struct yaml_node *key,
                           const struct yaml_node *node) {
  struct steer_domain *s = d->steer;
  if (!config_is_map(&d->file, node, "`endpoints`"))
    return;
  if (node->count == 0) {
    config_error(&d->file, key, "no endpoints; define at least one, as `central: 192.0.2.4`");
    return;
  }
  if (node->count > STEER_MAX_ENDPOINTS) {
    config_error(&d->file, key, "too many endpoints: at most %d", STEER_MAX_ENDPOINTS);
    return;
  }
  s->endpoints = calloc(node->count, sizeof *s->endpoints);
  d->endpoint_keys = calloc(node->count, sizeof *d->endpoint_keys);
  d->endpoint_health = calloc(node->count, sizeof *d->endpoint_health);
  if (s->endpoints == NULL || d->endpoint_keys == NULL || d->endpoint_health == NULL) {
    config_no_memory(d->config);
    return;
  }
  bool ok = true;
  for (size_t i = 0; i < node->count; i++) {
    const struct yaml_pair *pair = &node->pairs[i];
    struct steer_endpoint *e = &s->endpoints[s->endpoint_count++];
    d->endpoint_keys[i] = pair->key;
    if (pair->value->kind == YAML_MAP)
      d->endpoint_health[i] = yaml_get(pair->value, "health");
    ok = read_endpoint(d, e, pair) && ok;
  }
  index_names(d);
  d->endpoints_ok = ok && d->by_name != NULL && check_mix(d);
}
