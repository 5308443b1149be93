/* SPDX-License-Identifier: Apache-2.0 */
#include "server/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "server/load_secondary.h"
#include "server/load_transfer.h"
#include "server/manifest.h"
#include "server/shared.h"

/* ---- draw tables ------------------------------------------------------------------------------
 */

/* All tables of a domain are in one block of memory, behind the pointers to them: so making and
 * freeing them costs one allocation, and a query finds them near each other. */

enum { SCRATCH = 8192, ALIGN = 8 };

void load_free_draws(const struct view_draws *draws) {
  free((void *)(uintptr_t)draws);
}

static size_t aligned(size_t octets) {
  return (octets + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

static size_t head_size(const struct steer_domain *domain) {
  return sizeof(struct view_draws) + load_table_count(domain) * sizeof(struct draw_table *);
}

static size_t most_size(const struct steer_domain *domain) {
  size_t types = 0, size = head_size(domain);
  for (int t = 0; t < STEER_TYPES; t++)
    types += domain->offers[t];
  for (uint32_t r = 0; r < domain->region_count; r++)
    size += types * aligned(draw_table_most(domain, r));
  return size;
}

/* Fills a block of most_size() octets; the pointers are offsets still.  Returns how much of it is
 * used, or 0 without memory. */
static size_t fill_draws(uint8_t *block, const struct steer_domain *domain,
                         const struct steer_facts *facts) {
  size_t used = head_size(domain);
  uintptr_t *offsets = (void *)block;
  memset(block, 0, used);
  for (uint32_t i = 0; i < load_table_count(domain); i++) {
    uint32_t type = i % STEER_TYPES;
    if (!domain->offers[type])
      continue;
    size_t size = draw_table_fill((void *)(block + used), domain, i / STEER_TYPES,
                                  (enum steer_type)type, facts);
    if (size == 0)
      return 0;
    offsets[i] = used;
    used += aligned(size);
  }
  return used;
}

const struct view_draws *load_make_draws(const struct steer_domain *domain,
                                         const struct steer_facts *facts) {
  _Alignas(ALIGN) uint8_t small[SCRATCH];
  size_t most = most_size(domain);
  uint8_t *scratch = most <= sizeof small ? small : malloc(most);
  size_t used = scratch != NULL ? fill_draws(scratch, domain, facts) : 0;
  struct view_draws *draws = used > 0 ? malloc(used) : NULL;
  if (draws != NULL) {
    memcpy(draws, scratch, used);
    for (uint32_t i = 0; i < load_table_count(domain); i++) {
      uintptr_t offset = (uintptr_t)draws->tables[i];
      if (offset != 0)
        draws->tables[i] = (const void *)((const uint8_t *)draws + offset);
    }
  }
  if (scratch != small)
    free(scratch);
  return draws;
}

/* ---- the index of domains ---------------------------------------------------------------------
 */

static uint32_t owner_hash(const uint8_t *owner) {
  return (uint32_t)XXH3_64bits(owner, name_wire_len(owner, NAME_MAX_WIRE));
}

/* The slot of the domain with this owner, or the empty one where it belongs. */
static uint32_t *index_slot(const struct served *served, const uint8_t *owner) {
  for (uint32_t i = owner_hash(owner) & served->index_mask;; i = (i + 1) & served->index_mask) {
    uint32_t *slot = &served->index[i];
    if (*slot == 0 || name_equal(served->domains[*slot - 1].steer->owner, owner))
      return slot;
  }
}

static bool make_index(struct served *served) {
  size_t capacity = 16;
  while (capacity < (size_t)served->domain_count * 2)
    capacity *= 2;
  served->index = calloc(capacity, sizeof *served->index);
  if (served->index == NULL)
    return false;
  served->index_mask = (uint32_t)(capacity - 1);
  for (uint32_t i = 0; i < served->domain_count; i++)
    *index_slot(served, served->domains[i].steer->owner) = i + 1;
  return true;
}

long load_find_domain(const struct served *served, const uint8_t *owner) {
  return (long)*index_slot(served, owner) - 1;
}

/* ---- loading ----------------------------------------------------------------------------------
 */

struct load {
  const struct load_request *request;
  struct manifest manifest;
  struct served *served;
  bool same_geo; /* location data were taken over */
  char *warning;
  char *why;
};

static bool out_of_memory(struct load *load) {
  snprintf(load->why, LOAD_WHY, "out of memory");
  return false;
}

static bool is_cancelled(struct load *load) {
  const atomic_bool *cancel = load->request->cancel;
  if (cancel == NULL || !atomic_load_explicit(cancel, memory_order_relaxed))
    return false;
  snprintf(load->why, LOAD_WHY, "the server is stopping");
  return true;
}

static bool take_geo(struct load *load) {
  const struct load_request *r = load->request;
  struct load_geo *old = r->previous != NULL ? r->previous->geo : NULL;
  if (r->geo_path == NULL && r->asn_path == NULL) {
    load->same_geo = r->previous != NULL && old == NULL;
    return true;
  }
  if (old == NULL || !shared_geo_is_current(old, r->geo_path, r->asn_path)) {
    char *reason = old != NULL ? load->warning : load->why;
    load->served->geo = shared_geo_open(r->geo_path, r->asn_path, reason);
    if (load->served->geo == NULL && r->bad_places != NULL)
      *r->bad_places = true;
    if (load->served->geo != NULL || old == NULL)
      return load->served->geo != NULL;
  }
  shared_geo_take(old);
  load->served->geo = old;
  load->same_geo = true;
  return true;
}

/* The image of the previous view for this apex, if it was mapped from this very file (any file, if
 * `path` is NULL); else NULL. */
static struct load_image *find_previous(const struct load *load, const uint8_t *apex,
                                        const char *path) {
  const struct served *previous = load->request->previous;
  struct shared_file file;
  if (previous == NULL || (path != NULL && !shared_file_look(path, &file)))
    return NULL;
  const struct view *view = &previous->view;
  uint64_t hash = name_hash(apex);
  for (uint32_t i = (uint32_t)hash & view->slot_mask; view->slots[i] != 0;
       i = (i + 1) & view->slot_mask) {
    struct load_image *image = previous->zones[view->slots[i] - 1].image;
    if (view->zone_hashes[view->slots[i] - 1] == hash &&
        name_equal(image->image.header->apex, apex))
      return path == NULL || shared_file_equal(&image->file, &file) ? image : NULL;
  }
  return NULL;
}

/* The image must be what the manifest says that it is. */
static bool check_zone(struct load *load, const struct manifest_zone *zone, const uint8_t *apex,
                       const struct image_header *header) {
  char name[NAME_MAX_TEXT];
  if (!name_equal(header->apex, apex)) {
    snprintf(load->why, LOAD_WHY, "%.200s: the image is of zone %.100s, not of %.100s", zone->image,
             name_to_text(name, header->apex), zone->apex);
    return false;
  }
  if (header->serial == zone->serial)
    return true;
  snprintf(load->why, LOAD_WHY, "%.300s: serial %u, but the manifest says %u", zone->image,
           header->serial, zone->serial);
  return false;
}

static bool take_zone(struct load *load, uint32_t i) {
  struct served *served = load->served;
  struct manifest_zone *from = &load->manifest.zones[i];
  struct served_zone *zone = &served->zones[i];
  uint8_t mixed[NAME_BUF], apex[NAME_BUF];
  const char *reason = "";
  if (name_from_text(mixed, from->apex, strlen(from->apex), NULL, &reason) == 0) {
    snprintf(load->why, LOAD_WHY, "the manifest names a zone `%.200s`: %s", from->apex, reason);
    return false;
  }
  name_copy_lower(apex, mixed);
  zone->image = find_previous(load, apex, from->image);
  if (zone->image != NULL) {
    shared_image_take(zone->image);
  } else {
    zone->image = shared_image_open(from->image, load->why);
    if (zone->image == NULL)
      return false;
    served->changed++;
  }
  const struct image *image = &zone->image->image;
  if (!check_zone(load, from, apex, image->header))
    return false;
  zone->serial = from->serial;
  zone->names = from->names;
  zone->name = from->apex;
  from->apex = NULL;
  served->view.zones[i].image = image;
  served->domain_count += image->header->domain_count;
  return true;
}

static bool take_zones(struct load *load) {
  struct served *served = load->served;
  size_t count = load->manifest.zone_count;
  size_t room = count + load->request->secondary_count;
  if (room > UINT32_MAX / 4) {
    snprintf(load->why, LOAD_WHY, "there are too many zones");
    return false;
  }
  served->zones = calloc(room + 1, sizeof *served->zones);
  served->view.zones = calloc(room + 1, sizeof *served->view.zones);
  if (served->zones == NULL || served->view.zones == NULL)
    return out_of_memory(load);
  for (uint32_t i = 0; i < count; i++) {
    served->view.zone_count = i + 1; /* counted first, so that freeing finds a part of it too */
    if (is_cancelled(load) || !take_zone(load, i))
      return false;
  }
  if (view_index(&served->view))
    return load_secondary_take(served, load->request, load->why);
  snprintf(load->why, LOAD_WHY, "out of memory, or two zones of the build have the same name");
  return false;
}

/* The manifest of the build that is served already, without paths: its files may be gone. */
static bool keep_manifest(struct load *load) {
  const struct served *previous = load->request->previous;
  struct manifest *manifest = &load->manifest;
  *manifest = (struct manifest){.commit_time = previous->commit_time};
  manifest->build_id = strdup(previous->build_id);
  manifest->commit = previous->commit != NULL ? strdup(previous->commit) : NULL;
  manifest->default_zone = previous->default_zone != NULL ? strdup(previous->default_zone) : NULL;
  manifest->zones = calloc((size_t)previous->view.zone_count + 1, sizeof *manifest->zones);
  if (manifest->build_id == NULL || manifest->zones == NULL ||
      (manifest->commit == NULL && previous->commit != NULL) ||
      (manifest->default_zone == NULL && previous->default_zone != NULL))
    return out_of_memory(load);
  for (uint32_t i = 0; i < previous->view.zone_count; i++) {
    const struct served_zone *zone = &previous->zones[i];
    if (zone->secondary)
      continue;
    manifest->zones[manifest->zone_count++] = (struct manifest_zone){
        .apex = strdup(zone->name), .serial = zone->serial, .names = zone->names};
    if (manifest->zones[manifest->zone_count - 1].apex == NULL)
      return out_of_memory(load);
  }
  return true;
}

static bool read_manifest(struct load *load) {
  if (load->request->keep_build)
    return keep_manifest(load);
  return manifest_read(&load->manifest, load->request->data_dir, load->why);
}

static bool take_domain(struct load *load, uint32_t at, struct steer_domain *steer,
                        uint32_t index) {
  struct served *served = load->served;
  const struct served *previous = load->request->previous;
  struct view_domain *domain = &served->domains[at];
  domain->steer = steer;
  domain->index = index;
  domain->id = at;
  domain->geo = shared_tables_get(served->tables, load->same_geo ? previous->tables : NULL,
                                  load_geo_db(served), steer);
  const struct steer_facts nothing_known = {.status = NULL};
  const struct view_draws *draws = load_make_draws(steer, &nothing_known);
  atomic_init(&domain->draws, draws);
  return (domain->geo != NULL && draws != NULL) || out_of_memory(load);
}

static bool take_domains(struct load *load) {
  struct served *served = load->served;
  served->domains = calloc((size_t)served->domain_count + 1, sizeof *served->domains);
  served->states = calloc((size_t)served->domain_count + 1, sizeof *served->states);
  served->tables = shared_tables_new();
  if (served->domains == NULL || served->states == NULL || served->tables == NULL)
    return out_of_memory(load);
  uint32_t at = 0;
  for (uint32_t z = 0; z < served->view.zone_count; z++) {
    const struct image *image = served->view.zones[z].image;
    served->view.zones[z].domains = &served->domains[at];
    for (uint32_t d = 0; d < image->header->domain_count; d++)
      if (is_cancelled(load) || !take_domain(load, at++, image->domains[d], d))
        return false;
  }
  return make_index(served) || out_of_memory(load);
}

struct served *load_run(const struct load_request *request, char *warning, char *why) {
  warning[0] = '\0';
  struct load load = {.request = request, .warning = warning, .why = why};
  load.served = calloc(1, sizeof *load.served);
  if (load.served == NULL) {
    out_of_memory(&load);
    return NULL;
  }
  bool ok = read_manifest(&load) && take_geo(&load) && take_zones(&load) &&
            load_transfer_take(load.served, request, &load.manifest, why) && take_domains(&load);
  struct served *served = load.served;
  served->build_id = load.manifest.build_id;
  served->commit = load.manifest.commit;
  served->commit_time = load.manifest.commit_time;
  served->default_zone = load.manifest.default_zone;
  load.manifest.build_id = NULL;
  load.manifest.commit = NULL;
  load.manifest.default_zone = NULL;
  manifest_close(&load.manifest);
  if (ok)
    return served;
  load_free(served);
  return NULL;
}

static void free_domains(struct served *served) {
  for (uint32_t i = 0; served->domains != NULL && i < served->domain_count; i++) {
    if (served->domains[i].steer == NULL)
      break;
    load_free_draws(atomic_load_explicit(&served->domains[i].draws, memory_order_relaxed));
    free(served->states[i].facts);
    free(served->states[i].weights);
  }
  free(served->domains);
  free(served->states);
  free(served->index);
}

void load_free(struct served *served) {
  if (served == NULL)
    return;
  free_domains(served);
  load_transfer_free(served);
  view_unindex(&served->view);
  shared_tables_free(served->tables);
  for (uint32_t i = 0; i < served->view.zone_count; i++) {
    shared_image_drop(served->zones[i].image);
    free(served->zones[i].name);
  }
  free(served->zones);
  free(served->view.zones);
  load_secondary_free(served);
  shared_geo_drop(served->geo);
  free(served->build_id);
  free(served->commit);
  free(served->default_zone);
  free(served);
}

const struct geo_db *load_geo_db(const struct served *served) {
  return served->geo != NULL ? served->geo->db : NULL;
}

const char *load_geo_path(const struct served *served) {
  return served->geo != NULL ? served->geo->geo_path : NULL;
}
