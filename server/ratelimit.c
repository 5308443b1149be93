/* SPDX-License-Identifier: Apache-2.0 */
#include "server/ratelimit.h"

#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"

/*
 * A token bucket kept as one number, the time at which its tokens will be complete.  A response
 * costs one interval (1 / rate) and moves that time forward; it may not lie more than the burst
 * ahead.  So a refill needs no arithmetic, and the place of choice for a new client is the earliest
 * time.
 *
 * Ticks are 1/16 us, which keeps rates up to a million a second exact to 6% and lasts 142 years in
 * the 56 bits that the slip counter leaves.
 */
enum { TICKS_PER_MS = 16000, SLIP_BITS = 8, SLIP_MASK = 0xff };

struct entry {
  uint64_t tag;   /* hash of what is counted; 0: free */
  uint64_t state; /* time of completion in ticks << SLIP_BITS | responses over the limit since the
                     last truncated one */
};

struct bucket {
  _Alignas(64) struct entry entries[RATELIMIT_WAYS];
};

/* Family before the address, so that one order and one comparison serve both. */
struct exempt {
  uint8_t octets[17];
  uint8_t bits; /* of the 16 octets after the family */
};

struct ratelimit {
  struct bucket *buckets;
  uint64_t bucket_mask;
  uint64_t seed[2];
  uint64_t interval[RATELIMIT_CATEGORIES]; /* ticks a token takes to come back; 0: no limit */
  uint64_t burst[RATELIMIT_CATEGORIES];    /* ticks, at least one interval */
  uint64_t mask_v4[2], mask_v6[2];         /* over addresses in network order */
  uint8_t slip;
  size_t exempt_count;
  struct exempt *exempt; /* sorted, none within another */
  _Atomic uint64_t counters[RATELIMIT_COUNTERS];
};

void ratelimit_defaults(struct ratelimit_config *config) {
  *config = (struct ratelimit_config){
      .burst_ms = 1000, .buckets = 16384, .slip = 2, .prefix_v4 = 24, .prefix_v6 = 56};
}

static void mask_set(uint64_t mask[2], unsigned bits) {
  uint8_t octets[16];
  for (unsigned i = 0; i < 16; i++) {
    unsigned here = bits > 8 * i ? bits - 8 * i : 0;
    octets[i] = (uint8_t)(0xff00 >> (here < 8 ? here : 8));
  }
  memcpy(mask, octets, sizeof octets);
}

/* The prefix with the bits past its length cut off. */
static struct ratelimit_prefix prefix_cut(struct ratelimit_prefix prefix) {
  uint64_t mask[2], words[2];
  mask_set(mask, prefix.length);
  memcpy(words, prefix.octets, sizeof words);
  words[0] &= mask[0];
  words[1] &= mask[1];
  memcpy(prefix.octets, words, sizeof words);
  return prefix;
}

static bool prefix_is_valid(const struct ratelimit_prefix *prefix) {
  if (prefix->family != 4 && prefix->family != 6)
    return false;
  if (prefix->length > (prefix->family == 4 ? 32 : 128))
    return false;
  struct ratelimit_prefix cut = prefix_cut(*prefix);
  return memcmp(cut.octets, prefix->octets, sizeof cut.octets) == 0;
}

static bool config_check(const struct ratelimit_config *config, char *why) {
  const char *wrong = NULL;
  for (size_t i = 0; i < RATELIMIT_CATEGORIES; i++) {
    if (config->rate[i] > RATELIMIT_RATE_MAX)
      wrong = "a rate is above 1000000 in a second";
  }
  if (config->burst_ms > RATELIMIT_BURST_MAX)
    wrong = "the burst is longer than 60000 ms";
  if (config->buckets == 0 || config->buckets > RATELIMIT_BUCKETS_MAX ||
      (config->buckets & (config->buckets - 1)) != 0)
    wrong = "the number of buckets is not a power of two from 1 to 16777216";
  if (config->prefix_v4 > 32)
    wrong = "the IPv4 prefix is longer than 32 bits";
  if (config->prefix_v6 > 128)
    wrong = "the IPv6 prefix is longer than 128 bits";
  if (config->exempt_count > RATELIMIT_EXEMPT_MAX)
    wrong = "more than 4096 exempt prefixes";
  for (size_t i = 0; wrong == NULL && i < config->exempt_count; i++) {
    if (!prefix_is_valid(&config->exempt[i]))
      wrong = "an exempt prefix is malformed or has bits set past its length";
  }
  if (wrong != NULL)
    snprintf(why, RATELIMIT_WHY, "rate limit: %s", wrong);
  return wrong == NULL;
}

