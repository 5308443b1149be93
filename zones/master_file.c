/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ldns/ldns.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "zones/compile.h"
#include "zones/default_answer.h"

enum { WHY = 512, RR_WIRE_MAX = NAME_MAX_WIRE + 10 + 65535 };

struct writer {
  struct buf *out;
  uint32_t serial; /* put into the SOA when the zone's serial is managed */
  const struct model_zone *zone;
  uint8_t *scratch; /* RR_WIRE_MAX octets */
};

static void put_name(struct buf *out, const uint8_t *name) {
  char text[NAME_MAX_TEXT];
  buf_add_str(out, name_to_text(text, name));
}

/* RFC 3597 section 5: any rdata, in a form that every server reads. */
static void put_generic(struct buf *out, const uint8_t *rdata, size_t len) {
  buf_printf(out, "\\# %zu", len);
  for (size_t i = 0; i < len; i++)
    buf_printf(out, "%s%02x", i == 0 ? " " : "", rdata[i]);
}

/* True if ldns reads back what it has printed; it has had types where it did not. */
static bool reads_back(const ldns_rr *rr, const char *text) {
  ldns_rr *again = NULL;
  bool same = ldns_rr_new_frm_str(&again, text, 0, NULL, NULL) == LDNS_STATUS_OK &&
              ldns_rr_compare(rr, again) == 0;
  ldns_rr_free(again);
  return same;
}

/* The rdata in presentation format as ldns prints it, or generic where that is not sure. */
static void put_rdata_ldns(struct writer *w, const struct model_rr *rr) {
  size_t at = 0;
  w->scratch[at++] = 0; /* any owner */
  ldns_write_uint16(w->scratch + at, rr->type);
  ldns_write_uint16(w->scratch + at + 2, LDNS_RR_CLASS_IN);
  ldns_write_uint32(w->scratch + at + 4, 0);
  ldns_write_uint16(w->scratch + at + 8, rr->rdata_len);
  at += 10;
  memcpy(w->scratch + at, rr->rdata, rr->rdata_len);
  ldns_rr *parsed = NULL;
  size_t pos = 0;
  char *text = NULL;
  if (ldns_wire2rr(&parsed, w->scratch, at + rr->rdata_len, &pos, LDNS_SECTION_ANSWER) ==
      LDNS_STATUS_OK)
    text = ldns_rr2str(parsed);
  if (text)
    text[strcspn(text, "\n")] = '\0'; /* ldns cannot read a CAA with its own line end back */
  /* Owner, TTL, class and type are ended by tabs. */
  const char *rdata = text;
  for (int i = 0; rdata && i < 4; i++) {
    rdata = strchr(rdata, '\t');
    if (rdata)
      rdata++;
  }
  size_t len = rdata ? strlen(rdata) : 0;
  if (len > 0 && reads_back(parsed, text))
    buf_add(w->out, rdata, len);
  else
    put_generic(w->out, rr->rdata, rr->rdata_len);
  free(text);
  ldns_rr_free(parsed);
}

/* By hand what stands in every record: printf() takes a fifth of the build of a large zone. */
static void put_number(struct buf *out, uint32_t n) {
  char digits[10];
  size_t at = sizeof digits;
  do
    digits[--at] = (char)('0' + n % 10);
  while ((n /= 10) != 0);
  buf_add(out, digits + at, sizeof digits - at);
}

static void put_ttl_and_type(struct buf *out, uint32_t ttl, const char *type) {
  buf_add_u8(out, '\t');
  put_number(out, ttl);
  buf_add_str(out, "\tIN\t");
  buf_add_str(out, type);
  buf_add_u8(out, '\t');
}

static void put_address(struct buf *out, int family, const uint8_t *rdata) {
  if (family == AF_INET) {
    for (int i = 0; i < 4; i++) {
      if (i > 0)
        buf_add_u8(out, '.');
      put_number(out, rdata[i]);
    }
    return;
  }
  char text[INET6_ADDRSTRLEN];
  buf_add_str(out, inet_ntop(family, rdata, text, sizeof text));
}

