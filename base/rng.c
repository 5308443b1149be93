/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

static uint64_t splitmix64(uint64_t *state) {
  *state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

void rng_seed(struct rng *r, uint64_t seed) {
  for (int i = 0; i < 4; i++)
    r->s[i] = splitmix64(&seed);
}

void rng_seed_kernel(struct rng *r) {
  /* An all-zero state would stay zero for ever; the kernel gives it once in 2^256. */
  if (getrandom(r->s, sizeof r->s, 0) != (ssize_t)sizeof r->s) {
    fprintf(stderr, "sluice: the kernel gives no random numbers (getrandom)\n");
    abort();
  }
}
