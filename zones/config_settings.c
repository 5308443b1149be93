/* SPDX-License-Identifier: Apache-2.0 */
/* Alerts, providers, profiles and transfers: checked here, used by other programs. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "steering/atom.h"
#include "zones/config.h"
#include "zones/host_name.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum {
  MAX_PEERS = 1000,           /* of a list in `transfer`: more than that the server does not take */
  PROVIDER_TIMEOUT_MAX = 300, /* seconds */
};

/* The object if all was well, else NULL. */
static json_t *finish(json_t *json, bool ok) {
  if (ok && json != NULL)
    return json;
  json_decref(json);
  return NULL;
}

/* A list as written, or a single value as a list of one. */
static size_t list_count(const struct yaml_node *node) {
  return node->kind == YAML_LIST ? node->count : 1;
}

static const struct yaml_node *list_item(const struct yaml_node *node, size_t i) {
  return node->kind == YAML_LIST ? node->items[i] : node;
}

/* The keys of an object as candidates for hints; `words` holds `max`. */
static size_t object_keys(const json_t *object, const char **words, size_t max) {
  const char *key;
  json_t *value;
  size_t n = 0;
  json_object_foreach((json_t *)object, key, value) {
    if (n < max)
      words[n++] = key;
  }
  return n;
}

/* ---- weights and profiles ---------------------------------------------------------------------
 */

bool config_weight(const struct config_file *file, const struct yaml_pair *pair, uint32_t *weight) {
  char what[CONFIG_SHOW + 20];
  char show[CONFIG_SHOW];
  snprintf(what, sizeof what, "the weight of %s", config_show(pair->key, show));
  return config_number(file, pair->value, what, 0, STEER_MAX_WEIGHT, weight);
}

static const char *endpoint_hint(const struct config_file *file, const char *word,
                                 const json_t *known, char *hint) {
  size_t max = json_object_size(known);
  const char **words = calloc(max + 1, sizeof *words);
  hint[0] = '\0';
  if (words != NULL)
    config_hint(file, word, words, object_keys(known, words, max), hint);
  free(words);
  return hint;
}

static json_t *read_profile(const struct config_file *file, const struct yaml_node *node,
                            const json_t *known) {
  if (!config_is_map(file, node, "a profile"))
    return NULL;
  json_t *profile = json_object();
  bool ok = profile != NULL;
  if (node->count == 0) {
    config_error(file, node, "a profile must name at least one endpoint and its weight");
    ok = false;
  }
  for (size_t i = 0; i < node->count; i++) {
    const struct yaml_pair *pair = &node->pairs[i];
    uint32_t weight;
    char show[CONFIG_SHOW];
    if (known != NULL && json_object_get(known, pair->key->text) == NULL) {
      char hint[CONFIG_SHOW];
      config_error(file, pair->key,
                   "the profile names the unknown endpoint %s%s; define it under "
                   "`endpoints` or remove it",
                   config_show(pair->key, show), endpoint_hint(file, pair->key->text, known, hint));
      ok = false;
    } else if (!config_name(file, pair->key, "the name of an endpoint")) {
      ok = false;
    }
    if (!config_weight(file, pair, &weight))
      ok = false;
    else if (ok)
      ok = json_object_set_new(profile, pair->key->text, json_integer(weight)) == 0;
  }
  return finish(profile, ok);
}

json_t *config_profiles_read(const struct config_file *file, const struct yaml_node *node,
                             const json_t *known) {
  static const char *const built_in[] = {"only", "mostly", "even", "without", "shift"};
  if (!config_is_map(file, node, "`profiles`"))
    return NULL;
  json_t *profiles = json_object();
  bool ok = profiles != NULL;
  for (size_t i = 0; i < node->count; i++) {
    const struct yaml_pair *pair = &node->pairs[i];
    bool name_ok = config_name(file, pair->key, "the name of a profile");
    for (size_t b = 0; name_ok && b < COUNT(built_in); b++) {
      if (strcmp(pair->key->text, built_in[b]) != 0)
        continue;
      config_error(file, pair->key, "the profile `%s` is built in; choose another name",
                   built_in[b]);
      name_ok = false;
    }
    json_t *profile = read_profile(file, pair->value, known);
    ok = name_ok && profile != NULL && ok;
    if (ok)
      ok = json_object_set_new(profiles, pair->key->text, profile) == 0;
    else
      json_decref(profile);
  }
  return finish(profiles, ok);
}

