/* SPDX-License-Identifier: Apache-2.0 */
#include "zone_fixture.h"

#include <ldns/ldns.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zones/compile.h"

struct zone_fixture {
  struct view view;
  struct model_zone *models;
  struct buf *bytes;
  struct image *images;
  size_t count;
};

static void die(const char *what) {
  fprintf(stderr, "zone fixture: %s\n", what);
  abort();
}

static uint8_t *wire(const char *text) {
  uint8_t *name = malloc(NAME_BUF);
  const char *why = NULL;
  if (name_from_text(name, text, strlen(text), NULL, &why) == 0)
    die(why);
  uint8_t copy[NAME_BUF];
  memcpy(copy, name, NAME_BUF);
  name_copy_lower(name, copy);
  return name;
}

static void add_rr(struct model_zone *zone, const char *line) {
  ldns_rr *rr = NULL;
  if (ldns_rr_new_frm_str(&rr, line, 0, NULL, NULL) != LDNS_STATUS_OK)
    die(line);
  uint8_t *octets = NULL;
  size_t len = 0;
  ldns_rr2wire(&octets, rr, LDNS_SECTION_ANSWER, &len);
  size_t owner_len = name_wire_len(octets, len);
  zone->rrs = realloc(zone->rrs, (zone->rr_count + 1) * sizeof *zone->rrs);
  struct model_rr *m = &zone->rrs[zone->rr_count++];
  memset(m, 0, sizeof *m);
  m->owner = malloc(NAME_BUF);
  name_copy_lower(m->owner, octets);
  m->type = (uint16_t)ldns_rr_get_type(rr);
  m->ttl = ldns_rr_ttl(rr);
  m->rdata_len = (uint16_t)(len - owner_len - 10);
  m->rdata = malloc(m->rdata_len + 1u);
  memcpy(m->rdata, octets + owner_len + 10, m->rdata_len);
  free(octets);
  ldns_rr_free(rr);
}

static int rr_order(const void *a, const void *b) {
  const struct model_rr *x = a;
  const struct model_rr *y = b;
  int d = name_compare(x->owner, y->owner);
  if (d == 0)
    d = (int)x->type - (int)y->type;
  if (d == 0)
    d = memcmp(x->rdata, y->rdata, x->rdata_len < y->rdata_len ? x->rdata_len : y->rdata_len);
  return d ? d : (int)x->rdata_len - (int)y->rdata_len;
}

static void make_zone(struct zone_fixture *f, size_t i, const struct zone_fixture_zone *z) {
  struct model_zone *m = &f->models[i];
  m->apex = wire(z->apex);
  m->serial_mode = SERIAL_CARRIED;
  char *text = strdup(z->text);
  char *save = NULL;
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
    add_rr(m, line);
  free(text);
  qsort(m->rrs, m->rr_count, sizeof m->rrs[0], rr_order);
  m->domain_count = z->domain_count;
  m->domains = calloc(z->domain_count + 1, sizeof *m->domains);
  for (size_t d = 0; d < z->domain_count; d++)
    m->domains[d].steer = z->domains[d];
  char why[512];
  if (!compile_image(m, 1, &f->bytes[i], why) ||
      !image_open_memory(&f->images[i], f->bytes[i].data, f->bytes[i].len, why))
    die(why);
}

static void make_runtime(struct view_zone *zone) {
  uint32_t n = zone->image->header->domain_count;
  zone->domains = calloc(n + 1, sizeof *zone->domains);
  for (uint32_t d = 0; d < n; d++) {
    struct view_domain *vd = &zone->domains[d];
    vd->steer = zone->image->domains[d];
    vd->geo = geo_table_build(NULL, vd->steer);
    vd->index = d;
    size_t tables = vd->steer->region_count * STEER_TYPES;
    struct view_draws *draws = calloc(1, sizeof *draws + tables * sizeof draws->tables[0]);
    struct steer_facts facts = {NULL, NULL};
    for (size_t t = 0; t < tables; t++)
      draws->tables[t] = draw_table_build(vd->steer, (uint32_t)(t / STEER_TYPES),
                                          (enum steer_type)(t % STEER_TYPES), &facts);
    atomic_init(&vd->draws, draws);
  }
}

