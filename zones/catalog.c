/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/catalog.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "zones/record.h"
#include "zones/rr_list.h"
#include "zones/zone_hash.h"

enum {
  TTL = 0,           /* RFC 9432 section 4: no meaning in a catalog */
  LABEL_OCTETS = 16, /* of the hash of a member's name, as hex digits */
};

/* One catalog while it is made. */
struct maker {
  struct rr_list list;
  const uint8_t *apex;
  struct diag_pos pos;
};

static bool add(struct maker *m, const uint8_t *owner, uint16_t type, const void *rdata,
                size_t len) {
  uint8_t *name = rr_list_owner(&m->list, owner);
  return name != NULL && rr_list_add(&m->list, name, type, TTL, rdata, (uint16_t)len, m->pos);
}

/* The apex below `labels`, a run of wire labels.  False if that is no name any more. */
static bool below_apex(const struct maker *m, const uint8_t *labels, size_t len,
                       uint8_t name[NAME_BUF]) {
  size_t apex_len = name_wire_len(m->apex, NAME_MAX_WIRE);
  if (len + apex_len > NAME_MAX_WIRE)
    return false;
  memset(name, 0, NAME_BUF);
  memcpy(name, labels, len);
  memcpy(name + len, m->apex, apex_len);
  return true;
}

/* RFC 9432 section 4.1: a SOA, and one NS record that leads nowhere. */
static bool add_apex(struct maker *m) {
  static const uint8_t invalid[] = "\7invalid";
  static const uint8_t numbers[20] = {0,    0,    0,    0,    0,    0,    0x0e, 0x10, 0, 0,
                                      0x02, 0x58, 0x7f, 0xff, 0xff, 0xfe, 0,    0,    0, 0};
  uint8_t soa[2 * sizeof invalid + sizeof numbers];
  memcpy(soa, invalid, sizeof invalid);
  memcpy(soa + sizeof invalid, invalid, sizeof invalid);
  memcpy(soa + 2 * sizeof invalid, numbers, sizeof numbers);
  return add(m, m->apex, RECORD_SOA, soa, sizeof soa) &&
         add(m, m->apex, RECORD_NS, invalid, sizeof invalid);
}

/* RFC 9432 section 4.2.1 */
static bool add_version(struct maker *m) {
  static const uint8_t label[] = "\7version";
  static const uint8_t two[] = "\1"
                               "2";
  uint8_t name[NAME_BUF];
  return below_apex(m, label, sizeof label - 1, name) &&
         add(m, name, RECORD_TXT, two, sizeof two - 1);
}

/* RFC 9432 section 4.1: the label of a member stays the same as long as it is a member. */
static bool add_member(struct maker *m, const uint8_t *member) {
  static const char digits[] = "0123456789abcdef";
  static const uint8_t zones[] = "\5zones";
  size_t len = name_wire_len(member, NAME_MAX_WIRE);
  uint8_t hash[EVP_MAX_MD_SIZE];
  uint8_t labels[1 + 2 * LABEL_OCTETS + sizeof zones];
  uint8_t name[NAME_BUF];
  if (!EVP_Digest(member, len, hash, NULL, EVP_sha256(), NULL))
    return false;
  labels[0] = 2 * LABEL_OCTETS;
  for (unsigned i = 0; i < LABEL_OCTETS; i++) {
    labels[1 + 2 * i] = (uint8_t)digits[hash[i] >> 4];
    labels[2 + 2 * i] = (uint8_t)digits[hash[i] & 15];
  }
  memcpy(labels + 1 + 2 * LABEL_OCTETS, zones, sizeof zones - 1);
  return below_apex(m, labels, sizeof labels - 1, name) && add(m, name, RECORD_PTR, member, len);
}

/* Where the zone belongs among the others; false if it is there already. */
static bool find_place(const struct model *model, const uint8_t *apex, size_t *place) {
  size_t at = 0;
  int d = -1;
  while (at < model->zone_count && (d = name_compare(model->zones[at].apex, apex)) < 0)
    at++;
  *place = at;
  return at == model->zone_count || d != 0;
}

static bool make_records(struct maker *m, const struct model *model, struct model_zone *zone,
                         struct diag_list *problems) {
  bool ok = add_apex(m) && add_version(m);
  for (size_t i = 0; ok && i < model->zone_count; i++)
    ok = add_member(m, model->zones[i].apex);
  ok = ok && rr_list_sort(&m->list, m->apex, false, problems);
  zone->rrs = m->list.rrs;
  zone->rr_count = m->list.count;
  return ok;
}

static bool insert(struct model *model, const struct model_zone *zone, size_t place) {
  struct model_zone *zones = realloc(model->zones, (model->zone_count + 1) * sizeof *zones);
  if (zones == NULL)
    return false;
  memmove(zones + place + 1, zones + place, (model->zone_count - place) * sizeof *zones);
  zones[place] = *zone;
  model->zones = zones;
  model->zone_count++;
  return true;
}

bool catalog_add(struct model *model, const uint8_t *apex, struct diag_pos pos, json_t *transfer,
                 struct diag_list *problems) {
  uint8_t lower[NAME_BUF];
  char text[NAME_MAX_TEXT];
  size_t len = name_copy_lower(lower, apex);
  size_t place = 0;
  struct model_zone zone = {.serial_mode = SERIAL_MANAGED, .transfer = transfer};
  if (!find_place(model, lower, &place)) {
    diag_error(problems, pos, "the catalog zone `%s` stands in %s as a zone; give it another name",
               name_to_text(text, lower), model->zones[place].path);
    json_decref(transfer);
    return false;
  }
  if (len + 1 + 2 * LABEL_OCTETS + 6 > NAME_MAX_WIRE) {
    diag_error(problems, pos, "the name of the catalog zone `%s` is too long",
               name_to_text(text, lower));
    json_decref(transfer);
    return false;
  }
  struct maker maker = {.list = {.memory = model->memory}, .apex = lower, .pos = pos};
  zone.apex = calloc(1, len + NAME_PAD);
  zone.path = strdup(pos.path != NULL ? pos.path : "");
  bool ok = zone.apex != NULL && zone.path != NULL;
  if (ok)
    memcpy(zone.apex, lower, len);
  ok = ok && make_records(&maker, model, &zone, problems) && zone_hash(&zone) &&
       insert(model, &zone, place);
  if (ok)
    return true;
  diag_error(problems, pos, "out of memory");
  free(zone.rrs);
  free(zone.apex);
  free(zone.path);
  json_decref(transfer);
  return false;
}
