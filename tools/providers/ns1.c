/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IBM NS1 Connect by its API (ns1.com/api): records with answers, regions and filter chains.
 *
 * A zone is read by its list, page by page, and one request more for each record that has filters
 * or meta ("tier" above 1).  Each record is one object and changes in one request: PUT makes it,
 * POST replaces it as a whole, DELETE removes it.  There is no way to do several at once, so what
 * must go before something else can come is removed right before, and restored if that fails.
 *
 * Limits are counted for each method, so each has a client, which keeps the pace that the headers
 * of its replies ask for.  Steered records carry our mark in their notes.  For plain ones the marks
 * are TXT records: a note at each would take a request for each to read.
 */
#include <ctype.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/http.h"
#include "base/secret.h"
#include "steering/model.h"
#include "tools/providers/ns1_private.h"

enum { REPLY_TEXT = 160, WHAT = 300, PAGES_MAX = 10000, METHODS = 4 };

static const char *const methods[METHODS] = {"GET", "PUT", "POST", "DELETE"};

struct ns1 {
  char *name; /* of the provider, for messages */
  char *base; /* "https://api.nsone.net/v1", no slash at the end */
  char *secret_header;
  char *marker;
  bool read_only;
  struct http_client *http[METHODS];
};

/* ---- open and close ------------------------------------------------------------------------- */

static void ns1_close(void *self) {
  struct ns1 *n = self;
  if (!n)
    return;
  for (int i = 0; i < METHODS; i++)
    http_close(n->http[i]);
  secret_wipe_text(n->secret_header);
  free(n->name);
  free(n->base);
  free(n->marker);
  free(n);
}

static bool take_secret(const struct provider_context *context, struct ns1 *n,
                        struct provider_error *error) {
  const char *name = json_string_value(json_object_get(context->settings, "secret"));
  char text[SECRET_MAX + 1];
  char why[SECRET_WHY] = "there are no secrets";
  if (!name)
    return provider_fail(error, PROVIDER_LOCAL,
                         "%s: `secret` is missing: the name of the secret with the API key",
                         context->name);
  if (!context->secret || !context->secret(context->secret_arg, name, text, sizeof text, why))
    return provider_fail(error, PROVIDER_LOCAL, "%s: secret %.100s: %.300s", context->name, name,
                         why);
  if (asprintf(&n->secret_header, "X-NSONE-Key: %s", text) < 0)
    n->secret_header = NULL;
  explicit_bzero(text, sizeof text);
  return n->secret_header
             ? true
             : provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", context->name);
}

static void *ns1_open(const struct provider_context *context, struct provider_error *error) {
  const char *url = json_string_value(json_object_get(context->settings, "url"));
  struct ns1 *n = calloc(1, sizeof *n);
  struct http_options options = {.deadline_ms = context->deadline_ms,
                                 .read_only = context->read_only};
  bool ok = n;
  if (ok) {
    n->name = strdup(context->name);
    n->base = strdup(url ? url : "https://api.nsone.net/v1");
    n->marker = strdup(context->marker ? context->marker : "sluice");
    n->read_only = context->read_only;
    ok = n->name && n->base && n->marker;
  }
  for (int i = 0; ok && i < METHODS; i++)
    ok = (n->http[i] = http_open(&options)) != NULL;
  for (size_t len = ok ? strlen(n->base) : 0; len > 0 && n->base[len - 1] == '/'; len--)
    n->base[len - 1] = '\0';
  if (!ok)
    provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", context->name);
  else if (take_secret(context, n, error))
    return n;
  ns1_close(n);
  return NULL;
}

/* ---- requests ------------------------------------------------------------------------------- */

/* What the API says of an error: {"message": "..."}. */
static void reply_text(const struct http_reply *reply, char out[REPLY_TEXT]) {
  json_t *json = json_loadb(reply->body, reply->body_len, 0, NULL);
  const char *text = json_string_value(json_object_get(json, "message"));
  snprintf(out, REPLY_TEXT, "%s", text ? text : "it does not say why");
  json_decref(json);
}