/* ---- alerts -----------------------------------------------------------------------------------
 */

/* ASCII without spaces and control characters, as a request line needs it. */
static bool is_visible(const char *text) {
  for (; *text != '\0'; text++)
    if (*text <= ' ' || *text >= 0x7f)
      return false;
  return true;
}

static bool read_url(const struct config_file *file, const struct yaml_node *node, json_t *out) {
  char show[CONFIG_SHOW];
  if (node->kind == YAML_SCALAR && is_visible(node->text) &&
      ((strncmp(node->text, "https://", 8) == 0 && node->len > 8) ||
       (strncmp(node->text, "http://", 7) == 0 && node->len > 7)))
    return json_object_set_new(out, "url", json_string(node->text)) == 0;
  config_error(file, node,
               "`url` must be an address such as https://events.example.com/hook, this "
               "is %s",
               config_show(node, show));
  return false;
}

static bool read_secret(const struct config_file *file, const struct yaml_node *node, json_t *out) {
  return config_name(file, node, "`secret` (the name of a secret in the machine's settings)") &&
         json_object_set_new(out, "secret", json_string(node->text)) == 0;
}

enum { ROUTE_PAGERDUTY, ROUTE_SLACK, ROUTE_JSON };

/* What a format needs: PagerDuty a routing key, Slack an address that is itself a secret, JSON an
 * address or a secret that holds it. */
static bool check_route(const struct config_file *file, const struct yaml_node *name, int format,
                        bool has_secret, const struct yaml_node *url) {
  if (!has_secret && url == NULL)
    config_error(file, name, "an alert route needs `secret` or `url`");
  else if (format == ROUTE_PAGERDUTY && !has_secret)
    config_error(file, name,
                 "a pagerduty route needs `secret`, the name of its routing key in the machine's "
                 "settings");
  else if (format == ROUTE_SLACK && url != NULL)
    config_error(file, url,
                 "the address of a slack webhook is itself a secret: put it into the machine's "
                 "settings and name it with `secret`");
  else
    return true;
  return false;
}

static json_t *read_route(const struct config_file *file, const struct yaml_pair *pair) {
  const struct yaml_node *node = pair->value;
  static const char *const keys[] = {"format", "secret", "url"};
  static const char *const formats[] = {
      [ROUTE_PAGERDUTY] = "pagerduty", [ROUTE_SLACK] = "slack", [ROUTE_JSON] = "json"};
  bool ok = config_keys(file, node, "an alert route", keys, COUNT(keys));
  if (node->kind != YAML_MAP)
    return NULL;
  json_t *route = json_object();
  const struct yaml_node *format = yaml_get(node, "format");
  const struct yaml_node *secret = yaml_get(node, "secret");
  const struct yaml_node *url = yaml_get(node, "url");
  int kind = -1;
  if (format == NULL) {
    config_error(file, pair->key, "an alert route needs `format`: pagerduty, slack or json");
    ok = false;
  } else {
    kind = config_choice(file, format, "`format`", formats, COUNT(formats));
    ok = kind >= 0 && json_object_set_new(route, "format", json_string(formats[kind])) == 0 && ok;
  }
  ok = check_route(file, pair->key, kind, secret != NULL, url) && ok;
  if (secret != NULL)
    ok = read_secret(file, secret, route) && ok;
  if (url != NULL)
    ok = read_url(file, url, route) && ok;
  return finish(route, ok);
}

/* A faulty entry stays as an empty object, so that whoever refers to it is not blamed. */
static bool keep(json_t *list, const char *name, json_t *entry) {
  bool ok = entry != NULL;
  return json_object_set_new(list, name, ok ? entry : json_object()) == 0 && ok;
}

