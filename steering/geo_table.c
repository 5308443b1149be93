/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the serving path: a trie with a direct first level (2 to 16 bits, by the number of
 * ranges) and steps of 6 bits below.  A node has two bit sets of 64 slots: which slots go on to
 * another node, and where the leaf changes; equal leaves beside each other are stored once.  Nodes
 * and leaves stand in two arrays, so a step is one load and one count of bits.
 *
 * A leaf is a region and a scope: the shortest prefix around the slot that lies within one run of
 * equal regions.  Because runs are as long as they can be, that is the coarsest correct scope.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "steering/atom.h"
#include "steering/geo_runs.h"

enum { STEP = 6, SLOTS = 1 << STEP };

/* Of an entry of the first level; without it the entry is a node's index. */
#define IS_LEAF UINT32_C(0x80000000)

struct node {
  uint64_t inner; /* slots that have a node */
  uint64_t turns; /* slots whose leaf differs from the leaf before */
  uint32_t first_node;
  uint32_t first_leaf;
};

struct trie {
  unsigned root_bits;
  uint32_t *root;
  struct node *nodes;
  uint32_t *leaves; /* region | scope << 16 */
  size_t node_count, node_cap;
  size_t leaf_count, leaf_cap;
};

struct geo_table {
  struct trie trie4, trie6;
  bool fast_count; /* the processor counts bits by itself */
};

struct builder {
  struct trie *trie;
  const struct geo_map *runs;
  unsigned min_scope;
};

/* Everything is built on addresses that are aligned to the left of 128 bits. */
static u128 run_start(const struct geo_map *runs, size_t i) {
  return runs->bits == 32 ? (u128)runs->starts4[i] << 96 : runs->starts6[i];
}

static u128 run_end(const struct geo_map *runs, size_t i) {
  return i + 1 < runs->count ? run_start(runs, i + 1) - 1 : ~(u128)0;
}

