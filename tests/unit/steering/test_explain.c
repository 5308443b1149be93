/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "helper.h"
#include "steering/explain.h"

static const char domain_text[] =
    "{'endpoints': {'central-4': ['192.0.2.4', '192.0.2.44'], 'central-5': ['192.0.2.5'],"
    "'legacy': ['192.0.2.9', '2001:db8::9']}, 'types': ['A'], 'regions': {'global': [{'central-4':"
    "95, 'central-5': 5, 'legacy': 0}, {'legacy': 100}], 'ca': {'central-4': 1},"
    "'ca-QC': {'central-5': 1}}}";

static json_t *explain(const struct steer_domain *d, const char *client, enum steer_type type,
                       const struct steer_status *status) {
  struct geo_db *db = helper_db("geo/test-city.mmdb", NULL);
  struct explain_input in = {.domain = d,
                             .domain_text = "cdn.tm.example.com.",
                             .db = db,
                             .client_text = client,
                             .type = type,
                             .facts = {.status = status}};
  helper_address(&in.client, client);
  json_t *document = explain_json(&in);
  cr_assert(document);
  geo_db_free(db);
  return document;
}

/* Compares the document without its layers; `want` has ' for ". */
static void check_document(json_t *document, const char *want) {
  char *copy = strdup(want);
  for (char *c = copy; *c; c++)
    *c = *c == '\'' ? '"' : *c;
  json_t *expected = json_loads(copy, 0, NULL);
  cr_assert(expected, "%s", copy);
  cr_expect(json_is_array(json_object_get(document, "layers")));
  json_object_del(document, "layers");
  char *got = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(12));
  cr_expect(json_equal(document, expected), "got  %s\nwant %s", got, copy);
  free(got);
  free(copy);
  json_decref(expected);
  json_decref(document);
}

Test(explain, json_documents) {
  struct steer_domain *d = helper_domain_text(domain_text);
  check_document(explain(d, "198.51.100.1", STEER_A, NULL),
                 "{'domain': 'cdn.tm.example.com.', 'client': '198.51.100.1', 'type': 'A',"
                 "'location': {'continent': 'na', 'country': 'ca', 'subdivisions': ['ca-qc'],"
                 "'asn': null}, 'region': 'ca-QC', 'level': 1, 'fallback': false, 'nodata': false,"
                 "'scope': 25, 'answers': [{'endpoint': 'central-5', 'probability': 1.0,"
                 "'rdata': ['192.0.2.5']}]}");
  check_document(explain(d, "::ffff:198.51.100.1", STEER_AAAA, NULL),
                 "{'domain': 'cdn.tm.example.com.', 'client': '::ffff:198.51.100.1',"
                 "'type': 'AAAA', 'location': {'continent': 'na', 'country': 'ca',"
                 "'subdivisions': ['ca-qc'], 'asn': null}, 'region': 'ca-QC', 'level': null,"
                 "'fallback': false, 'nodata': true, 'scope': 0, 'answers': []}");
  check_document(explain(d, "1.2.3.4", STEER_A, NULL),
                 "{'domain': 'cdn.tm.example.com.', 'client': '1.2.3.4', 'type': 'A', 'location':"
                 "{'continent': null, 'country': null, 'subdivisions': [], 'asn': null},"
                 "'region': 'global', 'level': 1, 'fallback': false, 'nodata': false, 'scope': 1,"
                 "'answers': [{'endpoint': 'central-4', 'probability': 0.95, 'rdata':"
                 "['192.0.2.4', '192.0.2.44']}, {'endpoint': 'central-5', 'probability': 0.05,"
                 "'rdata': ['192.0.2.5']}]}");
  steer_domain_free(d);
}

static int scope_of(const char *text, const char *client) {
  struct steer_domain *d = helper_domain_text(text);
  json_t *document = explain(d, client, STEER_A, NULL);
  int scope = (int)json_integer_value(json_object_get(document, "scope"));
  json_decref(document);
  steer_domain_free(d);
  return scope;
}

