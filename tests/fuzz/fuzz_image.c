/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any image: it is refused, or every query against it is answered without a fault.  The first octet
 * says which names to ask; the rest is the image, whose checksum, size and version are put right so
 * that the fuzzer gets past them.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "server/wire.h"
#include "zone_fixture.h"

static uint8_t packet[QUERY_BUF];
static struct query_config config = {.udp_max = QUERY_UDP_MAX};
static struct query_worker worker = {.config = &config};

static void put_right(uint8_t *data, size_t size) {
  struct image_header *h = (struct image_header *)(void *)data;
  memcpy(h->magic, IMAGE_MAGIC, sizeof h->magic);
  h->version = IMAGE_VERSION;
  h->header_size = sizeof *h;
  h->file_size = size;
  size_t covered = offsetof(struct image_header, serial);
  h->checksum = XXH3_64bits(data + covered, size - covered);
}

static bool make_runtime(struct view_zone *zone, uint32_t count) {
  for (uint32_t d = 0; d < count; d++) {
    struct view_domain *vd = &zone->domains[d];
    vd->steer = zone->image->domains[d];
    vd->geo = geo_table_build(NULL, vd->steer);
    size_t tables = (size_t)vd->steer->region_count * STEER_TYPES;
    struct view_draws *draws = calloc(1, sizeof *draws + tables * sizeof draws->tables[0]);
    atomic_init(&vd->draws, draws);
    if (!draws || !vd->geo)
      return false;
    struct steer_facts facts = {NULL, NULL};
    for (size_t t = 0; t < tables; t++)
      if (vd->steer->offers[t % STEER_TYPES])
        draws->tables[t] = draw_table_build(vd->steer, (uint32_t)(t / STEER_TYPES),
                                            (enum steer_type)(t % STEER_TYPES), &facts);
  }
  return true;
}

static void free_runtime(struct view_zone *zone, uint32_t count) {
  for (uint32_t d = 0; d < count; d++) {
    struct view_domain *vd = &zone->domains[d];
    struct view_draws *draws = (struct view_draws *)(uintptr_t)atomic_load(&vd->draws);
    for (size_t t = 0; draws && vd->steer && t < (size_t)vd->steer->region_count * STEER_TYPES; t++)
      free((void *)(uintptr_t)draws->tables[t]);
    free(draws);
    geo_table_free((struct geo_table *)(uintptr_t)vd->geo);
  }
}

static void ask(const struct view *view, const uint8_t *name, size_t name_len, uint16_t type) {
  static struct query q;
  memset(packet, 0, 12);
  packet[5] = 1;
  memcpy(packet + 12, name, name_len);
  wire_put16(packet + 12 + name_len, type);
  wire_put16(packet + 14 + name_len, CLASS_IN);
  q.packet = packet;
  q.length = 16 + name_len;
  q.capacity = sizeof packet;
  q.transport = TRANSPORT_TCP;
  uint8_t source[4] = {127, 0, 0, 1};
  geo_address_set4(&q.source, source);
  query_respond(&q, view, &worker);
}

/* Each owner of the image, and a name below each: that covers every node and every way to it. */
static void ask_all(const struct view *view, const struct image *image) {
  static const uint16_t types[] = {TYPE_A,     TYPE_NS,  TYPE_CNAME, TYPE_MX,
                                   TYPE_DNAME, TYPE_ANY, TYPE_DS};
  const struct image_header *h = image->header;
  uint64_t at = h->nodes.offset;
  for (uint32_t i = 0; i < h->node_count && i < 64; i++) {
    const struct image_node *n = image_node_at(image, (uint32_t)(at / IMAGE_ALIGN));
    uint8_t below[NAME_BUF] = {1, 'x'};
    memcpy(below + 2, image_node_name(n), n->name_len);
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
      ask(view, below + 2, n->name_len, types[t]);
      if (n->name_len + 2u <= NAME_MAX_WIRE)
        ask(view, below, n->name_len + 2u, types[t]);
    }
    at += n->size;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < sizeof(struct image_header) || size > 1 << 16)
    return 0;
  rng_seed(&worker.rng, 1);
  uint8_t *copy = aligned_alloc(64, (size + 63) & ~(size_t)63);
  if (!copy)
    return 0;
  /* The copy ends where its allocation ends when the size is a multiple of 64: ASan sees
   * over-reads. */
  memset(copy, 0xff, (size + 63) & ~(size_t)63);
  memcpy(copy, data, size);
  put_right(copy, size);
  char why[512];
  struct image image;
  if (image_open_memory(&image, copy, size, why)) {
    uint32_t count = image.header->domain_count;
    struct view_zone zone = {.image = &image, .domains = calloc(count + 1u, sizeof *zone.domains)};
    struct view view = {.zones = &zone, .zone_count = 1};
    if (zone.domains && make_runtime(&zone, count) && view_index(&view)) {
      ask_all(&view, &image);
      view_unindex(&view);
    }
    if (zone.domains)
      free_runtime(&zone, count);
    free(zone.domains);
    image_close(&image);
  }
  free(copy);
  return 0;
}
