/* SPDX-License-Identifier: Apache-2.0 */
#include "steering/geo_place.h"

#include <stdlib.h>
#include <string.h>

#include "steering/geo_runs.h"

enum { SENT4 = 24, SENT6 = 56, LARGEST4 = 8, LARGEST6 = 20 };

struct finder {
  const struct geo_db *db;
  const struct steer_domain *domain;
  const struct geo_map *runs, *also; /* `also` may be NULL */
  unsigned bits;                     /* of an address */
  struct geo_places *out;
};

/* ---- ranges --------------------------------------------------------------------------------- */

static u128 start_of(const struct geo_map *map, size_t i) {
  return map->bits == 32 ? map->starts4[i] : map->starts6[i];
}

/* The value if it is the same from `first` to `last`, else -1. */
static int64_t only_value(const struct geo_map *map, u128 first, u128 last) {
  size_t low = 0;
  size_t high = map->count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (start_of(map, middle) <= first)
      low = middle;
    else
      high = middle;
  }
  bool whole = low + 1 == map->count || start_of(map, low + 1) > last;
  return whole ? (int64_t)map->values[low] : -1;
}

static bool is_region(const struct finder *f, u128 first, u128 last, uint32_t region) {
  return only_value(f->runs, first, last) == region &&
         (!f->also || only_value(f->also, first, last) == region);
}

static u128 hosts(const struct finder *f, unsigned bits) {
  return bits == 0 ? geo_last(f->bits) : geo_last(f->bits - bits);
}

static unsigned sent(const struct finder *f) {
  return f->bits == 32 ? SENT4 : SENT6;
}

/* ---- lists ---------------------------------------------------------------------------------- */

static struct geo_place place_at(const struct finder *f, u128 first, unsigned bits) {
  struct geo_place place = {.family = f->bits == 32 ? 4 : 6, .bits = (uint8_t)bits};
  size_t octets = f->bits / 8;
  for (size_t i = 0; i < octets; i++)
    place.octets[i] = (uint8_t)(first >> (8 * (octets - 1 - i)));
  return place;
}

static void append(struct geo_places *list, struct geo_place place) {
  if (list->count < GEO_PLACES)
    list->items[list->count++] = place;
}

/* Shorter prefixes first, from place `from` on. */
static void insert(struct geo_places *list, size_t from, struct geo_place place) {
  size_t at = list->count;
  while (at > from && list->items[at - 1].bits > place.bits)
    at--;
  if (at == GEO_PLACES)
    return;
  size_t last = list->count < GEO_PLACES ? list->count : GEO_PLACES - 1;
  memmove(&list->items[at + 1], &list->items[at], (last - at) * sizeof place);
  list->items[at] = place;
  list->count = last + 1;
}

/* ---- net atoms ------------------------------------------------------------------------------ */

static void add_nets(const struct finder *f, uint32_t region) {
  const struct steer_region *r = &f->domain->regions[region];
  for (uint32_t i = 0; i < r->atom_count; i++) {
    const struct steer_atom *atom = &r->atoms[i];
    if (atom->kind != ATOM_NET || atom->net_family != (f->bits == 32 ? 4 : 6))
      continue;
    struct geo_address address = {.family = atom->net_family};
    memcpy(address.octets, atom->net, sizeof atom->net);
    u128 first = geo_address_number(&address);
    unsigned bits = atom->net_bits > sent(f) ? atom->net_bits : sent(f);
    if (is_region(f, first, first + hosts(f, bits), region))
      append(&f->out[region], place_at(f, first, bits));
  }
}

/* ---- the location file ---------------------------------------------------------------------- */

/* 6to4 and Teredo (2002::/16, 2001::/32) are placed by the IPv4 address inside, and not everywhere.
 */
static bool is_native(const struct finder *f, u128 a) {
  return f->bits == 32 || (a >> 125 == 1 && a >> 112 != 0x2002 && a >> 96 != 0x20010000);
}