static bool judge(const struct ns1 *n, const struct http_reply *reply, const char *what,
                  struct provider_error *error) {
  char text[REPLY_TEXT];
  long status = reply->status;
  if (status >= 200 && status < 300)
    return true;
  reply_text(reply, text);
  if (status == 401 || status == 403)
    return provider_fail(error, PROVIDER_DENIED,
                         "%s: %.300s: the API key is refused (%s); check the provider's `secret` "
                         "and the rights of the key",
                         n->name, what, text);
  if (status == 404)
    return provider_fail(error, PROVIDER_GONE,
                         "%s: %.300s is not there (%s); create it, or check the provider's `url`",
                         n->name, what, text);
  if (status == 409 || (status < 500 && strstr(text, "already exists")))
    return provider_fail(error, PROVIDER_CONFLICT,
                         "%s: %.300s changed meanwhile (%s); run it again", n->name, what, text);
  if (status == 429)
    return provider_fail(error, PROVIDER_THROTTLED,
                         "%s: %.300s: too many requests for its rate limit; try again later",
                         n->name, what);
  if (status >= 500)
    return provider_fail(error, PROVIDER_UNREACHABLE,
                         "%s: %.300s: the API fails with status %ld (%s); try again later", n->name,
                         what, status, text);
  if (status == 400 || status == 422)
    return provider_fail(error, PROVIDER_REFUSED, "%s: %.300s is refused: %s", n->name, what, text);
  return provider_fail(error, PROVIDER_GARBAGE,
                       "%s: %.300s: status %ld is none of NS1's API; check the provider's `url`",
                       n->name, what, status);
}

static bool parse(const struct ns1 *n, const struct http_reply *reply, const char *what,
                  json_t **out, struct provider_error *error) {
  *out = json_loadb(reply->body, reply->body_len, JSON_REJECT_DUPLICATES, NULL);
  return *out ? true
              : provider_fail(error, PROVIDER_GARBAGE,
                              "%s: the reply about %.300s is no JSON, or cut short; try again, or "
                              "check the provider's `url`",
                              n->name, what);
}

/* Sends and judges.  *out (if not NULL) is a new reference; *next (if not NULL) the Link header. */
static bool request(struct ns1 *n, int method, const char *url, const json_t *body,
                    const char *what, json_t **out, char **next, struct provider_error *error) {
  static const char *const headers[] = {"Content-Type: application/json",
                                        "Accept: application/json", NULL};
  struct http_reply reply;
  char why[HTTP_WHY];
  char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
  if (body && !text)
    return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", n->name);
  struct http_request r = {.method = methods[method],
                           .url = url,
                           .headers = headers,
                           .secret_header = n->secret_header,
                           .body = text,
                           .body_len = text ? strlen(text) : 0,
                           .idempotent = true};
  bool ok = http_send(n->http[method], &r, &reply, why);
  if (!ok)
    provider_fail(error, PROVIDER_UNREACHABLE, "%s: %.300s: %s", n->name, what, why);
  else
    ok = judge(n, &reply, what, error);
  /* The first attempt may have arrived without its reply. */
  if (!ok && reply.attempts > 1 &&
      ((method == 1 && error->failure == PROVIDER_CONFLICT) ||
       (method == 3 && error->failure == PROVIDER_GONE)))
    ok = true;
  if (ok && out)
    ok = parse(n, &reply, what, out, error);
  if (ok && next) {
    *next = reply.link;
    reply.link = NULL;
  }
  http_reply_close(&reply);
  free(text);
  return ok;
}

/* A name in a path: no final dot, percent signs for what is special (RFC 3986 section 2.1). */
static void add_name(struct buf *out, const char *name) {
  size_t len = strlen(name);
  if (len > 1 && name[len - 1] == '.')
    len--;
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)name[i];
    if (isalnum(c) || strchr("-._~*", c))
      buf_add_u8(out, c);
    else
      buf_printf(out, "%%%02X", c);
  }
}

static bool zone_url(const struct ns1 *n, const char *zone, struct buf *url,
                     struct provider_error *error) {
  buf_init(url);
  buf_printf(url, "%s/zones/", n->base);
  add_name(url, zone);
  return url->failed ? provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", n->name) : true;
}

