/* SPDX-License-Identifier: Apache-2.0 */
/* The build's list of checks: what is equal is one, what is wrong is named. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "healthcheck/list.h"

#define TCP(port, more)                                                                            \
  "{\"type\":\"tcp\",\"interval\":10000,\"timeout\":3000,\"rise\":2,\"fall\":3,\"port\":" port     \
      more "}"
#define EP(name, addresses, health)                                                                \
  "\"" name "\":{\"enabled\":true,\"addresses\":[" addresses "],\"health\":" health "}"
#define DOMAIN(name, endpoints)                                                                    \
  "{\"domain\":\"" name "\",\"zone\":\"example.com.\",\"owner\":null,\"alerts\":null,"             \
  "\"endpoints\":{" endpoints "}}"
#define LIST(domains) "{\"domains\":[" domains "],\"format\":1,\"routes\":{}}\n"

static char why[LIST_WHY];

static struct list *parse(const char *text) {
  why[0] = '\0';
  return list_parse(text, strlen(text), why);
}

static struct list *must(const char *text) {
  struct list *list = parse(text);
  cr_assert_not_null(list, "%s", why);
  return list;
}

static void refused(const char *text, const char *message) {
  struct list *list = parse(text);
  cr_assert_null(list);
  cr_assert(strstr(why, message) != NULL, "\"%s\" is not about \"%s\"", why, message);
}

Test(list, equal_targets_and_checks_are_one) {
  struct list *list =
      must(LIST(DOMAIN("a.example.com.", EP("x", "\"192.0.2.1\"", TCP("80", ""))) "," DOMAIN(
          "b.example.com.",
          EP("y", "\"192.0.2.1\"", TCP("80", "")) "," EP("z", "\"192.0.2.1\"", TCP("81", "")))));
  cr_assert_eq(list->domain_count, 2u);
  cr_assert_eq(list->probe_count, 2u);
  cr_assert_eq(list->subject_count, 2u);
  cr_assert_eq(list->subjects[0].target_count, 2u);
  cr_assert_str_eq(list->domains[list->subjects[0].targets[1].domain].name, "b.example.com.");
  cr_assert_str_eq(list->domains[1].endpoints[list->subjects[0].targets[1].endpoint], "y");
  list_free(list);
}

Test(list, other_settings_are_another_probe) {
  struct list *list = must(
      LIST(DOMAIN("a.example.com.", EP("x", "\"192.0.2.1\"", TCP("80", "")) "," EP(
                                        "y", "\"192.0.2.1\"", TCP("80", ",\"send\":\"hello\"")))));
  cr_assert_eq(list->probe_count, 2u);
  cr_assert_str_neq(list->probes[0].check->id, list->probes[1].check->id);
  list_free(list);
}

Test(list, the_order_of_addresses_means_nothing) {
  struct list *list = must(LIST(DOMAIN(
      "a.example.com.", EP("x", "\"192.0.2.9\",\"192.0.2.30\",\"192.0.2.9\"", TCP("80", "")) "," EP(
                            "y", "\"192.0.2.30\",\"192.0.2.9\"",
                            TCP("80", "")) "," EP("z", "\"192.0.2.30\"", TCP("80", "")))));
  cr_assert_eq(list->probe_count, 2u);
  cr_assert_eq(list->subject_count, 2u);
  cr_assert_eq(list->subjects[0].count4, 2u);
  cr_assert_eq(list->subjects[0].target_count, 2u);
  list_free(list);
}

Test(list, b76_families_are_apart_and_spellings_are_one) {
  struct list *list =
      must(LIST(DOMAIN("a.example.com.",
                       EP("x", "\"2001:DB8:0::1\",\"192.0.2.1\",\"2001:db8::1\"", TCP("80", "")))));
  cr_assert_eq(list->subjects[0].count4, 1u);
  cr_assert_eq(list->subjects[0].count6, 1u);
  cr_assert_str_eq(list_probe_text(&list->probes[list->subjects[0].probes[0]]), "192.0.2.1");
  cr_assert_str_eq(list_probe_text(&list->probes[list->subjects[0].probes[1]]), "2001:db8::1");
  list_free(list);
}

Test(list, a_host_name_is_one_target) {
  struct list *list =
      must(LIST(DOMAIN("a.example.com.", "\"x\":{\"enabled\":true,\"host\":\"WWW.Example.net.\","
                                         "\"health\":" TCP("80", "") "}")));
  cr_assert(list->subjects[0].host);
  cr_assert_eq(list->subjects[0].count4 + list->subjects[0].count6, 1u);
  cr_assert_str_eq(list->probes[0].target.host, "www.example.net");
  list_free(list);
}

Test(list, each_probe_knows_its_subjects) {
  struct list *list = must(
      LIST(DOMAIN("a.example.com.", EP("x", "\"192.0.2.1\",\"192.0.2.2\"", TCP("80", "")) "," EP(
                                        "y", "\"192.0.2.2\",\"192.0.2.3\"", TCP("80", "")))));
  cr_assert_eq(list->probe_count, 3u);
  for (uint32_t p = 0; p < list->probe_count; p++) {
    bool shared = strcmp(list->probes[p].text, "192.0.2.2") == 0;
    cr_assert_eq(list->probe_first[p + 1] - list->probe_first[p], shared ? 2u : 1u);
  }
  list_free(list);
}

Test(list, domains_with_alerts_have_what_they_serve) {
  struct list *list = must(LIST(
      "{\"domain\":\"a.example.com.\",\"owner\":\"edge\",\"alerts\":{\"on\":[\"endpoint\"],"
      "\"page\":true,\"to\":[\"x\"]},\"endpoints\":{" EP(
          "b", "\"192.0.2.1\"",
          TCP("80",
              "")) "},\"steer\":{\"owner\":\"a.example.com.\",\"ttl\":30,\"answers\":1,\"draw_"
                   "per\":"
                   "\"query\",\"types\":[\"A\"],\"endpoints\":[{\"name\":\"c\",\"enabled\":true,"
                   "\"addresses\":[\"192.0.2.2\"]},{\"name\":\"b\",\"enabled\":true,"
                   "\"addresses\":[\"192.0.2.1\"]}],\"regions\":[{\"name\":\"global\",\"atoms\":"
                   "[\"global\"],\"levels\":[[[\"b\",1]]]}]}}"));
  cr_assert_not_null(list->domains[0].steer);
  cr_assert_not_null(list->domains[0].alerts);
  cr_assert_eq(list->domains[0].endpoint_count, 2u, "all of them, in the order of the domain");
  cr_assert_eq(list->subjects[0].targets[0].endpoint, 1u);
  cr_assert_str_eq(list->domains[0].owner, "edge");
  list_free(list);
}

Test(list, what_is_served_is_not_looked_at_without_alerts) {
  struct list *list = must(LIST("{\"domain\":\"a.example.com.\",\"endpoints\":{" EP(
      "b", "\"192.0.2.1\"", TCP("80", "")) "},\"steer\":{\"x\":[\"}\\\"]{\",{}]}}"));
  cr_assert_null(list->domains[0].steer);
  cr_assert_eq(list->domains[0].endpoint_count, 1u);
  list_free(list);
}

Test(list, an_empty_list_is_a_list) {
  struct list *list = must("{\"domains\":[],\"format\":1}");
  cr_assert_eq(list->probe_count, 0u);
  cr_assert_eq(list->probe_first[0], 0u);
  list_free(list);
}

Test(list, checks_outlive_their_list_with_a_reference) {
  struct list *list = must(LIST(DOMAIN("a.example.com.", EP("x", "\"192.0.2.1\"", TCP("80", "")))));
  struct list_check *check = list->probes[0].check;
  list_check_ref(check);
  list_free(list);
  cr_assert_eq(check->check->port, 80u);
  list_check_unref(check);
}

Test(list, what_is_wrong_is_named) {
  refused("", "must be a JSON object");
  refused("[]", "must be a JSON object");
  refused("{\"domains\":[],\"format\":2}", "another version");
  refused("{\"format\":1}", "`domains` is missing");
  refused("{\"domains\":[]}", "`format` is missing");
  refused("{\"domains\":{},\"format\":1}", "must be a list");
  refused("{\"domains\":[1],\"format\":1}", "item 1: must be a map");
  refused("{\"domains\":[],\"domains\":[],\"format\":1}", "twice");
  refused("{\"domains\":[{\"domain\":\"a..b\"}],\"format\":1}", "`domain`");
  refused("{\"domains\":[{\"domain\":7}],\"format\":1}", "`domain`");
  refused("{\"domains\":[],\"format\":1} x", "follows after the end");
  refused("{\"domains\":[ ,\"format\":1}", "item 1: must be a map");
  refused("{\"domains\":[],\"format\":1", "missing");
  refused(LIST(DOMAIN("a.example.com.", EP("x", "\"192.0.2.1\"", TCP("0", "")))),
          "a.example.com.: endpoint x: `health`: `port`");
  refused(LIST(DOMAIN("a.example.com.", EP("x", "\"192.0.2.256\"", TCP("1", "")))),
          "192.0.2.256, which is no address");
  refused(LIST(DOMAIN("a.example.com.", EP("x", "", TCP("1", "")))), "`addresses`");
  refused(LIST(DOMAIN("a.example.com.", "")), "1 to 65535 endpoints");
  refused(LIST(DOMAIN("a.example.com.", EP("x/y", "\"192.0.2.1\"", TCP("1", "")))), "no name");
  refused(LIST(DOMAIN("a.example.com.", EP("x", "\"192.0.2.1\"", TCP("1", ""))) "," DOMAIN(
              "A.example.com", EP("x", "\"192.0.2.1\"", TCP("1", "")))),
          "twice");
}

Test(list, settings_are_checked) {
  static const struct {
    const char *health, *message;
  } cases[] = {
      {"{}", "`type`"},
      {"{\"type\":\"gopher\"}", "`type`"},
      {"null", "`type`"},
      {"{\"type\":\"icmp\",\"interval\":0,\"timeout\":1,\"rise\":1,\"fall\":1}", "`interval`"},
      {"{\"type\":\"icmp\",\"interval\":10,\"timeout\":11,\"rise\":1,\"fall\":1}", "shorter"},
      {"{\"type\":\"icmp\",\"interval\":10,\"timeout\":10,\"rise\":101,\"fall\":1}", "`rise`"},
      {"{\"type\":\"icmp\",\"interval\":10,\"timeout\":10,\"rise\":1,\"fall\":1.5}", "`fall`"},
      {"{\"type\":\"icmp\",\"interval\":10,\"timeout\":10,\"rise\":1,\"fall\":1,"
       "\"damping\":{\"changes\":1,\"within\":1,\"hold\":1}}",
       "`changes`"},
      {"{\"type\":\"dns\",\"interval\":10,\"timeout\":10,\"rise\":1,\"fall\":1,\"port\":53,"
       "\"name\":\"a.\",\"rrtype\":\"NO SUCH\",\"expect\":{\"rcode\":\"NOERROR\"}}",
       "`rrtype`"},
      {"{\"type\":\"http\",\"interval\":10,\"timeout\":10,\"rise\":1,\"fall\":1,\"port\":80,"
       "\"path\":\"/\\r\\nX: y\",\"method\":\"GET\"}",
       "control character"},
      {"{\"type\":\"http\",\"interval\":10,\"timeout\":10,\"rise\":1,\"fall\":1,\"port\":80,"
       "\"path\":\"/\",\"method\":\"GET\",\"expect\":{\"status\":[[200,99]]}}",
       "`expect.status`"},
      {"{\"type\":\"exec\",\"interval\":10,\"timeout\":10,\"rise\":1,\"fall\":1}", "`check`"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[2000];
    snprintf(text, sizeof text,
             LIST(DOMAIN("a.example.com.", "\"x\":{\"addresses\":[\"192.0.2.1\"],\"health\":%s}")),
             cases[i].health);
    refused(text, cases[i].message);
  }
}

/* Cut off anywhere, it is refused and nothing leaks. */
Test(list, no_part_of_a_list_is_one) {
  static const char text[] =
      LIST(DOMAIN("a.example.com.", EP("x", "\"192.0.2.1\"", TCP("80", ",\"expect\":{}"))));
  struct list *list = must(text);
  list_free(list);
  for (size_t len = 0; len + 2 < sizeof text; len++)
    cr_assert_null(list_parse(text, len, why));
}

Test(list, a_hundred_thousand_domains_share_a_target) {
  enum { COUNT = 100000 };
  size_t cap = (size_t)COUNT * 400, len = 0;
  char *text = malloc(cap);
  len += (size_t)snprintf(text, cap, "{\"domains\":[");
  for (int i = 0; i < COUNT; i++)
    len += (size_t)snprintf(text + len, cap - len,
                            "%s" DOMAIN("d%d.example.com.", EP("x", "\"192.0.2.1\"", "%s")),
                            i > 0 ? ",\n" : "", i, TCP("80", ""));
  len += (size_t)snprintf(text + len, cap - len, "],\"format\":1}");
  struct list *list = list_parse(text, len, why);
  cr_assert_not_null(list, "%s", why);
  cr_assert_eq(list->domain_count, (uint32_t)COUNT);
  cr_assert_eq(list->probe_count, 1u);
  cr_assert_eq(list->subject_count, 1u);
  cr_assert_eq(list->subjects[0].target_count, (uint32_t)COUNT);
  list_free(list);
  free(text);
}