/* The run that holds `address`, at or after run `from`: doubling steps, then halving. */
static size_t run_find(const struct geo_map *runs, size_t from, u128 address) {
  size_t step = 1, low = from;
  while (low + step < runs->count && run_start(runs, low + step) <= address) {
    low += step;
    step *= 2;
  }
  size_t high = low + step < runs->count ? low + step : runs->count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (run_start(runs, middle) <= address)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static u128 host_mask(unsigned bits) {
  return bits == 0 ? ~(u128)0 : geo_last(128 - bits);
}

/* How many leading bits two different numbers share. */
static unsigned shared_bits(u128 a, u128 b) {
  uint64_t high = (uint64_t)(a >> 64) ^ (uint64_t)(b >> 64);
  if (high)
    return (unsigned)__builtin_clzll(high);
  return 64 + (unsigned)__builtin_clzll((uint64_t)a ^ (uint64_t)b);
}

/* The leaf at `start`, which run `i` holds.  A prefix around it stays inside the run if it is
 * longer than what `start` shares with the addresses just before and after the run. */
static uint32_t leaf_of(const struct builder *b, size_t i, u128 start) {
  unsigned scope = b->min_scope;
  u128 first = run_start(b->runs, i), last = run_end(b->runs, i);
  if (first != 0 && shared_bits(start, first - 1) >= scope)
    scope = shared_bits(start, first - 1) + 1;
  if (last != ~(u128)0 && shared_bits(start, last + 1) >= scope)
    scope = shared_bits(start, last + 1) + 1;
  return b->runs->values[i] | scope << 16;
}

static bool reserve(void **items, size_t *cap, size_t count, size_t size) {
  if (count <= *cap)
    return true;
  size_t want = *cap ? *cap * 2 : 64;
  while (want < count)
    want *= 2;
  void *wide = reallocarray(*items, want, size);
  if (!wide)
    return false;
  *items = wide;
  *cap = want;
  return true;
}

static bool add_leaf(struct trie *t, uint32_t leaf) {
  if (!reserve((void **)&t->leaves, &t->leaf_cap, t->leaf_count + 1, sizeof *t->leaves))
    return false;
  t->leaves[t->leaf_count++] = leaf;
  return true;
}

/* Makes room for `count` nodes in a row. */
static bool add_nodes(struct trie *t, size_t count, uint32_t *first) {
  if (t->node_count + count >= IS_LEAF)
    return false;
  if (!reserve((void **)&t->nodes, &t->node_cap, t->node_count + count, sizeof *t->nodes))
    return false;
  *first = (uint32_t)t->node_count;
  t->node_count += count;
  return true;
}

static u128 slot_start(u128 start, unsigned bits, unsigned slot) {
  /* The last step of a family may reach past its bits; those slots repeat the ones before. */
  int shift = 128 - (int)bits - STEP;
  return shift >= 0 ? start | (u128)slot << shift : start | (u128)slot >> -shift;
}

/* Fills node `index`, which stands for the prefix of `bits` bits at `start`; run `i` holds `start`.
 */
static bool build_node(struct builder *b, uint32_t index, u128 start, unsigned bits, size_t i) {
  struct node node = {.first_leaf = (uint32_t)b->trie->leaf_count};
  size_t run_at[SLOTS];
  unsigned slot_bits = bits + STEP < 128 ? bits + STEP : 128;
  uint32_t last_leaf = UINT32_MAX;
  for (unsigned s = 0; s < SLOTS; s++) {
    u128 from = slot_start(start, bits, s);
    i = run_find(b->runs, i, from);
    run_at[s] = i;
    if (run_end(b->runs, i) < (from | host_mask(slot_bits))) {
      node.inner |= UINT64_C(1) << s;
      continue;
    }
    uint32_t leaf = leaf_of(b, i, from);
    if (leaf == last_leaf)
      continue;
    node.turns |= UINT64_C(1) << s;
    last_leaf = leaf;
    if (!add_leaf(b->trie, leaf))
      return false;
  }
  size_t inner = (size_t)__builtin_popcountll(node.inner);
  if (inner && !add_nodes(b->trie, inner, &node.first_node))
    return false;
  b->trie->nodes[index] = node;
  uint32_t next = node.first_node;
  for (unsigned s = 0; s < SLOTS; s++)
    if (node.inner >> s & 1 &&
        !build_node(b, next++, slot_start(start, bits, s), slot_bits, run_at[s]))
      return false;
  return true;
}

/* About four entries of the first level for each run. */
static unsigned choose_root_bits(size_t runs) {
  unsigned bits = 2;
  while (bits < 16 && (size_t)1 << bits < runs * 4)
    bits++;
  return bits;
}

static void trim(struct trie *t) {
  void *nodes = t->node_count ? reallocarray(t->nodes, t->node_count, sizeof *t->nodes) : NULL;
  void *leaves = t->leaf_count ? reallocarray(t->leaves, t->leaf_count, sizeof *t->leaves) : NULL;
  t->nodes = nodes ? nodes : t->nodes;
  t->leaves = leaves ? leaves : t->leaves;
}

static bool build_trie(struct trie *t, const struct geo_map *runs, unsigned min_scope) {
  struct builder b = {t, runs, min_scope};
  t->root_bits = choose_root_bits(runs->count);
  size_t size = (size_t)1 << t->root_bits, i = 0;
  t->root = calloc(size, sizeof *t->root);
  if (!t->root)
    return false;
  for (size_t s = 0; s < size; s++) {
    u128 start = (u128)s << (128 - t->root_bits);
    i = run_find(runs, i, start);
    if (run_end(runs, i) >= (start | host_mask(t->root_bits))) {
      t->root[s] = IS_LEAF | leaf_of(&b, i, start);
      continue;
    }
    uint32_t node;
    if (!add_nodes(t, 1, &node) || !build_node(&b, node, start, t->root_bits, i))
      return false;
    t->root[s] = node;
  }
  trim(t);
  return true;
}

static bool processor_counts_bits(void) {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_cpu_supports("popcnt");
#else
  return true;
#endif
}

struct geo_table *geo_table_build(const struct geo_db *db, const struct steer_domain *domain) {
  struct geo_table *table = calloc(1, sizeof *table);
  if (!table)
    return NULL;
  table->fast_count = processor_counts_bits();
  struct geo_map runs4, runs6;
  /* Scope 0 would let caches give this answer to everyone (RFC 7871 section 7.2.1). */
  unsigned min_scope = domain->region_count > 1 ? 1 : 0;
  bool ok = geo_runs_build(db, domain, &runs4, &runs6) &&
            build_trie(&table->trie4, &runs4, min_scope) &&
            build_trie(&table->trie6, &runs6, min_scope);
  geo_map_close(&runs4);
  geo_map_close(&runs6);
  if (ok)
    return table;
  geo_table_free(table);
  return NULL;
}

static void trie_close(struct trie *t) {
  free(t->root);
  free(t->nodes);
  free(t->leaves);
}

void geo_table_free(struct geo_table *table) {
  if (!table)
    return;
  trie_close(&table->trie4);
  trie_close(&table->trie6);
  free(table);
}

static size_t trie_memory(const struct trie *t) {
  return ((size_t)1 << t->root_bits) * sizeof *t->root + t->node_count * sizeof *t->nodes +
         t->leaf_count * sizeof *t->leaves;
}

size_t geo_table_memory(const struct geo_table *table) {
  return sizeof *table + trie_memory(&table->trie4) + trie_memory(&table->trie6);
}

static inline struct geo_outcome outcome_of(uint32_t leaf) {
  return (struct geo_outcome){.region = (uint16_t)leaf, .scope = (uint8_t)(leaf >> 16)};
}

/* One step down: true if *entry is another node's index, false if it is the leaf. */
static inline __attribute__((always_inline)) bool step_down(const struct trie *t, unsigned slot,
                                                            uint32_t *entry) {
  const struct node *node = &t->nodes[*entry];
  uint64_t bit = UINT64_C(1) << slot;
  if (node->inner & bit) {
    *entry = node->first_node + (uint32_t)__builtin_popcountll(node->inner & (bit - 1));
    return true;
  }
  uint64_t up_to = node->turns & (bit | (bit - 1));
  *entry = t->leaves[node->first_leaf + (uint32_t)__builtin_popcountll(up_to) - 1];
  return false;
}

static inline __attribute__((always_inline)) uint32_t find4(const struct trie *t, uint64_t key) {
  uint32_t entry = t->root[key >> (64 - t->root_bits)];
  if (entry & IS_LEAF)
    return entry;
  key <<= t->root_bits;
  while (step_down(t, (unsigned)(key >> (64 - STEP)), &entry))
    key <<= STEP;
  return entry;
}

static inline __attribute__((always_inline)) uint32_t find6(const struct trie *t, u128 key) {
  uint32_t entry = t->root[(uint64_t)(key >> 64) >> (64 - t->root_bits)];
  if (entry & IS_LEAF)
    return entry;
  key <<= t->root_bits;
  while (step_down(t, (unsigned)((uint64_t)(key >> 64) >> (64 - STEP)), &entry))
    key <<= STEP;
  return entry;
}

static inline __attribute__((always_inline)) struct geo_outcome
lookup(const struct geo_table *table, const struct geo_address *address) {
  uint64_t high, low;
  if (address->family == 4) {
    uint32_t v4;
    memcpy(&v4, address->octets, sizeof v4);
    return outcome_of(find4(&table->trie4, (uint64_t)be32toh(v4) << 32));
  }
  memcpy(&high, address->octets, sizeof high);
  memcpy(&low, address->octets + 8, sizeof low);
  u128 key = (u128)be64toh(high) << 64 | be64toh(low);
  return outcome_of(find6(&table->trie6, key));
}

/* Compiled for a processor that counts bits in one instruction. */
#if defined(__x86_64__) || defined(__i386__)
__attribute__((target("popcnt")))
#endif
static struct geo_outcome
lookup_fast(const struct geo_table *table, const struct geo_address *address) {
  return lookup(table, address);
}

struct geo_outcome geo_table_lookup(const struct geo_table *table,
                                    const struct geo_address *address) {
  if (table->fast_count)
    return lookup_fast(table, address);
  return lookup(table, address);
}

void geo_table_prefetch(const struct geo_table *table, const struct geo_address *address) {
  const struct trie *t = address->family == 4 ? &table->trie4 : &table->trie6;
  uint32_t first;
  memcpy(&first, address->octets, sizeof first);
  __builtin_prefetch(&t->root[be32toh(first) >> (32 - t->root_bits)]);
}

bool geo_table_same_key(const struct steer_domain *a, const struct steer_domain *b) {
  if (a->region_count != b->region_count)
    return false;
  for (uint32_t r = 0; r < a->region_count; r++) {
    const struct steer_region *x = &a->regions[r], *y = &b->regions[r];
    if (x->atom_count != y->atom_count)
      return false;
    for (uint32_t i = 0; i < x->atom_count; i++)
      if (!steer_atom_equal(&x->atoms[i], &y->atoms[i]))
        return false;
  }
  return true;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t len) {
  const uint8_t *p = bytes;
  for (size_t i = 0; i < len; i++)
    hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
  return hash;
}

uint64_t geo_table_key_hash(const struct steer_domain *domain) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (uint32_t r = 0; r < domain->region_count; r++) {
    hash = mix(hash, &r, sizeof r);
    for (uint32_t i = 0; i < domain->regions[r].atom_count; i++) {
      char text[64];
      steer_atom_text(&domain->regions[r].atoms[i], text);
      hash = mix(hash, text, strlen(text) + 1);
    }
  }
  return hash;
}
