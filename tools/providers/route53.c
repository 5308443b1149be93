/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Amazon Route 53 by its REST API (docs.aws.amazon.com/Route53/latest/APIReference, 2013-04-01):
 * steering as geolocation, failover and weighted record sets with health checks.
 *
 * Changes are sent in batches, each of which is all or nothing, and count once Route 53 says that
 * they are INSYNC.  Health checks are made before the records that use them and removed after the
 * records that used them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "base/secret.h"
#include "tools/providers/route53_private.h"

enum {
  REPLY_TEXT = 200,
  ID_MAX = 64,
  PAGES_MAX = 10000,
  INSYNC_WAIT_MS = 300000,
  INSYNC_FIRST_MS = 250,
  INSYNC_MOST_MS = 5000,
};

struct route53 {
  char *name, *base, *marker;
  char *credentials; /* "KEY:SECRET" */
  bool read_only;
  struct http_client *http;
  struct rng rng;
  char *zone;           /* that was read last */
  char zone_id[ID_MAX]; /* of it */
  char prefix[64];      /* of the CallerReferences of its health checks */
  json_t *checks;       /* KEY -> {"id", "version"} */
};

/* ---- open and close ------------------------------------------------------------------------- */

static void forget(struct route53 *r) {
  free(r->zone);
  json_decref(r->checks);
  r->zone = NULL;
  r->checks = NULL;
}

static void r53_close(void *self) {
  struct route53 *r = self;
  if (!r)
    return;
  forget(r);
  http_close(r->http);
  secret_wipe_text(r->credentials);
  free(r->name);
  free(r->base);
  free(r->marker);
  free(r);
}

static bool take_secret(const struct provider_context *context, struct route53 *r,
                        struct provider_error *error) {
  const char *name = json_string_value(json_object_get(context->settings, "secret"));
  char text[SECRET_MAX + 1];
  char why[SECRET_WHY] = "there are no secrets";
  if (!name)
    return provider_fail(error, PROVIDER_LOCAL,
                         "%s: `secret` is missing: the name of the secret with the access key, as "
                         "KEY_ID:SECRET_KEY",
                         context->name);
  if (!context->secret || !context->secret(context->secret_arg, name, text, sizeof text, why))
    return provider_fail(error, PROVIDER_LOCAL, "%s: secret %.100s: %.300s", context->name, name,
                         why);
  const char *colon = strchr(text, ':');
  bool ok = colon && colon > text && colon[1] && !strchr(colon + 1, ':') &&
            strcspn(text, " \t\r\n") == strlen(text);
  r->credentials = ok ? strdup(text) : NULL;
  explicit_bzero(text, sizeof text);
  if (!ok)
    return provider_fail(error, PROVIDER_LOCAL,
                         "%s: secret %.100s is none: write the access key as KEY_ID:SECRET_KEY",
                         context->name, name);
  return r->credentials ? true
                        : provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", context->name);
}

static bool has_code(const struct http_reply *reply, const char *code) {
  char text[100];
  snprintf(text, sizeof text, "<Code>%s</Code>", code);
  return strstr(reply->body, text);
}

/* These come with status 400, and nothing was done. */
static enum http_again again(const struct http_reply *reply) {
  static const char *const codes[] = {"Throttling", "ThrottlingException", "RequestLimitExceeded",
                                      "PriorRequestNotComplete", "TooManyRequestsException",
                                      /* until the change that no longer uses it is everywhere: that
                                       * of a run that was killed is known to nobody */
                                      "HealthCheckInUse"};
  for (size_t i = 0; reply->status == 400 && i < sizeof codes / sizeof *codes; i++)
    if (has_code(reply, codes[i]))
      return HTTP_RETRY_LATER;
  return HTTP_NO;
}

static char *base_of(const char *url) {
  size_t n = strlen(url);
  char *base = NULL;
  while (n > 0 && url[n - 1] == '/')
    n--;
  return asprintf(&base, "%.*s/2013-04-01", (int)n, url) < 0 ? NULL : base;
}

