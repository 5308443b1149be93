/* SPDX-License-Identifier: Apache-2.0 */
#include "geo_points.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "helper.h"

struct prefix {
  struct geo_address address;
  unsigned length;
};

static struct prefix read_net(const char *text) {
  struct prefix p;
  char copy[64];
  snprintf(copy, sizeof copy, "%s", text);
  char *slash = strchr(copy, '/');
  cr_assert(slash);
  *slash = '\0';
  helper_address(&p.address, copy);
  p.length = (unsigned)atoi(slash + 1);
  return p;
}

static u128 number_of(const struct geo_address *a) {
  u128 n = 0;
  for (size_t i = 0; i < (a->family == 4 ? 4 : 16); i++)
    n = n << 8 | a->octets[i];
  return n;
}

static u128 last_of(unsigned bits) {
  return bits == 128 ? ~(u128)0 : ((u128)1 << bits) - 1;
}

static void add(struct points *p, u128 item) {
  p->items = reallocarray(p->items, p->count + 1, sizeof *p->items);
  p->items[p->count++] = item;
}

/* Adds a prefix at `first` with `host` bits below it. */
static void add_prefix(struct points *p, u128 first, unsigned host) {
  u128 last = first | last_of(host);
  add(p, first);
  if (last != last_of(p->bits))
    add(p, last + 1);
}

static void add_net(struct points *p, const struct prefix *net) {
  u128 number = number_of(&net->address);
  unsigned host = (net->address.family == 4 ? 32 : 128) - net->length;
  if (p->bits == 128 && net->address.family == 4) {
    add_prefix(p, number, host);
    add_prefix(p, (u128)0x2002 << 112 | number << 80, host + 80);
    add_prefix(p, (u128)0x20010000 << 96 | number << 64, host + 64);
  } else if ((p->bits == 32) == (net->address.family == 4)) {
    add_prefix(p, number, host);
  }
}

static void add_file(struct points *p, const char *path) {
  json_t *list = json_load_file(helper_path(path), 0, NULL), *item;
  size_t i;
  cr_assert(list);
  json_array_foreach(list, i, item) {
    struct prefix net = read_net(json_string_value(json_object_get(item, "net")));
    add_net(p, &net);
  }
  json_decref(list);
}

static int order(const void *a, const void *b) {
  const u128 *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

void points_open(struct points *points, unsigned bits, const struct steer_domain *domain) {
  *points = (struct points){.bits = bits};
  add(points, 0);
  add_file(points, "geo/locations.json");
  add_file(points, "geo/asns.json");
  if (bits == 128) { /* the prefixes of IPv4 inside IPv6 themselves */
    add_prefix(points, 0, 32);
    add_prefix(points, (u128)0xffff << 32, 32);
    add_prefix(points, (u128)0x2002 << 112, 112);
    add_prefix(points, (u128)0x20010000 << 96, 96);
  }
  for (uint32_t r = 0; r < domain->region_count; r++) {
    for (uint32_t i = 0; i < domain->regions[r].atom_count; i++) {
      const struct steer_atom *a = &domain->regions[r].atoms[i];
      struct prefix net = {.address = {.family = a->net_family}, .length = a->net_bits};
      memcpy(net.address.octets, a->net, 16);
      bool same_family = (a->net_family == 4) == (bits == 32);
      if (a->kind == ATOM_NET && same_family)
        add_net(points, &net);
    }
  }
  qsort(points->items, points->count, sizeof *points->items, order);
  size_t kept = 1;
  for (size_t i = 1; i < points->count; i++)
    if (points->items[i] != points->items[kept - 1])
      points->items[kept++] = points->items[i];
  points->count = kept;
}

void points_close(struct points *points) {
  free(points->items);
}

void points_address(const struct points *points, u128 number, struct geo_address *address) {
  *address = (struct geo_address){.family = points->bits == 32 ? 4 : 6};
  for (unsigned i = points->bits / 8; i-- > 0; number >>= 8)
    address->octets[i] = (uint8_t)number;
}

const json_t *points_place(const json_t *list, const struct geo_address *address) {
  size_t i;
  json_t *item;
  json_array_foreach(list, i, item) {
    struct prefix net = read_net(json_string_value(json_object_get(item, "net")));
    unsigned host = (net.address.family == 4 ? 32 : 128) - net.length;
    if (net.address.family == address->family &&
        number_of(&net.address) >> host == number_of(address) >> host)
      return item;
  }
  return NULL;
}
