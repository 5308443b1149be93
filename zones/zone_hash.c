/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash of a zone's inputs: over everything that can change its products, in its checked form,
 * so that a comment or a reordered key changes nothing.  Checks, alerts, owners, profiles,
 * providers and transfer settings are no part of the zone: they change other files, and no serial.
 */
#include "zones/zone_hash.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"

static bool put(EVP_MD_CTX *hash, const void *data, size_t len) {
  return EVP_DigestUpdate(hash, data, len) == 1;
}

static bool put_number(EVP_MD_CTX *hash, uint64_t v) {
  uint8_t octets[8];
  for (int i = 0; i < 8; i++)
    octets[i] = (uint8_t)(v >> (56 - 8 * i));
  return put(hash, octets, sizeof octets);
}

/* Length first, so that neighbouring fields cannot run into each other. */
static bool put_field(EVP_MD_CTX *hash, const void *data, size_t len) {
  return put_number(hash, len) && (len == 0 || put(hash, data, len));
}

static bool put_text(EVP_MD_CTX *hash, const char *text) {
  return text == NULL ? put_number(hash, UINT64_MAX) : put_field(hash, text, strlen(text));
}

static bool put_name(EVP_MD_CTX *hash, const uint8_t *name) {
  return put_field(hash, name, name_wire_len(name, NAME_MAX_WIRE));
}

static bool put_records(EVP_MD_CTX *hash, const struct model_zone *zone) {
  bool ok = put_number(hash, zone->rr_count);
  for (size_t i = 0; ok && i < zone->rr_count; i++) {
    const struct model_rr *rr = &zone->rrs[i];
    uint8_t head[8] = {(uint8_t)(rr->type >> 8),      (uint8_t)rr->type,
                       (uint8_t)(rr->ttl >> 24),      (uint8_t)(rr->ttl >> 16),
                       (uint8_t)(rr->ttl >> 8),       (uint8_t)rr->ttl,
                       (uint8_t)(rr->rdata_len >> 8), (uint8_t)rr->rdata_len};
    ok = put(hash, rr->owner, name_wire_len(rr->owner, NAME_MAX_WIRE)) &&
         put(hash, head, sizeof head) && put(hash, rr->rdata, rr->rdata_len);
  }
  return ok;
}

static bool put_endpoint(EVP_MD_CTX *hash, const struct steer_endpoint *e) {
  return put_text(hash, e->name) && put_number(hash, e->enabled) &&
         put_field(hash, e->addr4, (size_t)e->addr4_count * 4) &&
         put_field(hash, e->addr6, (size_t)e->addr6_count * 16) &&
         (e->host == NULL ? put_number(hash, UINT64_MAX) : put_name(hash, e->host));
}

static bool put_atom(EVP_MD_CTX *hash, const struct steer_atom *atom) {
  return put_number(hash, (uint64_t)atom->kind) && put_text(hash, atom->code) &&
         put_number(hash, atom->asn) && put_field(hash, atom->net, sizeof atom->net) &&
         put_number(hash, (uint64_t)atom->net_bits << 8 | atom->net_family);
}

static bool put_region(EVP_MD_CTX *hash, const struct steer_region *region) {
  bool ok = put_text(hash, region->name) && put_number(hash, region->atom_count);
  for (uint32_t i = 0; ok && i < region->atom_count; i++)
    ok = put_atom(hash, &region->atoms[i]);
  ok = ok && put_number(hash, region->level_count);
  for (uint32_t l = 0; ok && l < region->level_count; l++) {
    const struct steer_level *level = &region->levels[l];
    ok = put_number(hash, level->entry_count);
    for (uint32_t i = 0; ok && i < level->entry_count; i++)
      ok = put_number(hash, (uint64_t)level->entries[i].endpoint << 16 | level->entries[i].weight);
  }
  return ok;
}

static bool put_steer(EVP_MD_CTX *hash, const struct steer_domain *s) {
  bool ok = put_name(hash, s->owner) && put_number(hash, s->ttl) && put_number(hash, s->answers) &&
            put_number(hash, (uint64_t)s->draw_per) && put_number(hash, s->endpoint_count) &&
            put_number(hash, s->region_count);
  for (int i = 0; ok && i < STEER_TYPES; i++)
    ok = put_number(hash, s->offers[i]);
  for (uint32_t i = 0; ok && i < s->endpoint_count; i++)
    ok = put_endpoint(hash, &s->endpoints[i]);
  for (uint32_t i = 0; ok && i < s->region_count; i++)
    ok = put_region(hash, &s->regions[i]);
  return ok;
}

bool zone_hash(struct model_zone *zone) {
  unsigned size = sizeof zone->input_hash;
  EVP_MD_CTX *hash = EVP_MD_CTX_new();
  bool ok = hash != NULL && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1 &&
            put_text(hash, "sluice zone input 1") && put_name(hash, zone->apex) &&
            put_number(hash, (uint64_t)zone->serial_mode) && put_records(hash, zone) &&
            put_number(hash, zone->domain_count);
  for (size_t i = 0; ok && i < zone->domain_count; i++)
    ok = put_steer(hash, zone->domains[i].steer);
  ok = ok && EVP_DigestFinal_ex(hash, zone->input_hash, &size) == 1;
  EVP_MD_CTX_free(hash);
  return ok;
}
