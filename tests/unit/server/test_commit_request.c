/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "server/commit_request.h"

static char why[STORE_WHY];

static bool read_text(const char *text, struct commit_request *request, json_t **json) {
  *json = json_loads(text, 0, NULL);
  cr_assert_not_null(*json, "%s", text);
  return commit_request_read(request, *json, why);
}

#define CHANGE(rest)                                                                               \
  "{\"changes\": [{\"domain\": \"CDN.example.com\", \"endpoint\": \"one\", " rest "}]}"
#define AUDIT(rest) "{\"audits\": [{\"domain\": \"a.test\", " rest "}]}"

Test(commit_request, is_read) {
  struct commit_request r;
  json_t *json;
  cr_assert(
      read_text(
          "{\"request\": \"r\", \"as\": \"kim\", \"origin\": \"chat\","
          " \"expect\": [[\"CDN.example.com\", 4]],"
          " \"changes\": [{\"op\": \"set\", \"kind\": \"weight\", \"domain\": \"Cdn.example.com\","
          " \"endpoint\": \"one\", \"region\": \"eu\", \"level\": 2, \"value\": 0,"
          " \"expires_at\": 7, \"cause\": \"drain:*\", \"before\": \"\", \"reason\": \"x\"},"
          " {\"op\": \"drop\", \"kind\": \"health\", \"domain\": \"a.test.\","
          " \"endpoint\": \"two\", \"family\": 6}],"
          " \"audits\": [{\"command\": \"set\", \"domain\": \"a.test\","
          " \"what\": {\"a\": 1}, \"reason\": null}]}",
          &r, &json),
      "%s", why);
  cr_assert_str_eq(r.as, "kim");
  cr_assert_str_eq(r.origin, "chat");
  cr_assert_str_eq(r.batch.request, "r");
  cr_assert_eq(r.batch.expect_count, 1);
  cr_assert_str_eq(r.batch.expect[0].domain, "cdn.example.com.");
  cr_assert_eq(r.batch.expect[0].revision, 4);
  const struct store_override *o = &r.batch.changes[0].override;
  cr_assert_eq(r.batch.change_count, 2);
  cr_assert_str_eq(o->key.domain, "cdn.example.com.");
  cr_assert_str_eq(o->key.region, "eu");
  cr_assert_eq(o->key.level, 2);
  cr_assert_eq(o->value, 0);
  cr_assert_eq(o->expires_at, 7);
  cr_assert_str_eq(o->before, "");
  cr_assert(r.batch.changes[1].drop);
  cr_assert_eq(r.batch.changes[1].override.key.family, 6);
  cr_assert_str_eq(r.batch.audits[0].what, "{\"a\":1}");
  commit_request_close(&r);
  json_decref(json);
}

static const struct {
  const char *text, *word;
} bad[] = {
    {"[]", NULL}, /* no object: nothing in it, which is fine */
    {"{\"request\": 5}", "request"},
    {"{\"request\": \"\"}", "request"},
    {"{\"as\": \"a\\nb\"}", "control characters"},
    {"{\"expect\": {}}", "expect"},
    {"{\"expect\": [[\"a.test\"]]}", "expect[0]"},
    {"{\"expect\": [[\"a.test\", -1]]}", "expect[0]"},
    {"{\"expect\": [[\"a..test\", 1]]}", "expect[0]"},
    {"{\"changes\": 1}", "changes"},
    {"{\"changes\": [1]}", "changes[0]"},
    {CHANGE("\"op\": \"put\""), "op"},
    {CHANGE("\"op\": \"set\", \"kind\": \"x\""), "kind"},
    {CHANGE("\"op\": \"set\", \"kind\": \"weight\""), "region"},
    {CHANGE("\"op\": \"set\", \"kind\": \"weight\", \"region\": \"eu\""), "level"},
    {CHANGE("\"op\": \"set\", \"kind\": \"weight\", \"region\": \"eu\", \"level\": 0"), "level"},
    {CHANGE("\"op\": \"set\", \"kind\": \"weight\", \"region\": \"eu\", \"level\": 1"), "value"},
    {CHANGE("\"op\": \"set\", \"kind\": \"weight\", \"region\": \"eu\", \"level\": 1,"
            " \"value\": null"),
     "value"},
    {CHANGE("\"op\": \"set\", \"kind\": \"weight\", \"region\": \"eu\", \"level\": 1,"
            " \"value\": -1"),
     "value"},
    {CHANGE("\"op\": \"set\", \"kind\": \"weight\", \"region\": \"eu\", \"level\": 1,"
            " \"value\": 65536"),
     "value"},
    {CHANGE("\"op\": \"set\", \"kind\": \"weight\", \"region\": \"eu\", \"level\": 1,"
            " \"value\": 0.5"),
     "value"},
    {CHANGE("\"op\": \"set\", \"kind\": \"status\", \"value\": 0"), "value"},
    {CHANGE("\"op\": \"set\", \"kind\": \"status\", \"value\": 1, \"expires_at\": -1"),
     "expires_at"},
    {CHANGE("\"op\": \"set\", \"kind\": \"status\", \"value\": 1, \"before\": {}"), "before"},
    {CHANGE("\"op\": \"set\", \"kind\": \"health\", \"value\": 1"), "family"},
    {CHANGE("\"op\": \"set\", \"kind\": \"health\", \"family\": 5, \"value\": 1"), "family"},
    {AUDIT("\"what\": {}"), "command"},
    {AUDIT("\"command\": \"set\""), "what"},
    {AUDIT("\"command\": \"set\", \"what\": []"), "what"},
};

Test(commit_request, what_is_wrong_is_told) {
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct commit_request r;
    json_t *json;
    bool ok = read_text(bad[i].text, &r, &json);
    cr_expect_eq(ok, bad[i].word == NULL, "%s", bad[i].text);
    if (bad[i].word != NULL)
      cr_expect_neq(strstr(why, bad[i].word), NULL, "%s: %s", bad[i].text, why);
    commit_request_close(&r);
    json_decref(json);
  }
}

Test(commit_request, is_bounded) {
  struct commit_request r;
  json_t *list = json_array();
  for (size_t i = 0; i <= COMMIT_CHANGES; i++)
    json_array_append_new(list, json_null());
  json_t *json = json_pack("{s:o}", "changes", list);
  cr_assert_not(commit_request_read(&r, json, why));
  cr_assert_neq(strstr(why, "at most"), NULL, "%s", why);
  commit_request_close(&r);
  json_decref(json);
  char *large = malloc(COMMIT_WHAT + 1);
  memset(large, 'x', COMMIT_WHAT);
  large[COMMIT_WHAT] = '\0';
  json = json_pack("{s:[{s:s, s:s, s:{s:s}}]}", "audits", "command", "set", "domain", "a.test",
                   "what", "x", large);
  cr_assert_not(commit_request_read(&r, json, why));
  cr_assert_neq(strstr(why, "65536"), NULL, "%s", why);
  commit_request_close(&r);
  json_decref(json);
  free(large);
}
