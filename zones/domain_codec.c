/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/domain_codec.h"

#include <ldns/ldns.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"

enum { WHY = 512, A_RECORD = 16, AAAA_RECORD = 28, MAX_RECORDS = 60000 };

/* ---- writing ----------------------------------------------------------------------------------
 */

static void put(struct buf *out, const void *value, size_t size) {
  buf_add(out, value, size);
}

static void put_u8(struct buf *out, uint8_t v) {
  put(out, &v, sizeof v);
}

static void put_u16(struct buf *out, uint16_t v) {
  put(out, &v, sizeof v);
}

static void put_u32(struct buf *out, uint32_t v) {
  put(out, &v, sizeof v);
}

static void put_text(struct buf *out, const char *text) {
  size_t len = strlen(text);
  put_u16(out, (uint16_t)len);
  put(out, text, len);
}

static void put_name(struct buf *out, const uint8_t *name) {
  size_t len = name ? name_wire_len(name, NAME_MAX_WIRE) : 0;
  put_u16(out, (uint16_t)len);
  put(out, name, len);
}

static void put_endpoint(struct buf *out, const struct steer_endpoint *e) {
  put_text(out, e->name);
  put_u8(out, e->enabled);
  put_u32(out, e->addr4_count);
  put_u32(out, e->addr6_count);
  put(out, e->addr4, e->addr4_count * sizeof e->addr4[0]);
  put(out, e->addr6, e->addr6_count * sizeof e->addr6[0]);
  put_name(out, e->host);
}

static void put_atom(struct buf *out, const struct steer_atom *a) {
  put_u8(out, (uint8_t)a->kind);
  put(out, a->code, sizeof a->code);
  put_u32(out, a->asn);
  put(out, a->net, sizeof a->net);
  put_u8(out, a->net_bits);
  put_u8(out, a->net_family);
}

static void put_region(struct buf *out, const struct steer_region *r) {
  put_text(out, r->name);
  put_u32(out, r->atom_count);
  for (uint32_t i = 0; i < r->atom_count; i++)
    put_atom(out, &r->atoms[i]);
  put_u32(out, r->level_count);
  for (uint32_t i = 0; i < r->level_count; i++) {
    const struct steer_level *level = &r->levels[i];
    put_u32(out, level->entry_count);
    for (uint32_t k = 0; k < level->entry_count; k++) {
      put_u16(out, level->entries[k].endpoint);
      put_u16(out, level->entries[k].weight);
    }
  }
}

static void put_domain(struct buf *out, const struct steer_domain *d) {
  put_name(out, d->owner);
  put_u32(out, d->ttl);
  for (int t = 0; t < STEER_TYPES; t++)
    put_u8(out, d->offers[t]);
  put_u8(out, d->answers);
  put_u8(out, (uint8_t)d->draw_per);
  for (uint32_t i = 0; i < d->endpoint_count; i++)
    put_endpoint(out, &d->endpoints[i]);
  put_u32(out, d->region_count);
  for (uint32_t i = 0; i < d->region_count; i++)
    put_region(out, &d->regions[i]);
}

static void put_record(struct buf *out, uint16_t type, uint32_t ttl, const void *rdata,
                       size_t len) {
  buf_add_u16be(out, 0xc00c); /* the owner is the question's name */
  buf_add_u16be(out, type);
  buf_add_u16be(out, LDNS_RR_CLASS_IN);
  buf_add_u32be(out, ttl);
  buf_add_u16be(out, (uint16_t)len);
  buf_add(out, rdata, len);
}

static void put_records(struct buf *out, const struct steer_domain *d,
                        const struct steer_endpoint *e, enum steer_type type) {
  if (type == STEER_A)
    for (uint32_t i = 0; i < e->addr4_count; i++)
      put_record(out, LDNS_RR_TYPE_A, d->ttl, e->addr4[i], 4);
  if (type == STEER_AAAA)
    for (uint32_t i = 0; i < e->addr6_count; i++)
      put_record(out, LDNS_RR_TYPE_AAAA, d->ttl, e->addr6[i], 16);
  if (type == STEER_CNAME && e->host)
    put_record(out, LDNS_RR_TYPE_CNAME, d->ttl, e->host, name_wire_len(e->host, NAME_MAX_WIRE));
}

