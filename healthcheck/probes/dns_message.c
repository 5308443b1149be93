/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/probes/dns_message.h"

#include <ldns/ldns.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "zones/record.h"

enum {
  HEADER = 12,
  QUESTION_TAIL = 4, /* type and class */
  FLAG_QR = 0x80,
  FLAGS_OPCODE = 0x78,
  FLAG_TC = 0x02,
  FLAG_RD = 0x01,
  RCODE_MASK = 0x0f,
  ALIASES = 16, /* of one chain */
  TYPE_TEXT = 16,
};

static void put16(uint8_t *p, uint16_t value) {
  p[0] = (uint8_t)(value >> 8);
  p[1] = (uint8_t)value;
}

static uint16_t get16(const uint8_t *p) {
  return (uint16_t)(p[0] << 8 | p[1]);
}

static const uint8_t *message_of(const struct dns_question *question) {
  return question->wire + DNS_PREFIX;
}

bool dns_question_make(struct dns_question *question, const char *name, uint16_t rrtype,
                       uint16_t id, const char **why) {
  uint8_t wire[NAME_BUF];
  size_t len = name_from_text(wire, name, strlen(name), NULL, why);
  if (len == 0)
    return false;
  uint8_t *p = question->wire + DNS_PREFIX;
  memset(p, 0, HEADER);
  put16(p, id);
  p[2] = FLAG_RD;
  p[5] = 1; /* QDCOUNT */
  memcpy(p + HEADER, wire, len);
  put16(p + HEADER + len, rrtype);
  put16(p + HEADER + len + 2, LDNS_RR_CLASS_IN);
  question->rrtype = rrtype;
  question->len = HEADER + len + QUESTION_TAIL;
  put16(question->wire, (uint16_t)question->len);
  return true;
}

/* ---- whose answer it is -------------------------------------------------------------------------
 */

static uint8_t lower(uint8_t c) {
  return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 'a' - 'A') : c;
}

/* Names without regard to case (length octets are below 'A'), type and class as they are. */
static bool same_question(const struct dns_question *question, const uint8_t *wire, size_t len) {
  const uint8_t *asked = message_of(question);
  size_t names_end = question->len - QUESTION_TAIL;
  if (len < question->len)
    return false;
  for (size_t i = HEADER; i < names_end; i++)
    if (lower(asked[i]) != lower(wire[i]))
      return false;
  return memcmp(asked + names_end, wire + names_end, QUESTION_TAIL) == 0;
}

enum dns_match dns_match(const struct dns_question *question, const uint8_t *wire, size_t len) {
  const uint8_t *asked = message_of(question);
  if (len < HEADER || memcmp(wire, asked, 2) != 0)
    return DNS_FOREIGN;
  if ((wire[2] & FLAG_QR) == 0 || (wire[2] & FLAGS_OPCODE) != 0)
    return DNS_FOREIGN;
  unsigned questions = get16(wire + 4);
  bool error = (wire[3] & RCODE_MASK) != 0;
  if (questions == 0 ? !error : questions != 1 || !same_question(question, wire, len))
    return DNS_FOREIGN;
  return (wire[2] & FLAG_TC) != 0 ? DNS_TRUNCATED : DNS_ANSWER;
}

/* ---- what it says -------------------------------------------------------------------------------
 */

static const char *rcode_text(unsigned rcode, char *out) {
  static const char *const names[] = {"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN",
                                      "NOTIMP",  "REFUSED", "YXDOMAIN", "YXRRSET",
                                      "NXRRSET", "NOTAUTH", "NOTZONE"};
  if (rcode < sizeof names / sizeof *names)
    return names[rcode];
  snprintf(out, TYPE_TEXT, "%u", rcode);
  return out;
}

