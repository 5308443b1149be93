/* SPDX-License-Identifier: Apache-2.0 */
/* The words in which probes tell what went wrong. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "healthcheck/probes/http_reason.h"
#include "healthcheck/probes/reason.h"

static void statuses(size_t count, size_t size, const char *expected) {
  struct check_range ranges[50];
  struct check check = {.statuses = ranges, .status_count = count};
  char text[300];
  for (size_t i = 0; i < count; i++)
    ranges[i] =
        (struct check_range){.from = (uint16_t)(200 + i), .to = (uint16_t)(200 + i + i % 2)};
  memset(text, 'x', sizeof text);
  http_statuses_text(&check, text, size);
  cr_expect_str_eq(text, expected);
  cr_expect_lt(strlen(text), size);
}

Test(words, status_lists_are_cut_between_two) {
  statuses(1, 64, "200");
  statuses(3, 64, "200, 201-202, 202");
  statuses(3, 20, "200, 201-202 ...");
  statuses(50, 30, "200, 201-202, 202 ...");
}

Test(words, own_faults_are_told_from_those_of_the_peer) {
  static const int own[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM, EADDRNOTAVAIL, EAFNOSUPPORT};
  static const int others[] = {ECONNREFUSED, ECONNRESET, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT, EIO};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    bool own_fault = false;
    cr_expect_neq(*reason_connect(own[i], &own_fault), '\0');
    cr_expect(own_fault, "%s", strerror(own[i]));
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    bool own_fault = false;
    cr_expect_neq(*reason_connect(others[i], &own_fault), '\0');
    cr_expect_not(own_fault, "%s", strerror(others[i]));
  }
}

static void refusal(int error, int depth, const char *expected) {
  struct tls_refusal refusal = {.error = error, .depth = depth, .day = "2026-01-02"};
  char text[160];
  tls_refusal_text(&refusal, text, sizeof text);
  cr_expect_str_eq(text, expected);
}

Test(words, certificates) {
  refusal(X509_V_ERR_CERT_HAS_EXPIRED, 0, "certificate expired on 2026-01-02");
  refusal(X509_V_ERR_CERT_HAS_EXPIRED, 1, "certificate of the authority expired on 2026-01-02");
  refusal(X509_V_ERR_CERT_NOT_YET_VALID, 0, "certificate is not valid before 2026-01-02");
  refusal(X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, 1,
          "certificate not trusted: signed by an unknown authority");
  refusal(X509_V_ERR_CERT_REVOKED, 0, "certificate not accepted: certificate revoked");
}