bool config_alert_routes(const struct config_file *file, const struct yaml_node *node,
                         json_t *routes) {
  if (!config_is_map(file, node, "`alerts`"))
    return false;
  bool ok = true;
  for (size_t i = 0; i < node->count; i++) {
    bool name_ok = config_name(file, node->pairs[i].key, "the name of an alert route");
    json_t *route = read_route(file, &node->pairs[i]);
    ok = keep(routes, node->pairs[i].key->text, route) && name_ok && ok;
  }
  return ok;
}

static json_t *read_words(const struct config_file *file, const struct yaml_node *node,
                          const char *what, const char *const *words, size_t count) {
  json_t *list = json_array();
  bool ok = list != NULL;
  if (list_count(node) == 0) {
    config_error(file, node, "%s must not be an empty list; remove it or name at least one", what);
    ok = false;
  }
  for (size_t i = 0; i < list_count(node); i++) {
    int w = config_choice(file, list_item(node, i), what, words, count);
    ok = w >= 0 && json_array_append_new(list, json_string(words[w])) == 0 && ok;
  }
  return finish(list, ok);
}

/* Names that must be keys of `defined`, as a list without repetition. */
static json_t *read_references(const struct config_file *file, const struct yaml_node *node,
                               const char *what, const json_t *defined, const char *built_in) {
  const char *words[256];
  size_t count = object_keys(defined, words, COUNT(words) - 1);
  json_t *list = json_array();
  bool ok = list != NULL;
  if (built_in != NULL)
    words[count++] = built_in;
  if (list_count(node) == 0) {
    config_error(file, node, "an empty list; name at least one %s, or remove the key", what);
    ok = false;
  }
  for (size_t i = 0; i < list_count(node); i++) {
    const struct yaml_node *item = list_item(node, i);
    char show[CONFIG_SHOW];
    char hint[CONFIG_SHOW];
    if (item->kind == YAML_SCALAR && (json_object_get(defined, item->text) != NULL ||
                                      (built_in != NULL && strcmp(built_in, item->text) == 0))) {
      ok = json_array_append_new(list, json_string(item->text)) == 0 && ok;
      continue;
    }
    if (item->kind == YAML_SCALAR)
      config_error(file, item, "the %s %s does not exist%s; define it in defaults.yaml", what,
                   config_show(item, show), config_hint(file, item->text, words, count, hint));
    else
      config_error(file, item, "the name of the %s must be a text, this is %s", what,
                   config_show(item, show));
    ok = false;
  }
  return finish(list, ok);
}

json_t *config_domain_alerts(const struct config *config, const struct config_file *file,
                             const struct yaml_node *key, const struct yaml_node *node) {
  static const char *const keys[] = {"on", "page", "to"};
  static const char *const events[] = {"endpoint", "failover", "all-down", "recovered"};
  bool ok = config_keys(file, node, "`alerts`", keys, COUNT(keys));
  if (node->kind != YAML_MAP)
    return NULL;
  const struct yaml_node *on = yaml_get(node, "on");
  const struct yaml_node *page = yaml_get(node, "page");
  const struct yaml_node *to = yaml_get(node, "to");
  bool flag = false;
  json_t *alerts = json_object();
  if (page != NULL)
    ok = config_bool(file, page, "`page`", &flag) && ok;
  ok = json_object_set_new(alerts, "page", json_boolean(flag)) == 0 && ok;
  json_t *list = on != NULL ? read_words(file, on, "`on`", events, COUNT(events))
                            : json_pack("[ssss]", events[0], events[1], events[2], events[3]);
  ok = list != NULL && json_object_set_new(alerts, "on", list) == 0 && ok;
  if (to == NULL) {
    config_error(file, key, "`alerts` needs `to`, the routes of defaults.yaml that get them");
    ok = false;
  } else {
    list = read_references(file, to, "alert route", config->defaults.alerts, NULL);
    ok = list != NULL && json_object_set_new(alerts, "to", list) == 0 && ok;
  }
  return finish(alerts, ok);
}

