/* SPDX-License-Identifier: Apache-2.0 */
#include "server/tcp_clients.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

enum { BUCKETS = 4096, KEY_OCTETS = 8, V6_KEY_OCTETS = 7 /* a /56: what one site gets */ };

struct tcp_client {
  struct tcp_client *next; /* in its bucket */
  struct tcp_link own;     /* head of a ring */
  unsigned count;
  uint8_t key[KEY_OCTETS];
};

static void ring_init(struct tcp_link *head) {
  head->next = head->prev = head;
}

static void ring_add(struct tcp_link *head, struct tcp_link *link) {
  link->prev = head->prev;
  link->next = head;
  head->prev->next = link;
  head->prev = link;
}

static void ring_remove(struct tcp_link *link) {
  link->prev->next = link->next;
  link->next->prev = link->prev;
}

#define PLACE_OF(link, member)                                                                     \
  ((struct tcp_place *)(void *)((char *)(link)-offsetof(struct tcp_place, member)))

bool tcp_clients_init(struct tcp_clients *clients) {
  *clients = (struct tcp_clients){.count = 0};
  ring_init(&clients->all);
  clients->buckets = calloc(BUCKETS, sizeof(struct tcp_client *));
  return clients->buckets != NULL &&
         getrandom(&clients->seed, sizeof clients->seed, 0) == (ssize_t)sizeof clients->seed;
}

void tcp_clients_close(struct tcp_clients *clients) {
  free(clients->buckets);
}

static void make_key(const union address_socket *peer, uint8_t key[KEY_OCTETS]) {
  memset(key, 0, KEY_OCTETS);
  if (peer->sa.sa_family == AF_INET) {
    memcpy(key, &peer->v4.sin_addr, 4);
    key[KEY_OCTETS - 1] = 4;
  } else {
    memcpy(key, peer->v6.sin6_addr.s6_addr, V6_KEY_OCTETS);
    key[KEY_OCTETS - 1] = 6;
  }
}

static struct tcp_client **find_client(struct tcp_clients *clients, const uint8_t key[KEY_OCTETS]) {
  uint64_t hash = XXH3_64bits_withSeed(key, KEY_OCTETS, clients->seed);
  struct tcp_client **at = &clients->buckets[hash % BUCKETS];
  while (*at != NULL && memcmp((*at)->key, key, KEY_OCTETS) != 0)
    at = &(*at)->next;
  return at;
}

bool tcp_clients_add(struct tcp_clients *clients, struct tcp_place *place,
                     const union address_socket *peer) {
  uint8_t key[KEY_OCTETS];
  make_key(peer, key);
  struct tcp_client **at = find_client(clients, key);
  if (*at == NULL) {
    struct tcp_client *client = calloc(1, sizeof *client);
    if (client == NULL)
      return false;
    memcpy(client->key, key, KEY_OCTETS);
    ring_init(&client->own);
    *at = client;
  }
  place->client = *at;
  place->client->count++;
  clients->count++;
  ring_add(&clients->all, &place->all);
  ring_add(&place->client->own, &place->own);
  return true;
}

void tcp_clients_remove(struct tcp_clients *clients, struct tcp_place *place) {
  struct tcp_client *client = place->client;
  ring_remove(&place->all);
  ring_remove(&place->own);
  clients->count--;
  if (--client->count > 0)
    return;
  struct tcp_client **at = find_client(clients, client->key);
  *at = client->next;
  free(client);
}

void tcp_clients_touch(struct tcp_clients *clients, struct tcp_place *place) {
  ring_remove(&place->all);
  ring_remove(&place->own);
  ring_add(&clients->all, &place->all);
  ring_add(&place->client->own, &place->own);
}

struct tcp_place *tcp_clients_idlest(const struct tcp_clients *clients) {
  return clients->count > 0 ? PLACE_OF(clients->all.next, all) : NULL;
}

unsigned tcp_clients_count_own(const struct tcp_place *place) {
  return place->client->count;
}

struct tcp_place *tcp_clients_idlest_own(const struct tcp_place *place) {
  return PLACE_OF(place->client->own.next, own);
}