Test(explain, scopes) {
  static const char only_global[] =
      "{'endpoints': {'a': ['192.0.2.1']}, 'regions': {'global': {'a': 1}}}";
  static const char subnet[] = "{'endpoints': {'a': ['192.0.2.1']}, 'draw_per': 'subnet',"
                               "'regions': {'global': {'a': 1}, '10.0.0.7/32': {'a': 1}}}";
  cr_expect_eq(scope_of(only_global, "1.2.3.4"), 0);
  cr_expect_eq(scope_of(only_global, "::ffff:1.2.3.4"), 0);
  cr_expect_eq(scope_of(subnet, "200.2.3.4"), 24);
  cr_expect_eq(scope_of(subnet, "10.0.0.7"), 32);
  cr_expect_eq(scope_of(subnet, "2001:db8::1"), 56);
  cr_expect_eq(scope_of(subnet, "::ffff:200.2.3.4"), 120);
  cr_expect_eq(scope_of(domain_text, "::ffff:198.51.100.1"), 121);
}

Test(explain, host_names_and_several_answers) {
  struct steer_domain *d =
      helper_domain_text("{'endpoints': {'h': 'a.example.net.'}, 'regions': {'global': {'h': 1}}}");
  json_t *document = explain(d, "1.2.3.4", STEER_AAAA, NULL);
  const json_t *answer = json_array_get(json_object_get(document, "answers"), 0);
  const json_t *rdata = json_array_get(json_object_get(answer, "rdata"), 0);
  cr_expect_str_eq(json_string_value(rdata), "a.example.net.");
  cr_expect_str_eq(json_string_value(json_object_get(document, "type")), "AAAA");
  cr_expect(json_is_false(json_object_get(document, "nodata")));
  json_decref(document);
  steer_domain_free(d);

  d = helper_domain_text("{'endpoints': {'a': ['192.0.2.1'], 'b': ['192.0.2.2'], 'c':"
                         "['192.0.2.3']}, 'answers': 2, 'regions': {'global': {'a': 2, 'b': 1,"
                         "'c': 1}}}");
  document = explain(d, "1.2.3.4", STEER_A, NULL);
  answer = json_array_get(json_object_get(document, "answers"), 0);
  double p = json_number_value(json_object_get(answer, "probability"));
  cr_expect_lt(fabs(p - (0.5 + 0.5 * 2 / 3)), 1e-12, "%f", p);
  json_decref(document);
  steer_domain_free(d);
}

Test(explain, text) {
  struct steer_domain *d = helper_domain_text(domain_text);
  struct steer_status status[3] = {{.health4 = HEALTH_DOWN}, {.manual = MANUAL_DISABLED}};
  json_t *document = explain(d, "1.2.3.4", STEER_A, status);
  char *text = explain_text(document);
  cr_assert(text);
  static const char *const wanted[] = {"cdn.tm.example.com. A for 1.2.3.4",
                                       "an unknown place",
                                       "region global, ECS scope 1",
                                       "unhealthy",
                                       "disabled",
                                       "weight 0: counts as down",
                                       "level 2",
                                       "100.0000%  192.0.2.9"};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    cr_expect(strstr(text, wanted[i]), "'%s' is not in:\n%s", wanted[i], text);
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
    cr_expect_leq(strlen(line), 80, "%s", line);
  free(text);
  json_decref(document);

  status[1].manual = MANUAL_NONE;
  status[1].health4 = status[2].health4 = HEALTH_DOWN;
  document = explain(d, "1.2.3.4", STEER_A, status);
  text = explain_text(document);
  cr_expect(strstr(text, "fallback") && strstr(text, "95.0000%  192.0.2.4"), "%s", text);
  free(text);
  json_decref(document);

  document = explain(d, "1.2.3.4", STEER_AAAA, status);
  text = explain_text(document);
  cr_expect(strstr(text, "does not offer AAAA"), "%s", text);
  free(text);
  json_decref(document);
  steer_domain_free(d);
}

/* A document from a socket may lack anything. */
Test(explain, text_of_odd_documents) {
  static const char *const odd[] = {
      "{}", "{\"layers\": 1, \"answers\": 2}",
      "{\"layers\": [1, {\"layer\": 2, \"entries\": [7, {}]}, {\"layer\": 1, \"matches\": [[]]}],"
      "\"answers\": [{}, 3, {\"rdata\": [1, null]}], \"location\": {\"country\": 5,"
      "\"continent\": \"eu\", \"subdivisions\": [null]}}"};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    json_t *document = json_loads(odd[i], 0, NULL);
    cr_assert(document);
    char *text = explain_text(document);
    cr_expect(text && text[0]);
    free(text);
    json_decref(document);
  }
}