/* ---- providers --------------------------------------------------------------------------------
 */

static bool is_peer(const struct yaml_node *node, bool net);

static bool read_server(const struct config_file *file, const struct yaml_node *node,
                        json_t *provider) {
  char show[CONFIG_SHOW];
  if (is_peer(node, false))
    return json_object_set_new(provider, "address", json_string(node->text)) == 0;
  config_error(file, node,
               "`address` must be that of a name server, such as 192.0.2.53 or 192.0.2.53@5353, "
               "this is %s",
               config_show(node, show));
  return false;
}

/* The host names of its name servers, as they stand in NS records. */
static bool read_name_servers(const struct config_file *file, const struct yaml_node *node,
                              json_t *provider) {
  json_t *list = json_array();
  bool ok = list != NULL && list_count(node) > 0;
  if (!ok)
    config_error(file, node, "`ns` must be a list of name servers, as [ns1.example.com.]");
  for (size_t i = 0; i < list_count(node); i++) {
    uint8_t wire[NAME_BUF];
    uint8_t lower[NAME_BUF];
    char text[NAME_MAX_TEXT];
    if (!config_host(file, list_item(node, i), "`ns`", wire)) {
      ok = false;
      continue;
    }
    name_copy_lower(lower, wire);
    ok = json_array_append_new(list, json_string(name_to_text(text, lower))) == 0 && ok;
  }
  return json_object_set_new(provider, "ns", list) == 0 && ok;
}

/* Where its name servers are asked (`sluice sync verify`). */
static bool read_servers(const struct config_file *file, const struct yaml_node *node,
                         json_t *provider) {
  json_t *list = json_array();
  bool ok = list != NULL && list_count(node) > 0;
  if (!ok)
    config_error(file, node, "`servers` must be a list of name servers, as [192.0.2.53@5353]");
  for (size_t i = 0; i < list_count(node); i++) {
    const struct yaml_node *item = list_item(node, i);
    uint8_t wire[NAME_BUF];
    if (!is_peer(item, false) && !config_host(file, item, "`servers`", wire)) {
      ok = false;
      continue;
    }
    ok = json_array_append_new(list, json_string(item->text)) == 0 && ok;
  }
  return json_object_set_new(provider, "servers", list) == 0 && ok;
}

static json_t *read_provider(const struct config_file *file, const struct yaml_pair *pair) {
  const struct yaml_node *node = pair->value;
  static const char *const keys[] = {"type",   "url", "address", "secret",  "health",
                                     "marker", "ns",  "timeout", "servers", "feeds"};
  static const char *const types[] = {"powerdns", "route53", "ns1", "rfc2136"};
  static const char *const healths[] = {"pushed", "own", "none"};
  bool ok = config_keys(file, node, "a provider", keys, COUNT(keys));
  if (node->kind != YAML_MAP)
    return NULL;
  json_t *provider = json_object();
  const struct yaml_node *type = yaml_get(node, "type");
  const struct yaml_node *url = yaml_get(node, "url");
  const struct yaml_node *secret = yaml_get(node, "secret");
  const struct yaml_node *health = yaml_get(node, "health");
  const struct yaml_node *address = yaml_get(node, "address");
  const struct yaml_node *marker = yaml_get(node, "marker");
  const struct yaml_node *servers = yaml_get(node, "servers");
  const struct yaml_node *ns = yaml_get(node, "ns");
  const struct yaml_node *timeout = yaml_get(node, "timeout");
  const struct yaml_node *feeds = yaml_get(node, "feeds");
  uint64_t ms;
  bool feeds_on;
  if (type == NULL) {
    config_error(file, pair->key, "a provider needs `type`, such as powerdns or route53");
    ok = false;
  } else {
    int i = config_choice(file, type, "`type`", types, COUNT(types));
    ok = i >= 0 && json_object_set_new(provider, "type", json_string(types[i])) == 0 && ok;
  }
  if (address != NULL)
    ok = read_server(file, address, provider) && ok;
  if (ns != NULL)
    ok = read_name_servers(file, ns, provider) && ok;
  if (servers != NULL)
    ok = read_servers(file, servers, provider) && ok;
  if (marker != NULL)
    ok = config_name(file, marker, "`marker` (what marks records as ours)") &&
         json_object_set_new(provider, "marker", json_string(marker->text)) == 0 && ok;
  if (timeout != NULL)
    ok = config_milliseconds(file, timeout, "`timeout`", PROVIDER_TIMEOUT_MAX, &ms) &&
         json_object_set_new(provider, "timeout", json_integer((json_int_t)ms)) == 0 && ok;
  if (feeds != NULL)
    ok = config_bool(file, feeds, "`feeds`", &feeds_on) &&
         json_object_set_new(provider, "feeds", json_boolean(feeds_on)) == 0 && ok;
  if (url != NULL)
    ok = read_url(file, url, provider) && ok;
  if (secret != NULL)
    ok = read_secret(file, secret, provider) && ok;
  if (health != NULL) {
    int i = config_choice(file, health, "`health`", healths, COUNT(healths));
    ok = i >= 0 && json_object_set_new(provider, "health", json_string(healths[i])) == 0 && ok;
  }
  return finish(provider, ok);
}

