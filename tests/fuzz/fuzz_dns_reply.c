/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers to a dns check.  Input: what is expected (rcode, whether data), type, then the message,
 * whose id and question are put right if the third octet is even, so that the records are reached.
 */
#include <stdlib.h>
#include <string.h>

#include "healthcheck/probes/dns_message.h"

enum { HEAD = 3, ID = 0x1234, HEADER = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct kind {
  uint16_t rrtype;
  const char *data;
} kinds[] = {{1, "192.0.2.1"},
             {28, "2001:db8::1"},
             {16, "\"v=spf1 -all\""},
             {15, "10 m.example."},
             {5, "b.example."},
             {6, "a. b. 1 2 3 4 5"},
             {33, "1 2 3 a.example."},
             {65, "1 . alpn=h2"},
             {257, "0 issue \"ca.example\""},
             {48, NULL},
             {46, NULL},
             {50, NULL},
             {45, NULL},
             {64999, NULL}};

static void require(bool condition) {
  if (!condition)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct dns_question question;
  const char *why;
  char reason[DNS_WHY] = "";
  if (size < HEAD || size > HEAD + 65535)
    return 0;
  const struct kind *kind = &kinds[data[1] % (sizeof kinds / sizeof *kinds)];
  require(dns_question_make(&question, "www.example.com", kind->rrtype, ID, &why));
  size_t len = size - HEAD;
  uint8_t *wire = malloc(len + 1);
  require(wire != NULL);
  memcpy(wire, data + HEAD, len);
  if (data[2] % 2 == 0 && len >= question.len) {
    memcpy(wire, question.wire + DNS_PREFIX, 2);
    wire[2] = (uint8_t)((wire[2] & 0x07) | 0x80);
    wire[4] = 0;
    wire[5] = 1;
    memcpy(wire + HEADER, question.wire + DNS_PREFIX + HEADER, question.len - HEADER);
  }
  enum dns_match match = dns_match(&question, wire, len);
  if (match != DNS_FOREIGN) {
    bool ok =
        dns_judge(&question, data[0] % 6, data[0] & 0x80 ? kind->data : NULL, wire, len, reason);
    require(memchr(reason, 0, sizeof reason) != NULL && reason[0] != '\0');
    require(!ok || (wire[3] & 0x0f) == data[0] % 6);
  }
  free(wire);
  return 0;
}
