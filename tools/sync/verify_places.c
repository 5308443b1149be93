/* SPDX-License-Identifier: Apache-2.0 */
/* A place in each region: by net atoms, or by the location database. */
#include <arpa/inet.h>
#include <maxminddb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steering/geo_place.h"
#include "tools/machine.h"
#include "tools/sync/verify_private.h"

enum { WHY = 512 };

/* The places that were found for one set of regions. */
struct known {
  const struct steer_domain *steer;
  struct verify_place *places;
};

struct verify_geo {
  struct geo_db *db; /* NULL: none */
  MMDB_s file;       /* the same file, for what a geo_db does not keep */
  bool has_file;
  pthread_mutex_t lock; /* of what follows */
  struct known *known;
  size_t count;
};

struct verify_geo *verify_geo_open(const char *geo, const char *asn, const char *settings,
                                   char *why) {
  struct machine machine = {0};
  struct verify_geo *out = calloc(1, sizeof *out);
  bool read = (geo && asn) || machine_read(&machine, settings);
  if (!read)
    snprintf(why, WHY, "the machine's settings cannot be read");
  else if (!out)
    snprintf(why, WHY, "out of memory");
  geo = geo ? geo : machine.geo;
  asn = asn ? asn : machine.asn;
  bool ok = read && out && ((!geo && !asn) || geo_db_load(geo, asn, &out->db, why));
  if (ok && geo)
    out->has_file = MMDB_open(geo, MMDB_MODE_MMAP, &out->file) == MMDB_SUCCESS;
  machine_close(&machine);
  if (ok && pthread_mutex_init(&out->lock, NULL) == 0)
    return out;
  if (out && out->has_file)
    MMDB_close(&out->file);
  if (out)
    geo_db_free(out->db);
  free(out);
  return NULL;
}

void verify_geo_close(struct verify_geo *geo) {
  if (!geo)
    return;
  for (size_t i = 0; i < geo->count; i++)
    free(geo->known[i].places);
  free(geo->known);
  pthread_mutex_destroy(&geo->lock);
  geo_db_free(geo->db);
  if (geo->has_file)
    MMDB_close(&geo->file);
  free(geo);
}

/* ---- the best candidate --------------------------------------------------------------------- */

static bool code_of(MMDB_entry_s *entry, const char *key, char out[4]) {
  MMDB_entry_data_s data;
  out[0] = '\0';
  if (MMDB_get_value(entry, &data, key, strcmp(key, "continent") == 0 ? "code" : "iso_code",
                     NULL) != MMDB_SUCCESS ||
      !data.has_data || data.type != MMDB_DATA_TYPE_UTF8_STRING || data.data_size > 3)
    return false;
  memcpy(out, data.utf8_string, data.data_size);
  out[data.data_size] = '\0';
  return true;
}

/* Where every provider should see the same: the country is also that of the registration, and the
 * continent is told. */
static bool is_plain(const struct verify_geo *geo, const struct geo_place *place) {
  struct sockaddr_in in4 = {.sin_family = AF_INET};
  struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
  char country[4];
  char registered[4];
  char continent[4];
  int error;
  if (!geo->has_file)
    return false;
  memcpy(&in4.sin_addr, place->octets, sizeof in4.sin_addr);
  memcpy(&in6.sin6_addr, place->octets, sizeof in6.sin6_addr);
  MMDB_lookup_result_s found = MMDB_lookup_sockaddr(
      &geo->file, place->family == 4 ? (struct sockaddr *)&in4 : (struct sockaddr *)&in6, &error);
  if (error != MMDB_SUCCESS || !found.found_entry || !code_of(&found.entry, "country", country) ||
      !code_of(&found.entry, "continent", continent))
    return false;
  return !code_of(&found.entry, "registered_country", registered) ||
         strcmp(country, registered) == 0;
}

static bool is_net(const struct steer_region *region, const struct geo_place *place) {
  for (uint32_t i = 0; i < region->atom_count; i++)
    if (region->atoms[i].kind == ATOM_NET && region->atoms[i].net_family == place->family &&
        region->atoms[i].net_bits <= place->bits &&
        memcmp(region->atoms[i].net, place->octets, region->atoms[i].net_bits / 8) == 0)
      return true;
  return false;
}

static struct verify_place choose(const struct verify_geo *geo, const struct steer_region *region,
                                  const struct geo_places *list) {
  const struct geo_place *best = list->count > 0 ? &list->items[0] : NULL;
  char text[INET6_ADDRSTRLEN];
  struct verify_place out = {0};
  if (!best)
    return out;
  for (size_t i = 0; i < list->count; i++)
    if (is_net(region, &list->items[i]) || is_plain(geo, &list->items[i])) {
      best = &list->items[i];
      break;
    }
  out.known = true;
  out.family = best->family == 4 ? AF_INET : AF_INET6;
  out.bits = best->bits;
  memcpy(out.octets, best->octets, sizeof out.octets);
  snprintf(out.text, sizeof out.text, "%s/%u", inet_ntop(out.family, out.octets, text, sizeof text),
           out.bits);
  return out;
}

/* ---- all regions ---------------------------------------------------------------------------- */

static struct verify_place *find(const struct verify_geo *geo, const struct steer_domain *steer,
                                 const struct steer_domain *also) {
  size_t count = steer->region_count;
  struct verify_place *out = calloc(count * VERIFY_FAMILIES, sizeof *out);
  struct geo_places *lists = calloc(count, sizeof *lists);
  bool ok = out && lists;
  for (size_t f = 0; ok && f < VERIFY_FAMILIES; f++) {
    ok = geo_places_find(geo->db, steer, also, f == 0 ? 4 : 6, lists);
    for (size_t r = 0; ok && r < count; r++)
      out[r * VERIFY_FAMILIES + f] = choose(geo, &steer->regions[r], &lists[r]);
  }
  free(lists);
  if (ok)
    return out;
  free(out);
  return NULL;
}

static struct verify_place *copy(const struct verify_place *places, size_t regions) {
  size_t size = regions * VERIFY_FAMILIES * sizeof *places;
  struct verify_place *out = places ? malloc(size) : NULL;
  if (out)
    memcpy(out, places, size);
  return out;
}

static struct verify_place *find_once(struct verify_geo *geo, const struct steer_domain *steer) {
  for (size_t i = 0; i < geo->count; i++)
    if (geo_table_same_key(geo->known[i].steer, steer))
      return copy(geo->known[i].places, steer->region_count);
  struct known *known = realloc(geo->known, (geo->count + 1) * sizeof *known);
  if (!known)
    return NULL;
  geo->known = known;
  known[geo->count] = (struct known){steer, find(geo, steer, NULL)};
  if (!known[geo->count].places)
    return NULL;
  return copy(known[geo->count++].places, steer->region_count);
}

struct verify_place *verify_places(struct verify_geo *geo, const struct steer_domain *steer,
                                   const struct steer_domain *also) {
  if (also)
    return find(geo, steer, also);
  pthread_mutex_lock(&geo->lock);
  struct verify_place *out = find_once(geo, steer);
  pthread_mutex_unlock(&geo->lock);
  return out;
}