bool config_provider_list(const struct config_file *file, const struct yaml_node *node,
                          json_t *providers) {
  if (!config_is_map(file, node, "`providers`"))
    return false;
  bool ok = true;
  for (size_t i = 0; i < node->count; i++) {
    const struct yaml_node *key = node->pairs[i].key;
    bool name_ok = config_name(file, key, "the name of a provider");
    if (name_ok && strcmp(key->text, "sluice") == 0) {
      config_error(file, key, "`sluice` is this server itself; choose another name");
      name_ok = false;
    }
    ok = keep(providers, key->text, read_provider(file, &node->pairs[i])) && name_ok && ok;
  }
  return ok;
}

json_t *config_zone_providers(const struct config *config, const struct config_file *file,
                              const struct yaml_node *node) {
  return read_references(file, node, "provider", config->defaults.providers, "sluice");
}

static json_t *read_provider_options(const struct config_file *file, const struct yaml_node *node) {
  static const char *const keys[] = {"allow_loss"};
  static const char *const layers[] = {"geo", "status", "priority", "weight"};
  bool ok = config_keys(file, node, "a provider's options", keys, COUNT(keys));
  if (node->kind != YAML_MAP)
    return NULL;
  json_t *options = json_object();
  const struct yaml_node *loss = yaml_get(node, "allow_loss");
  if (loss != NULL) {
    json_t *list = read_words(file, loss, "`allow_loss`", layers, COUNT(layers));
    ok = list != NULL && json_object_set_new(options, "allow_loss", list) == 0 && ok;
  }
  return finish(options, ok);
}

json_t *config_domain_providers(const struct config *config, const struct config_file *file,
                                const struct yaml_node *node) {
  const char *words[256];
  size_t count = object_keys(config->defaults.providers, words, COUNT(words));
  if (!config_is_map(file, node, "`providers`"))
    return NULL;
  json_t *providers = json_object();
  bool ok = providers != NULL;
  for (size_t i = 0; i < node->count; i++) {
    const struct yaml_node *key = node->pairs[i].key;
    char show[CONFIG_SHOW];
    char hint[CONFIG_SHOW];
    bool known = json_object_get(config->defaults.providers, key->text) != NULL;
    if (!known)
      config_error(file, key, "the provider %s does not exist%s; define it in defaults.yaml",
                   config_show(key, show), config_hint(file, key->text, words, count, hint));
    json_t *options = read_provider_options(file, node->pairs[i].value);
    ok = known && options != NULL && ok;
    if (ok)
      ok = json_object_set_new(providers, key->text, options) == 0;
    else
      json_decref(options);
  }
  return finish(providers, ok);
}

