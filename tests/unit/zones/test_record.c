/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/name.h"
#include "zones/record.h"

static const uint8_t origin[NAME_BUF] = "\x07"
                                        "example\x03"
                                        "org";
static struct record_rdata rdata;

/* Reads the data of one record; returns its hexadecimal form or "error: ...". */
static const char *read_hex(const char *type, const char *text, const uint8_t *base) {
  static char hex[2 * 4096];
  char why[RECORD_WHY];
  struct master_text words;
  struct master_entry entry;
  struct master_word where;
  const char *reason = NULL;
  size_t bad;
  master_text_init(&words, text, strlen(text));
  words.single = base == NULL;
  bool ok = false;
  if (master_text_next(&words, &entry, &where, &reason) != MASTER_ENTRY)
    snprintf(why, sizeof why, "%s", reason != NULL ? reason : "no words");
  else
    ok = record_read(record_type(type, strlen(type)), entry.words, entry.count, base, &rdata, &bad,
                     why);
  if (!ok)
    snprintf(hex, sizeof hex, "error: %s", why);
  for (size_t i = 0; ok && i < rdata.len && i < 4000; i++)
    snprintf(hex + 2 * i, 3, "%02x", rdata.data[i]);
  if (ok && rdata.len == 0)
    hex[0] = '\0';
  master_text_close(&words);
  return hex;
}

#define EXPECT_HEX(type, text, expected) cr_expect_str_eq(read_hex(type, text, origin), expected)
#define EXPECT_ERROR(type, text, words)                                                            \
  cr_expect(strncmp(read_hex(type, text, origin), "error: ", 7) == 0 &&                            \
                strstr(read_hex(type, text, origin), words) != NULL,                               \
            "%s %s: %s", type, text, read_hex(type, text, origin))

Test(record, types) {
  char text[16];
  cr_expect_eq(record_type("A", 1), 1);
  cr_expect_eq(record_type("aaaa", 4), 28);
  cr_expect_eq(record_type("HTTPS", 5), 65);
  cr_expect_eq(record_type("TYPE65400", 9), 65400);
  cr_expect_eq(record_type("type1", 5), 1);
  cr_expect_eq(record_type("TYPE65536", 9), 0);
  cr_expect_eq(record_type("TYPE", 4), 0);
  cr_expect_eq(record_type("ANY", 3), 0);
  cr_expect_eq(record_type("AXFR", 4), 0);
  cr_expect_eq(record_type("OPT", 3), 0);
  cr_expect_eq(record_type("A\0", 2), 0);
  cr_expect_eq(record_type("", 0), 0);
  cr_expect_str_eq(record_type_text(15, text), "MX");
  cr_expect_str_eq(record_type_text(65400, text), "TYPE65400");
}

Test(record, ttls) {
  uint32_t v;
  cr_expect(record_ttl("0", 1, &v) && v == 0);
  cr_expect(record_ttl("1h30m", 5, &v) && v == 5400);
  cr_expect(record_ttl("1w2d3h4m5s", 10, &v) && v == 788645);
  cr_expect(record_ttl("1H", 2, &v) && v == 3600);
  cr_expect(record_ttl("2147483647", 10, &v) && v == 2147483647);
  cr_expect_not(record_ttl("2147483648", 10, &v));
  cr_expect_not(record_ttl("4294967296", 10, &v));
  cr_expect_not(record_ttl("h", 1, &v));
  cr_expect_not(record_ttl("1x", 2, &v));
  cr_expect_not(record_ttl("", 0, &v));
  cr_expect_not(record_ttl("1hh", 3, &v));
}

Test(record, fast_types) {
  EXPECT_HEX("A", "192.0.2.1", "c0000201");
  EXPECT_HEX("AAAA", "2001:db8::1", "20010db8000000000000000000000001");
  EXPECT_HEX("NS", "Ns", "024e73076578616d706c65036f726700");
  EXPECT_HEX("NS", "@", "076578616d706c65036f726700");
  EXPECT_HEX("CNAME", "a.b.", "0161016200");
  EXPECT_HEX("MX", "10 m.", "000a016d00");
  EXPECT_HEX("MX", "0 .", "000000");
  EXPECT_HEX("SRV", "1 2 65535 .", "00010002ffff00");
  EXPECT_HEX("SOA", ". . 4294967295 1h 2 3 4", "0000ffffffff00000e10000000020000000300000004");
  EXPECT_HEX("TXT", "a \"b c\" \"\"",
             "016103622063"
             "00");
  EXPECT_HEX("TXT", "\"\\065\\000\\255\\\"\"", "044100ff22");
  EXPECT_HEX("TXT", "x\\;y", "03783b79");
  EXPECT_ERROR("A", "192.0.2", "IPv4");
  EXPECT_ERROR("A", "192.0.2.1 x", "more text");
  EXPECT_ERROR("AAAA", "192.0.2.1", "IPv6");
  EXPECT_ERROR("MX", "65536 m.", "65535");
  EXPECT_ERROR("MX", "-1 m.", "65535");
  EXPECT_ERROR("MX", "10", "missing");
  EXPECT_ERROR("SOA", ". . 1 2 3 4", "seven fields");
  EXPECT_ERROR("TXT", "\\256", "escape");
  EXPECT_ERROR("TXT", "\\25", "escape");
}

