/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "data_fixture.h"
#include "server/load.h"

#define SOA(apex)                                                                                  \
  apex " 3600 IN SOA ns1.example.net. h.example.net. 1 2 3 4 60\n" apex                            \
       " 60 IN NS ns1.example.net.\n"

static char *data;
static char why[LOAD_WHY], warning[LOAD_WHY];

static void init(void) {
  data = data_fixture_new();
}

static void fini(void) {
  data_fixture_free(data);
}

TestSuite(load, .init = init, .fini = fini);

static void build(const char *id) {
  static const uint16_t weights[] = {1, 1};
  struct steer_domain *a[] = {zone_fixture_domain("x.a.example.", 2, weights, NULL),
                              zone_fixture_domain("y.a.example.", 2, weights, NULL)};
  struct steer_domain *b[] = {zone_fixture_domain("x.b.example.", 2, weights, NULL)};
  const struct zone_fixture_zone zones[] = {
      {.apex = "a.example.", .text = SOA("a.example."), .domains = a, .domain_count = 2},
      {.apex = "b.example.", .text = SOA("b.example."), .domains = b, .domain_count = 1},
  };
  data_fixture_build(data, id, zones, 2);
}

static struct served *load(const struct served *previous) {
  struct load_request request = {.data_dir = data, .previous = previous};
  return load_run(&request, warning, why);
}

Test(load, what_is_the_same_is_shared) {
  build("one");
  struct served *first = load(NULL);
  cr_assert_not_null(first, "%s", why);
  cr_assert_str_eq(first->build_id, "one");
  cr_assert_eq(first->view.zone_count, 2);
  cr_assert_eq(first->changed, 2);
  cr_assert_eq(first->domain_count, 3);
  cr_assert_eq(first->domains[0].geo, first->domains[2].geo); /* the same regions */
  struct served *second = load(first);
  cr_assert_not_null(second, "%s", why);
  cr_assert_eq(second->changed, 0);
  cr_assert_eq(second->view.zones[1].image, first->view.zones[1].image);
  cr_assert_eq(second->domains[1].geo, first->domains[1].geo);
  load_free(first);
  cr_assert_eq(second->view.zones[0].image->header->domain_count, 2);
  cr_assert_eq(second->domains[2].steer->endpoint_count, 2);
  build("two"); /* other files */
  struct served *third = load(second);
  cr_assert_not_null(third, "%s", why);
  cr_assert_eq(third->changed, 2);
  load_free(second);
  load_free(third);
}

Test(load, cancelled) {
  build("one");
  atomic_bool cancel = true;
  struct load_request request = {.data_dir = data, .cancel = &cancel};
  cr_assert_null(load_run(&request, warning, why));
}

Test(load, location_files) {
  build("one");
  data_fixture_write(data, "geo.mmdb", "no database", 11);
  char *geo = fs_join(data, "geo.mmdb");
  struct load_request request = {.data_dir = data, .geo_path = geo};
  cr_assert_null(load_run(&request, warning, why));
  cr_assert_neq(strstr(why, "geo.mmdb"), NULL, "%s", why);
  free(geo);
}

#define ZONE(image) "{\"name\": \"a.example.\", \"serial\": 1, \"image\": \"" image "\"}"
#define MANIFEST(zones) "{\"format\": 1, \"zones\": [" zones "]}"

/* What a manifest may say, and what the message must name. */
static const struct {
  const char *text;
  const char *said;
} bad[] = {
    {"", "manifest.json"},
    {"{", "manifest.json"},
    {"[]", "format"},
    {"{\"format\": 2, \"zones\": []}", "format"},
    {"{\"format\": 1}", "zones"},
    {"{\"format\": 1, \"zones\": {}}", "zones"},
    {MANIFEST("7"), "zone 1"},
    {MANIFEST("{\"name\": \"a.example.\", \"serial\": -1, \"image\": \"zones/a.example.image\"}"),
     "zone 1"},
    {MANIFEST(
         "{\"name\": \"a.example.\", \"serial\": \"1\", \"image\": \"zones/a.example.image\"}"),
     "zone 1"},
    {MANIFEST("{\"name\": \"a.example.\", \"serial\": 9, \"image\": \"zones/a.example.image\"}"),
     "serial"},
    {MANIFEST("{\"name\": \"b.example.\", \"serial\": 1, \"image\": \"zones/a.example.image\"}"),
     "not of b.example."},
    {MANIFEST("{\"name\": \"a..example.\", \"serial\": 1, \"image\": \"zones/a.example.image\"}"),
     "a..example."},
    {MANIFEST(ZONE("/etc/passwd")), "outside"},
    {MANIFEST(ZONE("../../x")), "outside"},
    {MANIFEST(ZONE("zones/../../x")), "outside"},
    {MANIFEST(ZONE("zones/..")), "outside"},
    {MANIFEST(ZONE("")), "outside"},
    {MANIFEST(ZONE("zones/none.image")), "none.image"},
    {MANIFEST(ZONE("zones")), "zones"},
    {MANIFEST(ZONE("zones/a.example.image") ", " ZONE("zones/a.example.image")), "same name"},
};

Test(load, bad_manifests) {
  build("one");
  struct served *good = load(NULL);
  cr_assert_not_null(good, "%s", why);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    data_fixture_write(data, "builds/one/manifest.json", bad[i].text, strlen(bad[i].text));
    why[0] = '\0';
    cr_expect_null(load(good), "%s", bad[i].text);
    cr_expect_neq(strstr(why, bad[i].said), NULL, "%s: %s", bad[i].text, why);
    cr_expect_null(strchr(why, '\n'));
  }
  load_free(good);
}

Test(load, no_build) {
  cr_assert_null(load(NULL));
  cr_assert_neq(strstr(why, data), NULL, "%s", why);
}

Test(load, empty_build) {
  data_fixture_build(data, "none", NULL, 0);
  struct served *served = load(NULL);
  cr_assert_not_null(served, "%s", why);
  cr_assert_eq(served->view.zone_count, 0);
  load_free(served);
}