static void *r53_open(const struct provider_context *context, struct provider_error *error) {
  const char *url = json_string_value(json_object_get(context->settings, "url"));
  const char *marker = context->marker ? context->marker : "sluice";
  if (strlen(marker) > 32 || strpbrk(marker, " :")) {
    provider_fail(error, PROVIDER_LOCAL,
                  "%s: `marker` must be at most 32 characters without spaces and colons",
                  context->name);
    return NULL;
  }
  struct route53 *r = calloc(1, sizeof *r);
  if (!r) {
    provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", context->name);
    return NULL;
  }
  struct http_options options = {
      .deadline_ms = context->deadline_ms, .again = again, .read_only = context->read_only};
  r->name = strdup(context->name);
  r->base = base_of(url ? url : "https://route53.amazonaws.com");
  r->marker = strdup(marker);
  r->read_only = context->read_only;
  r->http = http_open(&options);
  rng_seed_kernel(&r->rng);
  if (!r->name || !r->base || !r->marker || !r->http)
    provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", context->name);
  else if (take_secret(context, r, error))
    return r;
  r53_close(r);
  return NULL;
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Signature version 4 by libcurl, which signs the query in the order in which it stands: all
 * queries here are written in the order of their keys. */
static void sign(void *arg, CURL *curl) {
  const struct route53 *r = arg;
  curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, "aws:amz:us-east-1:route53");
  curl_easy_setopt(curl, CURLOPT_USERPWD, r->credentials);
}

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
      {"RequestExpired", PROVIDER_DENIED},
      {"NoSuchHostedZone", PROVIDER_GONE},
      {"NoSuchHealthCheck", PROVIDER_CONFLICT},
      {"NoSuchChange", PROVIDER_GONE},
      {"HealthCheckVersionMismatch", PROVIDER_CONFLICT},
      {"HealthCheckInUse", PROVIDER_CONFLICT},
      {"HealthCheckAlreadyExists", PROVIDER_CONFLICT},
      {"HostedZoneAlreadyExists", PROVIDER_CONFLICT},
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

/* Sends, judges and parses; *out (if not NULL) is freed by xmlFreeDoc(). */
static bool request(struct route53 *r, const char *method, const char *path, const struct buf *body,
                    bool idempotent, const char *what, const char *root, xmlDoc **out,
                    struct provider_error *error) {
  static const char *const headers[] = {"Content-Type: application/xml", NULL};
  char why[HTTP_WHY] = "";
  struct http_reply reply = {0};
  char *url = NULL;
  if (asprintf(&url, "%s%s", r->base, path) < 0)
    return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", r->name);
  struct http_request q = {.method = method,
                           .url = url,
                           .headers = body ? headers : NULL,
                           .body = body ? body->data : NULL,
                           .body_len = body ? body->len : 0,
                           .idempotent = idempotent,
                           .signs = true,
                           .setup = sign,
                           .arg = r};
  bool ok = http_send(r->http, &q, &reply, why);
  if (!ok)
    provider_fail(error, PROVIDER_UNREACHABLE, "%s: %s: %s", r->name, what, why);
  else
    ok = judge(r, &reply, what, error);
  if (ok && out) {
    *out = route53_parse(reply.body, reply.body_len, root);
    if (!*out)
      ok = provider_fail(error, PROVIDER_GARBAGE,
                         "%s: the reply about %s is truncated, or none of Route 53's API; check "
                         "the provider's `url`",
                         r->name, what);
  }
  http_reply_close(&reply);
  free(url);
  return ok;
}

/* Adds "KEY=VALUE" in percent encoding. */
static void add_query(struct buf *path, char before, const char *key, const char *value) {
  char *escaped = curl_easy_escape(NULL, value, 0);
  buf_printf(path, "%c%s=%s", before, key, escaped ? escaped : "");
  path->failed = path->failed || !escaped;
  curl_free(escaped);
}

static bool garbage(const struct route53 *r, const char *what, const char *why,
                    struct provider_error *error) {
  if (!why[0])
    return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", r->name);
  return provider_fail(error, PROVIDER_GARBAGE,
                       "%s: what it says of %s is none of Route 53's API: %s", r->name, what, why);
}

/* ---- zones ---------------------------------------------------------------------------------- */

/* The id without "/hostedzone/", or false. */
static bool take_id(const char *text, const char *prefix, char out[ID_MAX]) {
  size_t skip = strlen(prefix);
  const char *id = text && strncmp(text, prefix, skip) == 0 ? text + skip : text;
  size_t n = id ? strlen(id) : 0;
  if (n == 0 || n >= ID_MAX ||
      strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != n)
    return false;
  memcpy(out, id, n + 1);
  return true;
}