static bool write_domain(const struct steer_domain *d, struct buf *out, size_t base, char *why) {
  uint64_t endpoints = d->endpoint_count;
  put(out, &endpoints, sizeof endpoints);
  size_t refs_at = out->len;
  size_t refs = (size_t)d->endpoint_count * STEER_TYPES;
  struct image_records_ref *ref = calloc(refs ? refs : 1, sizeof *ref);
  if (!ref) {
    snprintf(why, WHY, "not enough memory");
    return false;
  }
  put(out, ref, refs * sizeof *ref);
  put_domain(out, d);
  bool ok = true;
  for (size_t i = 0; ok && i < refs; i++) {
    const struct steer_endpoint *e = &d->endpoints[i / STEER_TYPES];
    size_t at = out->len;
    put_records(out, d, e, (enum steer_type)(i % STEER_TYPES));
    size_t len = out->len - at;
    ok = len <= MAX_RECORDS && at - base <= UINT32_MAX;
    ref[i].offset = (uint32_t)(at - base);
    ref[i].length = (uint16_t)len;
    ref[i].count = (uint16_t)(i % STEER_TYPES == STEER_A      ? len / A_RECORD
                              : i % STEER_TYPES == STEER_AAAA ? len / AAAA_RECORD
                                                              : len != 0);
    if (!ok)
      snprintf(why, WHY, "endpoint %s has more addresses than fit in a DNS message", e->name);
  }
  if (ok && !out->failed)
    memcpy(out->data + refs_at, ref, refs * sizeof *ref);
  free(ref);
  return ok;
}

bool domain_codec_write(const struct model_zone *zone, struct buf *out, size_t base,
                        struct image_span *span, char *why) {
  buf_align(out, IMAGE_ALIGN);
  span->offset = out->len - base;
  size_t table_at = out->len;
  uint64_t zero = 0;
  for (size_t i = 0; i < zone->domain_count; i++)
    put(out, &zero, sizeof zero);
  for (size_t i = 0; i < zone->domain_count; i++) {
    buf_align(out, IMAGE_ALIGN);
    uint64_t offset = out->len - base;
    if (!write_domain(zone->domains[i].steer, out, base, why))
      return false;
    if (out->failed) {
      snprintf(why, WHY, "not enough memory for the image");
      return false;
    }
    memcpy(out->data + table_at + i * sizeof offset, &offset, sizeof offset);
  }
  buf_align(out, IMAGE_ALIGN);
  span->length = out->len - base - span->offset;
  return true;
}

/* ---- reading: every length is checked against what is left -------------------------------------
 */

struct cursor {
  const uint8_t *at;
  size_t left;
  bool failed; /* ran out of input or of memory */
};

static void get(struct cursor *c, void *to, size_t n) {
  if (c->failed || n > c->left) {
    c->failed = true;
    memset(to, 0, n);
    return;
  }
  memcpy(to, c->at, n);
  c->at += n;
  c->left -= n;
}

static uint8_t get_u8(struct cursor *c) {
  uint8_t v;
  get(c, &v, sizeof v);
  return v;
}

static uint16_t get_u16(struct cursor *c) {
  uint16_t v;
  get(c, &v, sizeof v);
  return v;
}

static uint32_t get_u32(struct cursor *c) {
  uint32_t v;
  get(c, &v, sizeof v);
  return v;
}

/* Zeroed memory for `count` items of which each takes at least `least` octets of the input. */
static void *get_array(struct cursor *c, uint32_t count, size_t size, size_t least) {
  if (c->failed || count > c->left / least) {
    c->failed = true;
    return NULL;
  }
  void *p = calloc(count ? count : 1, size);
  if (!p)
    c->failed = true;
  return p;
}

static char *get_text(struct cursor *c) {
  uint16_t len = get_u16(c);
  if (c->failed || len > c->left) {
    c->failed = true;
    return NULL;
  }
  char *text = malloc(len + 1u);
  if (!text) {
    c->failed = true;
    return NULL;
  }
  get(c, text, len);
  text[len] = '\0';
  return text;
}