struct zone_fixture *zone_fixture_new(const struct zone_fixture_zone *zones, size_t count) {
  struct zone_fixture *f = calloc(1, sizeof *f);
  f->count = count;
  f->models = calloc(count, sizeof *f->models);
  f->bytes = calloc(count, sizeof *f->bytes);
  f->images = calloc(count, sizeof *f->images);
  f->view.zones = calloc(count, sizeof *f->view.zones);
  f->view.zone_count = (uint32_t)count;
  for (size_t i = 0; i < count; i++) {
    make_zone(f, i, &zones[i]);
    f->view.zones[i].image = &f->images[i];
    make_runtime(&f->view.zones[i]);
  }
  if (!view_index(&f->view))
    die("two zones of one name");
  return f;
}

static void free_runtime(struct view_zone *zone) {
  for (uint32_t d = 0; d < zone->image->header->domain_count; d++) {
    struct view_domain *vd = &zone->domains[d];
    struct view_draws *draws = (struct view_draws *)(uintptr_t)atomic_load(&vd->draws);
    for (size_t t = 0; t < vd->steer->region_count * STEER_TYPES; t++)
      free((void *)(uintptr_t)draws->tables[t]);
    free(draws);
    geo_table_free((struct geo_table *)(uintptr_t)vd->geo);
  }
  free(zone->domains);
}

void zone_fixture_free(struct zone_fixture *f) {
  view_unindex(&f->view);
  for (size_t i = 0; i < f->count; i++) {
    free_runtime(&f->view.zones[i]);
    image_close(&f->images[i]);
    buf_close(&f->bytes[i]);
    struct model_zone *m = &f->models[i];
    for (size_t r = 0; r < m->rr_count; r++) {
      free(m->rrs[r].owner);
      free(m->rrs[r].rdata);
    }
    for (size_t d = 0; d < m->domain_count; d++)
      steer_domain_free(m->domains[d].steer);
    free(m->rrs);
    free(m->domains);
    free(m->apex);
  }
  free(f->view.zones);
  free(f->images);
  free(f->bytes);
  free(f->models);
  free(f);
}

const struct view *zone_fixture_view(const struct zone_fixture *f) {
  return &f->view;
}

struct steer_domain *zone_fixture_domain(const char *owner, unsigned endpoints,
                                         const uint16_t *weights, const char *host) {
  struct steer_domain *d = calloc(1, sizeof *d);
  d->owner = wire(owner);
  d->ttl = 30;
  d->answers = 1;
  d->offers[STEER_A] = d->offers[STEER_AAAA] = host == NULL;
  d->offers[STEER_CNAME] = host != NULL;
  d->endpoint_count = endpoints;
  d->endpoints = calloc(endpoints, sizeof *d->endpoints);
  d->region_count = 1;
  d->regions = calloc(1, sizeof *d->regions);
  struct steer_region *r = &d->regions[0];
  r->name = strdup("global");
  r->atom_count = 1;
  r->atoms = calloc(1, sizeof *r->atoms);
  r->level_count = 1;
  r->levels = calloc(1, sizeof *r->levels);
  r->levels[0].entry_count = endpoints;
  r->levels[0].entries = calloc(endpoints, sizeof *r->levels[0].entries);
  d->entry_count = endpoints;
  for (unsigned i = 0; i < endpoints; i++) {
    struct steer_endpoint *e = &d->endpoints[i];
    char text[300];
    snprintf(text, sizeof text, "e%u", i);
    e->name = strdup(text);
    e->enabled = true;
    e->addr4 = calloc(1, sizeof e->addr4[0]);
    e->addr6 = calloc(1, sizeof e->addr6[0]);
    if (host) {
      snprintf(text, sizeof text, "e%u.%s", i, host);
      e->host = wire(text);
    } else {
      e->addr4_count = e->addr6_count = 1;
      memcpy(e->addr4[0], (uint8_t[]){192, 0, 2, (uint8_t)(10 + i)}, 4);
      memcpy(e->addr6[0], (uint8_t[]){0x20, 1, 0x0d, 0xb8}, 4);
      e->addr6[0][15] = (uint8_t)(10 + i);
    }
    r->levels[0].entries[i] = (struct steer_entry){(uint16_t)i, weights[i]};
  }
  return d;
}