static bool prefix_covers(const uint8_t *prefix, unsigned bits, const uint8_t *address) {
  unsigned whole = bits / 8, rest = bits % 8;
  if (memcmp(prefix, address, whole) != 0)
    return false;
  return rest == 0 || ((prefix[whole] ^ address[whole]) & (0xff00 >> rest) & 0xff) == 0;
}

static bool exempt_covers(const struct exempt *e, const uint8_t key[17]) {
  return prefix_covers(e->octets, 8u + e->bits, key);
}

static int exempt_order(const void *a, const void *b) {
  const struct exempt *x = a, *y = b;
  int order = memcmp(x->octets, y->octets, sizeof x->octets);
  return order != 0 ? order : (int)x->bits - (int)y->bits;
}

/* Prefixes are either apart or nested: after sorting, one inside another follows it directly or
 * after others that are inside too. */
static bool exempt_load(struct ratelimit *limit, const struct ratelimit_config *config) {
  limit->exempt = calloc(config->exempt_count + 1, sizeof *limit->exempt);
  if (limit->exempt == NULL)
    return false;
  struct exempt *list = limit->exempt;
  for (size_t i = 0; i < config->exempt_count; i++) {
    const struct ratelimit_prefix *from = &config->exempt[i];
    list[i].octets[0] = from->family;
    memcpy(list[i].octets + 1, from->octets, from->family == 4 ? 4 : 16);
    list[i].bits = from->length;
  }
  qsort(list, config->exempt_count, sizeof *list, exempt_order);
  size_t kept = 0;
  for (size_t i = 0; i < config->exempt_count; i++) {
    if (kept == 0 || !exempt_covers(&list[kept - 1], list[i].octets))
      list[kept++] = list[i];
  }
  limit->exempt_count = kept;
  return true;
}

struct ratelimit *ratelimit_open(const struct ratelimit_config *config, const uint8_t seed[16],
                                 char *why) {
  if (!config_check(config, why))
    return NULL;
  struct ratelimit *limit = calloc(1, sizeof *limit);
  if (limit == NULL)
    goto no_memory;
  size_t size = config->buckets * sizeof *limit->buckets;
  limit->buckets = aligned_alloc(_Alignof(struct bucket), size);
  if (limit->buckets == NULL || !exempt_load(limit, config))
    goto no_memory;
  memset(limit->buckets, 0, size); /* also touches the pages now, not under attack */
  limit->bucket_mask = config->buckets - 1;
  memcpy(limit->seed, seed, sizeof limit->seed);
  for (size_t i = 0; i < RATELIMIT_CATEGORIES; i++) {
    uint64_t burst = (uint64_t)config->burst_ms * TICKS_PER_MS;
    if (config->rate[i] > 0)
      limit->interval[i] = (uint64_t)TICKS_PER_MS * 1000 * 1000 / config->rate[i];
    limit->burst[i] = burst > limit->interval[i] ? burst : limit->interval[i];
  }
  mask_set(limit->mask_v4, config->prefix_v4);
  mask_set(limit->mask_v6, config->prefix_v6);
  limit->slip = config->slip;
  return limit;
no_memory:
  ratelimit_close(limit);
  snprintf(why, RATELIMIT_WHY, "rate limit: no memory for %u buckets", (unsigned)config->buckets);
  return NULL;
}

void ratelimit_close(struct ratelimit *limit) {
  if (limit == NULL)
    return;
  free(limit->exempt);
  free(limit->buckets);
  free(limit);
}

