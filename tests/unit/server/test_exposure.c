/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "data_fixture.h"
#include "server/exposure.h"
#include "server/topk.h"

/* ---- the ring ---------------------------------------------------------------------------------
 */

static const uint16_t some[] = {3, 4, 5};

Test(exposure_ring, gives_what_was_put) {
  struct exposure_ring *ring = exposure_ring_new();
  struct exposure_sample sample = {.resolver = 7, .domain = 1, .region = 2}, out[8];
  cr_assert_eq(exposure_ring_put(ring, UINT32_MAX, &sample, some, 3), 1); /* every one at first */
  cr_assert_eq(exposure_ring_take(ring, out, 8), 3);
  for (size_t i = 0; i < 3; i++) {
    cr_assert_eq(out[i].endpoint, some[i]);
    cr_assert_eq(out[i].weight, i == 0 ? 1 : 0);
    cr_assert_eq(out[i].region, 2);
  }
  cr_assert_eq(exposure_ring_take(ring, out, 8), 0);
  free(ring);
}

Test(exposure_ring, when_full_loses_samples_and_nothing_else) {
  struct exposure_ring *ring = exposure_ring_new();
  struct exposure_sample sample = {.domain = 0}, out[64];
  for (uint32_t i = 0; i < EXPOSURE_RING + 100; i++) {
    sample.domain = i;
    exposure_ring_put(ring, 0, &sample, some, 1);
  }
  cr_assert_eq(atomic_load(&ring->lost), 100);
  uint32_t seen = 0;
  for (size_t n; (n = exposure_ring_take(ring, out, 64)) > 0;)
    for (size_t i = 0; i < n; i++)
      cr_assert_eq(out[i].domain, seen++);
  cr_assert_eq(seen, EXPOSURE_RING);
  exposure_ring_put(ring, 0, &sample, some, 1);
  cr_assert_eq(exposure_ring_take(ring, out, 64), 1);
  free(ring);
}

Test(exposure_ring, distances_are_fair) {
  struct exposure_ring *ring = exposure_ring_new();
  struct exposure_sample sample = {.domain = 0}, out[1];
  struct rng rng;
  uint64_t sum = 0;
  rng_seed(&rng, 1);
  atomic_store(&ring->every, 50);
  for (int i = 0; i < 100000; i++) {
    uint32_t distance = exposure_ring_put(ring, (uint32_t)rng_next(&rng), &sample, some, 1);
    cr_assert(distance >= 1 && distance < 100);
    sum += distance;
    cr_assert_eq(exposure_ring_take(ring, out, 1), 1);
    cr_assert_eq(out[0].weight, 50);
  }
  cr_assert(sum > 4940000 && sum < 5060000); /* 6 standard deviations of the mean are 55 000 */
  free(ring);
}

static void *write_ring(void *arg) {
  struct exposure_sample sample = {.domain = 0};
  for (uint32_t i = 0; i < 200000; i++) {
    sample.domain = i;
    sample.resolver = i;
    exposure_ring_put(arg, 0, &sample, some, 1);
  }
  return NULL;
}

Test(exposure_ring, two_threads) {
  struct exposure_ring *ring = exposure_ring_new();
  struct exposure_sample out[100];
  pthread_t thread;
  uint64_t seen = 0, last = 0;
  cr_assert_eq(pthread_create(&thread, NULL, write_ring, ring), 0);
  while (seen + atomic_load(&ring->lost) < 200000) {
    size_t n = exposure_ring_take(ring, out, 100);
    for (size_t i = 0; i < n; i++) {
      cr_assert_eq(out[i].resolver, out[i].domain);
      cr_assert(seen == 0 || out[i].resolver > last);
      last = out[i].resolver;
      seen++;
    }
  }
  pthread_join(thread, NULL);
  free(ring);
}

