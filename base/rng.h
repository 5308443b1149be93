/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The random generator of a draw: xoshiro256++ (Blackman and Vigna), one state for each thread.
 *
 * Seeded from the kernel in production and from a number in tests.  It decides shares of traffic
 * and guards no secret.
 */
#ifndef SLUICE_BASE_RNG_H
#define SLUICE_BASE_RNG_H

#include <stdint.h>

struct rng {
  uint64_t s[4];
};

/* Seeds from getrandom(2); ends the process if the kernel has none (it always has after boot). */
void rng_seed_kernel(struct rng *r);

/* Seeds from a number, by splitmix64. */
void rng_seed(struct rng *r, uint64_t seed);

static inline uint64_t rng_rotl(uint64_t x, int k) {
  return (x << k) | (x >> (64 - k));
}

static inline uint64_t rng_next(struct rng *r) {
  uint64_t result = rng_rotl(r->s[0] + r->s[3], 23) + r->s[0];
  uint64_t t = r->s[1] << 17;
  r->s[2] ^= r->s[0];
  r->s[3] ^= r->s[1];
  r->s[1] ^= r->s[2];
  r->s[0] ^= r->s[3];
  r->s[2] ^= t;
  r->s[3] = rng_rotl(r->s[3], 45);
  return result;
}

/* Uniform in 0..bound-1, without modulo bias (Lemire's method); bound must not be 0. */
static inline uint32_t rng_below(struct rng *r, uint32_t bound) {
  uint64_t m = (uint64_t)(uint32_t)(rng_next(r) >> 32) * bound;
  if ((uint32_t)m < bound) {
    uint32_t floor = (uint32_t)(-bound) % bound;
    while ((uint32_t)m < floor)
      m = (uint64_t)(uint32_t)(rng_next(r) >> 32) * bound;
  }
  return (uint32_t)(m >> 32);
}

#endif
