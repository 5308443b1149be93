/* SPDX-License-Identifier: Apache-2.0 */
/* Questions as octets, and answers read: by ldns, whose header comes after <stdbool.h>. */
#include "tools/sync/ask_private.h"

#include <ldns/ldns.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "tools/providers/provider.h"
#include "zones/record.h"

enum { FAMILY_IPV4 = 1, FAMILY_IPV6 = 2, RCODE_MAX = 255 }; /* RFC 7871 section 6: families */

/* ---- questions ------------------------------------------------------------------------------ */

/* The option of RFC 7871 section 6: as many octets of the address as the bits need. */
static bool add_subnet(ldns_pkt *pkt, const struct ask_question *q) {
  unsigned most = q->family == AF_INET ? 32 : 128;
  unsigned bits = q->bits < most ? q->bits : most;
  size_t octets = (bits + 7) / 8;
  uint8_t data[4 + 16] = {0, q->family == AF_INET ? FAMILY_IPV4 : FAMILY_IPV6, (uint8_t)bits, 0};
  memcpy(data + 4, q->subnet, octets);
  if (bits % 8 != 0)
    data[3 + octets] &= (uint8_t)(0xff << (8 - bits % 8));
  ldns_edns_option_list *list = ldns_edns_option_list_new();
  ldns_edns_option *option =
      list ? ldns_edns_new_from_data(LDNS_EDNS_CLIENT_SUBNET, 4 + octets, data) : NULL;
  if (!option || !ldns_edns_option_list_push(list, option)) {
    ldns_edns_deep_free(option);
    ldns_edns_option_list_deep_free(list);
    return false;
  }
  ldns_pkt_set_edns_option_list(pkt, list);
  return true;
}

static bool add_question(ldns_pkt *pkt, const uint8_t *name, size_t len, uint16_t type) {
  ldns_rr *rr = ldns_rr_new();
  ldns_rdf *owner = ldns_rdf_new_frm_data(LDNS_RDF_TYPE_DNAME, len, name);
  if (!rr || !owner) {
    ldns_rdf_free(owner);
    ldns_rr_free(rr);
    return false;
  }
  ldns_rr_set_question(rr, true);
  ldns_rr_set_owner(rr, owner);
  ldns_rr_set_type(rr, (ldns_rr_type)type);
  ldns_rr_set_class(rr, LDNS_RR_CLASS_IN);
  if (ldns_pkt_push_rr(pkt, LDNS_SECTION_QUESTION, rr))
    return true;
  ldns_rr_free(rr);
  return false;
}

size_t ask_make(const struct ask_question *question, uint16_t id, uint8_t *out, const char **why) {
  uint8_t name[NAME_BUF];
  size_t len = name_from_text(name, question->name, strlen(question->name), NULL, why);
  uint8_t *wire = NULL;
  size_t size = 0;
  if (len == 0)
    return 0;
  *why = "out of memory";
  ldns_pkt *pkt = ldns_pkt_new();
  if (!pkt)
    return 0;
  ldns_pkt_set_id(pkt, id);
  ldns_pkt_set_edns_udp_size(pkt, ASK_UDP);
  bool ok = add_question(pkt, name, len, question->type) &&
            (question->family == AF_UNSPEC || add_subnet(pkt, question)) &&
            ldns_pkt2wire(&wire, pkt, &size) == LDNS_STATUS_OK && size <= ASK_QUERY;
  if (ok)
    memcpy(out, wire, size);
  free(wire);
  ldns_pkt_free(pkt);
  return ok ? size : 0;
}

/* ---- answers -------------------------------------------------------------------------------- */

static unsigned get16(const uint8_t *at) {
  return (unsigned)at[0] << 8 | at[1];
}

/* A reply to a query of ours, as far as its header tells. */
static bool is_reply(const uint8_t *message, size_t len, uint16_t id) {
  return len >= ASK_HEADER && get16(message) == id && (message[2] & 0x80) != 0 &&
         (message[2] & 0x78) == 0;
}

/* The same question, or none at all beside an error, as some servers answer what they refuse. */
static bool is_question(const struct ask_question *q, const ldns_pkt *pkt) {
  const ldns_rr_list *list = ldns_pkt_question(pkt);
  uint8_t name[NAME_BUF];
  const char *why;
  size_t count = list ? ldns_rr_list_rr_count(list) : 0;
  if (count == 0)
    return ldns_pkt_get_rcode(pkt) != LDNS_RCODE_NOERROR;
  const ldns_rr *rr = ldns_rr_list_rr(list, 0);
  const ldns_rdf *owner = ldns_rr_owner(rr);
  return count == 1 && owner && name_from_text(name, q->name, strlen(q->name), NULL, &why) > 0 &&
         name_wire_len(ldns_rdf_data(owner), ldns_rdf_size(owner)) > 0 &&
         name_equal(ldns_rdf_data(owner), name) && ldns_rr_get_type(rr) == (ldns_rr_type)q->type &&
         ldns_rr_get_class(rr) == LDNS_RR_CLASS_IN;
}

