/* SPDX-License-Identifier: Apache-2.0 */
/* Data feeds of NS1: their names, and how records refer to them. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tools/providers/ns1_private.h"

static char name[] = "p", marker[] = "sluice";

static json_t *load(const char *text) {
  json_t *json = json_loads(text, 0, NULL);
  cr_assert(json, "%s", text);
  return json;
}

/* One feed of the zone, one of another zone, and a second one with the label of the first. */
static struct ns1 look(struct provider_objects *out) {
  struct ns1 n = {.name = name, .marker = marker};
  struct ns1_feeds feeds = {&n, "e.test.", "a0", out};
  struct provider_error error;
  json_t *page = load(
      "[{\"id\": \"b1\", \"config\": {\"label\": \"PREFIX-0123456789abcdef01234567\"}, \"data\": "
      "{\"up\": 0}}, {\"id\": \"b2\", \"config\": {\"label\": "
      "\"000000000000-0123456789abcdef01234567\"}}, {\"id\": \"b3\", \"config\": {\"label\": "
      "\"PREFIX-0123456789abcdef01234567\"}}, {\"id\": \"b4\", \"config\": {\"label\": \"web\"}}]");
  provider_objects_init(out);
  cr_assert(ns1_feeds_begin(&n, "e.test."));
  for (size_t i = 0; i < json_array_size(page); i++) {
    json_t *config = json_object_get(json_array_get(page, i), "config");
    const char *label = json_string_value(json_object_get(config, "label"));
    if (strncmp(label, "PREFIX-", 7) == 0)
      json_object_set_new(config, "label", json_sprintf("%s%s", n.prefix, label + 7));
  }
  cr_assert(ns1_feeds_page(&feeds, page, &error));
  json_decref(page);
  return n;
}

/* They stand at the provider: another digest would make all feeds anew. */
Test(ns1, names_of_feeds_stay) {
  char key[NS1_KEY];
  struct ns1 n = {.name = name, .marker = marker};
  cr_assert(ns1_feed_key("cdn.e.test.", "one", "A", key));
  cr_expect_str_eq(key, "c0b7c58ca85b762ec0d47fd3");
  cr_assert(ns1_feeds_prefix(&n, "e.test."));
  cr_expect_str_eq(n.prefix, "88fa6ade1b66-");
}

Test(ns1, only_feeds_of_the_zone_are_read_and_twins_are_told) {
  struct provider_objects out;
  struct ns1 n = look(&out);
  cr_assert_eq(out.count, 2);
  cr_expect_str_eq(out.items[0].key, "FEED/0123456789abcdef01234567");
  cr_expect(json_is_false(json_object_get(out.items[0].body, "up")));
  cr_expect_str_eq(out.items[1].key, "FEED/0123456789abcdef01234567/b3");
  cr_expect(json_is_null(json_object_get(out.items[1].body, "up")));
  cr_expect(out.items[0].part && out.items[0].health);
  cr_expect_str_eq(out.items[0].owner, "sluice");
  provider_objects_close(&out);
  ns1_feeds_forget(&n);
}

Test(ns1, ids_become_keys_and_back) {
  struct provider_objects out;
  struct ns1 n = look(&out);
  const char *missing;
  json_t *record =
      load("{\"answers\": [{\"meta\": {\"up\": {\"feed\": \"b1\"}}}, {\"meta\": {\"up\": "
           "{\"feed\": \"c7\"}}}, {\"meta\": {\"up\": true}}, {}]}");
  json_t *named = ns1_feeds_name(&n, record);
  json_t *wanted =
      load("{\"answers\": [{\"meta\": {\"up\": {\"feed\": \"0123456789abcdef01234567\"}}},"
           " {\"meta\": {\"up\": {\"feed\": \"id:c7\"}}}, {\"meta\": {\"up\": true}}, {}]}");
  cr_expect(json_equal(named, wanted));
  json_t *back = ns1_feeds_resolve(&n, named, &missing);
  cr_expect(json_equal(back, record));
  json_decref(back);
  json_object_del(n.by_key, "0123456789abcdef01234567");
  cr_expect_null(ns1_feeds_resolve(&n, named, &missing));
  cr_expect_str_eq(missing, "0123456789abcdef01234567");
  json_decref(wanted);
  json_decref(named);
  json_decref(record);
  provider_objects_close(&out);
  ns1_feeds_forget(&n);
}
