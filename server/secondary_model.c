/* SPDX-License-Identifier: Apache-2.0 */
#include "server/secondary_model.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/wire.h"
#include "zones/record.h"

enum { TYPE_KEY = 25, TYPE_RRSIG = 46, TYPE_NSEC = 47, TYPE_DNSKEY = 48 };

/* A record of the old zone, or a change; `order` tells what came first. */
struct item {
  struct model_rr rr;
  uint32_t order; /* 0: it is in the old zone */
  enum transfer_op op;
};

struct items {
  struct item *items;
  size_t count;
};

static enum secondary_model_result bad(char *why, const char *text, const uint8_t *name) {
  char out[NAME_MAX_TEXT];
  if (name == NULL)
    snprintf(why, SECONDARY_MODEL_WHY, "%s", text);
  else
    snprintf(why, SECONDARY_MODEL_WHY, "%.100s: %.300s", text, name_to_text(out, name));
  return SECONDARY_MODEL_BAD;
}

/* ---- gathering --------------------------------------------------------------------------------
 */

static bool take_old(struct secondary_model *model, const struct records *old, struct items *list) {
  uint8_t *owner = NULL;
  for (size_t at = records_first(); at < old->size;) {
    struct records_rr rr;
    at = records_read(old, at, &rr);
    if (owner == NULL || !name_equal(owner, rr.start))
      owner = arena_copy(&model->memory, rr.start, rr.owner_len, NAME_PAD);
    if (owner == NULL)
      return false;
    /* The model only reads its records, so those of an open file can stand in it. */
    list->items[list->count++] = (struct item){.rr = {.owner = owner,
                                                      .rdata = (uint8_t *)(uintptr_t)rr.rdata,
                                                      .rdata_len = rr.rdata_len,
                                                      .type = rr.type,
                                                      .ttl = rr.ttl},
                                               .op = TRANSFER_ADD};
  }
  return true;
}

static bool gather(struct secondary_model *model, const struct transfer_in *transfer,
                   const struct records *old, struct items *list) {
  size_t count = transfer->count + (old != NULL ? old->header->record_count : 0);
  if (count == 0 || count > UINT32_MAX / 2)
    return false;
  list->items = malloc(count * sizeof *list->items);
  if (list->items == NULL || (old != NULL && !take_old(model, old, list)))
    return false;
  for (size_t i = 0; i < transfer->count; i++)
    list->items[list->count++] = (struct item){
        .rr = transfer->changes[i].rr, .order = (uint32_t)i + 1, .op = transfer->changes[i].op};
  return true;
}

/* ---- order ------------------------------------------------------------------------------------
 */

/* Names inside of the data count without regard to case (RFC 4034 section 6.2). */
static int compare_rdata(const struct model_rr *a, const struct model_rr *b) {
  if (a->rdata_len == b->rdata_len && memcmp(a->rdata, b->rdata, a->rdata_len) == 0)
    return 0;
  uint8_t x[RECORD_MAX_RDATA];
  uint8_t y[RECORD_MAX_RDATA];
  record_lower(a->type, a->rdata, a->rdata_len, x);
  record_lower(b->type, b->rdata, b->rdata_len, y);
  size_t n = a->rdata_len < b->rdata_len ? a->rdata_len : b->rdata_len;
  int d = memcmp(x, y, n);
  return d != 0 ? d : (a->rdata_len > b->rdata_len) - (a->rdata_len < b->rdata_len);
}

static int compare_rr(const struct model_rr *a, const struct model_rr *b) {
  int d = a->owner == b->owner ? 0 : name_compare(a->owner, b->owner);
  if (d == 0)
    d = (a->type > b->type) - (a->type < b->type);
  return d != 0 ? d : compare_rdata(a, b);
}

static int compare_items(const void *va, const void *vb) {
  const struct item *a = va;
  const struct item *b = vb;
  int d = compare_rr(&a->rr, &b->rr);
  return d != 0 ? d : (a->order > b->order) - (a->order < b->order);
}

static bool same_owner(const struct model_rr *a, const struct model_rr *b) {
  return a->owner == b->owner || name_equal(a->owner, b->owner);
}

/* ---- folding ----------------------------------------------------------------------------------
 */

/*
 * What items[start] up to [end], which are all about one record, lead to: the one that is in the
 * new zone, or NULL.  False if one of the changes does not fit what was there before it.
 */
static bool fold(const struct item *items, size_t start, size_t end, bool incremental,
                 const struct item **last) {
  *last = NULL;
  for (size_t i = start; i < end; i++) {
    bool remove = items[i].op == TRANSFER_REMOVE;
    /* RFC 1995 section 4: what is removed exists before.  What is added need not be new: NSD adds
     * records again that others of their set have changed. */
    if (incremental && remove && *last == NULL)
      return false;
    *last = remove ? NULL : &items[i];
  }
  return true;
}

