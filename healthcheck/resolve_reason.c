/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/resolve_reason.h"

#include <ares.h>
#include <stdio.h>

int resolve_reason_worst(const int *statuses, size_t count) {
  int worst = ARES_ENODATA;
  for (size_t i = 0; i < count && worst != ARES_ENOTFOUND; i++)
    if (statuses[i] != ARES_ENODATA && statuses[i] != ARES_SUCCESS)
      worst = statuses[i];
  return worst;
}

bool resolve_reason(int status, bool answered, char why[RESOLVE_WHY]) {
  bool own_fault = status == ARES_ECONNREFUSED || status == ARES_ENOMEM || status == ARES_EFILE;
  const char *text;
  switch (status) {
  case ARES_ENODATA:
    text = answered ? "the name has no usable address" : "the name has no address";
    break;
  case ARES_ENOTFOUND:
    text = "no such name";
    break;
  case ARES_EBADNAME:
    text = "not a host name";
    break;
  case ARES_ETIMEOUT:
    text = "resolver timed out";
    break;
  case ARES_EREFUSED:
    text = "resolver refused";
    break;
  case ARES_ESERVFAIL:
    text = "resolver failed (SERVFAIL)";
    break;
  case ARES_ENOTIMP:
    text = "resolver failed (NOTIMP)";
    break;
  case ARES_EFORMERR:
    text = "resolver failed (FORMERR)";
    break;
  case ARES_EBADRESP:
    text = "resolver sent a malformed answer";
    break;
  case ARES_ECONNREFUSED:
    text = "resolver unreachable";
    break;
  default:
    snprintf(why, RESOLVE_WHY, "resolver failed: %s", ares_strerror(status));
    return own_fault;
  }
  snprintf(why, RESOLVE_WHY, "%s", text);
  return own_fault;
}
