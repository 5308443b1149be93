/* SPDX-License-Identifier: Apache-2.0 */
#include "server/exposure_ring.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IPV6 = 1, SUBNET6_OCTETS = 7, SUBNET4_OCTETS = 3 };

struct exposure_ring *exposure_ring_new(void) {
  struct exposure_ring *ring = aligned_alloc(_Alignof(struct exposure_ring), sizeof *ring);
  if (ring == NULL)
    return NULL;
  memset(ring, 0, sizeof *ring);
  atomic_init(&ring->every, 1);
  return ring;
}

/* From 1 to 2 * every - 1, so `every` on average. */
static uint32_t next_distance(uint32_t every, uint32_t random) {
  return 1 + (uint32_t)(((uint64_t)random * (2 * every - 1)) >> 32);
}

uint32_t exposure_ring_put(struct exposure_ring *ring, uint32_t random,
                           const struct exposure_sample *sample, const uint16_t *endpoints,
                           size_t count) {
  uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
  uint32_t every = atomic_load_explicit(&ring->every, memory_order_relaxed);
  if (EXPOSURE_RING - (head - ring->known_tail) < count)
    ring->known_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
  if (EXPOSURE_RING - (head - ring->known_tail) < count) {
    atomic_store_explicit(&ring->lost,
                          atomic_load_explicit(&ring->lost, memory_order_relaxed) + every,
                          memory_order_relaxed);
    return next_distance(every, random);
  }
  for (size_t i = 0; i < count; i++) {
    struct exposure_sample *to = &ring->samples[(head + i) % EXPOSURE_RING];
    *to = *sample;
    to->endpoint = endpoints[i];
    to->weight = i == 0 ? every : 0;
  }
  atomic_store_explicit(&ring->head, head + (uint32_t)count, memory_order_release);
  return next_distance(every, random);
}

size_t exposure_ring_take(struct exposure_ring *ring, struct exposure_sample *out, size_t most) {
  uint32_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
  uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
  size_t count = head - tail < most ? head - tail : most;
  for (size_t i = 0; i < count; i++)
    out[i] = ring->samples[(tail + i) % EXPOSURE_RING];
  atomic_store_explicit(&ring->tail, tail + (uint32_t)count, memory_order_release);
  return count;
}

uint64_t exposure_resolver(const struct geo_address *address) {
  uint64_t number = 0;
  unsigned octets = address->family == 4 ? SUBNET4_OCTETS : SUBNET6_OCTETS;
  for (unsigned i = 0; i < octets; i++)
    number = number << 8 | address->octets[i];
  return number << 8 | (address->family == 4 ? 0 : IPV6);
}

const char *exposure_network(uint64_t resolver, char out[EXPOSURE_NETWORK]) {
  bool ipv6 = (resolver & 0xff) == IPV6;
  unsigned octets = ipv6 ? SUBNET6_OCTETS : SUBNET4_OCTETS;
  uint8_t address[16] = {0};
  char text[INET6_ADDRSTRLEN];
  for (unsigned i = octets; i-- > 0;) {
    resolver >>= 8;
    address[i] = (uint8_t)resolver;
  }
  inet_ntop(ipv6 ? AF_INET6 : AF_INET, address, text, sizeof text);
  snprintf(out, EXPOSURE_NETWORK, "%s/%u", text, octets * 8);
  return out;
}