static enum secondary_model_result fold_all(struct secondary_model *model, const struct items *list,
                                            bool incremental, char *why) {
  struct model_zone *zone = &model->zone;
  zone->rrs = malloc(list->count * sizeof *zone->rrs);
  if (zone->rrs == NULL)
    return bad(why, "out of memory", NULL);
  for (size_t start = 0, end; start < list->count; start = end) {
    end = start + 1;
    while (end < list->count && compare_rr(&list->items[start].rr, &list->items[end].rr) == 0)
      end++;
    const struct item *last;
    if (!fold(list->items, start, end, incremental, &last)) {
      bad(why, "the changes do not fit our records of a name", list->items[start].rr.owner);
      return SECONDARY_MODEL_MISMATCH;
    }
    if (last != NULL)
      zone->rrs[zone->rr_count++] = last->rr;
  }
  return SECONDARY_MODEL_OK;
}

/* All records of an RRset get the lowest of their TTLs (RFC 2181 section 5.2); those of RRSIG are
 * bound to the sets that they sign. */
static void unify_ttls(struct model_zone *zone) {
  for (size_t start = 0, end; start < zone->rr_count; start = end) {
    struct model_rr *rrs = zone->rrs;
    uint32_t lowest = rrs[start].ttl;
    end = start + 1;
    while (end < zone->rr_count && rrs[end].type == rrs[start].type &&
           same_owner(&rrs[start], &rrs[end])) {
      lowest = rrs[end].ttl < lowest ? rrs[end].ttl : lowest;
      end++;
    }
    for (size_t i = start; i < end && rrs[i].type != TYPE_RRSIG; i++)
      rrs[i].ttl = lowest;
  }
}

/* ---- checks -----------------------------------------------------------------------------------
 */

/* What records of one owner there are: rrs[start] up to [end]. */
struct owner_types {
  size_t end;
  size_t soa, ns, cname, dnskey;
  size_t other; /* what may not stand beside a CNAME */
};

static struct owner_types look_at_owner(const struct model_zone *zone, size_t start) {
  struct owner_types t = {.end = start};
  for (; t.end < zone->rr_count && same_owner(&zone->rrs[start], &zone->rrs[t.end]); t.end++) {
    uint16_t type = zone->rrs[t.end].type;
    t.soa += type == TYPE_SOA;
    t.ns += type == TYPE_NS;
    t.cname += type == TYPE_CNAME;
    t.dnskey += type == TYPE_DNSKEY;
    /* RFC 2181 section 10.1, RFC 4034 sections 3 and 4 */
    t.other += type != TYPE_CNAME && type != TYPE_KEY && type != TYPE_RRSIG && type != TYPE_NSEC;
  }
  return t;
}

static enum secondary_model_result check(struct secondary_model *model, char *why) {
  const struct model_zone *zone = &model->zone;
  for (size_t i = 0; i < zone->rr_count;) {
    const uint8_t *owner = zone->rrs[i].owner;
    struct owner_types t = look_at_owner(zone, i);
    if (t.cname > 1)
      return bad(why, "a name has several CNAME records", owner);
    if (t.cname > 0 && t.other > 0) /* RFC 1034 section 3.6.2 */
      return bad(why, "a CNAME stands beside other data", owner);
    if (i == 0) { /* the apex comes first in canonical order */
      if (t.soa != 1 || !name_equal(owner, zone->apex))
        return bad(why, "the zone has not just one SOA record", zone->apex);
      if (t.ns == 0)
        return bad(why, "the zone has no NS records at its apex", zone->apex);
      model->is_signed = t.dnskey > 0;
    }
    model->names++;
    i = t.end;
  }
  return zone->rr_count > 0 ? SECONDARY_MODEL_OK : bad(why, "the zone is empty", zone->apex);
}

enum secondary_model_result secondary_model_make(struct secondary_model *model,
                                                 const struct transfer_in *transfer,
                                                 const struct records *old, char *why) {
  static char path[] = "transfer";
  *model = (struct secondary_model){.names = 0};
  arena_init(&model->memory);
  name_copy_lower(model->apex, transfer->apex);
  model->zone.apex = model->apex;
  model->zone.path = path;
  model->zone.serial_mode = SERIAL_CARRIED;
  const struct records *base = transfer->incremental ? old : NULL;
  if (transfer->incremental && old == NULL) {
    bad(why, "there are changes, but nothing that they change", NULL);
    return SECONDARY_MODEL_MISMATCH;
  }
  struct items list = {NULL, 0};
  enum secondary_model_result result;
  if (gather(model, transfer, base, &list)) {
    qsort(list.items, list.count, sizeof *list.items, compare_items);
    result = fold_all(model, &list, transfer->incremental, why);
  } else {
    result = bad(why, "out of memory", NULL);
  }
  free(list.items);
  if (result != SECONDARY_MODEL_OK)
    return result;
  unify_ttls(&model->zone);
  return check(model, why);
}

void secondary_model_close(struct secondary_model *model) {
  free(model->zone.rrs);
  model->zone.rrs = NULL;
  arena_close(&model->memory);
}