/* A padded wire name; NULL where none was written. */
static uint8_t *get_name(struct cursor *c) {
  uint16_t len = get_u16(c);
  if (len == 0)
    return NULL;
  if (c->failed || len > NAME_MAX_WIRE || len > c->left || name_wire_len(c->at, len) != len) {
    c->failed = true;
    return NULL;
  }
  uint8_t *name = malloc(NAME_BUF);
  if (!name) {
    c->failed = true;
    return NULL;
  }
  name_copy_lower(name, c->at);
  c->at += len;
  c->left -= len;
  return name;
}

static void get_endpoint(struct cursor *c, struct steer_endpoint *e) {
  e->name = get_text(c);
  e->enabled = get_u8(c) != 0;
  uint32_t n4 = get_u32(c);
  uint32_t n6 = get_u32(c);
  e->addr4 = get_array(c, n4, 4, 4);
  if (e->addr4)
    get(c, e->addr4, n4 * sizeof e->addr4[0]);
  e->addr6 = get_array(c, n6, 16, 16);
  if (e->addr6)
    get(c, e->addr6, n6 * sizeof e->addr6[0]);
  e->addr4_count = e->addr4 ? n4 : 0;
  e->addr6_count = e->addr6 ? n6 : 0;
  e->host = get_name(c);
}

static void get_atom(struct cursor *c, struct steer_atom *a) {
  a->kind = (enum steer_atom_kind)get_u8(c);
  get(c, a->code, sizeof a->code);
  a->asn = get_u32(c);
  get(c, a->net, sizeof a->net);
  a->net_bits = get_u8(c);
  a->net_family = get_u8(c);
  unsigned widest = a->net_family == 4 ? 32 : 128;
  if ((unsigned)a->kind > ATOM_NET || a->code[sizeof a->code - 1] != '\0' ||
      (a->kind == ATOM_NET && a->net_family != 4 && a->net_family != 6) || a->net_bits > widest)
    c->failed = true;
}

static void get_level(struct cursor *c, struct steer_level *level) {
  uint32_t count = get_u32(c);
  level->entries = get_array(c, count, sizeof level->entries[0], 4);
  level->entry_count = level->entries ? count : 0;
  for (uint32_t i = 0; i < level->entry_count; i++) {
    level->entries[i].endpoint = get_u16(c);
    level->entries[i].weight = get_u16(c);
  }
}

static void get_region(struct cursor *c, struct steer_region *r) {
  r->name = get_text(c);
  uint32_t atoms = get_u32(c);
  r->atoms = get_array(c, atoms, sizeof r->atoms[0], 31);
  r->atom_count = r->atoms ? atoms : 0;
  for (uint32_t i = 0; i < r->atom_count; i++)
    get_atom(c, &r->atoms[i]);
  uint32_t levels = get_u32(c);
  r->levels = get_array(c, levels, sizeof r->levels[0], 4);
  r->level_count = r->levels ? levels : 0;
  for (uint32_t i = 0; i < r->level_count; i++)
    get_level(c, &r->levels[i]);
}

static uint32_t count_all_entries(const struct steer_domain *d) {
  uint64_t n = 0;
  for (uint32_t r = 0; r < d->region_count; r++)
    for (uint32_t l = 0; l < d->regions[r].level_count; l++)
      n += d->regions[r].levels[l].entry_count;
  return n > UINT32_MAX ? 0 : (uint32_t)n;
}

static void get_domain(struct cursor *c, struct steer_domain *d, uint32_t endpoints) {
  d->owner = get_name(c);
  d->ttl = get_u32(c);
  for (int t = 0; t < STEER_TYPES; t++)
    d->offers[t] = get_u8(c) != 0;
  d->answers = get_u8(c);
  d->draw_per = get_u8(c) != 0 ? DRAW_PER_SUBNET : DRAW_PER_QUERY;
  d->endpoints = get_array(c, endpoints, sizeof d->endpoints[0], 13);
  d->endpoint_count = d->endpoints ? endpoints : 0;
  for (uint32_t i = 0; i < d->endpoint_count; i++)
    get_endpoint(c, &d->endpoints[i]);
  uint32_t regions = get_u32(c);
  d->regions = get_array(c, regions, sizeof d->regions[0], 10);
  d->region_count = d->regions ? regions : 0;
  for (uint32_t i = 0; i < d->region_count; i++)
    get_region(c, &d->regions[i]);
  d->entry_count = count_all_entries(d);
}