/* Public zones of the name among those listed: how many, and the id of the first. */
static size_t count_zones(const xmlNode *root, const char *zone, char id[ID_MAX]) {
  const xmlNode *list = route53_child(root, "HostedZones");
  size_t count = 0;
  for (const xmlNode *child = list ? list->children : NULL; child; child = child->next) {
    char name[NAME_MAX_TEXT];
    char *text = route53_text(child, "Name");
    char *private = route53_text(route53_child(child, "Config"), "PrivateZone");
    char *given = route53_text(child, "Id");
    if (text && route53_name(text, name) && strcmp(name, zone) == 0 &&
        !(private && strcmp(private, "true") == 0) &&
        (count > 0 || take_id(given, "/hostedzone/", id)))
      count++;
    free(text);
    free(private);
    free(given);
  }
  return count;
}

static bool find_zone(struct route53 *r, const char *zone, struct provider_error *error) {
  char what[300];
  struct buf path;
  xmlDoc *doc = NULL;
  char *octal = route53_octal_name(zone);
  const char *const texts[] = {r->marker, zone, NULL};
  char digest[ROUTE53_KEY];
  buf_init(&path);
  buf_add_str(&path, "/hostedzonesbyname");
  add_query(&path, '?', "dnsname", octal ? octal : "");
  add_query(&path, '&', "maxitems", "10");
  free(octal);
  snprintf(what, sizeof what, "zone %.255s", zone);
  bool ok = !path.failed && route53_digest(texts, digest)
                ? request(r, "GET", buf_text(&path), NULL, true, what,
                          "ListHostedZonesByNameResponse", &doc, error)
                : garbage(r, what, "", error);
  buf_close(&path);
  size_t count = ok ? count_zones(xmlDocGetRootElement(doc), zone, r->zone_id) : 0;
  xmlFreeDoc(doc);
  if (!ok)
    return false;
  snprintf(r->prefix, sizeof r->prefix, "sluice:%.8s", digest);
  if (count == 0)
    return provider_fail(error, PROVIDER_GONE,
                         "%s: zone %.200s is not there; create it, or check the account of the "
                         "provider's `secret`",
                         r->name, zone);
  return count == 1 ? true
                    : provider_fail(error, PROVIDER_REFUSED,
                                    "%s: there are %zu public zones of the name %.200s; remove all "
                                    "but one",
                                    r->name, count, zone);
}

/* ---- read ----------------------------------------------------------------------------------- */

/* False unless the reply says whether there is more: a part is never taken for the whole. */
static bool is_truncated(const xmlNode *root, bool *more) {
  char *text = route53_text(root, "IsTruncated");
  bool ok = text && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0);
  *more = ok && text[0] == 't';
  free(text);
  return ok;
}

/* The path of the next page, in `path`; false: there is none that goes on from here. */
static bool next_sets(const struct route53 *r, const xmlNode *root, struct buf *path) {
  char *name = route53_text(root, "NextRecordName");
  char *type = route53_text(root, "NextRecordType");
  char *identifier = route53_text(root, "NextRecordIdentifier");
  char *before = strdup(buf_text(path));
  buf_clear(path);
  buf_printf(path, "/hostedzone/%s/rrset", r->zone_id);
  if (identifier)
    add_query(path, '?', "identifier", identifier);
  add_query(path, identifier ? '&' : '?', "maxitems", "300");
  add_query(path, '&', "name", name ? name : "");
  add_query(path, '&', "type", type ? type : "");
  bool ok = name && type && before && !path->failed && strcmp(before, buf_text(path)) != 0;
  free(name);
  free(type);
  free(identifier);
  free(before);
  return ok;
}

static bool next_checks(const xmlNode *root, struct buf *path) {
  char *marker = route53_text(root, "NextMarker");
  char *before = strdup(buf_text(path));
  buf_clear(path);
  buf_add_str(path, "/healthcheck");
  add_query(path, '?', "marker", marker ? marker : "");
  add_query(path, '&', "maxitems", "100");
  bool ok = marker && before && !path->failed && strcmp(before, buf_text(path)) != 0;
  free(marker);
  free(before);
  return ok;
}

