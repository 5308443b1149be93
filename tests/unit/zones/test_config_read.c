/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "zones/config_read.h"
#include "zones/host_name.h"

static struct diag_list problems;
static const struct config_file file = {"f", &problems};

static struct yaml_node scalar(const char *text) {
  return (struct yaml_node){
      .kind = YAML_SCALAR, .line = 1, .column = 1, .text = (char *)text, .len = strlen(text)};
}

static void setup(void) {
  diag_init(&problems);
}

static void teardown(void) {
  diag_close(&problems);
}

TestSuite(config_read, .init = setup, .fini = teardown);

Test(config_read, numbers) {
  static const char *const bad[] = {
      "",     "-1",  "+1",   "01",  "00",    "1.0", "1e3",
      "0x10", "1_0", " 1",   "1 ",  "65536", "x",   "99999999999999999999",
      "~",    "٣",   "true", "1:0", "1,0"};
  uint32_t v = 7;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct yaml_node node = scalar(bad[i]);
    cr_expect_not(config_number(&file, &node, "n", 0, 65535, &v), "%s", bad[i]);
  }
  cr_expect_eq(problems.errors, sizeof bad / sizeof *bad);
  struct yaml_node node = scalar("0");
  cr_expect(config_number(&file, &node, "n", 0, 65535, &v) && v == 0);
  node = scalar("65535");
  cr_expect(config_number(&file, &node, "n", 0, 65535, &v) && v == 65535);
  cr_expect_not(config_number(&file, &node, "n", 0, 65534, &v));
}

Test(config_read, times) {
  static const struct {
    const char *text;
    uint32_t seconds;
  } good[] = {{"0", 0},     {"30", 30},     {"30s", 30},    {"5m", 300},
              {"1h", 3600}, {"2d", 172800}, {"1w", 604800}, {"2147483647", 2147483647}};
  static const char *const bad[] = {"",
                                    "s",
                                    "5 m",
                                    "1h30m",
                                    "05m",
                                    "-5m",
                                    "5M",
                                    "5y",
                                    "5ms",
                                    "1.5h",
                                    "2147483648",
                                    "3551w",
                                    "99999999999999999w"};
  uint32_t v;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    struct yaml_node node = scalar(good[i].text);
    cr_expect(config_seconds(&file, &node, "t", &v) && v == good[i].seconds, "%s", good[i].text);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct yaml_node node = scalar(bad[i]);
    cr_expect_not(config_seconds(&file, &node, "t", &v), "%s", bad[i]);
  }
  uint64_t ms;
  struct yaml_node node = scalar("500ms");
  cr_expect(config_milliseconds(&file, &node, "t", 60, &ms) && ms == 500);
  node = scalar("60");
  cr_expect(config_milliseconds(&file, &node, "t", 60, &ms) && ms == 60000);
  node = scalar("61s");
  cr_expect_not(config_milliseconds(&file, &node, "t", 60, &ms));
  node = scalar("0s");
  cr_expect_not(config_milliseconds(&file, &node, "t", 60, &ms));
}

Test(config_read, long_values_are_cut_between_characters) {
  char text[301];
  char show[CONFIG_SHOW];
  for (size_t i = 0; i < 300; i += 3)
    memcpy(text + i, "☃", 3);
  text[300] = '\0';
  struct yaml_node node = scalar(text);
  unsigned line;
  unsigned column;
  config_show(&node, show);
  cr_expect(yaml_utf8_check((const uint8_t *)show, strlen(show), &line, &column), "%s", show);
  cr_expect_not_null(strstr(show, "..."));
}

Test(config_read, names) {
  struct yaml_node node = scalar("aZ0._-");
  cr_expect(config_name(&file, &node, "n"));
  node = scalar("a b");
  cr_expect_not(config_name(&file, &node, "n"));
  node = scalar("");
  cr_expect_not(config_name(&file, &node, "n"));
  node = scalar("012345678901234567890123456789012345678901234567890123456789012");
  cr_expect(config_name(&file, &node, "n"));
  node = scalar("0123456789012345678901234567890123456789012345678901234567890123");
  cr_expect_not(config_name(&file, &node, "n"));
}

static void expect_host(const char *text, const char *expected) {
  uint8_t name[NAME_BUF];
  char out[NAME_MAX_TEXT];
  char why[HOST_NAME_WHY];
  bool ok = host_name_read(name, text, strlen(text), why);
  cr_assert_eq(ok, expected != NULL, "%s: %s", text, ok ? "accepted" : why);
  if (ok)
    cr_expect_str_eq(name_to_text(out, name), expected);
}

Test(host_name, dot_rule) {
  expect_host("a.b", "a.b.");
  expect_host("a.b.", "a.b.");
  expect_host("a.", "a.");
  expect_host(".", ".");
  expect_host("_sip._tcp.a", "_sip._tcp.a.");
  expect_host("a", NULL);
  expect_host("a\\.b", NULL); /* an escaped dot is none */
  expect_host("@", NULL);
  expect_host("", NULL);
  expect_host("a..b", NULL);
  expect_host("a b.c", NULL);
  expect_host("ä.b", NULL);
  expect_host("192.0.2.1", NULL);
  expect_host("a.1.", NULL);
  expect_host("1.a", "1.a.");
  expect_host("2001:db8::1", NULL);
}

static const uint8_t apex[NAME_BUF] = "\x01z\x02tm";

static void expect_domain(const char *text, const char *expected) {
  uint8_t name[NAME_BUF] = {0};
  char out[NAME_MAX_TEXT];
  char why[HOST_NAME_WHY];
  bool ok = host_name_read_domain(name, text, strlen(text), apex, why);
  cr_assert_eq(ok, expected != NULL, "%s: %s", text, ok ? "accepted" : why);
  if (ok)
    cr_expect_str_eq(name_to_text(out, name), expected);
}

Test(host_name, directories_of_domains) {
  expect_domain("@", "z.tm.");
  expect_domain("cdn", "cdn.z.tm.");
  expect_domain("api.eu", "api.eu.z.tm.");
  expect_domain("_wildcard", "*.z.tm.");
  expect_domain("_wildcard.x", "*.x.z.tm.");
  expect_domain("_Wildcard.x", "*.x.z.tm.");
  expect_domain("a._WILDCARD", NULL);
  expect_domain("_wildcards", "_wildcards.z.tm.");
  expect_domain("012", "012.z.tm.");
  expect_domain("a._wildcard", NULL);
  expect_domain("a._wildcard.b", NULL);
  expect_domain("*", NULL);
  expect_domain("a.", NULL);
  expect_domain("a\\.b", NULL);
}

Test(host_name, owners) {
  uint8_t name[NAME_BUF];
  char out[NAME_MAX_TEXT];
  char why[HOST_NAME_WHY];
  cr_assert(host_name_read_owner(name, "a\\.b", 4, apex, why));
  cr_expect_str_eq(name_to_text(out, name), "a\\.b.z.tm.");
  cr_assert(host_name_read_owner(name, "x.org.", 6, apex, why));
  cr_expect_str_eq(name_to_text(out, name), "x.org.");
  cr_assert(host_name_read_owner(name, "*.*", 3, apex, why));
  cr_expect_not(host_name_read_owner(name, "a$", 2, apex, why));
  cr_expect_not_null(strstr(why, "`$`"));
}