/* The query path counts on records of the right size and on one record of each address. */
static bool records_are_right(const struct image *image, const struct image_records_ref *refs,
                              const struct steer_domain *d) {
  for (size_t i = 0; i < (size_t)d->endpoint_count * STEER_TYPES; i++) {
    const struct image_records_ref *r = &refs[i];
    const struct steer_endpoint *e = &d->endpoints[i / STEER_TYPES];
    if (r->offset > image->size || r->length > image->size - r->offset || r->length > MAX_RECORDS)
      return false;
    const uint8_t *data = image->base + r->offset;
    switch ((enum steer_type)(i % STEER_TYPES)) {
    case STEER_A:
      if (r->count != e->addr4_count || r->length != (size_t)r->count * A_RECORD)
        return false;
      break;
    case STEER_AAAA:
      if (r->count != e->addr6_count || r->length != (size_t)r->count * AAAA_RECORD)
        return false;
      break;
    case STEER_CNAME:
      if (r->count != (e->host != NULL) ||
          (e->host &&
           (r->length < 13 || name_wire_len(data + 12, r->length - 12u) != r->length - 12u)))
        return false;
      break;
    }
  }
  return true;
}

/* An offered type must have something to draw in every level, or the query path would draw nothing.
 */
static bool offers_are_right(const struct steer_domain *d) {
  bool hosts = d->offers[STEER_CNAME];
  if (hosts == (d->offers[STEER_A] || d->offers[STEER_AAAA]))
    return false;
  for (uint32_t i = 0; i < d->endpoint_count; i++)
    if (hosts != (d->endpoints[i].host != NULL))
      return false;
  return true;
}

static bool read_domain(struct image *image, uint32_t index, uint64_t offset, char *why) {
  const struct image_span *span = &image->header->domains;
  const char *problem = "it is cut short";
  uint64_t end = span->offset + span->length;
  if (offset % IMAGE_ALIGN != 0 || offset < span->offset || offset > end || end - offset < 8)
    goto bad;
  uint64_t endpoints;
  memcpy(&endpoints, image->base + offset, sizeof endpoints);
  size_t left = end - offset - sizeof endpoints;
  if (endpoints > STEER_MAX_ENDPOINTS ||
      endpoints * STEER_TYPES * sizeof(struct image_records_ref) > left)
    goto bad;
  const void *refs = image->base + offset + sizeof endpoints;
  size_t refs_size = endpoints * STEER_TYPES * sizeof(struct image_records_ref);
  struct cursor c = {(const uint8_t *)refs + refs_size, left - refs_size, false};
  struct steer_domain *d = calloc(1, sizeof *d);
  if (!d) {
    problem = "not enough memory";
    goto bad;
  }
  image->domains[index] = d;
  image->records[index] = refs;
  get_domain(&c, d, (uint32_t)endpoints);
  if (c.failed || !d->owner)
    goto bad;
  if (!steer_domain_validate(d, &problem))
    goto bad;
  problem = "its records are wrong";
  if (offers_are_right(d) && records_are_right(image, image->records[index], d))
    return true;
bad:
  snprintf(why, WHY, "steered domain %u of the image is damaged: %s", index + 1, problem);
  return false;
}

bool domain_codec_read(struct image *image, char *why) {
  uint32_t count = image->header->domain_count;
  if (count == 0)
    return true;
  const struct image_span *span = &image->header->domains;
  if (count > span->length / sizeof(uint64_t)) {
    snprintf(why, WHY, "the image's list of steered domains is cut short");
    return false;
  }
  image->domains = calloc(count, sizeof *image->domains);
  image->records = calloc(count, sizeof *image->records);
  if (!image->domains || !image->records) {
    snprintf(why, WHY, "not enough memory for %u steered domains", count);
    return false;
  }
  for (uint32_t i = 0; i < count; i++) {
    uint64_t offset;
    memcpy(&offset, image->base + span->offset + i * sizeof offset, sizeof offset);
    if (!read_domain(image, i, offset, why))
      return false;
  }
  return true;
}

void domain_codec_free(struct image *image) {
  for (uint32_t i = 0; image->domains && i < image->header->domain_count; i++)
    steer_domain_free(image->domains[i]);
  free(image->domains);
  free(image->records);
  image->domains = NULL;
  image->records = NULL;
}
