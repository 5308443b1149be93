/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a dns check asks and how it judges the answer: octets in, verdict out.  Pure.
 */
#ifndef SLUICE_HEALTHCHECK_PROBES_DNS_MESSAGE_H
#define SLUICE_HEALTHCHECK_PROBES_DNS_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  DNS_PREFIX = 2, /* length of a message over TCP (RFC 1035 section 4.2.2) */
  DNS_QUERY_MAX = 12 + 255 + 4,
  DNS_RECORDS = 1000, /* of an answer section that are looked at */
  DNS_WHY = 128,
};

/* A query: its octets with the prefix for TCP in front. */
struct dns_question {
  uint16_t rrtype;
  size_t len; /* of the message, without the prefix */
  uint8_t wire[DNS_PREFIX + DNS_QUERY_MAX];
};

/* Asks for `name` (presentation form; absolute also without the final dot), with recursion desired
 * and without EDNS, which every server understands.  False with a static text in *why if it is no
 * name. */
bool dns_question_make(struct dns_question *question, const char *name, uint16_t rrtype,
                       uint16_t id, const char **why);

enum dns_match {
  DNS_FOREIGN,   /* not an answer to this question: to be ignored */
  DNS_TRUNCATED, /* to be asked again over TCP */
  DNS_ANSWER,
};

/* Id, QR, opcode and question decide.  Answers without a question count if they report an error:
 * servers that cannot read a query send such. */
enum dns_match dns_match(const struct dns_question *question, const uint8_t *wire, size_t len);

/*
 * Judges an answer that matches.  `rcode` is what must come; NOERROR also takes a record of the
 * type at the end of the chain of aliases from the question's name; `data` (presentation form; of
 * TXT also the text itself, as in zone.yaml; or NULL) must be the data of one of these.  Writes the
 * reason either way to `why` (DNS_WHY octets); nothing of it comes from the peer but numbers and
 * the rcode.
 */
bool dns_judge(const struct dns_question *question, uint8_t rcode, const char *data,
               const uint8_t *wire, size_t len, char *why);

#endif
