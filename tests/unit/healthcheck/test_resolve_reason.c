/* SPDX-License-Identifier: Apache-2.0 */
/* Why a name has no address, in words. */
#include <ares.h>
#include <criterion/criterion.h>

#include "healthcheck/resolve_reason.h"

Test(resolve_reason, worst) {
  static const struct {
    int statuses[2], worst;
  } cases[] = {{{ARES_SUCCESS, ARES_SUCCESS}, ARES_ENODATA},
               {{ARES_SUCCESS, ARES_ENODATA}, ARES_ENODATA},
               {{ARES_ENODATA, ARES_ESERVFAIL}, ARES_ESERVFAIL},
               {{ARES_ESERVFAIL, ARES_ENODATA}, ARES_ESERVFAIL},
               {{ARES_EREFUSED, ARES_ETIMEOUT}, ARES_ETIMEOUT},
               {{ARES_ENOTFOUND, ARES_ETIMEOUT}, ARES_ENOTFOUND},
               {{ARES_ETIMEOUT, ARES_ENOTFOUND}, ARES_ENOTFOUND}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    cr_expect_eq(resolve_reason_worst(cases[i].statuses, 2), cases[i].worst, "%zu", i);
}

static void expect_reason(int status, bool answered, const char *words, bool own_fault) {
  char why[RESOLVE_WHY];
  cr_expect_eq(resolve_reason(status, answered, why), own_fault, "%s", words);
  cr_expect_str_eq(why, words);
}

Test(resolve_reason, words) {
  expect_reason(ARES_ENODATA, false, "the name has no address", false);
  expect_reason(ARES_ENODATA, true, "the name has no usable address", false);
  expect_reason(ARES_ENOTFOUND, false, "no such name", false);
  expect_reason(ARES_ETIMEOUT, false, "resolver timed out", false);
  expect_reason(ARES_ESERVFAIL, false, "resolver failed (SERVFAIL)", false);
}

Test(resolve_reason, own_faults) {
  char why[RESOLVE_WHY];
  expect_reason(ARES_ECONNREFUSED, false, "resolver unreachable", true);
  cr_expect(resolve_reason(ARES_ENOMEM, false, why));
  cr_expect(resolve_reason(ARES_EFILE, false, why));
}
