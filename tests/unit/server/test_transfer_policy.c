/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>

#include "server/transfer_policy.h"

static struct transfer_policy *read_text(const char *text, char *why) {
  json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
  struct transfer_policy *policy = transfer_policy_read(json, why);
  json_decref(json);
  return policy;
}

static struct transfer_policy *read_good(const char *text) {
  char why[TRANSFER_POLICY_WHY] = "";
  struct transfer_policy *policy = read_text(text, why);
  cr_assert(policy != NULL, "%s", why);
  return policy;
}

static bool allows(const struct transfer_policy *policy, const char *address,
                   const struct tsig_key *key) {
  struct geo_address client;
  uint8_t octets[16];
  if (inet_pton(AF_INET, address, octets) == 1)
    geo_address_set4(&client, octets);
  else if (inet_pton(AF_INET6, address, octets) == 1)
    geo_address_set6(&client, octets);
  else
    cr_assert_fail("%s", address);
  return transfer_policy_allows(policy, &client, key);
}

static struct tsig_keys *make_keys(void) {
  static const struct tsig_policy tsig = {.allow_md5 = false};
  struct tsig_keys *keys = tsig_keys_new(&tsig);
  char why[TSIG_WHY];
  cr_assert(tsig_keys_add(keys, "good", "hmac-sha256", "c2VjcmV0", why));
  cr_assert(tsig_keys_add(keys, "other", "hmac-sha256", "c2VjcmV0", why));
  return keys;
}

Test(transfer_policy, nobody_by_default) {
  cr_expect(!allows(NULL, "127.0.0.1", NULL));
  struct transfer_policy *policy = read_good("{\"notify\": [\"192.0.2.1\"]}");
  cr_expect(!allows(policy, "127.0.0.1", NULL));
  cr_expect(!allows(policy, "192.0.2.1", NULL));
  transfer_policy_free(policy);
  policy = read_good("{\"allow\": []}");
  cr_expect(!allows(policy, "127.0.0.1", NULL));
  transfer_policy_free(policy);
}

Test(transfer_policy, addresses) {
  struct transfer_policy *policy = read_good(
      "{\"allow\": [\"192.0.2.53\", \"198.51.100.128/25\", \"2001:db8:1::/49\", \"10.0.0.0/8\"]}");
  cr_expect(allows(policy, "192.0.2.53", NULL));
  cr_expect(!allows(policy, "192.0.2.54", NULL));
  cr_expect(!allows(policy, "192.0.2.52", NULL));
  cr_expect(allows(policy, "198.51.100.128", NULL));
  cr_expect(allows(policy, "198.51.100.255", NULL));
  cr_expect(!allows(policy, "198.51.100.127", NULL));
  cr_expect(allows(policy, "10.255.0.1", NULL));
  cr_expect(!allows(policy, "11.0.0.1", NULL));
  cr_expect(allows(policy, "2001:db8:1::1", NULL));
  cr_expect(allows(policy, "2001:db8:1:7fff::1", NULL));
  cr_expect(!allows(policy, "2001:db8:1:8000::1", NULL));
  cr_expect(!allows(policy, "2001:db8:2::1", NULL));
  cr_expect(allows(policy, "::ffff:192.0.2.53", NULL)); /* of a dual-stack socket */
  cr_expect(!allows(policy, "::192.0.2.53", NULL));
  transfer_policy_free(policy);
  policy = read_good("{\"allow\": [\"0.0.0.0/0\"]}");
  cr_expect(allows(policy, "203.0.113.1", NULL));
  cr_expect(!allows(policy, "::1", NULL));
  transfer_policy_free(policy);
}

Test(transfer_policy, keys) {
  struct tsig_keys *keys = make_keys();
  const struct tsig_key *good = tsig_keys_find(keys, (const uint8_t *)"\4good");
  const struct tsig_key *other = tsig_keys_find(keys, (const uint8_t *)"\5other");
  struct transfer_policy *policy = read_good("{\"tsig\": \"Good.\"}");
  cr_expect(allows(policy, "203.0.113.1", good));
  cr_expect(!allows(policy, "203.0.113.1", other));
  cr_expect(!allows(policy, "203.0.113.1", NULL));
  transfer_policy_free(policy);

  policy = read_good("{\"tsig\": \"good\", \"allow\": [\"192.0.2.0/24\"]}");
  cr_expect(allows(policy, "192.0.2.1", good));
  cr_expect(!allows(policy, "192.0.2.1", NULL));
  cr_expect(!allows(policy, "192.0.2.1", other));
  cr_expect(!allows(policy, "203.0.113.1", good));
  transfer_policy_free(policy);
  tsig_keys_free(keys);
}

Test(transfer_policy, notify) {
  struct transfer_policy *policy = read_good("{\"notify\": [\"192.0.2.1\", \"2001:db8::1@5353\"]}");
  cr_assert_eq(policy->notify_count, 2);
  cr_expect_str_eq(policy->notify[0].text, "192.0.2.1@53");
  cr_expect_str_eq(policy->notify[1].text, "2001:db8::1@5353");
  transfer_policy_free(policy);
}

Test(transfer_policy, bad_input) {
  static const struct {
    const char *text, *says;
  } cases[] = {
      {"[]", "must have"},
      {"{\"allow\": \"192.0.2.1\"}", "`allow` must be a list"},
      {"{\"allow\": [1]}", "`allow` must be a list"},
      {"{\"allow\": [\"192.0.2.1/33\"]}", "`192.0.2.1/33` is not an address or prefix"},
      {"{\"allow\": [\"192.0.2.1/\"]}", "not an address or prefix"},
      {"{\"allow\": [\"192.0.2.1/08\"]}", "not an address or prefix"},
      {"{\"allow\": [\"2001:db8::/129\"]}", "not an address or prefix"},
      {"{\"allow\": [\"any\"]}", "not an address or prefix"},
      {"{\"notify\": [\"ns.example.com\"]}", "`notify`: `ns.example.com` is not an address"},
      {"{\"notify\": [\"192.0.2.1@0\"]}", "not an address"},
      {"{\"tsig\": 1}", "`tsig` must be"},
      {"{\"tsig\": \"a..b\"}", "not the name of a key"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char why[TRANSFER_POLICY_WHY] = "";
    cr_expect(read_text(cases[i].text, why) == NULL, "%s", cases[i].text);
    cr_expect(strstr(why, cases[i].says) != NULL, "%s: %s", cases[i].text, why);
  }
}
