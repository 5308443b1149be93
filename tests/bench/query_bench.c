/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of the query path alone, without a socket: a synthetic zone, the mix of queries that
 * the network benchmark uses, batches as a worker has them.  Prints nanoseconds for each query;
 * under `valgrind --tool=callgrind --toggle-collect=run_batches` it counts instructions.
 *
 *   query_bench [names [rounds [kind [every]]]]
 *     kind: a aaaa wild cname deleg nx nodata steer mix
 *     every: sample one in so many steered answers for `exposure`, draining included
 */
#include <ldns/ldns.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "server/exposure_ring.h"
#include "zone_fixture.h"

enum { BATCH = 64, QUERIES = 4096, SLOT = 4096 };

static struct query queries[BATCH];
static uint8_t packets[BATCH][SLOT];
static uint8_t requests[QUERIES][128];
static size_t lengths[QUERIES];

static char *zone_text(unsigned names) {
  struct buf b;
  buf_init(&b);
  buf_printf(&b, "bench.example. 3600 IN SOA ns1.bench.example. h.bench.example. 1 1 1 1 300\n"
                 "bench.example. 300 IN NS ns1.bench.example.\n"
                 "ns1.bench.example. 300 IN A 192.0.2.1\n");
  for (unsigned i = 0; i < names; i++)
    buf_printf(&b,
               "h%07u.bench.example. 300 IN A 10.%u.%u.%u\n"
               "h%07u.bench.example. 300 IN AAAA 2001:db8::%x\n",
               i, i >> 16 & 255, i >> 8 & 255, i & 255, i, i & 0xffff);
  for (unsigned i = 0; i < names / 20 + 1; i++)
    buf_printf(&b, "c%06u.bench.example. 300 IN CNAME h%07u.bench.example.\n", i, i * 7 % names);
  for (unsigned i = 0; i < names / 50 + 1; i++)
    buf_printf(&b,
               "d%06u.bench.example. 300 IN NS ns1.d%06u.bench.example.\n"
               "ns1.d%06u.bench.example. 300 IN A 198.51.100.%u\n",
               i, i, i, i & 255);
  for (unsigned i = 0; i < names / 100 + 1; i++)
    buf_printf(&b, "*.w%05u.bench.example. 300 IN A 172.16.0.1\n", i);
  return strdup(buf_text(&b));
}

static void name_of(char *out, size_t size, const char *kind, unsigned names, struct rng *rng) {
  uint32_t r = rng_below(rng, 1u << 28);
  if (strcmp(kind, "wild") == 0)
    snprintf(out, size, "x%x.w%05u.bench.example.", r, r % (names / 100 + 1));
  else if (strcmp(kind, "cname") == 0)
    snprintf(out, size, "c%06u.bench.example.", r % (names / 20 + 1));
  else if (strcmp(kind, "deleg") == 0)
    snprintf(out, size, "www.d%06u.bench.example.", r % (names / 50 + 1));
  else if (strcmp(kind, "nx") == 0)
    snprintf(out, size, "nx%x.bench.example.", r);
  else if (strcmp(kind, "steer") == 0)
    snprintf(out, size, "steer%u.bench.example.", r % 16);
  else
    snprintf(out, size, "h%07u.bench.example.", r % names);
}

static const char *mix(struct rng *rng) {
  static const struct {
    const char *kind;
    unsigned up_to;
  } shares[] = {{"a", 40},     {"aaaa", 60}, {"wild", 70},   {"cname", 80},
                {"deleg", 85}, {"nx", 95},   {"nodata", 100}};
  unsigned x = rng_below(rng, 100);
  unsigned i = 0;
  while (x >= shares[i].up_to)
    i++;
  return shares[i].kind;
}

