/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of transfers share: messages made of records in presentation format.
 */
#ifndef SLUICE_TESTS_TRANSFER_HELPER_H
#define SLUICE_TESTS_TRANSFER_HELPER_H

#include <criterion/criterion.h>
#include <ldns/ldns.h>

#include "server/transfer_in.h"
#include "server/wire.h"

enum { QUERY_ID = 4711 };

struct message {
  size_t len;
  uint8_t octets[65535];
};

static inline void wire_name(uint8_t *out, const char *text) {
  const char *why = NULL;
  cr_assert_gt(name_from_text(out, text, strlen(text), NULL, &why), 0u, "%s: %s", text, why);
}

static inline void add_octets(struct message *m, const void *data, size_t n) {
  cr_assert_leq(m->len + n, sizeof m->octets);
  memcpy(m->octets + m->len, data, n);
  m->len += n;
}

static inline void add_u16(struct message *m, unsigned v) {
  uint8_t octets[2] = {(uint8_t)(v >> 8), (uint8_t)v};
  add_octets(m, octets, sizeof octets);
}

/* A response with a question (none if `qtype` is 0). */
static inline void begin(struct message *m, const char *apex, unsigned qtype) {
  memset(m->octets, 0, WIRE_QUESTION);
  m->len = WIRE_QUESTION;
  wire_put16(m->octets + WIRE_ID, QUERY_ID);
  wire_put16(m->octets + WIRE_FLAGS, WIRE_QR | WIRE_AA);
  if (qtype == 0)
    return;
  uint8_t name[NAME_BUF];
  wire_name(name, apex);
  wire_put16(m->octets + WIRE_QDCOUNT, 1);
  add_octets(m, name, name_wire_len(name, NAME_MAX_WIRE));
  add_u16(m, qtype);
  add_u16(m, CLASS_IN);
}

static inline void count_answer(struct message *m) {
  uint16_t count = wire_u16(m->octets + WIRE_ANCOUNT);
  wire_put16(m->octets + WIRE_ANCOUNT, (uint16_t)(count + 1));
}

/* Appends the records of `lines` (one a line, absolute names) to the answer section. */
static inline void add_rrs(struct message *m, const char *lines) {
  char *copy = strdup(lines);
  char *save = NULL;
  for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    ldns_rr *rr = NULL;
    uint8_t *octets = NULL;
    size_t len = 0;
    cr_assert_eq(ldns_rr_new_frm_str(&rr, line, 0, NULL, NULL), LDNS_STATUS_OK, "%s", line);
    ldns_rr2wire(&octets, rr, LDNS_SECTION_ANSWER, &len);
    add_octets(m, octets, len);
    count_answer(m);
    free(octets);
    ldns_rr_free(rr);
  }
  free(copy);
}

static inline void start_transfer(struct transfer_in *t, const char *apex, uint16_t qtype,
                                  uint32_t have, struct transfer_in_limits limits) {
  uint8_t name[NAME_BUF];
  wire_name(name, apex);
  transfer_in_init(t, name, qtype, QUERY_ID, have, &limits);
}

#define SOA(serial) "example. 3600 IN SOA ns.example. host.example. " #serial " 7200 900 86400 60\n"

#endif