static bool record_request(struct ns1 *n, int method, const char *zone, const char *name,
                           const char *type, const json_t *body, json_t **out,
                           struct provider_error *error) {
  struct buf url;
  char what[WHAT];
  snprintf(what, sizeof what, "%.250s %.16s", name, type);
  bool ok = zone_url(n, zone, &url, error);
  if (ok) {
    buf_add_str(&url, "/");
    add_name(&url, name);
    buf_add_str(&url, "/");
    add_name(&url, type);
    ok = request(n, method, buf_text(&url), body, what, out, NULL, error);
  }
  buf_close(&url);
  return ok;
}

/* ---- read: the list ------------------------------------------------------------------------- */

/*
 * The address of rel="next" in a Link header (RFC 8288), malloc'd; NULL: there is none.  The key
 * goes to the API and nowhere else, so *wrong is set if it leads away.
 */
static char *next_page(const struct ns1 *n, const char *link, bool *wrong) {
  *wrong = false;
  for (const char *at = link; at && (at = strchr(at, '<')) != NULL;) {
    const char *end = strchr(at, '>');
    if (!end)
      break;
    size_t len = (size_t)(end - at - 1);
    size_t parameters = strcspn(end, ",");
    const char *rel = strstr(end, "rel=");
    if (rel && rel < end + parameters && strncmp(rel + 4 + (rel[4] == '"'), "next", 4) == 0) {
      size_t base = strlen(n->base);
      *wrong = len <= base || strncmp(at + 1, n->base, base) != 0 || at[1 + base] != '/' ||
               strstr(at, "/../");
      return *wrong ? NULL : strndup(at + 1, len);
    }
    at = end;
  }
  return NULL;
}

static bool garbage(const struct ns1 *n, const char *zone, const char *what,
                    struct provider_error *error) {
  return provider_fail(error, PROVIDER_GARBAGE,
                       "%s: what it says of zone %.200s is none of NS1's API: %s; check the "
                       "provider's `url`",
                       n->name, zone, what);
}

static bool same_name(const char *name, const char *dotted) {
  size_t len = strlen(dotted);
  if (len > 1)
    len--;
  return name && strncasecmp(name, dotted, len) == 0 &&
         (name[len] == '\0' || strcmp(name + len, ".") == 0);
}

/* One page of the list; *link says where the next one is. */
static bool read_page(struct ns1 *n, const char *zone, const char *url, json_t *records,
                      json_t **first, char **link, struct provider_error *error) {
  char what[WHAT];
  json_t *page = NULL;
  snprintf(what, sizeof what, "zone %.255s", zone);
  if (!request(n, 0, url, NULL, what, &page, link, error))
    return false;
  const json_t *list = json_object_get(page, "records");
  const char *name = json_string_value(json_object_get(page, "zone"));
  bool ok = json_is_array(list) && (!name || same_name(name, zone));
  if (!ok)
    garbage(n, zone, "the list of records is missing, or the name is another", error);
  else if (json_array_extend(records, (json_t *)(uintptr_t)list) != 0)
    ok = provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", n->name);
  if (ok && !*first)
    *first = json_incref(page);
  json_decref(page);
  return ok;
}

/* All pages, or none. */
static bool read_list(struct ns1 *n, const char *zone, json_t *records, json_t **first,
                      struct provider_error *error) {
  struct buf start;
  json_t *seen = json_object();
  bool ok = zone_url(n, zone, &start, error);
  char *url = ok ? strdup(buf_text(&start)) : NULL;
  buf_close(&start);
  for (size_t pages = 0; ok && url; pages++) {
    char *link = NULL;
    bool wrong = false;
    ok = !json_object_get(seen, url) && pages < PAGES_MAX
             ? json_object_set_new(seen, url, json_true()) == 0
             : garbage(n, zone, "its pages lead in a circle", error);
    ok = ok && read_page(n, zone, url, records, first, &link, error);
    free(url);
    url = ok ? next_page(n, link, &wrong) : NULL;
    if (ok && wrong)
      ok = garbage(n, zone, "the next page would be at another place", error);
    free(link);
  }
  free(url);
  json_decref(seen);
  return ok;
}

/* ---- read: records -------------------------------------------------------------------------- */

