/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time of layer 1 with a real location file:
 *   geo_bench FILE.mmdb ATOM [ATOM...]       e.g.  geo_bench city.mmdb ca ca-qc eu 192.0.2.0/24
 * Each atom is a region of its own beside `global`.  Prints load and build times, the table's
 * memory and ns per lookup for random addresses and for the same few addresses again and again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "steering/atom.h"
#include "steering/geo.h"

enum { ADDRESSES = 1 << 16, ROUNDS = 64 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void random_address(struct rng *rng, int family, struct geo_address *out) {
  uint8_t octets[16];
  for (size_t i = 0; i < sizeof octets; i++)
    octets[i] = (uint8_t)rng_next(rng);
  if (family == 4) {
    geo_address_set4(out, octets);
    return;
  }
  octets[0] = (uint8_t)(0x20 | (octets[0] & 0x0f));
  geo_address_set6(out, octets);
}

static void measure(const struct geo_table *table, int family, size_t distinct) {
  static struct geo_address addresses[ADDRESSES];
  struct rng rng;
  uint64_t sum = 0;
  rng_seed(&rng, 1);
  for (size_t i = 0; i < ADDRESSES; i++)
    random_address(&rng, family, &addresses[i]);
  double start = now();
  for (int round = 0; round < ROUNDS; round++) {
    for (size_t i = 0; i < ADDRESSES; i++) {
      struct geo_outcome o = geo_table_lookup(table, &addresses[i & (distinct - 1)]);
      sum += o.region + o.scope;
    }
  }
  double each = (now() - start) / ((double)ROUNDS * ADDRESSES) * 1e9;
  printf("IPv%d  %6zu addresses  %6.2f ns per lookup  (check %llu)\n", family, distinct, each,
         (unsigned long long)sum);
}

static bool read_regions(struct steer_domain *d, char **texts, uint32_t count) {
  static struct steer_atom global;
  d->regions[0] = (struct steer_region){.name = "global", .atom_count = 1, .atoms = &global};
  d->region_count = count + 1;
  for (uint32_t i = 0; i < count; i++) {
    const char *why;
    struct steer_atom *atom = calloc(1, sizeof *atom);
    if (!atom || !steer_atom_parse(texts[i], atom, &why)) {
      fprintf(stderr, "geo_bench: '%s' is not an atom\n", texts[i]);
      free(atom);
      return false;
    }
    d->regions[i + 1] = (struct steer_region){.name = texts[i], .atom_count = 1, .atoms = atom};
  }
  return true;
}

int main(int argc, char **argv) {
  char why[512];
  struct geo_db *db = NULL;
  if (argc < 3) {
    fprintf(stderr, "usage: geo_bench FILE.mmdb ATOM [ATOM...]\n");
    return 2;
  }
  struct steer_domain d = {.regions = calloc((size_t)argc, sizeof *d.regions)};
  if (!d.regions || !read_regions(&d, argv + 2, (uint32_t)argc - 2))
    return 2;
  double start = now();
  if (!geo_db_load(argv[1], NULL, &db, why)) {
    fprintf(stderr, "geo_bench: %s\n", why);
    return 1;
  }
  double loaded = now();
  struct geo_table *table = geo_table_build(db, &d);
  double built = now();
  if (!table)
    return 1;
  printf("load %.0f ms, table %.0f ms, %zu bytes\n", (loaded - start) * 1e3, (built - loaded) * 1e3,
         geo_table_memory(table));
  for (int family = 4; family <= 6; family += 2) {
    measure(table, family, ADDRESSES);
    measure(table, family, 256);
  }
  geo_table_free(table);
  geo_db_free(db);
  for (uint32_t i = 1; i < d.region_count; i++)
    free(d.regions[i].atoms);
  free(d.regions);
  return 0;
}