Test(record, strings_have_at_most_255_octets) {
  char text[300];
  memset(text, 'x', 255);
  text[255] = '\0';
  cr_expect_eq(strncmp(read_hex("TXT", text, origin), "ff78", 4), 0);
  text[255] = 'x';
  text[256] = '\0';
  EXPECT_ERROR("TXT", text, "255");
}

Test(record, relative_names_of_all_types) {
  EXPECT_HEX("AFSDB", "1 a", "00010161076578616d706c65036f726700");
  EXPECT_HEX("RP", "a b.", "0161076578616d706c65036f726700016200");
  EXPECT_HEX("NAPTR", "1 2 \"S\" \"\" \"\" a", "00010002015300000161076578616d706c65036f726700");
  EXPECT_HEX("SVCB", "1 a port=53", "00010161076578616d706c65036f726700000300020035");
  EXPECT_HEX("HTTPS", "1 . alpn=\"h2,h3\"",
             "0001000001000602683202"
             "6833");
  EXPECT_HEX("IPSECKEY", "1 3 2 gw AQID",
             "0103020267770765"
             "78616d706c65036f726700010203");
}

Test(record, rfc3597) {
  EXPECT_HEX("TYPE65400", "\\# 3 010203", "010203");
  EXPECT_HEX("TYPE65400", "\\# 3 01 ( 02\n 03 )", "010203");
  EXPECT_HEX("TYPE65400", "\\# 0", "");
  EXPECT_HEX("A", "\\# 4 C0000201", "c0000201");
  EXPECT_HEX("TXT", "\\# 2 0161", "0161");
  EXPECT_ERROR("TYPE65400", "\\# 3 0102", "length");
  EXPECT_ERROR("TYPE65400", "\\# 2 010203", "length");
  EXPECT_ERROR("TYPE65400", "\\# 1 0", "length");
  EXPECT_ERROR("TYPE65400", "\\# 1 0x", "hexadecimal");
  EXPECT_ERROR("TYPE65400", "\\#", "length");
  EXPECT_ERROR("TYPE65400", "\\# x 01", "65535");
  EXPECT_ERROR("TYPE65400", "abc", "LENGTH HEX");
  EXPECT_ERROR("A", "\\# 3 010203", "not the data of a A");
  EXPECT_ERROR("NS", "\\# 2 C000", "not the data of a NS"); /* compression */
  EXPECT_ERROR("MX", "\\# 2 0001", "not the data of a MX");
}

Test(record, dot_rule_in_yaml) {
  cr_expect_str_eq(read_hex("MX", "10 m.x", NULL), "000a016d017800");
  cr_expect_str_eq(read_hex("SVCB", "0 a.b", NULL), "00000161016200");
  cr_expect_str_eq(read_hex("CAA", "0 issue \"a; b\"", NULL), "00056973737565613b2062");
  cr_expect_not_null(strstr(read_hex("MX", "10 m", NULL), "no dot"));
  cr_expect_not_null(strstr(read_hex("CNAME", "@", NULL), "whole name"));
  cr_expect_not_null(strstr(read_hex("SVCB", "1 a", NULL), "no dot"));
}

Test(record, text_of_yaml) {
  char why[RECORD_WHY];
  static char text[65536];
  memset(text, 't', sizeof text);
  cr_assert(record_from_text("", 0, &rdata, why));
  cr_expect_eq(rdata.len, 1);
  cr_assert(record_from_text("a\\\"b", 4, &rdata, why));
  cr_expect_arr_eq(rdata.data,
                   "\x04"
                   "a\\\"b",
                   5);
  cr_assert(record_from_text(text, 255, &rdata, why));
  cr_expect_eq(rdata.len, 256);
  cr_assert(record_from_text(text, 256, &rdata, why));
  cr_expect_eq(rdata.len, 258);
  cr_expect_eq(rdata.data[256], 1);
  cr_assert(record_from_text(text, 65279, &rdata, why));
  cr_expect_not(record_from_text(text, 65280, &rdata, why));
}

Test(record, canonical_form) {
  uint8_t out[16];
  record_lower(15, (const uint8_t *)"AB\x01X\x00", 5, out);
  cr_expect_arr_eq(out, "AB\x01x\x00", 5);
  record_lower(16, (const uint8_t *)"\x01X", 2, out);
  cr_expect_arr_eq(out, "\x01X", 2);
  record_lower(35, (const uint8_t *)"ABCD\x01S\x00\x00\x01X\x00", 11, out);
  cr_expect_arr_eq(out, "ABCD\x01S\x00\x00\x01x\x00", 11);
}