/* All pages of one list. */
static bool read_pages(struct route53 *r, bool checks, struct route53_reading *reading,
                       struct provider_error *error) {
  const char *what = checks ? "the health checks" : "the records";
  struct buf path;
  buf_init(&path);
  if (checks)
    buf_add_str(&path, "/healthcheck?maxitems=100");
  else
    buf_printf(&path, "/hostedzone/%s/rrset?maxitems=300", r->zone_id);
  bool ok = true;
  bool more = true;
  for (size_t page = 0; ok && more; page++) {
    xmlDoc *doc = NULL;
    ok = page < PAGES_MAX
             ? request(r, "GET", buf_text(&path), NULL, true, what,
                       checks ? "ListHealthChecksResponse" : "ListResourceRecordSetsResponse", &doc,
                       error)
             : garbage(r, what, "the list has no end", error);
    const xmlNode *root = ok ? xmlDocGetRootElement(doc) : NULL;
    if (ok && !(checks ? route53_read_checks(reading, root) : route53_read_sets(reading, root)))
      ok = garbage(r, what, reading->why, error);
    more = false;
    if (ok && !is_truncated(root, &more))
      ok = garbage(r, what, "it does not say whether that is all", error);
    if (more && !(checks ? next_checks(root, &path) : next_sets(r, root, &path)))
      ok = garbage(r, what, "there is more, but not where", error);
    xmlFreeDoc(doc);
  }
  buf_close(&path);
  return ok;
}

static bool r53_read(void *self, const char *zone, struct provider_objects *out,
                     struct provider_error *error) {
  struct route53 *r = self;
  forget(r);
  if (!find_zone(r, zone, error))
    return false;
  struct route53_reading reading = {.marker = r->marker,
                                    .zone = zone,
                                    .prefix = r->prefix,
                                    .out = out,
                                    .checks = json_object(),
                                    .ids = json_object(),
                                    .seen = json_object()};
  bool ok = reading.checks && reading.ids && reading.seen
                ? read_pages(r, true, &reading, error) && read_pages(r, false, &reading, error)
                : garbage(r, "", "", error);
  if (ok && !route53_link_checks(&reading))
    ok = garbage(r, "", "", error);
  json_decref(reading.ids);
  json_decref(reading.seen);
  r->zone = ok ? strdup(zone) : NULL;
  if (r->zone)
    r->checks = reading.checks;
  else
    json_decref(reading.checks);
  return ok;
}

/* ---- compile -------------------------------------------------------------------------------- */

static bool r53_compile(void *self, const struct provider_domain *domain,
                        struct provider_objects *out, struct provider_fidelity *fidelity,
                        struct provider_error *error) {
  struct route53 *r = self;
  return route53_compile(r->name, r->marker, domain, out, fidelity, error);
}

static json_t *r53_decompile(void *self, const struct provider_object *const *objects, size_t count,
                             struct provider_error *error) {
  struct route53 *r = self;
  return route53_decompile(r->name, objects, count, error);
}

/* ---- health checks -------------------------------------------------------------------------- */

static const char *key_of(const struct provider_object *object) {
  return object->key + strlen(ROUTE53_HEALTH) + 1;
}

/* Makes the check and keeps its id. */
static bool create_check(struct route53 *r, const struct provider_object *object,
                         struct provider_error *error) {
  char reference[128];
  char id[ID_MAX];
  struct buf body;
  xmlDoc *doc = NULL;
  buf_init(&body);
  /* The reference of a check that was removed is never free again. */
  snprintf(reference, sizeof reference, "%.20s:%.24s:%012llx", r->prefix, key_of(object),
           (unsigned long long)(rng_next(&r->rng) >> 16));
  bool ok = route53_write_check(&body, object->body, reference, 0)
                ? request(r, "POST", "/healthcheck", &body, true, "a health check",
                          "CreateHealthCheckResponse", &doc, error)
                : garbage(r, "", "", error);
  buf_close(&body);
  if (!ok)
    return false;
  char *text = route53_text(route53_child(xmlDocGetRootElement(doc), "HealthCheck"), "Id");
  xmlFreeDoc(doc);
  ok = take_id(text, "/healthcheck/", id);
  free(text);
  if (!ok)
    return garbage(r, "a health check", "it has no id", error);
  return json_object_set_new(r->checks, key_of(object), json_pack("{s:s}", "id", id)) == 0 ||
         garbage(r, "", "", error);
}

static bool update_check(struct route53 *r, const struct provider_change *change,
                         struct provider_error *error) {
  const char *id = json_string_value(json_object_get(change->old->raw, "id"));
  json_int_t version = json_integer_value(json_object_get(change->old->raw, "version"));
  char path[ID_MAX + 20];
  struct buf body;
  buf_init(&body);
  snprintf(path, sizeof path, "/healthcheck/%.64s", id ? id : "");
  bool ok = id && version > 0 && route53_write_check(&body, change->new->body, NULL, version)
                ? request(r, "POST", path, &body, false, "a health check", NULL, NULL, error)
                : garbage(r, "", "", error);
  buf_close(&body);
  return ok;
}

