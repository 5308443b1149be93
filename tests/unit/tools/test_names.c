/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "tools/names.h"

enum { OWNERS = 6 };

static uint8_t names[OWNERS][NAME_BUF];
static size_t name_count;
static struct model_rr rrs[3];
static struct steer_domain steer[2];
static struct model_domain domains[2];
static struct model_zone zones[2];
static struct model model = {.zones = zones};

static uint8_t *wire(const char *text) {
  uint8_t *out = names[name_count++];
  const char *why;
  cr_assert(name_from_text(out, text, strlen(text), NULL, &why), "%s: %s", text, why);
  return out;
}

/* tm.example.com with www, the steered cdn and the steered *.x below it; the zone b.a is empty. */
static void setup(void) {
  name_count = 0;
  rrs[0].owner = wire("tm.example.com.");
  rrs[1].owner = wire("a.b.x.tm.example.com.");
  steer[0].owner = wire("cdn.tm.example.com.");
  steer[1].owner = wire("*.x.tm.example.com.");
  domains[0].steer = &steer[0];
  domains[1].steer = &steer[1];
  zones[0] = (struct model_zone){
      .apex = rrs[0].owner, .rrs = rrs, .rr_count = 2, .domains = domains, .domain_count = 2};
  rrs[2].owner = wire("cdn.example.");
  zones[1] = (struct model_zone){.apex = rrs[2].owner, .rrs = &rrs[2], .rr_count = 1};
  model.zone_count = 2;
  model.default_zone = NULL;
}

TestSuite(names, .init = setup);

static void expect(const char *text, const char *result) {
  struct name_zones known;
  uint8_t out[NAME_BUF];
  char shown[NAME_MAX_TEXT] = "";
  cr_assert(names_from_model(&known, &model));
  if (names_resolve(&known, text, out))
    name_to_text(shown, out);
  names_close(&known);
  cr_assert_str_eq(shown, result, "%s gave %s", text, shown);
}

Test(names, absolute_names) {
  expect("cdn.tm.example.com.", "cdn.tm.example.com.");
  expect("CDN.TM.example.com", "cdn.tm.example.com.");
  expect("tm.example.com", "tm.example.com.");
  expect("else.where.", "else.where.");
  expect("cdn", "");
  expect("else.where", "");
}

Test(names, relative_names) {
  static char zone[] = "tm.example.com";
  model.default_zone = zone;
  expect("cdn", "cdn.tm.example.com.");
  expect("api.eu", "api.eu.tm.example.com.");
  expect("cdn.example", "cdn.example."); /* a zone of its own */
  expect("cdn\\.", "cdn\\..tm.example.com.");
  expect("cdn\\\\.", "cdn\\\\.");
}

Test(names, bad_names) {
  static char zone[] = "tm.example.com";
  model.default_zone = zone;
  expect("", "");
  expect("a..b", "");
  expect("\\999", "");
  char label[70];
  memset(label, 'a', 69);
  label[69] = 0;
  expect(label, "");
}

Test(names, status_without_default_zone) {
  struct name_zones known;
  uint8_t out[NAME_BUF];
  json_t *build = json_pack("{s:[{s:s}]}", "zones", "name", "tm.example.com.");
  cr_assert(names_from_status(&known, build));
  cr_assert(known.has_default);
  cr_assert(names_resolve(&known, "cdn", out));
  cr_assert(name_equal(out, steer[0].owner));
  names_close(&known);
  json_decref(build);
}

Test(names, status_with_default_zone) {
  struct name_zones known;
  uint8_t out[NAME_BUF];
  json_t *build = json_pack("{s:[{s:s},{s:i},{s:s}], s:s}", "zones", "name", "example.org.", "name",
                            1, "name", "bad..name", "default_zone", "tm.example.com");
  cr_assert(names_from_status(&known, build));
  cr_assert_eq(known.count, 1);
  cr_assert(names_resolve(&known, "cdn", out));
  cr_assert(name_equal(out, steer[0].owner));
  names_close(&known);
  json_decref(build);
}

Test(names, status_of_many_zones_has_no_default) {
  struct name_zones known;
  json_t *build = json_pack("{s:[{s:s},{s:s}]}", "zones", "name", "a.", "name", "b.");
  cr_assert(names_from_status(&known, build));
  cr_assert_not(known.has_default);
  names_close(&known);
  cr_assert(names_from_status(&known, NULL));
  cr_assert_eq(known.count, 0);
  names_close(&known);
  json_decref(build);
}

static void expect_domain(const char *name, const struct model_domain *domain) {
  uint8_t out[NAME_BUF];
  const char *why;
  cr_assert(name_from_text(out, name, strlen(name), NULL, &why));
  cr_assert_eq(names_find_domain(&model, out), domain, "%s", name);
}

Test(names, find_domain) {
  expect_domain("cdn.tm.example.com.", &domains[0]);
  expect_domain("*.x.tm.example.com.", &domains[1]);
  expect_domain("tm.example.com.", NULL);
  expect_domain("other.tm.example.com.", NULL);
  expect_domain("else.where.", NULL);
  expect_domain(".", NULL);
}

Test(names, find_domain_by_wildcard) {
  expect_domain("y.x.tm.example.com.", &domains[1]);
  expect_domain("z.y.x.tm.example.com.", &domains[1]);
  expect_domain("x.tm.example.com.", NULL);     /* an empty non-terminal */
  expect_domain("b.x.tm.example.com.", NULL);   /* another one, which the wildcard must not fill */
  expect_domain("c.b.x.tm.example.com.", NULL); /* the closest encloser is b.x */
  expect_domain("a.b.x.tm.example.com.", NULL); /* exists */
}
