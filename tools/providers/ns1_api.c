/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to NS1's API: one, many at a time, and lists in pages.
 *
 * Limits are counted for each method, so each has a client, which keeps the pace that the headers
 * of its replies ask for.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tools/providers/ns1_private.h"
#include "tools/providers/web.h"

enum { REPLY_TEXT = 160, WHAT = 300, PAGES_MAX = 10000, WINDOW = 8 };

static const char *const methods[NS1_METHODS] = {"GET", "PUT", "POST", "DELETE"};

bool ns1_garbage(const struct ns1 *n, const char *where, const char *what,
                 struct provider_error *error) {
  return provider_fail(error, PROVIDER_GARBAGE,
                       "%s: what it says of %.200s is none of NS1's API: %s; check the provider's "
                       "`url`",
                       n->name, where, what);
}

/* ---- addresses ------------------------------------------------------------------------------ */

/* No final dot, percent signs for what is special (RFC 3986 section 2.1). */
static void add_part(struct buf *out, const char *name) {
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

char *ns1_url(const struct ns1 *n, const char *path, const char *a, const char *b, const char *c) {
  const char *const parts[] = {a, b, c};
  struct buf out;
  buf_init(&out);
  buf_printf(&out, "%s/%s", n->base, path);
  for (size_t i = 0; i < sizeof parts / sizeof *parts && parts[i]; i++) {
    buf_add_str(&out, "/");
    add_part(&out, parts[i]);
  }
  char *url = out.failed ? NULL : strdup(buf_text(&out));
  buf_close(&out);
  return url;
}

/* ---- what comes back ------------------------------------------------------------------------ */

/* What the API says of an error: {"message": "..."}. */
static bool judge(const struct ns1 *n, const struct http_reply *reply, const char *what,
                  struct provider_error *error) {
  char text[REPLY_TEXT];
  long status = reply->status;
  if (status >= 200 && status < 300)
    return true;
  if (!web_reply_text(reply, "message", text, sizeof text))
    snprintf(text, sizeof text, "it does not say why");
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

/* What says 200 and is none of NS1's API (a portal before it) has done nothing; what depends on it,
 * such as a record on its mark, must not follow. */
static bool is_understood(const struct ns1 *n, const struct http_reply *reply, const char *what,
                          struct provider_error *error) {
  json_t *document = NULL;
  bool ok = reply->body_len == 0 || parse(n, reply, what, &document, error);
  json_decref(document);
  return ok;
}

/* What became of a request that was sent. */
static bool take(const struct ns1 *n, enum ns1_method method, struct ns1_call *call,
                 struct http_exchange *x, struct provider_error *error) {
  bool ok = x->ok ? judge(n, &x->reply, call->what, error)
                  : provider_fail(error, PROVIDER_UNREACHABLE, "%s: %.300s: %s", n->name,
                                  call->what, x->why);
  if (!ok && x->ok && method == NS1_DELETE && error->failure == PROVIDER_GONE)
    return true;
  /* The first attempt may have arrived without its reply. */
  if (!ok && x->ok && method == NS1_PUT && x->reply.attempts > 1 && !call->wanted)
    ok = error->failure == PROVIDER_CONFLICT;
  if (!ok)
    return false;
  if (call->wanted)
    ok = parse(n, &x->reply, call->what, &call->reply, error);
  else if (x->reply.status < 300) /* else judged above: it is there, or gone */
    ok = is_understood(n, &x->reply, call->what, error);
  if (ok) {
    call->link = x->reply.link;
    x->reply.link = NULL;
  }
  return ok;
}

/* ---- requests ------------------------------------------------------------------------------- */

bool ns1_call_fill(const struct ns1 *n, struct ns1_call *call, char *url, json_t *body,
                   const char *what, struct provider_error *error) {
  char text[WHAT];
  snprintf(text, sizeof text, "%s", what);
  call->url = url;
  call->text = body ? json_dumps(body, JSON_COMPACT) : NULL;
  call->what = strdup(text);
  bool ok = call->url && call->what && (!body || call->text);
  json_decref(body);
  return ok ? true : web_no_memory(n->name, error);
}

void ns1_calls_close(struct ns1_call *calls, size_t count) {
  for (size_t i = 0; calls && i < count; i++) {
    free(calls[i].url);
    free(calls[i].text);
    free(calls[i].what);
    free(calls[i].link);
    json_decref(calls[i].reply);
  }
  free(calls);
}

static void prepare(const struct ns1 *n, enum ns1_method method, const struct ns1_call *call,
                    struct http_exchange *x) {
  static const char *const headers[] = {"Content-Type: application/json",
                                        "Accept: application/json", NULL};
  x->request = (struct http_request){.method = methods[method],
                                     .url = call->url,
                                     .headers = headers,
                                     .secret_header = n->secret_header,
                                     .body = call->text,
                                     .body_len = call->text ? strlen(call->text) : 0,
                                     .idempotent = !call->once};
}

bool ns1_calls(struct ns1 *n, enum ns1_method method, struct ns1_call *calls, size_t count,
               struct provider_error *error) {
  struct http_exchange *list = calloc(count + 1, sizeof *list);
  bool ok = true;
  if (!list)
    return web_no_memory(n->name, error);
  for (size_t i = 0; i < count; i++)
    prepare(n, method, &calls[i], &list[i]);
  bool sent = http_send_many(n->http[method], list, count, WINDOW);
  for (size_t i = 0; i < count; i++) {
    struct provider_error other;
    if (list[i].sent) {
      calls[i].done = take(n, method, &calls[i], &list[i], ok ? error : &other);
      ok = ok && calls[i].done;
    }
    http_reply_close(&list[i].reply);
  }
  for (size_t i = 0; ok && !sent && i < count; i++) /* the first one that could not be sent */
    if (!calls[i].done)
      ok = provider_fail(error, PROVIDER_UNREACHABLE, "%s: %.300s: %s", n->name, calls[i].what,
                         list[i].why);
  free(list);
  return ok;
}

bool ns1_request(struct ns1 *n, enum ns1_method method, char *url, json_t *body, bool once,
                 const char *what, json_t **out, char **link, struct provider_error *error) {
  struct ns1_call *call = calloc(1, sizeof *call);
  if (!call) {
    free(url);
    json_decref(body);
    return web_no_memory(n->name, error);
  }
  call->wanted = out;
  call->once = once;
  bool ok = ns1_call_fill(n, call, url, body, what, error) && ns1_calls(n, method, call, 1, error);
  if (ok && out)
    *out = json_incref(call->reply);
  if (ok && link) {
    *link = call->link;
    call->link = NULL;
  }
  ns1_calls_close(call, 1);
  return ok;
}

/* ---- lists in pages ------------------------------------------------------------------------- */

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

bool ns1_list(struct ns1 *n, char *url, const char *what, ns1_page *page, void *arg,
              struct provider_error *error) {
  json_t *seen = json_object();
  bool ok = seen && url ? true : web_no_memory(n->name, error);
  for (size_t pages = 0; ok && url; pages++) {
    char *link = NULL;
    bool wrong = false;
    json_t *document = NULL;
    ok = !json_object_get(seen, url) && pages < PAGES_MAX
             ? json_object_set_new(seen, url, json_true()) == 0
             : ns1_garbage(n, what, "its pages lead in a circle", error);
    char *at = url;
    url = NULL;
    if (ok)
      ok = ns1_request(n, NS1_GET, at, NULL, false, what, &document, &link, error) &&
           page(arg, document, error);
    else
      free(at);
    url = ok ? next_page(n, link, &wrong) : NULL;
    if (ok && wrong)
      ok = ns1_garbage(n, what, "the next page would be at another place", error);
    free(link);
    json_decref(document);
  }
  free(url);
  json_decref(seen);
  return ok;
}
