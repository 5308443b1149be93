/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "zones/deploy_record.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static const char good[] =
    "{\"format\": 1, \"deploy\": 7, \"commit\": \"" COMMIT "\", \"at\": 1796000000,"
    " \"who\": \"alice\", \"origin\": null, \"kind\": \"rollback\", \"of\": 3,"
    " \"build\": \"0123456789abcdef\","
    " \"zones\": {\"example.com.\": {\"serial\": 4294967295, \"input\": \"" HASH "\"}},"
    " \"retired\": {}}";

Test(deploy_record, round_trip) {
  char why[DEPLOY_RECORD_WHY] = "";
  struct deploy_record record;
  struct deploy_record again;
  struct buf out;
  cr_assert(deploy_record_read(&record, good, strlen(good), why), "%s", why);
  cr_expect_eq(record.number, 7);
  cr_expect_str_eq(record.commit, COMMIT);
  cr_expect_eq(record.at, 1796000000);
  cr_expect_str_eq(record.who, "alice");
  cr_expect_str_eq(record.origin, "");
  cr_expect_eq(record.kind, DEPLOY_ROLLBACK);
  cr_expect_eq(record.of, 3);
  cr_expect_str_eq(record.build, "0123456789abcdef");
  buf_init(&out);
  cr_assert(deploy_record_write(&record, &out));
  cr_assert(deploy_record_read(&again, out.data, out.len, why), "%s", why);
  cr_expect(json_equal(record.zones, again.zones) && json_equal(record.retired, again.retired));
  cr_expect_eq(again.of, 3);
  deploy_record_close(&record);
  deploy_record_close(&again);
  buf_close(&out);
}

/* The good one with one piece replaced must be refused, with a reason. */
static void refuse(const char *piece, const char *with) {
  char text[2048];
  char why[DEPLOY_RECORD_WHY] = "";
  struct deploy_record record;
  const char *at = strstr(good, piece);
  cr_assert(at, "%s", piece);
  snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, with, at + strlen(piece));
  cr_expect(!deploy_record_read(&record, text, strlen(text), why), "%s", text);
  cr_expect(why[0] && !strchr(why, '\n'), "%s", text);
  deploy_record_close(&record);
}

Test(deploy_record, what_is_refused) {
  refuse("\"format\": 1", "\"format\": 2");
  refuse("\"format\": 1", "\"format\": \"1\"");
  refuse("\"format\": 1", "\"x\": 1");
  refuse("\"deploy\": 7", "\"deploy\": 0");
  refuse("\"deploy\": 7", "\"deploy\": 7.5");
  refuse("\"deploy\": 7", "\"deploy\": 99999999999999999999");
  refuse("\"commit\": \"0", "\"commit\": \"");
  refuse("\"commit\": \"0", "\"commit\": \"G");
  refuse("\"at\": 1796000000", "\"at\": -1");
  refuse("\"who\": \"alice\"", "\"who\": null");
  refuse("\"who\": \"alice\"", "\"who\": \"" HASH HASH HASH HASH "\"");
  refuse("\"origin\": null", "\"origin\": 1");
  refuse("\"kind\": \"rollback\"", "\"kind\": \"other\"");
  refuse("\"of\": 3", "\"of\": null");
  refuse("\"build\": \"0123", "\"build\": \"../x");
  refuse("4294967295", "4294967296");
  refuse("4294967295", "-1");
  refuse("\"input\": \"0", "\"input\": \"");
  refuse("\"retired\": {}", "\"retired\": []");
  refuse("\"retired\": {}", "\"retired\": {\"a.\": 1}");
  refuse("\"retired\": {}", "\"retired\": {}, \"retired\": {}");
  refuse("\"retired\": {}}", "");
}

static void expect_text(const char *in, const char *out) {
  char text[DEPLOY_RECORD_TEXT];
  deploy_record_text(text, in);
  cr_expect_str_eq(text, out);
}

Test(deploy_record, texts_from_outside) {
  char text[DEPLOY_RECORD_TEXT];
  char input[1001];
  expect_text("Zo\xc3\xab", "Zo\xc3\xab");
  expect_text("a\nb\x1b[31m", "a?b?[31m");
  expect_text("<alice>", "?alice?");
  expect_text("\xff\xc0\x80\xed\xa0\x80\xf5", "???????");
  expect_text("cut \xe2\x82", "cut ??");
  memset(input, 'x', 1000);
  input[1000] = 0;
  deploy_record_text(text, input);
  cr_expect_eq(strlen(text), DEPLOY_RECORD_TEXT - 1);
  /* No half character at the end. */
  memset(input, 'x', DEPLOY_RECORD_TEXT - 3);
  strcpy(input + DEPLOY_RECORD_TEXT - 3, "\xe2\x82\xac");
  deploy_record_text(text, input);
  cr_expect_eq(strlen(text), DEPLOY_RECORD_TEXT - 3);
}
