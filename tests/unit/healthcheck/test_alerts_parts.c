/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of alerts: allowed addresses, the queue, formats, the map, keys of incidents. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "healthcheck/alerts/allowed.h"
#include "healthcheck/alerts/event.h"
#include "healthcheck/alerts/format.h"
#include "healthcheck/alerts/incident.h"
#include "healthcheck/alerts/map.h"
#include "healthcheck/alerts/queue.h"

/* ---- addresses --------------------------------------------------------------------------------
 */

static bool is_allowed(const struct allowed *allowed, const char *text) {
  struct sockaddr_in v4 = {.sin_family = AF_INET};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
  if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
    return allowed_address(allowed, (const struct sockaddr *)&v4);
  cr_assert_eq(inet_pton(AF_INET6, text, &v6.sin6_addr), 1, "%s", text);
  return allowed_address(allowed, (const struct sockaddr *)&v6);
}

static struct allowed *make_allowed(const char *list) {
  char why[ALLOWED_WHY];
  json_t *json = json_loads(list, 0, NULL);
  struct allowed *allowed = allowed_read(json, why);
  json_decref(json);
  return allowed;
}

Test(alerts_allowed, B114_public_only) {
  static const char *const good[] = {"8.8.8.8",          "1.1.1.1",        "172.32.0.1",
                                     "100.128.0.1",      "192.1.0.1",      "223.255.255.255",
                                     "2606:4700::1111",  "2a00:1450::1",   "::ffff:8.8.8.8",
                                     "64:ff9b::808:808", "2002:808:808::1"};
  static const char *const bad[] = {"0.0.0.0",
                                    "0.1.2.3",
                                    "10.0.0.1",
                                    "100.64.0.1",
                                    "100.127.255.255",
                                    "127.0.0.1",
                                    "127.255.255.255",
                                    "169.254.169.254",
                                    "172.16.0.1",
                                    "172.31.255.255",
                                    "192.0.0.1",
                                    "192.0.2.1",
                                    "192.168.255.1",
                                    "198.18.0.1",
                                    "198.51.100.1",
                                    "203.0.113.1",
                                    "224.0.0.1",
                                    "239.255.255.255",
                                    "240.0.0.1",
                                    "255.255.255.255",
                                    "::",
                                    "::1",
                                    "::127.0.0.1",
                                    "::ffff:127.0.0.1",
                                    "::ffff:169.254.169.254",
                                    "64:ff9b::7f00:1",
                                    "64:ff9b:1::1",
                                    "100::1",
                                    "2001::1",
                                    "2001:db8::1",
                                    "2002:7f00:1::1",
                                    "2002:a9fe:a9fe::",
                                    "3fff::1",
                                    "fc00::1",
                                    "fd12::1",
                                    "fe80::1",
                                    "fec0::1",
                                    "ff02::1",
                                    "4000::1",
                                    "::ffff:10.1.2.3"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    cr_expect(is_allowed(NULL, good[i]), "%s", good[i]);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    cr_expect(!is_allowed(NULL, bad[i]), "%s", bad[i]);
  struct sockaddr_un local = {.sun_family = AF_UNIX};
  cr_expect(!allowed_address(NULL, (const struct sockaddr *)&local));
}

Test(alerts_allowed, networks_of_the_settings) {
  struct allowed *allowed = make_allowed("[\"127.0.0.0/8\",\"10.1.2.3\",\"fd00::/9\"]");
  cr_assert(allowed != NULL);
  cr_expect(is_allowed(allowed, "127.0.0.1"));
  cr_expect(is_allowed(allowed, "::ffff:127.0.0.1"), "the same address in another form");
  cr_expect(is_allowed(allowed, "10.1.2.3"));
  cr_expect(is_allowed(allowed, "fd00::1"));
  cr_expect(is_allowed(allowed, "fd7f::1"));
  cr_expect(!is_allowed(allowed, "fd80::1"));
  cr_expect(!is_allowed(allowed, "10.1.2.4"));
  cr_expect(is_allowed(allowed, "128.0.0.1"), "a public one");
  cr_expect(!is_allowed(allowed, "::1"));
  allowed_free(allowed);
  static const char *const bad[] = {"{}",

                                    "[1]",
                                    "[\"\"]",
                                    "[\"10.0.0.0/33\"]",
                                    "[\"10.0.0.0/\"]",
                                    "[\"::/129\"]",
                                    "[\"10.0.0/8\"]",
                                    "[\"localhost\"]",
                                    "[\"10.0.0.0/8x\"]",
                                    "[\"10.0.0.0/-1\"]"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    cr_expect(make_allowed(bad[i]) == NULL, "%s", bad[i]);
}

/* ---- queue ------------------------------------------------------------------------------------
 */

static struct queue *queue;
static uint64_t next_id;

static void open_queue(void) {
  queue = queue_open(7);
  next_id = 1;
  cr_assert(queue != NULL);
}

static void close_queue(void) {
  queue_close(queue);
}

TestSuite(alerts_queue, .init = open_queue, .fini = close_queue);

static struct queue_message *add(const char *route, const char *key) {
  return queue_add(queue, next_id++, route, key, json_object(), 0);
}

/* The id of what may be sent now, 0 for none. */
static uint64_t next(uint64_t now) {
  const struct queue_message *message = queue_next(queue, now);
  return message != NULL ? message->id : 0;
}

Test(alerts_queue, order_of_a_key) {
  add("a", "k1"); /* 1 */
  add("a", "k1"); /* 2 */
  add("a", "k2"); /* 3 */
  add("b", "k1"); /* 4: another route */
  uint64_t first = next(10);
  uint64_t second = next(10);
  cr_expect(first + second == 5 && first * second == 4, "one of each route");
  cr_expect_eq(next(10), 0);
  cr_expect_eq(queue_wait(queue, 10), UINT64_MAX);
  /* The first fails for now: its successor waits, the other key does not. */
  cr_expect(queue_failed(queue, queue_find(queue, 1), 0, 10, 0));
  cr_expect_eq(next(10), 0);
  uint64_t wait = queue_wait(queue, 10);
  cr_expect(wait >= 750 && wait < 1250, "%llu", (unsigned long long)wait);
  queue_done(queue, queue_find(queue, 4), 10);
  uint64_t now = 10 + 2 * wait;
  bool first_through = false;
  for (int i = 0; i < 3; i++) {
    uint64_t id = next(now);
    cr_assert(id >= 1 && id <= 3);
    cr_expect(id != 2 || first_through, "2 goes behind 1");
    first_through = first_through || id == 1;
    queue_done(queue, queue_find(queue, id), now);
  }
  cr_expect_eq(queue_count(queue), 0);
}

Test(alerts_queue, backs_off) {
  add("a", "k");
  uint64_t now = 0;
  uint64_t waits[20];
  for (int i = 0; i < 20; i++) {
    cr_assert_eq(next(now), 1);
    cr_assert(queue_failed(queue, queue_find(queue, 1), 0, now, 0));
    waits[i] = queue_wait(queue, now);
    now += waits[i];
  }
  for (int i = 0; i < 8; i++)
    cr_expect(waits[i] >= (QUEUE_FIRST_MS * 3 / 4ULL) << i &&
              waits[i] <= (QUEUE_FIRST_MS * 5 / 4ULL) << i);
  for (int i = 10; i < 20; i++)
    cr_expect(waits[i] >= QUEUE_MOST_MS * 3 / 4 && waits[i] <= QUEUE_MOST_MS * 5 / 4);
  /* As the receiver wants it, but not for ever. */
  cr_assert_eq(next(now), 1);
  queue_failed(queue, queue_find(queue, 1), 1000000, now, 0);
  cr_expect_eq(queue_wait(queue, now), 1000000);
  now += 1000000;
  cr_assert_eq(next(now), 1);
  queue_failed(queue, queue_find(queue, 1), UINT64_MAX / 2, now, 0);
  cr_expect_eq(queue_wait(queue, now), QUEUE_ASKED_MOST_MS);
  now += QUEUE_ASKED_MOST_MS;
  cr_assert_eq(next(now), 1);
  cr_expect(!queue_failed(queue, queue_find(queue, 1), 0, now, QUEUE_AGE_MS), "too old");
}

/* A message that its receiver does not like lets the others pass. */
Test(alerts_queue, one_bad_message) {
  add("a", "bad");
  uint64_t now = 0;
  for (int i = 0; i < 6; i++) {
    cr_assert_eq(next(now), 1);
    queue_failed(queue, queue_find(queue, 1), 0, now, 0);
    now += queue_wait(queue, now);
  }
  cr_assert_eq(next(now), 1);
  queue_failed(queue, queue_find(queue, 1), 0, now, 0);
  add("a", "good");
  now += QUEUE_ROUTE_MOST_MS * 5 / 4;
  cr_expect_eq(next(now), 2);
}

Test(alerts_queue, is_bounded) {
  for (int i = 0; i < QUEUE_MESSAGES; i++)
    cr_assert(add("a", "k") != NULL);
  cr_expect(add("a", "k") == NULL);
  cr_expect_eq(queue_count(queue), QUEUE_MESSAGES);
  cr_expect_eq(next(0), 1);
  queue_back(queue, queue_find(queue, 1));
  cr_expect_eq(next(0), 1);
}

/* ---- formats ----------------------------------------------------------------------------------
 */

Test(alerts_format, secrets_and_urls) {
  struct format_request request;
  char why[FORMAT_WHY];
  json_t *event = json_pack("{s:s,s:s,s:s}", "action", "resolve", "key", "k", "summary", "x");
  cr_expect(format_make(FORMAT_PAGERDUTY, NULL, "hunter2", event, &request, why));
  cr_expect_str_eq(request.url, FORMAT_PAGERDUTY_URL);
  cr_expect(request.authorization == NULL);
  format_close(&request);
  cr_expect(format_make(FORMAT_JSON, "https://a", NULL, event, &request, why));
  cr_expect(request.authorization == NULL);
  format_close(&request);
  cr_expect(format_make(FORMAT_JSON, NULL, "https://a/hunter2", event, &request, why));
  cr_expect_str_eq(request.url, "https://a/hunter2");
  cr_expect(request.authorization == NULL);
  format_close(&request);
  static const struct {
    enum format format;
    const char *url, *secret;
  } bad[] = {{FORMAT_PAGERDUTY, "https://a", NULL},
             {FORMAT_SLACK, NULL, NULL},
             {FORMAT_SLACK, NULL, "hunter2"},
             {FORMAT_SLACK, NULL, "file:///hunter2"},
             {FORMAT_JSON, NULL, NULL},
             {FORMAT_JSON, NULL, "hunter2"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cr_expect(!format_make(bad[i].format, bad[i].url, bad[i].secret, event, &request, why));
    cr_expect(strstr(why, "hunter2") == NULL, "%s", why);
    cr_expect(request.url == NULL && request.body == NULL);
  }
  json_decref(event);
}

Test(alerts_format, names) {
  cr_expect_eq(format_find("pagerduty"), FORMAT_PAGERDUTY);
  cr_expect_eq(format_find("slack"), FORMAT_SLACK);
  cr_expect_eq(format_find("json"), FORMAT_JSON);
  cr_expect_eq(format_find("email"), -1);
  cr_expect_eq(format_find(NULL), -1);
}

Test(alerts_format, times) {
  char text[EVENT_TIME];
  cr_expect_str_eq(event_time(0, text), "1970-01-01T00:00:00Z");
  cr_expect_str_eq(event_time(1796000523999, text), "2026-11-30T01:02:03Z");
  setenv("TZ", "America/Montreal", 1);
  cr_expect_str_eq(event_time(1796000523999, text), "2026-11-30T01:02:03Z");
}

/* ---- map --------------------------------------------------------------------------------------
 */

Test(alerts_map, many) {
  enum { MANY = 5000 };
  static char keys[MANY][12];
  struct map map = {0};
  cr_expect(map_get(&map, "x") == NULL);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < MANY; i++) {
      snprintf(keys[i], sizeof keys[i], "k%d", i);
      cr_assert(map_put(&map, keys[i], keys[i]));
      cr_assert(map_put(&map, keys[i], keys[i]));
    }
    cr_expect_eq(map.count, MANY);
    size_t at = 0;
    int seen = 0;
    for (char *key; (key = map_next(&map, &at)) != NULL; seen++)
      if (atoi(key + 1) % 10 != 0)
        map_remove(&map, key);
    cr_expect_eq(seen, MANY);
    cr_expect_eq(map.count, MANY / 10);
    for (int i = 0; i < MANY; i++)
      cr_expect_eq(map_get(&map, keys[i]) != NULL, i % 10 == 0);
  }
  cr_expect_lt(map.room, 16 * MANY, "what was taken out is used again");
  map_close(&map);
}

/* ---- keys -------------------------------------------------------------------------------------
 */

Test(alerts_keys, B33_long_names) {
  char label[60];
  char region[400] = "";
  char key[INCIDENT_KEY], other[INCIDENT_KEY];
  memset(label, 'x', sizeof label - 1);
  label[sizeof label - 1] = '\0';
  for (int i = 0; i < 5; i++)
    strcat(region, label);
  struct incident_name name = {INCIDENT_FAILOVER, "cdn.example.com", region, "A", NULL};
  incident_key(&name, key);
  cr_expect_lt(strlen(key), 256);
  cr_expect(strncmp(key, "sluice|failover|sha256:", 23) == 0, "%s", key);
  region[290] = 'y';
  incident_key(&name, other);
  cr_expect_str_neq(key, other);
  name = (struct incident_name){INCIDENT_ENDPOINT, "cdn.example.com", NULL, NULL, region};
  incident_key(&name, other);
  cr_expect_lt(strlen(other), 256);
}

Test(alerts_keys, keys_differ) {
  static const struct incident_name names[] = {
      {INCIDENT_ENDPOINT, "a", NULL, NULL, "b"},   {INCIDENT_FAILOVER, "a", "b", "A", NULL},
      {INCIDENT_FAILOVER, "a", "b", "AAAA", NULL}, {INCIDENT_BY_HAND, "a", "b", "A", NULL},
      {INCIDENT_ALL_DOWN, "a", "b", "A", NULL},    {INCIDENT_ISOLATED, NULL, "a", NULL, NULL},
      {INCIDENT_FAILOVER, "a", "A", "A", NULL},    {INCIDENT_ENDPOINT, "a", NULL, NULL, "c"},
  };
  enum { COUNT = sizeof names / sizeof *names };
  char keys[COUNT][INCIDENT_KEY];
  for (size_t i = 0; i < COUNT; i++) {
    incident_key(&names[i], keys[i]);
    for (size_t k = 0; k < i; k++)
      cr_expect_str_neq(keys[i], keys[k]);
  }
}