static void make_requests(const char *kind, unsigned names) {
  struct rng rng;
  rng_seed(&rng, 7);
  for (unsigned i = 0; i < QUERIES; i++) {
    const char *k = strcmp(kind, "mix") == 0 ? mix(&rng) : kind;
    char text[256];
    name_of(text, sizeof text, k, names, &rng);
    uint16_t type = strcmp(k, "aaaa") == 0     ? LDNS_RR_TYPE_AAAA
                    : strcmp(k, "nodata") == 0 ? LDNS_RR_TYPE_TXT
                                               : LDNS_RR_TYPE_A;
    uint8_t *p = requests[i];
    memset(p, 0, 12);
    p[5] = 1;
    p[11] = 1;
    uint8_t name[NAME_BUF];
    const char *why;
    size_t n = name_from_text(name, text, strlen(text), NULL, &why);
    memcpy(p + 12, name, n);
    size_t at = 12 + n;
    ldns_write_uint16(p + at, type);
    ldns_write_uint16(p + at + 2, LDNS_RR_CLASS_IN);
    at += 4;
    bool ecs = strcmp(k, "steer") == 0;
    static const uint8_t opt[] = {0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0};
    memcpy(p + at, opt, sizeof opt);
    at += sizeof opt;
    if (ecs) {
      p[at - 1] = 11;
      uint8_t option[11] = {0, 8, 0, 7, 0, 1, 24, 0};
      for (int o = 8; o < 11; o++)
        option[o] = (uint8_t)rng_below(&rng, 256);
      memcpy(p + at, option, sizeof option);
      at += sizeof option;
    }
    lengths[i] = at;
  }
}

/* What the main thread does meanwhile. */
static void drain(struct exposure_ring *ring) {
  static struct exposure_sample samples[512];
  while (ring != NULL && exposure_ring_take(ring, samples, 512) == 512)
    ;
}

__attribute__((noinline)) static uint64_t
run_batches(const struct view *view, struct query_worker *worker, unsigned rounds) {
  uint64_t octets = 0;
  for (unsigned r = 0; r < rounds; r++) {
    for (unsigned first = 0; first < QUERIES; first += BATCH) {
      for (unsigned i = 0; i < BATCH; i++) {
        memcpy(packets[i], requests[first + i], sizeof requests[0]);
        queries[i].length = lengths[first + i];
        query_parse(&queries[i], view, worker);
      }
      for (unsigned i = 0; i < BATCH; i++)
        query_locate(&queries[i]);
      for (unsigned i = 0; i < BATCH; i++)
        octets += query_answer(&queries[i], view, worker);
    }
    drain(worker->exposure);
  }
  return octets;
}

int main(int argc, char **argv) {
  unsigned names = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 10000;
  unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 500;
  const char *kind = argc > 3 ? argv[3] : "mix";
  char *text = zone_text(names);
  static const uint16_t weights[] = {10, 20, 30, 40};
  struct steer_domain *domains[16];
  for (unsigned i = 0; i < 16; i++) {
    char owner[64];
    snprintf(owner, sizeof owner, "steer%u.bench.example.", i);
    domains[i] = zone_fixture_domain(owner, 4, weights, NULL);
  }
  struct zone_fixture_zone zone = {"bench.example.", text, domains, 16};
  struct zone_fixture *fixture = zone_fixture_new(&zone, 1);
  make_requests(kind, names);
  static struct query_config config = {.udp_max = QUERY_UDP_MAX};
  static struct query_worker worker;
  worker.config = &config;
  rng_seed(&worker.rng, 1);
  if (argc > 4) {
    worker.exposure = exposure_ring_new();
    worker.exposure_left = 1;
    atomic_store(&worker.exposure->every, (uint32_t)strtoul(argv[4], NULL, 10));
  }
  for (unsigned i = 0; i < BATCH; i++) {
    queries[i].packet = packets[i];
    queries[i].capacity = SLOT;
    queries[i].transport = TRANSPORT_UDP;
    geo_address_set4(&queries[i].source, (const uint8_t[]){127, 0, 0, 1});
  }
  const struct view *view = zone_fixture_view(fixture);
  run_batches(view, &worker, 1);
  struct timespec a;
  struct timespec b;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
  uint64_t octets = run_batches(view, &worker, rounds);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
  double ns = (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
  printf("%s: %u names, %.1f ns and %.1f octets per query\n", kind, names,
         ns / ((double)rounds * QUERIES), (double)octets / ((double)rounds * QUERIES));
  zone_fixture_free(fixture);
  free(worker.exposure);
  free(text);
  return 0;
}
