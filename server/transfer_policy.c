/* SPDX-License-Identifier: Apache-2.0 */
#include "server/transfer_policy.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NET_TEXT = 64 };

static bool fail(char *why, const char *key, const char *text, const char *reason) {
  snprintf(why, TRANSFER_POLICY_WHY, "`%s`: `%.100s` is %s", key, text, reason);
  return false;
}

/* ---- prefixes ---------------------------------------------------------------------------------
 */

static bool read_bits(const char *text, unsigned most, uint8_t *bits) {
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 3 || text[digits] != '\0' || (text[0] == '0' && digits > 1))
    return false;
  unsigned long n = strtoul(text, NULL, 10);
  *bits = (uint8_t)n;
  return n <= most;
}

static bool read_net(const char *text, struct transfer_net *net) {
  char host[NET_TEXT];
  if (strlen(text) >= sizeof host)
    return false;
  strcpy(host, text);
  char *slash = strchr(host, '/');
  if (slash != NULL)
    *slash++ = '\0';
  *net = (struct transfer_net){.family = 4};
  if (inet_pton(AF_INET, host, net->octets) != 1) {
    net->family = 6;
    if (inet_pton(AF_INET6, host, net->octets) != 1)
      return false;
  }
  unsigned most = net->family == 4 ? 32 : 128;
  net->bits = (uint8_t)most;
  return slash == NULL || read_bits(slash, most, &net->bits);
}

static bool net_holds(const struct transfer_net *net, const struct geo_address *address) {
  if (net->family != address->family)
    return false;
  unsigned whole = net->bits / 8;
  unsigned rest = net->bits % 8;
  if (memcmp(net->octets, address->octets, whole) != 0)
    return false;
  unsigned mask = 0xff00U >> rest & 0xff;
  return rest == 0 || ((net->octets[whole] ^ address->octets[whole]) & mask) == 0;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* Entries of the list under `key`; SIZE_MAX if it is no list of texts, or too long. */
static size_t list_size(const json_t *json, const char *key, char *why) {
  const json_t *list = json_object_get(json, key);
  size_t count = json_array_size(list);
  if (list == NULL)
    return 0;
  if (!json_is_array(list) || count > TRANSFER_POLICY_MAX) {
    snprintf(why, TRANSFER_POLICY_WHY, "`%s` must be a list of at most %d addresses", key,
             TRANSFER_POLICY_MAX);
    return SIZE_MAX;
  }
  for (size_t i = 0; i < count; i++)
    if (!json_is_string(json_array_get(list, i))) {
      snprintf(why, TRANSFER_POLICY_WHY, "`%s` must be a list of addresses", key);
      return SIZE_MAX;
    }
  return count;
}

static bool out_of_memory(char *why) {
  snprintf(why, TRANSFER_POLICY_WHY, "out of memory");
  return false;
}

static bool read_allow(struct transfer_policy *policy, const json_t *json, char *why) {
  size_t count = list_size(json, "allow", why);
  if (count == SIZE_MAX)
    return false;
  policy->has_allow = json_object_get(json, "allow") != NULL;
  policy->allow = calloc(count + 1, sizeof *policy->allow);
  if (policy->allow == NULL)
    return out_of_memory(why);
  for (size_t i = 0; i < count; i++) {
    const char *text = json_string_value(json_array_get(json_object_get(json, "allow"), i));
    if (!read_net(text, &policy->allow[i]))
      return fail(why, "allow", text, "not an address or prefix (192.0.2.53, 2001:db8::/48)");
  }
  policy->allow_count = count;
  return true;
}

static bool read_notify(struct transfer_policy *policy, const json_t *json, char *why) {
  size_t count = list_size(json, "notify", why);
  if (count == SIZE_MAX)
    return false;
  policy->notify = calloc(count + 1, sizeof *policy->notify);
  if (policy->notify == NULL)
    return out_of_memory(why);
  for (size_t i = 0; i < count; i++) {
    const char *text = json_string_value(json_array_get(json_object_get(json, "notify"), i));
    const char *reason = "";
    if (!address_parse(text, &policy->notify[i], &reason))
      return fail(why, "notify", text, "not an address (192.0.2.53, 192.0.2.53@5353)");
  }
  policy->notify_count = count;
  return true;
}

static bool read_key(struct transfer_policy *policy, const json_t *json, char *why) {
  const json_t *key = json_object_get(json, "tsig");
  const char *reason = "";
  if (key == NULL)
    return true;
  if (!json_is_string(key)) {
    snprintf(why, TRANSFER_POLICY_WHY, "`tsig` must be the name of a key");
    return false;
  }
  const char *text = json_string_value(key);
  static const uint8_t root[] = {0};
  if (name_from_text(policy->key, text, strlen(text), root, &reason) == 0)
    return fail(why, "tsig", text, "not the name of a key");
  policy->has_key = true;
  return true;
}

struct transfer_policy *transfer_policy_read(const json_t *json, char *why) {
  struct transfer_policy *policy = calloc(1, sizeof *policy);
  if (policy == NULL) {
    out_of_memory(why);
    return NULL;
  }
  atomic_init(&policy->references, 1);
  if (!json_is_object(json))
    snprintf(why, TRANSFER_POLICY_WHY, "must have `allow`, `tsig` or `notify`");
  else if (read_allow(policy, json, why) && read_key(policy, json, why) &&
           read_notify(policy, json, why))
    return policy;
  transfer_policy_free(policy);
  return NULL;
}

struct transfer_policy *transfer_policy_take(struct transfer_policy *policy) {
  if (policy != NULL)
    atomic_fetch_add_explicit(&policy->references, 1, memory_order_relaxed);
  return policy;
}

void transfer_policy_free(struct transfer_policy *policy) {
  if (policy == NULL ||
      atomic_fetch_sub_explicit(&policy->references, 1, memory_order_acq_rel) != 1)
    return;
  free(policy->allow);
  free(policy->notify);
  free(policy);
}

/* ---- the question -----------------------------------------------------------------------------
 */

bool transfer_policy_allows(const struct transfer_policy *policy, const struct geo_address *client,
                            const struct tsig_key *key) {
  if (policy == NULL || (!policy->has_allow && !policy->has_key))
    return false;
  if (policy->has_key && (key == NULL || !name_equal(policy->key, tsig_key_name(key))))
    return false;
  if (!policy->has_allow)
    return true;
  for (size_t i = 0; i < policy->allow_count; i++)
    if (net_holds(&policy->allow[i], client))
      return true;
  return false;
}