static char *absolute(const char *name) {
  size_t len = name ? strlen(name) : 0;
  char *out = len > 0 && len < 1024 ? malloc(len + 2) : NULL;
  if (!out)
    return NULL;
  for (size_t i = 0; i < len; i++)
    out[i] = (char)tolower((unsigned char)name[i]);
  if (out[len - 1] != '.')
    out[len++] = '.';
  out[len] = '\0';
  return out;
}

static bool is_below(const char *name, const char *zone) {
  size_t a = strlen(name);
  size_t z = strlen(zone);
  return a >= z && strcasecmp(name + a - z, zone) == 0 && (a == z || name[a - z - 1] == '.');
}

/* The body of what we do not understand: a digest. */
static json_t *opaque_body(const json_t *record) {
  char *text = ns1_sorted_text(record);
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned len = 0;
  char hex[33];
  bool ok = text && EVP_Digest(text, strlen(text), hash, &len, EVP_sha256(), NULL) == 1;
  for (unsigned i = 0; ok && i < 16; i++)
    snprintf(hex + 2 * i, 3, "%02x", hash[i]);
  free(text);
  return ok ? json_pack("{s:s}", "digest", hex) : NULL;
}

static struct provider_object *named(struct provider_objects *out, const char *name,
                                     const char *type) {
  struct provider_object *object = provider_objects_add(out);
  if (!object)
    return NULL;
  object->name = strdup(name);
  object->type = strdup(type);
  if (asprintf(&object->key, "%s/%s", name, type) < 0)
    object->key = NULL;
  return object->name && object->type && object->key ? object : NULL;
}

/* Adds a record as read or compiled; takes `body` over. */
static struct provider_object *add_record(struct provider_objects *out, const char *name,
                                          const char *type, json_t *body) {
  json_t *values = json_object_get(body, "values");
  struct provider_object *object;
  if (values) {
    uint32_t ttl = (uint32_t)json_integer_value(json_object_get(body, "ttl"));
    object = provider_add_rrset(out, name, type, ttl, json_incref(values));
    json_decref(body);
    return object;
  }
  object = body ? named(out, name, type) : NULL;
  if (object)
    object->body = body;
  else
    json_decref(body);
  return object;
}

/* The list says all of a record of tier 1; others are asked for. */
static bool whole_record(struct ns1 *n, const char *zone, const char *name, const char *type,
                         json_t *item, json_t **out, struct provider_error *error) {
  json_t *tier = json_object_get(item, "tier");
  const char *text = json_string_value(tier);
  if (json_integer_value(tier) == 1 || (text && strcmp(text, "1") == 0)) {
    *out = json_incref(item);
    return true;
  }
  if (!record_request(n, 0, zone, name, type, NULL, out, error)) {
    if (error->failure == PROVIDER_GONE)
      error->failure = PROVIDER_CONFLICT;
    return false;
  }
  const char *domain = json_string_value(json_object_get(*out, "domain"));
  const char *is = json_string_value(json_object_get(*out, "type"));
  return same_name(domain, name) && is && strcasecmp(is, type) == 0
             ? true
             : garbage(n, zone, "asked for one record, it gives another", error);
}

static bool add_item(struct ns1 *n, const char *zone, const char *name, const char *type,
                     json_t *item, struct provider_objects *out, struct provider_error *error) {
  json_t *record = NULL;
  if (!whole_record(n, zone, name, type, item, &record, error)) {
    json_decref(record);
    return false;
  }
  json_t *body = json_object_get(record, "answers") ? ns1_canonical(type, record)
                                                    : ns1_canonical_short(type, record);
  char *owner = ns1_owner(body);
  bool opaque = !body;
  struct provider_object *object = add_record(out, name, type, body ? body : opaque_body(record));
  bool ok = object;
  if (ok) {
    object->opaque = opaque;
    object->raw = json_incref(record);
    object->owner = owner;
    if (owner)
      ok = (object->domain = strdup(name)) != NULL;
  } else {
    free(owner);
  }
  json_decref(record);
  return ok ? true : provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", n->name);
}

