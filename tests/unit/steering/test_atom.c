/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "steering/atom.h"

static void good(const char *text, const char *expected) {
  struct steer_atom atom;
  const char *why = NULL;
  char out[64];
  cr_expect(steer_atom_parse(text, &atom, &why), "%s: %s", text, why ? why : "no form");
  cr_expect_str_eq(steer_atom_text(&atom, out), expected, "%s reads as %s", text, out);
  struct steer_atom again;
  cr_expect(steer_atom_parse(out, &again, &why) && steer_atom_equal(&atom, &again),
            "%s does not read back", out);
}

static void bad(const char *text, const char *expected) {
  struct steer_atom atom;
  const char *why = NULL;
  cr_expect_not(steer_atom_parse(text, &atom, &why), "%s was taken", text);
  if (!expected)
    cr_expect_null(why, "%s: %s", text, why);
  else
    cr_expect(why && strstr(why, expected), "%s: %s", text, why ? why : "no reason");
}

Test(atom, short_forms) {
  good("global", "global");
  good("GLOBAL", "global");
  good("eu", "continent:eu");
  good("na", "continent:na"); /* not Namibia */
  good("as", "continent:as"); /* not American Samoa */
  good("SA", "continent:sa"); /* not Saudi Arabia */
  good("Af", "continent:af"); /* not Afghanistan */
  good("ca", "country:ca");
  good("no", "country:no");
  good("XK", "country:xk");
  good("us-ca", "subdivision:us-ca");
  good("GB-ENG", "subdivision:gb-eng");
  good("jp-13", "subdivision:jp-13");
  good("192.0.2.0/24", "net:192.0.2.0/24");
  good("0.0.0.0/0", "net:0.0.0.0/0");
  good("192.0.2.1/32", "net:192.0.2.1/32");
  good("2001:DB8::/32", "net:2001:db8::/32");
  good("::/0", "net:::/0");
}

Test(atom, long_forms) {
  good("continent:EU", "continent:eu");
  good("Country:NA", "country:na");
  good("country:as", "country:as");
  good("subdivision:ca-QC", "subdivision:ca-qc");
  good("asn:64500", "asn:64500");
  good("ASN:4294967295", "asn:4294967295");
  good("net:192.0.2.0/24", "net:192.0.2.0/24");
  good("net:2001:db8::/32", "net:2001:db8::/32");
}

Test(atom, mapped_nets_are_ipv4) {
  good("::ffff:192.0.2.0/120", "net:192.0.2.0/24");
  good("::ffff:0:0/96", "net:0.0.0.0/0");
  good("::fffe:0:0/95", "net:::fffe:0:0/95");
}

Test(atom, wrong_values_of_a_form) {
  bad("zz", "unknown country");
  bad("uk", "unknown country");
  bad("zz-abc", "unknown country");
  bad("country:xx", "unknown country");
  bad("country:usa", "unknown country");
  bad("country:", "unknown country");
  bad("continent:us", "unknown continent");
  bad("subdivision:ca-quebec", "1 to 3");
  bad("subdivision:ca", "1 to 3");
  bad("subdivision:ca-", "1 to 3");
  bad("asn:0", "AS number");
  bad("asn:064500", "AS number");
  bad("asn:4294967296", "AS number");
  bad("asn:99999999999", "AS number");
  bad("asn:-1", "AS number");
  bad("asn:AS64500", "AS number");
  bad("192.0.2.1/24", "host bits");
  bad("2001:db8::1/64", "host bits");
  bad("192.0.2.0/33", "0 to 32");
  bad("2001:db8::/129", "0 to 128");
  bad("192.0.2.0/024", "0 to 32");
  bad("192.0.2.0/", "0 to 32");
  bad("192.0.2/24", "not an address");
  bad("/24", "not an address");
  bad("net:192.0.2.0", "prefix length");
}

Test(atom, no_form_at_all) {
  bad("us-east", NULL);
  bad("office", NULL);
  bad("", NULL);
  bad("u", NULL);
  bad("1e3", NULL);
  bad("u1", NULL);
  bad("ca_qc", NULL);
  bad("ca-", NULL);
  bad("c\xc3\xa4", NULL);
}

Test(atom, built_in_forms) {
  static const char *const forms[] = {"global", "eu", "zz", "ca-qc", "zz-1", "asn:x", "10.0.0.0/8"};
  static const char *const names[] = {"us-east", "office", "a1", "1a", "ca-", "ca-abcd", "ca.qc"};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    cr_expect(steer_atom_is_built_in_form(forms[i]), "%s", forms[i]);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    cr_expect_not(steer_atom_is_built_in_form(names[i]), "%s", names[i]);
}

Test(atom, equality) {
  static const char *const texts[] = {"global",     "na",    "country:na", "us-ca",
                                      "ca",         "asn:1", "asn:2",      "10.0.0.0/8",
                                      "10.0.0.0/9", "::/8",  "0.0.0.0/8"};
  enum { COUNT = sizeof texts / sizeof *texts };
  struct steer_atom atoms[COUNT];
  const char *why;
  for (size_t i = 0; i < COUNT; i++)
    cr_assert(steer_atom_parse(texts[i], &atoms[i], &why));
  for (size_t i = 0; i < COUNT; i++)
    for (size_t j = 0; j < COUNT; j++)
      cr_expect_eq(steer_atom_equal(&atoms[i], &atoms[j]), i == j, "%s %s", texts[i], texts[j]);
}

Test(country, table) {
  int known = 0;
  for (char a = 'a'; a <= 'z'; a++) {
    for (char b = 'a'; b <= 'z'; b++) {
      char code[3] = {a, b, '\0'};
      const char *continent = steer_country_continent(code);
      known += continent != NULL;
      cr_expect(!continent || strstr("af an as eu na oc sa", continent));
    }
  }
  cr_expect_eq(known, 250); /* 249 of ISO 3166-1, and XK */
  cr_expect_str_eq(steer_country_continent("ru"), "eu");
  cr_expect_str_eq(steer_country_continent("tr"), "as");
  cr_expect_str_eq(steer_country_continent("cy"), "eu");
  cr_expect_str_eq(steer_country_continent("eg"), "af");
  cr_expect_str_eq(steer_country_continent("tl"), "oc");
  cr_expect_str_eq(steer_country_continent("aq"), "an");
  cr_expect_str_eq(steer_country_continent("xk"), "eu");
  cr_expect_null(steer_country_continent("eu"));
  cr_expect_null(steer_country_continent(""));
  cr_expect_null(steer_country_continent("usa"));
}