uint64_t ratelimit_count(const struct ratelimit *limit, unsigned which) {
  return atomic_load_explicit(&limit->counters[which], memory_order_relaxed);
}

/* One thread writes, so a plain load and store will do. */
static void count(struct ratelimit *limit, unsigned which) {
  uint64_t value = atomic_load_explicit(&limit->counters[which], memory_order_relaxed);
  atomic_store_explicit(&limit->counters[which], value + 1, memory_order_relaxed);
}

/* Hash of the client's network. */
static uint64_t hash_network(const struct ratelimit *limit, uint8_t family,
                             const uint8_t *address) {
  uint64_t words[2] = {0, 0};
  memcpy(words, address, family == 4 ? 4 : 16);
  const uint64_t *mask = family == 4 ? limit->mask_v4 : limit->mask_v6;
  uint64_t high = (words[0] & mask[0]) ^ limit->seed[0];
  uint64_t low = (words[1] & mask[1]) ^ limit->seed[1] ^ family;
  return name_mix(high, low);
}

static uint64_t hash_entry(const struct ratelimit *limit, uint64_t network,
                           enum ratelimit_category category, uint64_t about) {
  uint64_t subject = name_mix(about ^ limit->seed[1], limit->seed[0] + category);
  uint64_t hash = name_mix(network ^ limit->seed[0], subject ^ UINT64_C(0xa0761d6478bd642f));
  return hash != 0 ? hash : 1;
}

/* The entry of `tag`; if it has none, a fresh one with full tokens, in the place of another. */
static struct entry *entry_find(struct ratelimit *limit, uint64_t tag, uint64_t now) {
  struct entry *entries = limit->buckets[tag & limit->bucket_mask].entries;
  struct entry *victim = &entries[0];
  for (size_t i = 0; i < RATELIMIT_WAYS; i++) {
    if (entries[i].tag == tag)
      return &entries[i];
    if (entries[i].state >> SLIP_BITS < victim->state >> SLIP_BITS)
      victim = &entries[i];
  }
  if (victim->state >> SLIP_BITS > now)
    count(limit, RATELIMIT_COUNT_REPLACED);
  victim->tag = tag;
  victim->state = now << SLIP_BITS;
  return victim;
}

/* Takes a token; false if there is none. */
static bool entry_charge(const struct ratelimit *limit, struct entry *entry,
                         enum ratelimit_category category, uint64_t now) {
  uint64_t complete = entry->state >> SLIP_BITS;
  uint64_t after = (complete > now ? complete : now) + limit->interval[category];
  if (after - now > limit->burst[category])
    return false;
  entry->state = after << SLIP_BITS | (entry->state & SLIP_MASK);
  return true;
}