static bool read_item(struct ns1 *n, const char *zone, json_t *item, json_t *seen,
                      struct provider_objects *out, struct provider_error *error) {
  char *name = absolute(json_string_value(json_object_get(item, "domain")));
  const char *type = json_string_value(json_object_get(item, "type"));
  char key[1100];
  if (!name || !type || !*type || strlen(type) > 15 || !is_below(name, zone)) {
    free(name);
    return garbage(n, zone, "a record is malformed, or of another zone", error);
  }
  snprintf(key, sizeof key, "%s/%s", name, type);
  bool ok = !json_object_get(seen, key) && json_object_set_new(seen, key, json_true()) == 0;
  if (!ok)
    provider_fail(error, PROVIDER_CONFLICT,
                  "%s: %.250s %s is listed twice: the zone changed while it was read; run it again",
                  n->name, name, type);
  if (ok && strcmp(type, "SOA") != 0)
    ok = add_item(n, zone, name, type, item, out, error);
  free(name);
  return ok;
}

static bool ns1_read(void *self, const char *zone, struct provider_objects *out,
                     struct provider_error *error) {
  struct ns1 *n = self;
  json_t *records = json_array();
  json_t *seen = json_object();
  json_t *first = NULL;
  bool ok = records && seen && read_list(n, zone, records, &first, error);
  for (size_t i = 0; ok && i < json_array_size(records); i++)
    ok = read_item(n, zone, json_array_get(records, i), seen, out, error);
  json_decref(records);
  json_decref(seen);
  json_decref(first);
  return ok;
}

/* ---- compile and decompile ------------------------------------------------------------------ */

static bool ns1_compile(void *self, const struct provider_domain *domain,
                        struct provider_objects *out, struct provider_fidelity *fidelity,
                        struct provider_error *error) {
  static const char *const types[STEER_TYPES] = {"A", "AAAA", "CNAME"};
  const struct ns1 *n = self;
  ns1_judge(domain, fidelity);
  for (int t = 0; t < STEER_TYPES; t++) {
    if (!domain->steer->offers[t])
      continue;
    json_t *body = ns1_compile_type(n->name, n->marker, domain, (enum steer_type)t, error);
    if (!body)
      return false;
    struct provider_object *object = add_record(out, domain->name, types[t], body);
    if (!object || !(object->domain = strdup(domain->name)))
      return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", n->name);
  }
  return true;
}

static json_t *ns1_document(void *self, const struct provider_object *const *objects, size_t count,
                            struct provider_error *error) {
  const struct ns1 *n = self;
  return ns1_decompile(n->name, n->marker, objects, count, error);
}

/* ---- apply ---------------------------------------------------------------------------------- */

static bool write_object(struct ns1 *n, int method, const char *zone,
                         const struct provider_object *object, struct provider_error *error) {
  /* What is not understood goes back as it was read. */
  json_t *body = object->opaque ? json_incref(object->raw)
                                : ns1_wire(zone, object->name, object->type, object->body);
  if (!body)
    return provider_fail(error, PROVIDER_LOCAL, "%s: no memory, or %.250s cannot be written",
                         n->name, object->name);
  bool ok = record_request(n, method, zone, object->name, object->type, body, NULL, error);
  json_decref(body);
  return ok;
}

static bool delete_object(struct ns1 *n, const char *zone, const struct provider_object *object,
                          struct provider_error *error) {
  return record_request(n, 3, zone, object->name, object->type, NULL, NULL, error) ||
         error->failure == PROVIDER_GONE;
}

static bool is_alias(const struct provider_object *object) {
  return strcmp(object->type, "CNAME") == 0;
}

/* True if the old record must go before the new one can come (RFC 1034 section 3.6.2). */
static bool in_the_way(const struct provider_change *going, const struct provider_object *coming) {
  return going->op == PROVIDER_DELETE && strcmp(going->old->name, coming->name) == 0 &&
         (is_alias(going->old) || is_alias(coming));
}

struct applying {
  struct ns1 *n;
  const char *zone;
  const struct provider_change *changes;
  size_t count;
  bool *finished;
  size_t done;
};

/* What was removed for the sake of a record that then was refused is brought back, as far as
 * possible. */
static void restore(struct applying *a, const struct provider_object *coming, const bool *removed) {
  struct provider_error ignored;
  for (size_t i = 0; i < a->count; i++)
    if (removed[i] && in_the_way(&a->changes[i], coming) &&
        write_object(a->n, 1, a->zone, a->changes[i].old, &ignored)) {
      a->finished[i] = false;
      a->done--;
    }
}

