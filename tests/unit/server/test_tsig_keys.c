/* SPDX-License-Identifier: Apache-2.0 */
/* The table of keys. */
#include "tsig_helper.h"

Test(tsig_keys, found_by_name_in_any_case) {
  static const char *const names[] = {"b.example", "a.example.", "Z.Example", "example", "c.b.a"};
  struct tsig_policy none = {0};
  struct tsig_keys *keys = tsig_keys_new(&none);
  char why[TSIG_WHY];
  for (size_t i = 0; i < 5; i++)
    cr_assert_eq(tsig_keys_add(keys, names[i], "hmac-sha256", VECTOR_SECRET, why), true, "%s", why);
  for (size_t i = 0; i < 5; i++)
    cr_assert_not_null(key_in(keys, names[i]));
  const struct tsig_key *z = key_in(keys, "z.EXAMPLE.");
  cr_assert_eq(z, key_in(keys, "Z.Example"));
  cr_assert_arr_eq(tsig_key_name(z), "\1z\7example", 11);
  cr_assert_eq(tsig_key_algorithm(z), TSIG_HMAC_SHA256);
  cr_assert_null(key_in(keys, "d.example"));
  cr_assert_null(key_in(keys, "a.a.example"));
  cr_assert_null(key_in(keys, "."));
  tsig_keys_free(keys);
  tsig_keys_free(NULL);
}

Test(tsig_keys, algorithm_names) {
  static const struct {
    const char *text;
    enum tsig_algorithm want;
  } cases[] = {{"hmac-md5", TSIG_HMAC_MD5},
               {"HMAC-MD5.SIG-ALG.REG.INT", TSIG_HMAC_MD5},
               {"hmac-md5.sig-alg.reg.int.", TSIG_HMAC_MD5},
               {"hmac-sha1", TSIG_HMAC_SHA1},
               {"HMAC-SHA224", TSIG_HMAC_SHA224},
               {"hmac-sha256.", TSIG_HMAC_SHA256},
               {"hmac-sha384", TSIG_HMAC_SHA384},
               {"Hmac-Sha512", TSIG_HMAC_SHA512}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tsig_keys *keys = keys_of(cases[i].text);
    cr_assert_eq(tsig_key_algorithm(key_in(keys, "transfer.example")), cases[i].want);
    tsig_keys_free(keys);
  }
}

Test(tsig_keys, errors_leave_the_table) {
  char long_secret[1000];
  memset(long_secret, 'A', sizeof long_secret);
  long_secret[688] = '\0'; /* 516 octets */
  const struct {
    const char *name, *algorithm, *secret, *why;
  } cases[] = {
      {"k", "hmac-sha257", "QUJD",
       "TSIG key `k`: unknown algorithm `hmac-sha257`; use hmac-sha256, or hmac-sha1, -sha224, "
       "-sha384, -sha512, -md5"},
      {"k", "hmac-sha25", "QUJD",
       "TSIG key `k`: unknown algorithm `hmac-sha25`; use hmac-sha256, or hmac-sha1, -sha224, "
       "-sha384, -sha512, -md5"},
      {"k", "hmac-md5", "QUJD",
       "TSIG key `k`: hmac-md5 is switched off because it is weak; use hmac-sha256"},
      {"K1.", "hmac-sha256", "QUJD", "TSIG key `K1.`: a key of that name is there already"},
      {"k", "hmac-sha256", "", "TSIG key `k`: the secret is empty"},
      {"k", "hmac-sha256", long_secret, "TSIG key `k`: the secret is longer than 512 octets"},
  };
  struct tsig_policy none = {0};
  struct tsig_keys *keys = keys_with(none, "k1", "hmac-sha256");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char why[TSIG_WHY] = "";
    cr_assert_eq(tsig_keys_add(keys, cases[i].name, cases[i].algorithm, cases[i].secret, why),
                 false);
    cr_assert_str_eq(why, cases[i].why);
  }
  static const char *const not_base64[] = {
      "A",      "AAA",      "QUJ*", "QUJ D===", "====",  "A===",     "QU=D",
      "QUJD\n", "QUJDQ===", "=QUJ", "-_-_",     " QUJD", "QUJD QUJ", "QQ==QQ=="};
  for (size_t i = 0; i < sizeof not_base64 / sizeof not_base64[0]; i++) {
    char why[TSIG_WHY] = "";
    cr_assert_eq(tsig_keys_add(keys, "k", "hmac-sha256", not_base64[i], why), false, "%s",
                 not_base64[i]);
    cr_assert_str_eq(why,
                     "TSIG key `k`: the secret is not base64 (letters, digits, + and /, padded "
                     "with = to a multiple of 4)");
  }
  char why[TSIG_WHY] = "", long_name[3000];
  memset(long_name, 'x', sizeof long_name);
  long_name[sizeof long_name - 1] = '\0';
  cr_assert_eq(tsig_keys_add(keys, long_name, "hmac-sha256", "QUJD", why), false);
  cr_assert_lt(strlen(why), (size_t)TSIG_WHY);
  cr_assert_null(key_in(keys, "k"));
  cr_assert_not_null(key_in(keys, "k1"));
  tsig_keys_free(keys);
}

/* Lengths that need padding, and the longest. */
Test(tsig_keys, secrets_of_all_lengths) {
  char longest[1000];
  memset(longest, 'A', sizeof longest);
  memcpy(longest + 680, "AAA=", 5); /* 512 octets */
  const char *const secrets[] = {"QQ==", "QUI=", "QUJD", "+/+/", longest};
  for (size_t i = 0; i < 5; i++) {
    struct tsig_policy none = {0};
    struct tsig_keys *keys = tsig_keys_new(&none);
    char why[TSIG_WHY] = "";
    cr_assert_eq(tsig_keys_add(keys, "k", "hmac-sha256", secrets[i], why), true, "%s", why);
    tsig_keys_free(keys);
  }
}

Test(tsig_keys, texts) {
  for (unsigned i = 0; i <= TSIG_FAILED; i++)
    cr_assert_neq(tsig_result_text((enum tsig_result)i)[0], '?');
  cr_assert_eq(tsig_rcode(TSIG_OK), 0);
  cr_assert_eq(tsig_rcode(TSIG_ABSENT), 0);
  cr_assert_eq(tsig_rcode(TSIG_FAILED), 2);
}