static bool delete_check(struct route53 *r, const struct provider_object *object,
                         struct provider_error *error) {
  const char *id = json_string_value(json_object_get(object->raw, "id"));
  char path[ID_MAX + 20];
  snprintf(path, sizeof path, "/healthcheck/%.64s", id ? id : "");
  return id ? request(r, "DELETE", path, NULL, false, "a health check", NULL, NULL, error)
            : garbage(r, "", "", error);
}

static bool is_check(const struct provider_change *change) {
  return strcmp((change->new ? change->new : change->old)->type, ROUTE53_HEALTH) == 0;
}

static bool change_checks(struct route53 *r, const struct provider_change *changes, size_t count,
                          bool deletes, size_t *done, struct provider_error *error) {
  for (size_t i = 0; i < count; i++) {
    const struct provider_change *c = &changes[i];
    if (!is_check(c) || (c->op == PROVIDER_DELETE) != deletes)
      continue;
    bool ok = c->op == PROVIDER_CREATE   ? create_check(r, c->new, error)
              : c->op == PROVIDER_UPDATE ? update_check(r, c, error)
                                         : delete_check(r, c->old, error);
    if (!ok)
      return false;
    *done += 1;
  }
  return true;
}

/* ---- batches -------------------------------------------------------------------------------- */

