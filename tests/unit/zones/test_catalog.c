/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "records_fixture.h"
#include "zones/catalog.h"
#include "zones/record.h"

static const char zone[] = "$TTL 300\n@ SOA ns h 7 7200 900 86400 60\n@ NS ns\nns A 192.0.2.1\n";
static const uint8_t apex[NAME_BUF] = "\7Catalog\1a";
static const struct diag_pos pos = {"defaults.yaml", 3, 1};

static bool add(struct model *model, const uint8_t *name, struct diag_list *problems) {
  diag_init(problems);
  return catalog_add(model, name, pos, NULL, problems);
}

Test(catalog, records) {
  struct records_fixture *f = records_fixture_new("example.com", zone);
  struct diag_list problems;
  cr_assert(add(f->model, apex, &problems));
  cr_assert_eq(f->model->zone_count, 2);
  const struct model_zone *c = &f->model->zones[0]; /* "a" sorts before "com" */
  cr_expect_eq(c->serial_mode, SERIAL_MANAGED);
  cr_assert_eq(c->rr_count, 4);
  static const uint16_t types[] = {RECORD_NS, RECORD_SOA, RECORD_TXT, RECORD_PTR};
  static const char *const owners[] = {"catalog.a.", "catalog.a.", "version.catalog.a.",
                                       ".zones.catalog.a."};
  for (size_t i = 0; i < 4; i++) {
    char text[NAME_MAX_TEXT];
    name_to_text(text, c->rrs[i].owner);
    cr_expect_eq(c->rrs[i].type, types[i]);
    size_t n = strlen(owners[i]);
    cr_expect(strlen(text) >= n && strcmp(text + strlen(text) - n, owners[i]) == 0, "%s", text);
  }
  cr_expect_arr_eq(c->rrs[2].rdata,
                   "\1"
                   "2",
                   2);
  cr_expect_arr_eq(c->rrs[3].rdata, "\7example\3com", 13);
  cr_expect_eq(c->rrs[3].rdata_len, 13);
  cr_expect_eq(c->rrs[3].owner[0], 32);
  diag_close(&problems);
  records_fixture_free(f);
}

/* The label of a member depends on nothing but its name. */
Test(catalog, labels_are_stable) {
  struct records_fixture *a = records_fixture_new("example.com", zone);
  struct records_fixture *b = records_fixture_new("EXAMPLE.com", zone);
  static const uint8_t other[NAME_BUF] = "\1b";
  struct diag_list problems;
  cr_assert(add(a->model, apex, &problems));
  diag_close(&problems);
  cr_assert(add(b->model, other, &problems));
  diag_close(&problems);
  cr_expect_arr_eq(a->model->zones[0].rrs[3].owner, b->model->zones[0].rrs[3].owner, 33);
  records_fixture_free(a);
  records_fixture_free(b);
}

Test(catalog, name_is_taken) {
  struct records_fixture *f = records_fixture_new("example.com", zone);
  static const uint8_t taken[NAME_BUF] = "\7EXAMPLE\3com";
  struct diag_list problems;
  cr_expect(!add(f->model, taken, &problems));
  cr_assert_eq(problems.errors, 1);
  cr_expect(strstr(problems.items[0].message, "give it another name") != NULL);
  cr_expect_eq(f->model->zone_count, 1);
  diag_close(&problems);
  records_fixture_free(f);
}

Test(catalog, name_is_too_long) {
  struct records_fixture *f = records_fixture_new("example.com", zone);
  uint8_t name[NAME_BUF] = {0};
  for (unsigned i = 0; i < 4; i++) {
    name[i * 55] = 54;
    memset(name + i * 55 + 1, 'x', 54);
  }
  struct diag_list problems;
  cr_expect(!add(f->model, name, &problems));
  cr_assert_eq(problems.errors, 1);
  cr_expect(strstr(problems.items[0].message, "too long") != NULL);
  diag_close(&problems);
  records_fixture_free(f);
}
