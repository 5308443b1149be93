/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/settings_transfer.h"

static bool read_yaml(struct settings_transfer *t, const char *text, char *why) {
  struct arena arena;
  struct diag_list problems;
  arena_init(&arena);
  diag_init(&problems);
  struct yaml_node *root =
      yaml_tree_read("s.yaml", (const uint8_t *)text, strlen(text), &arena, &problems);
  cr_assert(root != NULL && problems.errors == 0, "%s", text);
  cr_assert(settings_transfer_init(t));
  bool ok = true;
  for (size_t i = 0; ok && i < root->count; i++)
    ok = settings_transfer_knows(root->pairs[i].key->text) &&
         settings_transfer_take(t, "s.yaml", &root->pairs[i], why);
  /* The tree holds no secret any more. */
  const struct yaml_node *keys = yaml_get(root, "keys");
  for (size_t i = 0; ok && keys != NULL && i < keys->count; i++) {
    const struct yaml_node *secret = yaml_get(keys->pairs[i].value, "secret");
    cr_expect(secret == NULL || secret->text[0] == '\0');
  }
  diag_close(&problems);
  arena_close(&arena);
  return ok;
}

Test(settings_transfer, keys) {
  char path[] = "/tmp/test-settings-transfer-XXXXXX";
  int fd = mkstemp(path);
  cr_assert_eq(write(fd, "\n  c2VjcmV0  \n", 14), 14);
  close(fd);
  char text[512], why[SETTINGS_TRANSFER_WHY] = "";
  snprintf(text, sizeof text,
           "keys:\n  a-key: {algorithm: HMAC-SHA512, secret: c2VjcmV0}\n"
           "  b: {secret_file: %s}\n  c: {algorithm: hmac-md5, secret: \"c2VjcmV0\"}\n",
           path);
  struct settings_transfer t;
  cr_assert(read_yaml(&t, text, why), "%s", why);
  unlink(path);
  const struct tsig_key *a = tsig_keys_find(t.keys, (const uint8_t *)"\5a-key");
  const struct tsig_key *b = tsig_keys_find(t.keys, (const uint8_t *)"\1b");
  cr_assert(a != NULL && b != NULL);
  cr_expect_eq(tsig_key_algorithm(a), TSIG_HMAC_SHA512);
  cr_expect_eq(tsig_key_algorithm(b), TSIG_HMAC_SHA256);
  cr_expect(tsig_keys_find(t.keys, (const uint8_t *)"\1c") != NULL);
  cr_expect(t.policy == NULL);
  settings_transfer_close(&t);
}

Test(settings_transfer, policy) {
  struct settings_transfer t;
  char why[SETTINGS_TRANSFER_WHY] = "";
  cr_assert(read_yaml(&t, "transfer: {allow: 192.0.2.1, tsig: k, notify: [\"::1@5300\"]}", why),
            "%s", why);
  cr_assert(t.policy != NULL);
  cr_expect_eq(t.policy->allow_count, 1);
  cr_expect_eq(t.policy->notify_count, 1);
  cr_expect(t.policy->has_key);
  settings_transfer_close(&t);
}

Test(settings_transfer, key_of_the_policy) {
  static const struct {
    const char *text, *says; /* NULL: the key is there */
  } cases[] = {
      {"transfer: {allow: [192.0.2.1]}", NULL},
      {"keys: {a-key: {secret: c2VjcmV0}}", NULL},
      {"transfer: {tsig: A-KEY.}\nkeys: {a-key: {secret: c2VjcmV0}}", NULL},
      {"transfer: {tsig: a-key}",
       "s.yaml:1:18: `tsig`: there is no key a-key. in `keys:`; add it there, or name one of them"},
      {"keys: {z: {secret: c2VjcmV0}, key-a: {secret: c2VjcmV0}, key-bb: {secret: c2VjcmV0}}\n"
       "transfer:\n  tsig:  key-b\n",
       "s.yaml:3:10: `tsig`: there is no key key-b. in `keys:` (did you mean `key-a.`?)"},
      {"keys: {key.bbbb: {secret: c2VjcmV0}, keys.aaaa: {secret: c2VjcmV0}}\n"
       "transfer: {tsig: keys.aaab}",
       "s.yaml:2:18: `tsig`: there is no key keys.aaab. in `keys:` (did you mean `keys.aaaa.`?)"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct settings_transfer t;
    char why[SETTINGS_TRANSFER_WHY] = "";
    cr_assert(read_yaml(&t, cases[i].text, why), "%s: %s", cases[i].text, why);
    cr_expect_eq(settings_transfer_has_key(&t, why), cases[i].says == NULL, "%s", cases[i].text);
    cr_expect_str_eq(why, cases[i].says != NULL ? cases[i].says : "");
    settings_transfer_close(&t);
  }
}

Test(settings_transfer, bad_input) {
  static const struct {
    const char *text, *says;
  } cases[] = {
      {"keys: [a]", "s.yaml:1:7: `keys`: must be a map"},
      {"keys: {a: b}", "s.yaml:1:11: `a`: must be a map"},
      {"keys: {a: {}}", "s.yaml:1:8: `a`: needs one of `secret` (base64) and `secret_file`"},
      {"keys: {a: {secret: c2VjcmV0, secret_file: /x}}", "needs one of"},
      {"keys: {a: {secret: \"not base 64\"}}", "s.yaml:1:20: `a`: "},
      {"keys: {a: {secret: c2VjcmV0, algorithm: hmac-rot13}}", "s.yaml:1:41: `a`: "},
      {"keys: {a: {secret: [c2VjcmV0]}}", "s.yaml:1:20: `a`: `secret` must be a single value"},
      {"keys: {a: {sekret: c2VjcmV0}}", "s.yaml:1:12: `a`: unknown key `sekret`"},
      {"keys: {a: {secret_file: /nonexistent/file}}",
       "s.yaml:1:25: `a`: cannot read /nonexistent/file: No such file"},
      {"keys: {a..b: {secret: c2VjcmV0}}", "s.yaml:1:8: `a..b`: "},
      {"transfer: yes", "s.yaml:1:11: `transfer`: must be a map"},
      {"transfer: {alow: [192.0.2.1]}", "s.yaml:1:12: `alow`: unknown key"},
      {"transfer: {allow: [192.0.2.1, 192.0.2.999]}",
       "s.yaml:1:31: `transfer`: `allow`: `192.0.2.999` is not an address or prefix"},
      {"transfer: {allow: {a: b}}", "s.yaml:1:19: `transfer`: `allow` must be a list"},
      {"transfer: {tsig: [a]}", "s.yaml:1:18: `transfer`: `tsig` must be"},
      {"keys: {a: {secret: c2VjcmV0}, A.: {secret: c2VjcmV0}}", "s.yaml:1:31: `A.`: "},
      {"transfer: {notify: [192.0.2.1, [a]]}", "s.yaml:1:32: `transfer`: `notify` must be"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct settings_transfer t;
    char why[SETTINGS_TRANSFER_WHY] = "";
    cr_expect(!read_yaml(&t, cases[i].text, why), "%s", cases[i].text);
    cr_expect(strstr(why, cases[i].says) != NULL, "%s: %s", cases[i].text, why);
    cr_expect(strstr(why, "c2VjcmV0") == NULL && strstr(why, "not base 64") == NULL, "%s", why);
    settings_transfer_close(&t);
  }
}