/* The data alone, without compression; malloc'd. */
static uint8_t *rdata_of(const ldns_rr *rr, size_t *len) {
  *len = 0;
  for (size_t i = 0; i < ldns_rr_rd_count(rr); i++)
    *len += ldns_rdf_size(ldns_rr_rdf(rr, i));
  uint8_t *out = malloc(*len + 1);
  size_t at = 0;
  for (size_t i = 0; out && i < ldns_rr_rd_count(rr); i++) {
    const ldns_rdf *rdf = ldns_rr_rdf(rr, i);
    if (ldns_rdf_size(rdf) > 0)
      memcpy(out + at, ldns_rdf_data(rdf), ldns_rdf_size(rdf));
    at += ldns_rdf_size(rdf);
  }
  return out;
}

/* Presentation form is ASCII; should ldns let something else through, it gets no further. */
static void make_printable(char *text) {
  for (; *text; text++)
    if (*text < ' ' || *text > '~')
      *text = '?';
}

static bool add_record(json_t *records, const ldns_rr *rr) {
  const ldns_rdf *owner = ldns_rr_owner(rr);
  uint16_t number = (uint16_t)ldns_rr_get_type(rr);
  uint8_t lower[NAME_BUF] = {0};
  char name[NAME_MAX_TEXT];
  char type[16];
  size_t len;
  if (!owner || name_wire_len(ldns_rdf_data(owner), ldns_rdf_size(owner)) == 0 ||
      ldns_rr_get_class(rr) != LDNS_RR_CLASS_IN)
    return true;
  uint8_t *rdata = rdata_of(rr, &len);
  char *value = rdata ? provider_rdata_wire(number, rdata, len) : NULL;
  free(rdata);
  if (!value)
    return false;
  make_printable(value);
  name_copy_lower(lower, ldns_rdf_data(owner));
  json_t *item =
      json_pack("{s:s, s:s, s:I, s:s}", "name", name_to_text(name, lower), "type",
                record_type_text(number, type), "ttl", (json_int_t)ldns_rr_ttl(rr), "value", value);
  free(value);
  return json_array_append_new(records, item) == 0;
}

static json_t *records_of(const ldns_rr_list *list) {
  json_t *records = json_array();
  bool ok = records;
  for (size_t i = 0; ok && list && i < ldns_rr_list_rr_count(list); i++)
    ok = add_record(records, ldns_rr_list_rr(list, i));
  if (ok)
    return records;
  json_decref(records);
  return NULL;
}

static bool has_servers(const ldns_rr_list *list) {
  for (size_t i = 0; list && i < ldns_rr_list_rr_count(list); i++)
    if (ldns_rr_get_type(ldns_rr_list_rr(list, i)) == LDNS_RR_TYPE_NS)
      return true;
  return false;
}

/* RFC 7871 section 6: family, source, scope, address. */
static void take_subnet(ldns_pkt *pkt, struct ask_answer *out) {
  ldns_edns_option_list *list = ldns_pkt_edns_get_option_list(pkt);
  size_t count = list ? ldns_edns_option_list_get_count(list) : 0;
  for (size_t i = 0; i < count; i++) {
    const ldns_edns_option *option = ldns_edns_option_list_get_option(list, i);
    if (option && ldns_edns_get_code(option) == LDNS_EDNS_CLIENT_SUBNET &&
        ldns_edns_get_size(option) >= 4) {
      out->subnet = true;
      out->scope = ldns_edns_get_data(option)[3];
    }
  }
}

static enum ask_heard take(ldns_pkt *pkt, struct ask_answer *out) {
  const ldns_rr_list *answer = ldns_pkt_answer(pkt);
  const ldns_rr_list *authority = ldns_pkt_authority(pkt);
  unsigned rcode = (unsigned)ldns_pkt_get_rcode(pkt);
  if (ldns_pkt_edns(pkt))
    rcode |= (unsigned)ldns_pkt_edns_extended_rcode(pkt) << 4;
  bool empty = !answer || ldns_rr_list_rr_count(answer) == 0;
  take_subnet(pkt, out);
  out->answered = true;
  out->rcode = (uint8_t)(rcode < RCODE_MAX ? rcode : RCODE_MAX);
  out->authoritative = ldns_pkt_aa(pkt);
  out->referral = rcode == 0 && empty && !out->authoritative && has_servers(authority);
  out->records = records_of(out->referral ? authority : answer);
  return out->records ? ASK_GOOD : ASK_NO_MEMORY;
}

enum ask_heard ask_read(const struct ask_question *question, uint16_t id, const uint8_t *message,
                        size_t len, struct ask_answer *out) {
  ldns_pkt *pkt = NULL;
  *out = (struct ask_answer){0};
  if (!is_reply(message, len, id))
    return ASK_STRAY;
  if (len > ASK_REPLY || ldns_wire2pkt(&pkt, message, len) != LDNS_STATUS_OK) {
    if ((message[2] & 0x02) != 0) /* cut in the middle of a record */
      return ASK_TRUNCATED;
    snprintf(out->why, sizeof out->why, "its answer is no DNS message (%zu octets)", len);
    return ASK_BROKEN;
  }
  enum ask_heard heard = ASK_STRAY;
  if (is_question(question, pkt))
    heard = ldns_pkt_tc(pkt) ? ASK_TRUNCATED : take(pkt, out);
  ldns_pkt_free(pkt);
  return heard;
}

void ask_answer_close(struct ask_answer *answer) {
  json_decref(answer->records);
  *answer = (struct ask_answer){0};
}