/* The largest network within the range; returns its bits, or those of an address and more. */
static unsigned largest(const struct finder *f, u128 start, u128 end, u128 *first) {
  unsigned bits = f->bits == 32 ? LARGEST4 : LARGEST6;
  for (; bits <= f->bits; bits++) {
    u128 mask = hosts(f, bits);
    *first = (start + mask) & ~mask;
    if (*first >= start && *first <= end && mask <= end - *first)
      return bits;
  }
  return f->bits + 1;
}

static void add_range(const struct finder *f, uint32_t region, size_t from, u128 start, u128 end) {
  struct geo_places *list = &f->out[region];
  u128 first;
  if (list->count == GEO_PLACES &&
      (from == GEO_PLACES || end - start < hosts(f, list->items[GEO_PLACES - 1].bits)))
    return;
  unsigned bits = largest(f, start, end, &first);
  if (bits <= f->bits && is_native(f, first))
    insert(list, from, place_at(f, first, bits));
}

/* One sweep over the places that are known and the regions they lead to. */
static void add_places(const struct finder *f, const size_t *from) {
  struct geo_cursor place, run, also;
  geo_cursor_init(&place, f->bits == 32 ? &f->db->place4 : &f->db->place6, &f->db->place4);
  geo_cursor_init(&run, f->runs, NULL);
  geo_cursor_init(&also, f->also ? f->also : f->runs, NULL);
  for (u128 start = 0;;) {
    u128 end = place.end < run.end ? place.end : run.end;
    end = end < also.end ? end : also.end;
    const struct geo_location *location = &f->db->locations[place.value];
    if (location->country[0] && run.value == also.value)
      add_range(f, run.value, from[run.value], start, end);
    if (end == geo_last(f->bits))
      return;
    start = end + 1;
    if (place.end == end)
      geo_cursor_next(&place);
    if (run.end == end)
      geo_cursor_next(&run);
    if (also.end == end)
      geo_cursor_next(&also);
  }
}

/* What is asked is a prefix that resolvers send, at the start of the network. */
static void settle(const struct finder *f, struct geo_places *list, size_t from) {
  for (size_t i = from; i < list->count; i++)
    if (list->items[i].bits < sent(f))
      list->items[i].bits = (uint8_t)sent(f);
}

static void add_unknown(const struct finder *f, uint32_t region) {
  static const uint32_t documentation[] = {0xc0000200, 0xc6336400, 0xcb007100};
  for (size_t i = 0; f->bits == 32 && i < 3; i++)
    if (is_region(f, documentation[i], documentation[i] + hosts(f, SENT4), region))
      append(&f->out[region], place_at(f, documentation[i], SENT4));
  u128 first = (u128)0x20010db8 << 96;
  if (f->bits == 128 && is_region(f, first, first + hosts(f, SENT6), region))
    append(&f->out[region], place_at(f, first, SENT6));
}

static bool find(const struct finder *f) {
  uint32_t count = f->domain->region_count;
  size_t *from = calloc(count, sizeof *from);
  if (!from)
    return false;
  for (uint32_t r = 0; r < count; r++) {
    f->out[r].count = 0;
    add_nets(f, r);
    from[r] = f->out[r].count;
  }
  if (f->db)
    add_places(f, from);
  for (uint32_t r = 0; r < count; r++) {
    settle(f, &f->out[r], from[r]);
    add_unknown(f, r);
  }
  free(from);
  return true;
}

bool geo_places_find(const struct geo_db *db, const struct steer_domain *domain,
                     const struct steer_domain *also, uint8_t family, struct geo_places *out) {
  struct geo_map runs[2], more[2];
  size_t pick = family == 4 ? 0 : 1;
  bool ok = geo_runs_build(db, domain, &runs[0], &runs[1]);
  if (also)
    ok = geo_runs_build(db, also, &more[0], &more[1]) && ok;
  const struct finder f = {
      .db = db,
      .domain = domain,
      .runs = &runs[pick],
      .also = also ? &more[pick] : NULL,
      .bits = family == 4 ? 32 : 128,
      .out = out,
  };
  ok = ok && find(&f);
  for (size_t i = 0; i < 2; i++) {
    geo_map_close(&runs[i]);
    if (also)
      geo_map_close(&more[i]);
  }
  return ok;
}
