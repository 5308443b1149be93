/* SPDX-License-Identifier: Apache-2.0 */
/* All worked decisions of tests/vectors/steering.json, through the layers and through explain. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "helper.h"
#include "steering/explain.h"
#include "yaml_json.h"

static void set_status(const struct steer_domain *d, const json_t *names, bool down,
                       struct steer_status *status) {
  size_t i;
  json_t *name;
  json_array_foreach(names, i, name) {
    long index = steer_endpoint_find(d, json_string_value(name));
    cr_assert_geq(index, 0);
    if (down)
      status[index].health4 = status[index].health6 = HEALTH_DOWN;
    else
      status[index].manual = MANUAL_DISABLED;
  }
}

static void check_answers(int id, const json_t *want, const json_t *got) {
  size_t i;
  json_t *answer;
  cr_expect_eq(json_array_size(got), json_object_size(want), "case %d: count of answers", id);
  json_array_foreach(got, i, answer) {
    const char *name = json_string_value(json_object_get(answer, "endpoint"));
    double p = json_number_value(json_object_get(answer, "probability"));
    const json_t *expected = json_object_get(want, name);
    cr_expect(expected && fabs(json_number_value(expected) - p) < 1e-9, "case %d: %s has %f", id,
              name, p);
    cr_expect_gt(json_array_size(json_object_get(answer, "rdata")), 0);
  }
}

static void check_document(int id, const json_t *expect, const json_t *document) {
  cr_expect(json_equal(json_object_get(expect, "region"), json_object_get(document, "region")),
            "case %d: region %s", id, json_string_value(json_object_get(document, "region")));
  bool nodata = json_is_true(json_object_get(expect, "nodata"));
  cr_expect_eq(json_is_true(json_object_get(document, "nodata")), nodata, "case %d: nodata", id);
  if (nodata) {
    cr_expect(json_is_null(json_object_get(document, "level")));
    cr_expect(json_is_false(json_object_get(document, "fallback")));
    cr_expect_eq(json_array_size(json_object_get(document, "answers")), 0);
    return;
  }
  cr_expect(json_equal(json_object_get(expect, "level"), json_object_get(document, "level")),
            "case %d: level", id);
  cr_expect(json_equal(json_object_get(expect, "fallback"), json_object_get(document, "fallback")),
            "case %d: fallback", id);
  check_answers(id, json_object_get(expect, "answers"), json_object_get(document, "answers"));
}

/* The flattened table must decide as the plain rule does. */
static void check_table(int id, const struct explain_input *in, const json_t *document) {
  struct geo_table *table = geo_table_build(in->db, in->domain);
  cr_assert(table);
  uint16_t region = geo_table_lookup(table, &in->client).region;
  const char *want = json_string_value(json_object_get(document, "region"));
  cr_expect_str_eq(in->domain->regions[region].name, want, "case %d: table", id);
  geo_table_free(table);
}

static void run_case(const struct geo_db *db, const json_t *json) {
  int id = (int)json_integer_value(json_object_get(json, "id"));
  const char *client = json_string_value(json_object_get(json, "client"));
  json_t *config = yaml_json(json_string_value(json_object_get(json, "domain")));
  cr_assert(config, "case %d: not YAML", id);
  struct steer_domain *d = helper_domain(config, json_object_get(json, "regions"));
  struct steer_status *status = calloc(d->endpoint_count, sizeof *status);
  set_status(d, json_object_get(json, "down"), true, status);
  set_status(d, json_object_get(json, "disabled"), false, status);
  struct explain_input in = {
      .domain = d,
      .domain_text = "cdn.tm.example.com.",
      .db = db,
      .client_text = client,
      .type = strcmp(json_string_value(json_object_get(json, "type")), "A") ? STEER_AAAA : STEER_A,
      .facts = {.status = status},
  };
  helper_address(&in.client, client);
  json_t *document = explain_json(&in);
  cr_assert(document);
  check_document(id, json_object_get(json, "expect"), document);
  check_table(id, &in, document);
  char *text = explain_text(document);
  cr_expect(text && strstr(text, client));
  free(text);
  json_decref(document);
  json_decref(config);
  free(status);
  steer_domain_free(d);
}

Test(vectors, all) {
  json_error_t error;
  json_t *cases = json_load_file(helper_path("vectors/steering.json"), 0, &error);
  cr_assert(cases, "%s", error.text);
  cr_assert_eq(json_array_size(cases), 400);
  struct geo_db *db = helper_db("geo/test-city.mmdb", NULL);
  size_t i;
  json_t *item;
  json_array_foreach(cases, i, item) {
    run_case(db, item);
  }
  geo_db_free(db);
  json_decref(cases);
}
