/* SPDX-License-Identifier: Apache-2.0 */
/* One request to Route 53: signed, judged by the code of its error, and parsed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/providers/route53_private.h"

enum { REPLY_TEXT = 200 };

/* Signature version 4 by libcurl, with all header fields that are given.  It signs the query in the
 * order in which it stands: all queries here are written in the order of their keys. */
static void sign(void *arg, CURL *curl) {
  const struct route53 *r = arg;
  curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, "aws:amz:us-east-1:route53");
  curl_easy_setopt(curl, CURLOPT_USERPWD, r->credentials);
}

/* ---- errors --------------------------------------------------------------------------------- */

struct reply_error {
  char code[64];
  char text[REPLY_TEXT];
};

/* <ErrorResponse><Error><Code/><Message/></Error></ErrorResponse>, and for batches also
 * <InvalidChangeBatch><Messages><Message/>... */
static void read_error(const struct http_reply *reply, struct reply_error *out) {
  xmlDoc *doc = route53_parse(reply->body, reply->body_len, NULL);
  const xmlNode *root = doc ? xmlDocGetRootElement(doc) : NULL;
  const xmlNode *error = route53_child(root, "Error");
  const xmlNode *messages = route53_child(root, "Messages");
  char *code = route53_text(error, "Code");
  char *text = route53_text(error ? error : messages ? messages : root, "Message");
  snprintf(out->code, sizeof out->code, "%s", code ? code : root ? (const char *)root->name : "");
  snprintf(out->text, sizeof out->text, "%s", text ? text : "");
  free(code);
  free(text);
  xmlFreeDoc(doc);
}

/* What the codes of the API mean. */
static enum provider_failure meaning(const char *code) {
  static const struct {
    const char *code;
    enum provider_failure failure;
  } table[] = {
      {"Throttling", PROVIDER_THROTTLED},
      {"ThrottlingException", PROVIDER_THROTTLED},
      {"RequestLimitExceeded", PROVIDER_THROTTLED},
      {"TooManyRequestsException", PROVIDER_THROTTLED},
      {"PriorRequestNotComplete", PROVIDER_THROTTLED},
      {"AccessDenied", PROVIDER_DENIED},
      {"AccessDeniedException", PROVIDER_DENIED},
      {"InvalidClientTokenId", PROVIDER_DENIED},
      {"SignatureDoesNotMatch", PROVIDER_DENIED},
      {"MissingAuthenticationToken", PROVIDER_DENIED},
      {"ExpiredToken", PROVIDER_DENIED},
      {"ExpiredTokenException", PROVIDER_DENIED},
      {"UnrecognizedClientException", PROVIDER_DENIED},
      {"RequestExpired", PROVIDER_DENIED},
      {"NoSuchHostedZone", PROVIDER_GONE},
      {"NoSuchHealthCheck", PROVIDER_CONFLICT},
      {"NoSuchChange", PROVIDER_GONE},
      {"HealthCheckVersionMismatch", PROVIDER_CONFLICT},
      {"HealthCheckInUse", PROVIDER_CONFLICT},
      {"HealthCheckAlreadyExists", PROVIDER_CONFLICT},
      {"HostedZoneAlreadyExists", PROVIDER_CONFLICT},
      {"HostedZoneNotEmpty", PROVIDER_CONFLICT},
      {"InvalidChangeBatch", PROVIDER_CONFLICT},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(code, table[i].code) == 0)
      return table[i].failure;
  return PROVIDER_OK;
}