/* ---- transfers --------------------------------------------------------------------------------
 */

static bool is_address(const char *text, size_t len) {
  char copy[INET6_ADDRSTRLEN];
  uint8_t octets[16];
  if (len >= sizeof copy)
    return false;
  memcpy(copy, text, len);
  copy[len] = '\0';
  return inet_pton(AF_INET, copy, octets) == 1 || inet_pton(AF_INET6, copy, octets) == 1;
}

/* ADDRESS, ADDRESS/BITS (`net`) or ADDRESS@PORT. */
static bool is_peer(const struct yaml_node *node, bool net) {
  if (node->kind != YAML_SCALAR)
    return false;
  size_t n = strcspn(node->text, net ? "/" : "@");
  if (n == node->len)
    return is_address(node->text, n);
  if (net) {
    struct steer_atom atom;
    const char *why = NULL;
    return is_address(node->text, n) && steer_atom_parse(node->text, &atom, &why) &&
           atom.kind == ATOM_NET;
  }
  const char *port = node->text + n + 1;
  size_t digits = strspn(port, "0123456789");
  return is_address(node->text, n) && digits > 0 && digits <= 5 && port[digits] == '\0' &&
         port[0] != '0' && strtoul(port, NULL, 10) <= 65535;
}

static json_t *read_peers(const struct config_file *file, const struct yaml_node *node,
                          const char *what, bool net) {
  json_t *list = json_array();
  bool ok = list != NULL;
  if (list_count(node) > MAX_PEERS) {
    config_error(file, node, "%s may hold at most %d addresses; use prefixes or drop some", what,
                 MAX_PEERS);
    ok = false;
  }
  for (size_t i = 0; i < list_count(node); i++) {
    const struct yaml_node *item = list_item(node, i);
    char show[CONFIG_SHOW];
    if (is_peer(item, net)) {
      ok = json_array_append_new(list, json_string(item->text)) == 0 && ok;
      continue;
    }
    config_error(file, item, "%s must hold addresses (192.0.2.53 or %s), this is %s", what,
                 net ? "192.0.2.0/24" : "192.0.2.53@5353", config_show(item, show));
    ok = false;
  }
  return finish(list, ok);
}

static bool read_key_name(const struct config_file *file, const struct yaml_node *node,
                          json_t *transfer) {
  static const char what[] = "`tsig` (the name of a key in the machine's settings)";
  char why[HOST_NAME_WHY];
  char show[CONFIG_SHOW];
  uint8_t name[NAME_BUF];
  if (!config_text(file, node, what))
    return false;
  size_t len = node->len > 1 && node->text[node->len - 1] == '.' ? node->len - 1 : node->len;
  if (host_name_read_zone(name, node->text, len, why))
    return json_object_set_new(transfer, "tsig", json_string(node->text)) == 0;
  config_error(file, node, "%s must be a domain name, this is %s: %s", what,
               config_show(node, show), why);
  return false;
}

json_t *config_zone_transfer(const struct config_file *file, const struct yaml_node *node) {
  static const char *const keys[] = {"allow", "tsig", "notify"};
  bool ok = config_keys(file, node, "`transfer`", keys, COUNT(keys));
  if (node->kind != YAML_MAP)
    return NULL;
  json_t *transfer = json_object();
  const struct yaml_node *allow = yaml_get(node, "allow");
  const struct yaml_node *tsig = yaml_get(node, "tsig");
  const struct yaml_node *notify = yaml_get(node, "notify");
  if (allow != NULL) {
    json_t *list = read_peers(file, allow, "`allow`", true);
    ok = list != NULL && json_object_set_new(transfer, "allow", list) == 0 && ok;
  }
  if (notify != NULL) {
    json_t *list = read_peers(file, notify, "`notify`", false);
    ok = list != NULL && json_object_set_new(transfer, "notify", list) == 0 && ok;
  }
  if (tsig != NULL)
    ok = read_key_name(file, tsig, transfer) && ok;
  return finish(transfer, ok);
}
