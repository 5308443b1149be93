/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data_fixture.h"
#include "server/load.h"
#include "server/transfer_policy.h"

#define SOA(zone)                                                                                  \
  zone " 300 IN SOA ns." zone " h." zone " 1 2 3 4 60\n" zone " 300 IN NS ns." zone "\n"

static char *data;
static char why[LOAD_WHY];
static char warning[LOAD_WHY];
static struct transfer_policy *standard;

static void setup(void) {
  data = data_fixture_new();
  const struct zone_fixture_zone zones[] = {
      {.apex = "a.example.", .text = SOA("a.example.")},
      {.apex = "b.example.", .text = SOA("b.example.")},
      {.apex = "c.example.", .text = SOA("c.example.")},
  };
  data_fixture_build(data, "one", zones, 3);
  json_t *json = json_loads("{\"allow\": [\"192.0.2.1\"]}", 0, NULL);
  standard = transfer_policy_read(json, why);
  json_decref(json);
}

static void teardown(void) {
  transfer_policy_free(standard);
  data_fixture_free(data);
}

TestSuite(load_transfer, .init = setup, .fini = teardown);

/* A manifest with this text in the entries of a and c. */
static void write_manifest(const char *a, const char *c) {
  char text[4096];
  snprintf(text, sizeof text,
           "{\"format\": 1, \"commit_time\": 0, \"zones\": ["
           "{\"name\": \"a.example.\", \"serial\": 1, \"image\": \"zones/a.example.image\"%s},"
           "{\"name\": \"b.example.\", \"serial\": 1, \"image\": \"zones/b.example.image\"},"
           "{\"name\": \"c.example.\", \"serial\": 1, \"image\": \"zones/c.example.image\"%s}]}",
           a, c);
  data_fixture_write(data, "builds/one/manifest.json", text, strlen(text));
}

static struct served *load(struct transfer_policy *policy, const struct served *previous,
                           bool keep) {
  struct load_request request = {
      .data_dir = data, .previous = previous, .keep_build = keep, .transfer = policy};
  return load_run(&request, warning, why);
}

static const char own[] = ", \"records\": \"zones/r\", \"transfer\": {\"allow\": [\"10.0.0.0/8\"]}";

Test(load_transfer, own_settings_and_standard) {
  write_manifest(own, own);
  struct served *served = load(NULL, NULL, false);
  cr_assert(served != NULL, "%s", why);
  const struct view_transfer *t = served->view.transfers;
  cr_expect(t[1].policy == NULL && t[1].records == NULL);
  cr_assert(t[0].policy != NULL && t[0].records != NULL);
  cr_expect(t[0].policy == t[2].policy, "the same settings are kept once");
  cr_expect(strstr(t[0].records, "/builds/one/zones/r") != NULL, "%s", t[0].records);
  load_free(served);

  served = load(standard, NULL, false);
  cr_assert(served != NULL, "%s", why);
  t = served->view.transfers;
  cr_expect(t[1].policy == standard);
  cr_expect(t[1].records == NULL, "an older build has none");
  cr_expect(t[0].policy != standard && t[0].policy != NULL);
  load_free(served);
}

/* What is loaded again beside the same build keeps what its zones had. */
Test(load_transfer, kept_build) {
  write_manifest(own, "");
  struct served *first = load(standard, NULL, false);
  cr_assert(first != NULL, "%s", why);
  data_fixture_write(data, "builds/one/manifest.json", "", 0);
  struct served *second = load(standard, first, true);
  cr_assert(second != NULL, "%s", why);
  const struct view_transfer *a = first->view.transfers;
  const struct view_transfer *b = second->view.transfers;
  for (unsigned i = 0; i < 3; i++)
    cr_expect(a[i].policy == b[i].policy);
  cr_expect_str_eq(a[0].records, b[0].records);
  load_free(first);
  cr_expect_eq(b[0].policy->allow_count, 1);
  cr_expect_eq(b[1].policy->allow_count, 1);
  load_free(second);
}

Test(load_transfer, bad_manifests) {
  static const struct {
    const char *entry, *says;
  } cases[] = {
      {", \"transfer\": []", "zone a.example.: transfer: must have"},
      {", \"transfer\": {\"allow\": [\"x\"]}", "`x` is not an address or prefix"},
      {", \"records\": \"../../x\"", "has its records outside of the build"},
      {", \"records\": \"/etc/passwd\"", "has its records outside of the build"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_manifest(cases[i].entry, "");
    cr_expect(load(NULL, NULL, false) == NULL, "%s", cases[i].entry);
    cr_expect(strstr(why, cases[i].says) != NULL, "%s: %s", cases[i].entry, why);
  }
}
