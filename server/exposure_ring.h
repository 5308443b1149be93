/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of steered answers, from a worker to the main thread (server/exposure.h).
 *
 * Each worker has a ring of its own: it alone writes samples and moves `head`, the main thread
 * alone reads them and moves `tail`, so neither locks nor read-modify-write operations are needed.
 * One answer in `every` is sampled, at random distances, so that no rhythm of the queries is
 * mistaken for a share; at low rates `every` is 1 and all of them are.  A full ring costs samples,
 * never time.  What most queries pay is one decrement.
 */
#ifndef SLUICE_SERVER_EXPOSURE_RING_H
#define SLUICE_SERVER_EXPOSURE_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "steering/geo.h"

enum {
  EXPOSURE_RING = 8192, /* samples; a power of two */
  EXPOSURE_EVERY_MAX = 1 << 16,
};

/* One drawn endpoint. */
struct exposure_sample {
  uint64_t resolver; /* exposure_resolver() */
  uint32_t domain;   /* index into served->domains */
  uint32_t weight; /* so many answers does it stand for; 0: one more endpoint of the last answer */
  uint32_t view;   /* view->generation */
  uint16_t region;
  uint16_t endpoint;
};

struct exposure_ring {
  _Alignas(64) _Atomic uint32_t head; /* of the worker */
  uint32_t known_tail;                /* likewise: as it saw it last */
  _Atomic uint64_t lost;              /* likewise: samples without room */
  _Alignas(64) _Atomic uint32_t tail; /* of the main thread */
  _Atomic uint32_t every;             /* likewise */
  struct exposure_sample samples[EXPOSURE_RING];
};

/* An empty ring, freed by free(); NULL without memory. */
struct exposure_ring *exposure_ring_new(void);

/* Called by the worker for an answer that is to be sampled; `endpoints` are those drawn.  Returns
 * after how many answers the next one is; `random` is a fresh random number. */
uint32_t exposure_ring_put(struct exposure_ring *ring, uint32_t random,
                           const struct exposure_sample *sample, const uint16_t *endpoints,
                           size_t count);

/* Takes at most `most` samples out, oldest first; returns how many. */
size_t exposure_ring_take(struct exposure_ring *ring, struct exposure_sample *out, size_t most);

/* The /24 or /56 of an address as a number that tells the family too; and back, as text
 * ("192.0.2.0/24"). */
uint64_t exposure_resolver(const struct geo_address *address);
enum { EXPOSURE_NETWORK = 56 };
const char *exposure_network(uint64_t resolver, char out[EXPOSURE_NETWORK]);

#endif
