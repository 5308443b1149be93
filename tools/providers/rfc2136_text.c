/* SPDX-License-Identifier: Apache-2.0 */
/* Settings, and what answers mean: RCODEs (RFC 2136 section 2.2) and errors of TSIG (RFC 8945). */
#include <stdio.h>
#include <string.h>

#include "tools/providers/rfc2136_private.h"

enum {
  FORMERR = 1,
  SERVFAIL = 2,
  NXDOMAIN = 3,
  NOTIMP = 4,
  REFUSED = 5,
  YXDOMAIN = 6,
  YXRRSET = 7,
  NXRRSET = 8,
  NOTAUTH = 9,
  NOTZONE = 10,
  BADSIG = 16,
  BADKEY = 17,
  BADTIME = 18,
};

bool rfc2136_key(char *text, const char **algorithm, const char **name, const char **secret,
                 char *why) {
  char *first = strchr(text, ':');
  char *second = first ? strchr(first + 1, ':') : NULL;
  if (!second || first == text || second == first + 1 || second[1] == '\0') {
    snprintf(why, RFC2136_WHY,
             "it must be ALGORITHM:KEY-NAME:BASE64, such as hmac-sha256:sluice:... as "
             "`keymgr -t` or `tsig-keygen` make them");
    return false;
  }
  *first = *second = '\0';
  *algorithm = text;
  *name = first + 1;
  *secret = second + 1;
  return true;
}

bool rfc2136_rcode(const char *provider, const char *zone, unsigned rcode, bool update,
                   struct provider_error *error) {
  const char *what = update ? "the update" : "the transfer";
  const char *n = provider;
  switch (rcode) {
  case NXDOMAIN:
  case YXDOMAIN:
  case YXRRSET:
  case NXRRSET:
    if (!update)
      break;
    return provider_fail(error, PROVIDER_CONFLICT,
                         "%s: somebody changed %.200s meanwhile (%s); nothing of this message was "
                         "done: plan again",
                         n, zone, transfer_rcode_text(rcode));
  case NOTAUTH:
    return provider_fail(error, PROVIDER_GONE,
                         "%s: zone %.200s is not there (NOTAUTH); create it at the server, or "
                         "check the provider's `address`",
                         n, zone);
  case NOTZONE:
    return provider_fail(error, PROVIDER_REFUSED,
                         "%s: a record is outside of %.200s as the server has it (NOTZONE)", n,
                         zone);
  case REFUSED:
    return provider_fail(error, PROVIDER_DENIED,
                         "%s: %s of %.200s is refused; let the key do it (BIND: %s; Knot: an acl "
                         "with action: %s)%s",
                         n, what, zone, update ? "update-policy" : "allow-transfer",
                         update ? "update" : "transfer",
                         update ? ", or its log says which check of its own fails" : "");
  case NOTIMP:
    return provider_fail(error, PROVIDER_REFUSED,
                         "%s: the server does not know dynamic updates (NOTIMP); is it a primary "
                         "of %.200s?",
                         n, zone);
  case FORMERR:
    return provider_fail(error, PROVIDER_REFUSED,
                         "%s: the server does not understand %s of %.200s (FORMERR)", n, what,
                         zone);
  case SERVFAIL:
    return provider_fail(error, PROVIDER_UNREACHABLE,
                         "%s: the server fails at %s of %.200s (SERVFAIL); look at its log (often "
                         "it may not write its zone or journal)",
                         n, what, zone);
  default:
    break;
  }
  return provider_fail(error, PROVIDER_GARBAGE, "%s: %s of %.200s is answered with RCODE %u (%s)",
                       n, what, zone, rcode, transfer_rcode_text(rcode));
}

/* The server refuses our signature. */
static bool peer_error(const char *provider, const struct tsig_session *session, uint64_t now,
                       struct provider_error *error) {
  switch (session->error) {
  case BADSIG:
    return provider_fail(error, PROVIDER_DENIED,
                         "%s: the server refuses the signature (BADSIG); the secret is not that of "
                         "its key",
                         provider);
  case BADKEY:
    return provider_fail(error, PROVIDER_DENIED,
                         "%s: the server does not know the key (BADKEY); compare the name and "
                         "algorithm in the provider's `secret` with its settings",
                         provider);
  case BADTIME:
    return provider_fail(error, PROVIDER_DENIED,
                         "%s: the clocks differ (BADTIME): the server's says %llu, ours %llu "
                         "seconds; set them, best by NTP",
                         provider, (unsigned long long)session->peer_time, (unsigned long long)now);
  default:
    return provider_fail(error, PROVIDER_DENIED, "%s: the server refuses the signature (error %u)",
                         provider, session->error);
  }
}

bool rfc2136_signature(const char *provider, const struct tsig_session *session,
                       enum tsig_result result, uint64_t now, struct provider_error *error) {
  switch (result) {
  case TSIG_PEER_ERROR:
    return peer_error(provider, session, now, error);
  case TSIG_BADTIME:
    return provider_fail(error, PROVIDER_DENIED,
                         "%s: the answer is signed at another time: the clocks differ; set them, "
                         "best by NTP",
                         provider);
  case TSIG_BADKEY:
  case TSIG_BADSIG:
  case TSIG_BADTRUNC:
    return provider_fail(error, PROVIDER_DENIED,
                         "%s: the signature of the answer is wrong (%s); nothing of it is used",
                         provider, tsig_result_text(result));
  case TSIG_FAILED:
    return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", provider);
  default:
    return provider_fail(error, PROVIDER_GARBAGE, "%s: the answer is not signed as it must be (%s)",
                         provider, tsig_result_text(result));
  }
}