static bool create(struct applying *a, const struct provider_object *coming,
                   struct provider_error *error) {
  bool *removed = calloc(a->count + 1, sizeof *removed);
  bool ok = removed ? true : provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", a->n->name);
  for (size_t i = 0; ok && i < a->count; i++) {
    if (a->finished[i] || !in_the_way(&a->changes[i], coming))
      continue;
    ok = delete_object(a->n, a->zone, a->changes[i].old, error);
    if (ok) {
      removed[i] = a->finished[i] = true;
      a->done++;
    }
  }
  ok = ok && write_object(a->n, 1, a->zone, coming, error);
  if (!ok && removed)
    restore(a, coming, removed);
  free(removed);
  return ok;
}

static bool change(struct applying *a, const struct provider_change *c,
                   struct provider_error *error) {
  switch (c->op) {
  case PROVIDER_CREATE:
    return create(a, c->new, error);
  case PROVIDER_UPDATE:
    return write_object(a->n, 2, a->zone, c->new, error);
  default:
    return delete_object(a->n, a->zone, c->old, error);
  }
}

static bool ns1_apply(void *self, const char *zone, const struct provider_change *changes,
                      size_t count, size_t *done, struct provider_error *error) {
  struct ns1 *n = self;
  *done = 0;
  if (n->read_only)
    return provider_fail(error, PROVIDER_LOCAL, "%s: opened for reading only", n->name);
  struct applying a = {.n = n,
                       .zone = zone,
                       .changes = changes,
                       .count = count,
                       .finished = calloc(count + 1, sizeof *a.finished)};
  bool ok = a.finished ? true : provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", n->name);
  for (size_t i = 0; ok && i < count; i++) {
    if (a.finished[i])
      continue;
    ok = change(&a, &changes[i], error);
    a.finished[i] = ok;
    a.done += ok;
  }
  *done = a.done;
  free(a.finished);
  return ok;
}

/* ---- zones ---------------------------------------------------------------------------------- */

static bool zone_request(struct ns1 *n, int method, const char *zone, const json_t *body,
                         json_t **out, struct provider_error *error) {
  struct buf url;
  char what[WHAT];
  snprintf(what, sizeof what, "zone %.255s", zone);
  bool ok = zone_url(n, zone, &url, error) &&
            request(n, method, buf_text(&url), body, what, out, NULL, error);
  buf_close(&url);
  return ok;
}

static json_t *ns1_servers(void *self, const char *zone, struct provider_error *error) {
  struct ns1 *n = self;
  json_t *document = NULL;
  json_t *out = json_array();
  size_t i;
  const json_t *item;
  bool ok = out && zone_request(n, 0, zone, NULL, &document, error);
  json_array_foreach(json_object_get(document, "dns_servers"), i, item) {
    char *name = absolute(json_string_value(item));
    ok = ok && name && json_array_append_new(out, json_string(name)) == 0;
    free(name);
  }
  if (document && (!ok || json_array_size(out) == 0))
    ok = garbage(n, zone, "its name servers are missing", error);
  json_decref(document);
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

static bool ns1_create_zone(void *self, const char *zone, struct provider_error *error) {
  struct ns1 *n = self;
  size_t len = strlen(zone);
  json_t *body = json_pack("{s:o}", "zone", json_stringn(zone, len > 1 ? len - 1 : len));
  if (!body)
    return provider_fail(error, PROVIDER_LOCAL, "%s: out of memory", n->name);
  bool ok = zone_request(n, 1, zone, body, NULL, error);
  json_decref(body);
  return ok;
}

static bool ns1_delete_zone(void *self, const char *zone, struct provider_error *error) {
  return zone_request(self, 3, zone, NULL, NULL, error);
}

const struct provider_kind provider_ns1 = {
    .type = "ns1",
    .can = {.steers = true, .apex_ns = true, .weight_max = STEER_MAX_WEIGHT, .pushed = true},
    .open = ns1_open,
    .close = ns1_close,
    .read = ns1_read,
    .compile = ns1_compile,
    .decompile = ns1_document,
    .apply = ns1_apply,
    .servers = ns1_servers,
    .create_zone = ns1_create_zone,
    .delete_zone = ns1_delete_zone,
};