static void sleep_ms(long ms) {
  struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

/* "PENDING" or "INSYNC" in `status`, the id in `id` (it may stay as it was). */
static bool take_change(struct route53 *r, xmlDoc *doc, char id[ID_MAX], bool *insync,
                        struct provider_error *error) {
  const xmlNode *info = route53_child(xmlDocGetRootElement(doc), "ChangeInfo");
  char *text = route53_text(info, "Id");
  char *status = route53_text(info, "Status");
  bool ok = take_id(text, "/change/", id) && status;
  *insync = ok && strcmp(status, "INSYNC") == 0;
  ok = ok && (*insync || strcmp(status, "PENDING") == 0);
  free(text);
  free(status);
  xmlFreeDoc(doc);
  return ok || garbage(r, "a change", "it has no id or status", error);
}

static bool wait_insync(struct route53 *r, char id[ID_MAX], bool insync,
                        struct provider_error *error) {
  long waited = 0;
  for (long ms = INSYNC_FIRST_MS; !insync;
       ms = ms * 3 / 2 > INSYNC_MOST_MS ? INSYNC_MOST_MS : ms * 3 / 2) {
    char path[ID_MAX + 20];
    xmlDoc *doc = NULL;
    if (waited > INSYNC_WAIT_MS)
      return provider_fail(error, PROVIDER_UNREACHABLE,
                           "%s: change %s is still PENDING after %d s; look again later", r->name,
                           id, INSYNC_WAIT_MS / 1000);
    sleep_ms(ms);
    waited += ms;
    snprintf(path, sizeof path, "/change/%s", id);
    if (!request(r, "GET", path, NULL, true, "a change", "GetChangeResponse", &doc, error) ||
        !take_change(r, doc, id, &insync, error))
      return false;
  }
  return true;
}

static bool has_check(const struct route53 *r, const struct provider_change *change) {
  const char *key =
      change->new ? json_string_value(json_object_get(change->new->body, "health")) : NULL;
  return !key || json_object_get(r->checks, key);
}

static bool write_batch(struct route53 *r, const struct route53_batch *batch, struct buf *out) {
  size_t records = 0;
  size_t chars = 0;
  bool ok = true;
  buf_printf(out, "<ChangeResourceRecordSetsRequest xmlns=\"%s\"><ChangeBatch><Changes>",
             ROUTE53_NAMESPACE);
  for (size_t i = 0; ok && i < batch->count; i++) {
    const struct provider_change *c = batch->changes[i];
    ok = has_check(r, c) && route53_write_change(out, route53_action(c), c->new ? c->new : c->old,
                                                 r->checks, r->zone_id, &records, &chars);
  }
  buf_add_str(out, "</Changes></ChangeBatch></ChangeResourceRecordSetsRequest>");
  return ok && !out->failed;
}

static bool send_batch(struct route53 *r, const struct route53_batch *batch,
                       struct provider_error *error) {
  char path[ID_MAX + 30];
  char id[ID_MAX] = "";
  char what[300];
  bool insync = false;
  struct buf body;
  xmlDoc *doc = NULL;
  buf_init(&body);
  snprintf(path, sizeof path, "/hostedzone/%s/rrset", r->zone_id);
  snprintf(what, sizeof what, "zone %.255s", r->zone);
  bool ok =
      write_batch(r, batch, &body)
          ? request(r, "POST", path, &body, false, what, "ChangeResourceRecordSetsResponse", &doc,
                    error)
          : provider_fail(error, PROVIDER_LOCAL,
                          "%s: out of memory, or a record's health check is not there", r->name);
  buf_close(&body);
  return ok && take_change(r, doc, id, &insync, error) && wait_insync(r, id, insync, error);
}

static bool send_batches(struct route53 *r, const struct provider_change *changes, size_t count,
                         size_t *done, struct provider_error *error) {
  struct route53_batches batches;
  const char *too_large;
  bool ok = route53_batches_make(changes, count, &batches, &too_large);
  if (!ok && too_large)
    provider_fail(error, PROVIDER_REFUSED,
                  "%s: the changes of %.255s exceed what one batch may hold (%d records, %d "
                  "characters), and must not be parted; give it fewer endpoints or regions",
                  r->name, too_large, ROUTE53_RECORDS_MAX, ROUTE53_VALUES_MAX);
  else if (!ok)
    garbage(r, "", "", error);
  for (size_t i = 0; ok && i < batches.count; i++) {
    ok = send_batch(r, &batches.items[i], error);
    *done += ok ? batches.items[i].count : 0;
  }
  route53_batches_close(&batches);
  return ok;
}

static bool r53_apply(void *self, const char *zone, const struct provider_change *changes,
                      size_t count, size_t *done, struct provider_error *error) {
  struct route53 *r = self;
  *done = 0;
  if (r->read_only)
    return provider_fail(error, PROVIDER_LOCAL, "%s: opened for reading only", r->name);
  if (count == 0)
    return true;
  if (!r->zone || strcmp(r->zone, zone) != 0) {
    struct provider_objects objects;
    provider_objects_init(&objects);
    bool ok = r53_read(r, zone, &objects, error);
    provider_objects_close(&objects);
    if (!ok)
      return false;
  }
  bool ok = change_checks(r, changes, count, false, done, error) &&
            send_batches(r, changes, count, done, error) &&
            change_checks(r, changes, count, true, done, error);
  forget(r); /* what is there now, a new read tells */
  return ok;
}

/* ---- servers -------------------------------------------------------------------------------- */

/* The delegation set of the zone. */
static json_t *r53_servers(void *self, const char *zone, struct provider_error *error) {
  struct route53 *r = self;
  char path[ID_MAX + 20];
  xmlDoc *doc = NULL;
  if (!find_zone(r, zone, error))
    return NULL;
  snprintf(path, sizeof path, "/hostedzone/%s", r->zone_id);
  if (!request(r, "GET", path, NULL, true, "the zone's name servers", "GetHostedZoneResponse", &doc,
               error))
    return NULL;
  const xmlNode *set = route53_child(xmlDocGetRootElement(doc), "DelegationSet");
  const xmlNode *list = route53_child(set, "NameServers");
  json_t *out = json_array();
  for (const xmlNode *child = list ? list->children : NULL; child; child = child->next) {
    char name[NAME_MAX_TEXT];
    char *text = child->type == XML_ELEMENT_NODE ? route53_text(child, NULL) : NULL;
    if (text && route53_name(text, name))
      json_array_append_new(out, json_string(name));
    free(text);
  }
  xmlFreeDoc(doc);
  if (json_array_size(out) > 0)
    return out;
  json_decref(out);
  garbage(r, "the zone", "it has no name servers", error);
  return NULL;
}

const struct provider_kind provider_route53 = {
    .type = "route53",
    .can = {.steers = true,
            .marks = false,
            .apex_ns = true,
            .atomic = false,
            .weight_max = ROUTE53_WEIGHT_MAX,
            .pushed = true,
            .native = true},
    .open = r53_open,
    .close = r53_close,
    .read = r53_read,
    .compile = r53_compile,
    .decompile = r53_decompile,
    .apply = r53_apply,
    .servers = r53_servers,
};