static bool judge(const struct route53 *r, const struct http_reply *reply, const char *what,
                  struct provider_error *error) {
  struct reply_error e;
  const char *n = r->name;
  if (reply->status >= 200 && reply->status < 300)
    return true;
  read_error(reply, &e);
  enum provider_failure failure = meaning(e.code);
  switch (failure) {
  case PROVIDER_THROTTLED:
    return provider_fail(error, failure, "%s: %s: too many requests (%s); try again later", n, what,
                         e.code);
  case PROVIDER_DENIED:
    if (strncmp(e.code, "ExpiredToken", 12) == 0)
      return provider_fail(error, failure,
                           "%s: %s: the session token has expired (%s); put new credentials into "
                           "the provider's `secret`: KEY_ID:SECRET_KEY:SESSION_TOKEN",
                           n, what, e.code);
    return provider_fail(error, failure,
                         "%s: %s: the access key is refused (%s); check the provider's `secret`, "
                         "its rights, and this machine's clock",
                         n, what, e.code);
  case PROVIDER_GONE:
    return provider_fail(error, failure,
                         "%s: %s is not there (%s); create it, or check the "
                         "account of the provider's `secret`",
                         n, what, e.code);
  case PROVIDER_CONFLICT:
    return provider_fail(error, failure, "%s: %s: refused as it is now (%s: %s); run it again", n,
                         what, e.code, e.text);
  default:
    break;
  }
  if (reply->status == 401 || reply->status == 403)
    return provider_fail(error, PROVIDER_DENIED,
                         "%s: %s: the access key is refused; check the provider's `secret`", n,
                         what);
  if (reply->status == 429)
    return provider_fail(error, PROVIDER_THROTTLED, "%s: too many requests; try again later", n);
  if (reply->status >= 500)
    return provider_fail(error, PROVIDER_UNREACHABLE, "%s: %s: the API fails with status %ld (%s)",
                         n, what, reply->status, e.code);
  if (e.code[0] && reply->status >= 400)
    return provider_fail(error, PROVIDER_REFUSED, "%s: %s is refused: %s: %s", n, what, e.code,
                         e.text);
  return provider_fail(error, PROVIDER_GARBAGE,
                       "%s: %s: status %ld is none of Route 53's API; check the provider's `url`",
                       n, what, reply->status);
}

/* ---- requests ------------------------------------------------------------------------------- */

bool route53_send(struct route53 *r, const struct route53_call *call, xmlDoc **out,
                  struct provider_error *error) {
  static const char *const headers[] = {"Content-Type: application/xml", NULL};
  char why[HTTP_WHY] = "";
  struct http_reply reply = {0};
  char *url = NULL;
  if (asprintf(&url, "%s%s", r->base, call->path) < 0)
    return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", r->name);
  struct http_request q = {.method = call->method,
                           .url = url,
                           .headers = call->body ? headers : NULL,
                           .secret_header = r->token,
                           .body = call->body ? call->body->data : NULL,
                           .body_len = call->body ? call->body->len : 0,
                           .idempotent = call->idempotent,
                           .signs = true,
                           .setup = sign,
                           .arg = r};
  bool ok = http_send(r->http, &q, &reply, why);
  if (!ok)
    provider_fail(error, PROVIDER_UNREACHABLE, "%s: %s: %s", r->name, call->what, why);
  else
    ok = judge(r, &reply, call->what, error);
  if (ok && out) {
    *out = route53_parse(reply.body, reply.body_len, call->root);
    if (!*out)
      ok = provider_fail(error, PROVIDER_GARBAGE,
                         "%s: the reply about %s is truncated, or none of Route 53's API; check "
                         "the provider's `url`",
                         r->name, call->what);
  }
  http_reply_close(&reply);
  free(url);
  return ok;
}

void route53_add_query(struct buf *path, char before, const char *key, const char *value) {
  char *escaped = curl_easy_escape(NULL, value, 0);
  buf_printf(path, "%c%s=%s", before, key, escaped ? escaped : "");
  path->failed = path->failed || !escaped;
  curl_free(escaped);
}

bool route53_garbage(const struct route53 *r, const char *what, const char *why,
                     struct provider_error *error) {
  if (!why[0])
    return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", r->name);
  return provider_fail(error, PROVIDER_GARBAGE,
                       "%s: what it says of %s is none of Route 53's API: %s", r->name, what, why);
}

/* ---- parts of replies ----------------------------------------------------------------------- */

bool route53_take_id(const char *text, const char *prefix, char out[ROUTE53_ID]) {
  size_t skip = strlen(prefix);
  const char *id = text && strncmp(text, prefix, skip) == 0 ? text + skip : text;
  size_t n = id ? strlen(id) : 0;
  if (n == 0 || n >= ROUTE53_ID ||
      strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != n)
    return false;
  memcpy(out, id, n + 1);
  return true;
}

bool route53_is_truncated(const xmlNode *root, bool *more) {
  char *text = route53_text(root, "IsTruncated");
  bool ok = text && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0);
  *more = ok && text[0] == 't';
  free(text);
  return ok;
}