static bool is_exempt(const struct ratelimit *limit, uint8_t family, const uint8_t *address) {
  uint8_t key[17] = {family};
  memcpy(key + 1, address, family == 4 ? 4 : 16);
  size_t low = 0, high = limit->exempt_count;
  while (low < high) { /* the first prefix that begins after the address */
    size_t middle = low + (high - low) / 2;
    if (memcmp(limit->exempt[middle].octets, key, sizeof key) <= 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 && exempt_covers(&limit->exempt[low - 1], key);
}

/* What happens to a response over the limit. */
static enum ratelimit_verdict slip(struct ratelimit *limit, struct entry *entry,
                                   enum ratelimit_category category) {
  count(limit, RATELIMIT_COUNT_LIMITED + (unsigned)category);
  uint64_t over = (entry->state & SLIP_MASK) + 1;
  bool truncate = limit->slip > 0 && over >= limit->slip;
  if (truncate || limit->slip == 0)
    over = 0;
  entry->state = (entry->state & ~(uint64_t)SLIP_MASK) | over;
  count(limit, truncate ? RATELIMIT_COUNT_TRUNCATED : RATELIMIT_COUNT_DROPPED);
  return truncate ? RATELIMIT_TRUNCATE : RATELIMIT_DROP;
}

/*
 * Takes a token for `category` and one for ALL, or neither: NULL, or the entry without tokens, with
 * its category in *hit.
 */
static struct entry *charge_both(struct ratelimit *limit, uint64_t network,
                                 enum ratelimit_category category, uint64_t about, uint64_t now,
                                 enum ratelimit_category *hit) {
  struct entry *all = NULL;
  *hit = RATELIMIT_ALL;
  if (limit->interval[RATELIMIT_ALL] > 0) {
    all = entry_find(limit, hash_entry(limit, network, RATELIMIT_ALL, 0), now);
    if (!entry_charge(limit, all, RATELIMIT_ALL, now))
      return all;
  }
  if (limit->interval[category] == 0)
    return NULL;
  uint64_t subject = category == RATELIMIT_ERROR ? 0 : about;
  struct entry *own = entry_find(limit, hash_entry(limit, network, category, subject), now);
  if (entry_charge(limit, own, category, now))
    return NULL;
  /* Nothing will be sent, so ALL gets its token back.  A fresh entry always has a token: this one
   * was there before, so that finding it cannot have replaced `all`. */
  if (all != NULL)
    all->state -= limit->interval[RATELIMIT_ALL] << SLIP_BITS;
  *hit = category;
  return own;
}

enum ratelimit_verdict ratelimit_check(struct ratelimit *limit, uint8_t family,
                                       const uint8_t *address, enum ratelimit_category category,
                                       uint64_t about, uint64_t now_ms) {
  uint64_t network = hash_network(limit, family, address);
  enum ratelimit_category hit;
  struct entry *over = charge_both(limit, network, category, about, now_ms * TICKS_PER_MS, &hit);
  if (over == NULL) {
    count(limit, RATELIMIT_COUNT_PASSED);
    return RATELIMIT_PASS;
  }
  if (is_exempt(limit, family, address)) {
    count(limit, RATELIMIT_COUNT_EXEMPTED);
    return RATELIMIT_PASS;
  }
  return slip(limit, over, hit);
}

/* Reads the digits after the slash; false if they are no number of at most `most`. */
static bool length_parse(const char *text, unsigned most, uint8_t *length) {
  char *end = NULL;
  if (text[0] < '0' || text[0] > '9')
    return false;
  unsigned long value = strtoul(text, &end, 10);
  if (*end != '\0' || value > most)
    return false;
  *length = (uint8_t)value;
  return true;
}

bool ratelimit_prefix_parse(const char *text, struct ratelimit_prefix *prefix, char *why) {
  static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  char address[INET6_ADDRSTRLEN];
  struct ratelimit_prefix p = {.family = strchr(text, ':') != NULL ? 6 : 4};
  const int inet = p.family == 4 ? AF_INET : AF_INET6;
  p.length = p.family == 4 ? 32 : 128;
  const char *slash = strchrnul(text, '/');
  size_t len = (size_t)(slash - text);
  if (len < sizeof address)
    memcpy(address, text, len);
  address[len < sizeof address ? len : 0] = '\0';
  if (inet_pton(inet, address, p.octets) != 1) {
    snprintf(why, RATELIMIT_WHY, "`%.60s` is no address prefix such as 192.0.2.0/24", text);
    return false;
  }
  if (*slash == '/' && !length_parse(slash + 1, p.length, &p.length)) {
    snprintf(why, RATELIMIT_WHY, "the prefix length of `%.60s` must be a number from 0 to %u", text,
             (unsigned)p.length);
    return false;
  }
  if (p.family == 6 && p.length >= 96 && memcmp(p.octets, mapped, sizeof mapped) == 0) {
    snprintf(why, RATELIMIT_WHY, "`%.60s` is an IPv4-mapped prefix; write it as IPv4", text);
    return false;
  }
  if (!prefix_is_valid(&p)) {
    struct ratelimit_prefix cut = prefix_cut(p);
    inet_ntop(inet, cut.octets, address, sizeof address);
    snprintf(why, RATELIMIT_WHY, "`%.60s` has bits set past its length; write %s/%u", text, address,
             (unsigned)p.length);
    return false;
  }
  *prefix = p;
  return true;
}