static void put_soa(struct writer *w, const struct model_rr *rr) {
  const uint8_t *mname = rr->rdata;
  const uint8_t *rname = mname + name_wire_len(mname, NAME_MAX_WIRE);
  const uint8_t *numbers = rname + name_wire_len(rname, NAME_MAX_WIRE);
  uint32_t serial = w->zone->serial_mode == SERIAL_MANAGED ? w->serial : ldns_read_uint32(numbers);
  put_name(w->out, mname);
  buf_add_u8(w->out, ' ');
  put_name(w->out, rname);
  buf_printf(w->out, " %u %u %u %u %u", serial, ldns_read_uint32(numbers + 4),
             ldns_read_uint32(numbers + 8), ldns_read_uint32(numbers + 12),
             ldns_read_uint32(numbers + 16));
}

static const char *type_text(uint16_t type, char *out, size_t size) {
  char *text = ldns_rr_type2str((ldns_rr_type)type);
  snprintf(out, size, "%s", text ? text : "");
  free(text);
  if (out[0] == '\0')
    snprintf(out, size, "TYPE%u", type);
  return out;
}

static void put_rr(struct writer *w, const struct model_rr *rr) {
  char type[24];
  struct buf *out = w->out;
  put_name(out, rr->owner);
  switch (rr->type) { /* the common types by hand: a zone may have millions of them */
  case LDNS_RR_TYPE_A:
    put_ttl_and_type(out, rr->ttl, "A");
    put_address(out, AF_INET, rr->rdata);
    break;
  case LDNS_RR_TYPE_AAAA:
    put_ttl_and_type(out, rr->ttl, "AAAA");
    put_address(out, AF_INET6, rr->rdata);
    break;
  case LDNS_RR_TYPE_NS:
  case LDNS_RR_TYPE_CNAME:
    put_ttl_and_type(out, rr->ttl, rr->type == LDNS_RR_TYPE_NS ? "NS" : "CNAME");
    put_name(out, rr->rdata);
    break;
  case LDNS_RR_TYPE_SOA:
    put_ttl_and_type(out, rr->ttl, "SOA");
    put_soa(w, rr);
    break;
  default:
    put_ttl_and_type(out, rr->ttl, type_text(rr->type, type, sizeof type));
    put_rdata_ldns(w, rr);
    break;
  }
  buf_add_u8(out, '\n');
}

static int by_owner(const void *a, const void *b) {
  const struct model_domain *const *x = a;
  const struct model_domain *const *y = b;
  return name_compare((*x)->steer->owner, (*y)->steer->owner);
}

static void put_default_rr(void *arg, const struct model_rr *rr) {
  put_rr(arg, rr);
}

static void put_records(struct writer *w, const struct model_domain **domains) {
  const struct model_zone *z = w->zone;
  /* The SOA comes first, as BIND demands; the rest in canonical order of owners. */
  for (size_t i = 0; i < z->rr_count; i++)
    if (z->rrs[i].type == LDNS_RR_TYPE_SOA)
      put_rr(w, &z->rrs[i]);
  size_t d = 0;
  for (size_t i = 0; i < z->rr_count; i++) {
    const struct model_rr *rr = &z->rrs[i];
    for (; d < z->domain_count && name_compare(domains[d]->steer->owner, rr->owner) < 0; d++)
      default_answer(domains[d]->steer, put_default_rr, w);
    if (rr->type != LDNS_RR_TYPE_SOA)
      put_rr(w, rr);
  }
  for (; d < z->domain_count; d++)
    default_answer(domains[d]->steer, put_default_rr, w);
}

bool compile_master_file(const struct model_zone *zone, uint32_t serial, struct buf *out,
                         char *why) {
  struct writer w = {.out = out, .serial = serial, .zone = zone};
  bool ok = false;
  const struct model_domain **domains =
      calloc(zone->domain_count ? zone->domain_count : 1, sizeof *domains);
  w.scratch = malloc(RR_WIRE_MAX);
  if (!domains || !w.scratch)
    goto done;
  for (size_t i = 0; i < zone->domain_count; i++)
    domains[i] = &zone->domains[i];
  qsort(domains, zone->domain_count, sizeof domains[0], by_owner);
  put_records(&w, domains);
  ok = !out->failed;
done:
  if (!ok)
    snprintf(why, WHY, "not enough memory for the master file");
  free(domains);
  free(w.scratch);
  return ok;
}