static bool fail(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(char *why, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(why, DNS_WHY, format, args);
  va_end(args);
  return false;
}

/* Reads the answer section; NULL if it is not what it should be. */
static ldns_rr_list *read_answers(const uint8_t *wire, size_t len, size_t at) {
  ldns_rr_list *list = ldns_rr_list_new();
  unsigned count = get16(wire + 6);
  if (count > DNS_RECORDS)
    count = DNS_RECORDS;
  for (unsigned i = 0; list != NULL && i < count; i++) {
    ldns_rr *rr = NULL;
    if (at >= len || ldns_wire2rr(&rr, wire, len, &at, LDNS_SECTION_ANSWER) != LDNS_STATUS_OK)
      goto failed;
    if (!ldns_rr_list_push_rr(list, rr)) {
      ldns_rr_free(rr);
      goto failed;
    }
  }
  return list;
failed:
  ldns_rr_list_deep_free(list);
  return NULL;
}

static bool is_at(const ldns_rr *rr, const ldns_rdf *owner, ldns_rr_type type) {
  return ldns_rr_get_type(rr) == type && ldns_rr_get_class(rr) == LDNS_RR_CLASS_IN &&
         ldns_dname_compare(ldns_rr_owner(rr), owner) == 0;
}

static const ldns_rr *find(const ldns_rr_list *list, const ldns_rdf *owner, ldns_rr_type type) {
  for (size_t i = 0; i < ldns_rr_list_rr_count(list); i++)
    if (is_at(ldns_rr_list_rr(list, i), owner, type))
      return ldns_rr_list_rr(list, i);
  return NULL;
}

/* Where the chain of aliases from `owner` ends, which may be `owner` itself; borrowed. */
static const ldns_rdf *follow(const ldns_rr_list *list, const ldns_rdf *owner, ldns_rr_type type) {
  for (int i = 0; i < ALIASES && type != LDNS_RR_TYPE_CNAME; i++) {
    const ldns_rr *alias = find(list, owner, LDNS_RR_TYPE_CNAME);
    if (alias == NULL || ldns_rr_rdf(alias, 0) == NULL)
      break;
    owner = ldns_rr_rdf(alias, 0);
  }
  return owner;
}

/* The expected data as a record; NULL if it is none of the type. */
static ldns_rr *expected_record(ldns_rr_type type, const char *data) {
  char *type_text = ldns_rr_type2str(type);
  size_t size = strlen(data) + 64;
  char *text = malloc(size);
  ldns_rdf *root = ldns_dname_new_frm_str(".");
  ldns_rr *rr = NULL;
  if (type_text != NULL && text != NULL && root != NULL) {
    snprintf(text, size, ". 0 IN %s %s", type_text, data);
    if (ldns_rr_new_frm_str(&rr, text, 0, root, NULL) != LDNS_STATUS_OK)
      rr = NULL;
  }
  if (rr != NULL)
    ldns_rr2canonical(rr);
  ldns_rdf_deep_free(root);
  free(text);
  free(type_text);
  return rr;
}

static bool same_data(const ldns_rr *a, const ldns_rr *b) {
  if (ldns_rr_rd_count(a) != ldns_rr_rd_count(b))
    return false;
  for (size_t i = 0; i < ldns_rr_rd_count(a); i++)
    if (ldns_rdf_compare(ldns_rr_rdf(a, i), ldns_rr_rdf(b, i)) != 0)
      return false;
  return true;
}

/* Whether `data` is the text of a TXT record, whatever strings it was cut into. */
static bool same_text(const ldns_rr *rr, const char *data) {
  size_t left = strlen(data);
  if (ldns_rr_get_type(rr) != LDNS_RR_TYPE_TXT && ldns_rr_get_type(rr) != LDNS_RR_TYPE_SPF)
    return false;
  for (size_t i = 0; i < ldns_rr_rd_count(rr); i++) {
    const ldns_rdf *string = ldns_rr_rdf(rr, i); /* a length octet, then the text */
    const uint8_t *octets = ldns_rdf_data(string);
    size_t len = ldns_rdf_size(string) - 1;
    if (len > left || memcmp(octets + 1, data, len) != 0)
      return false;
    data += len;
    left -= len;
  }
  return left == 0;
}

static bool judge_data(const ldns_rr_list *list, const ldns_rdf *owner, ldns_rr_type type,
                       const char *data, size_t count, const char *type_text, char *why) {
  ldns_rr *expected = expected_record(type, data);
  bool found = false, any_text = type == LDNS_RR_TYPE_TXT || type == LDNS_RR_TYPE_SPF;
  if (expected == NULL && !any_text)
    return fail(why, "`expect.data` is not data of type %s", type_text);
  for (size_t i = 0; i < ldns_rr_list_rr_count(list) && !found; i++) {
    ldns_rr *rr = ldns_rr_list_rr(list, i);
    if (!is_at(rr, owner, type))
      continue;
    ldns_rr2canonical(rr);
    found = (expected != NULL && same_data(rr, expected)) || same_text(rr, data);
  }
  ldns_rr_free(expected);
  if (found)
    snprintf(why, DNS_WHY, "expected data of type %s came", type_text);
  else
    fail(why, "data differ: %zu of type %s came, and not what is expected", count, type_text);
  return found;
}

static bool judge_records(const struct dns_question *question, const ldns_rr_list *list,
                          const ldns_rdf *qname, const char *data, char *why) {
  char type_text[TYPE_TEXT];
  ldns_rr_type type = (ldns_rr_type)question->rrtype;
  const ldns_rdf *owner = follow(list, qname, type);
  size_t count = 0;
  record_type_text(question->rrtype, type_text);
  for (size_t i = 0; i < ldns_rr_list_rr_count(list); i++)
    count += is_at(ldns_rr_list_rr(list, i), owner, type);
  if (count == 0)
    return fail(why, "no answer of type %s%s", type_text,
                owner != qname ? ", an alias leads nowhere" : "");
  if (data != NULL)
    return judge_data(list, owner, type, data, count, type_text, why);
  snprintf(why, DNS_WHY, "rcode NOERROR, %zu of type %s", count, type_text);
  return true;
}

bool dns_judge(const struct dns_question *question, uint8_t rcode, const char *data,
               const uint8_t *wire, size_t len, char *why) {
  char got[TYPE_TEXT], expected[TYPE_TEXT];
  unsigned came = wire[3] & RCODE_MASK;
  if (came != rcode)
    return fail(why, "rcode %s, expected %s", rcode_text(came, got), rcode_text(rcode, expected));
  if (came != LDNS_RCODE_NOERROR) {
    snprintf(why, DNS_WHY, "rcode %s", rcode_text(came, got));
    return true;
  }
  ldns_rr_list *list = read_answers(wire, len, question->len);
  if (list == NULL)
    return fail(why, "malformed answer");
  ldns_rdf *qname = NULL;
  size_t at = HEADER;
  bool ok = false;
  if (ldns_wire2dname(&qname, message_of(question), question->len, &at) == LDNS_STATUS_OK)
    ok = judge_records(question, list, qname, data, why);
  else
    fail(why, "out of memory");
  ldns_rdf_deep_free(qname);
  ldns_rr_list_deep_free(list);
  return ok;
}