Test(exposure_ring, networks) {
  static const struct {
    uint8_t octets[16];
    int family;
    const char *text;
  } cases[] = {{{192, 0, 2, 77}, 4, "192.0.2.0/24"},
               {{0, 0, 0, 0}, 4, "0.0.0.0/24"},
               {{255, 255, 255, 255}, 4, "255.255.255.0/24"},
               {{0x20, 1, 0xd, 0xb8, 1, 2, 3, 4, 5}, 6, "2001:db8:102:300::/56"},
               {{0}, 6, "::/56"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct geo_address address;
    char out[EXPOSURE_NETWORK];
    if (cases[i].family == 4)
      geo_address_set4(&address, cases[i].octets);
    else
      geo_address_set6(&address, cases[i].octets);
    cr_expect_str_eq(exposure_network(exposure_resolver(&address), out), cases[i].text);
  }
}

/* ---- the largest ------------------------------------------------------------------------------
 */

Test(topk, few_are_exact) {
  struct topk topk = {.total = 0};
  for (uint64_t i = 0; i < 1000; i++)
    topk_add(&topk, i % TOPK_ITEMS, i % TOPK_ITEMS);
  cr_assert_not(topk.full);
  cr_assert_eq(topk_distinct(&topk), TOPK_ITEMS);
  topk_sort(&topk);
  cr_assert_eq(topk.items[0].key, TOPK_ITEMS - 1);
  for (uint32_t i = 0; i < topk.count; i++)
    cr_assert_eq(topk.items[i].error, 0);
}

Test(topk, the_large_ones_among_many_are_found) {
  static struct topk topk;
  struct rng rng;
  rng_seed(&rng, 3);
  for (int i = 0; i < 200000; i++) { /* 20 %, 10 %, the rest by 50 000 others */
    uint32_t x = rng_below(&rng, 10);
    topk_add(&topk, x < 2 ? 1 : x < 3 ? 2 : 1000 + rng_below(&rng, 50000), 1);
  }
  topk_sort(&topk);
  cr_assert_eq(topk.items[0].key, 1);
  cr_assert_eq(topk.items[1].key, 2);
  cr_assert_eq(topk.total, 200000);
  uint64_t least = topk.items[0].count - topk.items[0].error;
  cr_assert(least <= 41200 && topk.items[0].count >= 38800);
  uint64_t distinct = topk_distinct(&topk); /* of about 47 000; 6 standard errors are 55 % */
  cr_assert(distinct > 21000 && distinct < 73000, "%lu", (unsigned long)distinct);
}

Test(topk, distinct_over_sizes) {
  for (uint64_t wanted = 30; wanted <= 300000; wanted *= 10) {
    static struct topk topk;
    memset(&topk, 0, sizeof topk);
    for (uint64_t i = 0; i < wanted; i++)
      topk_add(&topk, i * 2654435761u, 1);
    double ratio = (double)topk_distinct(&topk) / (double)wanted;
    cr_expect(ratio > 0.7 && ratio < 1.3, "%lu: %f", (unsigned long)wanted, ratio);
  }
}

Test(topk, merged) {
  static struct topk a, b;
  topk_add(&a, 1, 5);
  topk_add(&a, 2, 1);
  topk_add(&b, 1, 7);
  topk_add(&b, 3, 2);
  topk_merge(&a, &b);
  topk_sort(&a);
  cr_assert_eq(a.total, 15);
  cr_assert_eq(topk_distinct(&a), 3);
  cr_assert_eq(a.items[0].key, 1);
  cr_assert_eq(a.items[0].count, 12);
}

/* ---- all --------------------------------------------------------------------------------------
 */

#define SOA(apex)                                                                                  \
  apex " 3600 IN SOA ns1.example.net. h.example.net. 1 2 3 4 60\n" apex                            \
       " 60 IN NS ns1.example.net.\n"

static char *data;
static char why[512], warning[512];
static struct served *served;
static struct exposure *exposure;
static struct exposure_ring *ring;

static struct served *load(const char *id, unsigned endpoints, size_t count) {
  static const uint16_t weights[] = {1, 3, 0};
  static const char *const names[] = {"a.example.com.", "b.example.com."};
  struct steer_domain *domains[2];
  for (size_t i = 0; i < count; i++)
    domains[i] = zone_fixture_domain(names[2 - count + i], endpoints, weights, NULL);
  struct zone_fixture_zone zone = {.apex = "example.com.",
                                   .text = SOA("example.com."),
                                   .domains = domains,
                                   .domain_count = count};
  data_fixture_build(data, id, &zone, 1);
  struct load_request request = {.data_dir = data, .previous = served};
  struct served *loaded = load_run(&request, warning, why);
  cr_assert_not_null(loaded, "%s", why);
  return loaded;
}

static void init(void) {
  data = data_fixture_new();
  served = load("one", 3, 2);
  exposure = exposure_open();
  ring = exposure_ring_new();
}

static void fini(void) {
  free(ring);
  exposure_close(exposure);
  load_free(served);
  data_fixture_free(data);
}

TestSuite(exposure, .init = init, .fini = fini);

static void answer(uint32_t domain, uint16_t endpoint, uint64_t resolver, unsigned times) {
  struct exposure_sample sample = {
      .resolver = resolver << 8, .domain = domain, .view = served->view.generation};
  for (unsigned i = 0; i < times; i++)
    exposure_ring_put(ring, 0, &sample, &endpoint, 1);
}

/* "answers: e0=N e1=N ..., resolvers" */
static const char *told(uint32_t domain, uint64_t now) {
  static char out[256];
  json_t *json = exposure_json(exposure, served, domain, now);
  cr_assert_not_null(json);
  json_t *regions = json_object_get(json, "regions"), *endpoint;
  size_t i, n = 0;
  n += (size_t)snprintf(out, sizeof out,
                        "%lld:", (long long)json_integer_value(json_object_get(json, "answers")));
  json_t *list = json_object_get(json_array_get(regions, 0), "endpoints");
  json_array_foreach(list, i, endpoint) n += (size_t)snprintf(
      out + n, sizeof out - n, " %s=%lld", json_string_value(json_object_get(endpoint, "endpoint")),
      (long long)json_integer_value(json_object_get(endpoint, "answers")));
  json_t *resolvers = json_object_get(json, "resolvers");
  snprintf(out + n, sizeof out - n, ", %lld",
           (long long)json_integer_value(json_object_get(resolvers, "seen")));
  json_decref(json);
  return out;
}

Test(exposure, counts_by_endpoint_and_resolver) {
  answer(0, 0, 1, 10);
  answer(0, 1, 2, 30);
  answer(1, 2, 1, 1);
  exposure_drain(exposure, ring, served, 1000);
  cr_assert_str_eq(told(0, 1000), "40: e0=10 e1=30 e2=0, 2");
  cr_assert_str_eq(told(1, 1000), "1: e0=0 e1=0 e2=1, 1");
  json_t *json = exposure_json(exposure, served, 0, 1000);
  double share = -1, chance = -1;
  cr_assert_eq(json_unpack(json, "{s:[{s:[o, {s:F, s:{s:F}}]}]}", "regions", "endpoints",
                           &(json_t *){NULL}, "share", &share, "expected", "A", &chance),
               0);
  cr_assert_float_eq(share, 0.75, 1e-9);
  cr_assert_float_eq(chance, 0.75, 1e-9);
  json_decref(json);
}

Test(exposure, old_periods_are_forgotten) {
  answer(0, 0, 1, 10);
  exposure_drain(exposure, ring, served, 3000);
  answer(0, 1, 2, 5);
  exposure_drain(exposure, ring, served, 3000 + EXPOSURE_PERIOD);
  cr_assert_str_eq(told(0, 3000 + EXPOSURE_PERIOD), "15: e0=10 e1=5 e2=0, 2");
  cr_assert_str_eq(told(0, 3000 + 2 * EXPOSURE_PERIOD), "5: e0=0 e1=5 e2=0, 1");
  cr_assert_str_eq(told(0, 3000 + 3 * EXPOSURE_PERIOD), "0: e0=0 e1=0 e2=0, 0");
  answer(0, 2, 2, 1);
  exposure_drain(exposure, ring, served, 3000 + 9 * EXPOSURE_PERIOD);
  cr_assert_str_eq(told(0, 3000 + 9 * EXPOSURE_PERIOD), "1: e0=0 e1=0 e2=1, 1");
}

Test(exposure, samples_stand_for_more_at_high_rates) {
  for (int tick = 0; tick < 3; tick++) {
    answer(0, 0, 1, EXPOSURE_RING + 1);
    exposure_drain(exposure, ring, served, 1000);
    cr_assert_gt(atomic_load(&ring->every), 1);
  }
  exposure_drain(exposure, ring, served, 1000); /* nothing: all of them again */
  cr_assert_eq(atomic_load(&ring->every), 1);
}

Test(exposure, reloads_keep_what_was_counted_by_name) {
  answer(1, 1, 1, 30);
  answer(1, 2, 1, 5);
  answer(0, 0, 1, 5);
  exposure_drain(exposure, ring, served, 1000);
  struct served *next = load("two", 2, 1); /* without a.example.com. and without e2 */
  next->view.generation = served->view.generation + 1;
  exposure_move(exposure, served, next);
  answer(1, 1, 1, 7); /* of the old view: too late */
  load_free(served);
  served = next;
  exposure_drain(exposure, ring, served, 1000);
  cr_assert_str_eq(told(0, 1000), "35: e0=0 e1=30, 1");
  answer(0, 0, 2, 5);
  exposure_drain(exposure, ring, served, 1000);
  cr_assert_str_eq(told(0, 1000), "40: e0=5 e1=30, 2");
}
