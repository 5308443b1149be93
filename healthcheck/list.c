/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/list.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/name.h"
#include "healthcheck/index.h"
#include "healthcheck/list_make.h"
#include "zones/domain_json.h"
#include "zones/domain_list.h"

enum { LIST_FORMAT = 1 };

__attribute__((format(printf, 2, 3))) static bool fail(char *why, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(why, LIST_WHY, format, args);
  va_end(args);
  return false;
}

static bool no_memory(char *why) {
  return fail(why, "out of memory");
}

/* ---- the text, one domain at a time -----------------------------------------------------------
 */

/* A list of many domains is never a tree in memory as a whole. */
struct cursor {
  const char *at, *end;
};

static char next_char(struct cursor *c) {
  while (c->at < c->end && strchr(" \t\r\n", *c->at) != NULL && *c->at != '\0')
    c->at++;
  return c->at < c->end ? *c->at : '\0';
}

static bool take_char(struct cursor *c, char wanted) {
  if (next_char(c) != wanted)
    return false;
  c->at++;
  return true;
}

static json_t *take_value(struct cursor *c, char *why) {
  json_error_t error;
  next_char(c);
  json_t *value =
      json_loadb(c->at, (size_t)(c->end - c->at),
                 JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);
  if (value != NULL)
    c->at += error.position;
  else
    fail(why, "not JSON: %.160s", error.text);
  return value;
}

/* Passes over a string; the cursor is behind its quote. */
static bool skip_string(struct cursor *c) {
  while (c->at < c->end && *c->at != '"')
    c->at += *c->at == '\\' && c->end - c->at > 1 ? 2 : 1;
  if (c->at >= c->end)
    return false;
  c->at++;
  return true;
}

/* Passes over an object without a look at what is in it. */
static bool skip_object(struct cursor *c, char *why) {
  size_t depth = 0;
  if (next_char(c) != '{')
    return fail(why, "must be a map");
  while (c->at < c->end) {
    char now = *c->at++;
    if (now == '"' && !skip_string(c))
      break;
    depth += now == '{' || now == '[';
    depth -= now == '}' || now == ']';
    if (depth == 0)
      return true;
  }
  return fail(why, "not JSON: it ends too early");
}

/* The value of a domain's key.  What the domain serves is most of the text and is needed only for
 * alerts: it is left where it is. */
static bool take_member(struct cursor *c, json_t *domain, const char *key, struct cursor *steer,
                        char *why) {
  if (strcmp(key, "steer") == 0 && steer->at == NULL) {
    next_char(c);
    steer->at = c->at;
    bool ok = skip_object(c, why);
    steer->end = c->at;
    return ok;
  }
  json_t *value = take_value(c, why);
  if (value == NULL)
    return false;
  if (strcmp(key, "steer") == 0 || json_object_get(domain, key) != NULL) {
    json_decref(value);
    return fail(why, "`%.40s` is there twice", key);
  }
  return json_object_set_new(domain, key, value) == 0 || no_memory(why);
}

/* A domain, but for what it serves. */
static json_t *take_domain(struct cursor *c, struct cursor *steer, char *why) {
  json_t *domain = json_object();
  bool ok = domain != NULL && take_char(c, '{');
  *steer = (struct cursor){.at = NULL};
  if (!ok)
    fail(why, "must be a map");
  for (bool more = ok && !take_char(c, '}'); more && ok;) {
    json_t *key = take_value(c, why);
    ok = json_is_string(key) && take_char(c, ':');
    if (key != NULL && !ok)
      fail(why, "not JSON: a key or its `:` is missing");
    ok = ok && take_member(c, domain, json_string_value(key), steer, why);
    json_decref(key);
    more = ok && take_char(c, ',');
    if (ok && !more && !take_char(c, '}'))
      ok = fail(why, "not JSON: `,` or `}` is missing");
  }
  if (ok)
    return domain;
  json_decref(domain);
  return NULL;
}

static bool read_domain(struct list_making *making, const json_t *json, struct cursor steer,
                        char *why);

static bool read_domains(struct list_making *making, struct cursor *c, char *why) {
  if (!take_char(c, '['))
    return fail(why, "must be a list");
  if (take_char(c, ']'))
    return true;
  for (size_t number = 1;; number++) {
    char reason[LIST_WHY];
    struct cursor steer;
    json_t *domain = take_domain(c, &steer, reason);
    bool ok = domain != NULL && read_domain(making, domain, steer, reason);
    json_decref(domain);
    if (!ok)
      return fail(why, "item %zu: %.400s", number, reason);
    if (take_char(c, ']'))
      return true;
    if (!take_char(c, ','))
      return fail(why, "not JSON: `,` or `]` is missing after item %zu", number);
  }
}

/* ---- domains ----------------------------------------------------------------------------------
 */

static bool read_name(const json_t *value, char *text, char *why) {
  const char *given = json_string_value(value);
  const char *reason = "must be the name of a domain";
  uint8_t wire[NAME_BUF];
  uint8_t lower[NAME_BUF];
  if (given == NULL || strlen(given) != json_string_length(value) ||
      name_from_text(wire, given, strlen(given), NULL, &reason) == 0)
    return fail(why, "%s", reason);
  name_copy_lower(lower, wire);
  name_to_text(text, lower);
  return true;
}

static bool is_endpoint_name(const char *name) {
  size_t len = strlen(name);
  return len > 0 && len < LIST_TARGET &&
         strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

static int compare_addresses(const void *a, const void *b) {
  return memcmp(a, b, sizeof(struct probe_target));
}

/* The addresses of an endpoint, sorted and each once. */
static bool read_addresses(struct list_making *making, const json_t *list, size_t *count,
                           char *why) {
  *count = json_array_size(list);
  if (*count == 0 || *count > LIST_ADDRESSES)
    return fail(why, "`addresses` must be a list of 1 to %d addresses", LIST_ADDRESSES);
  struct probe_target *out = making->targets;
  memset(out, 0, *count * sizeof *out);
  for (size_t i = 0; i < *count; i++) {
    const char *text = json_string_value(json_array_get(list, i));
    if (text != NULL && inet_pton(AF_INET, text, out[i].address) == 1)
      out[i].family = 4;
    else if (text != NULL && inet_pton(AF_INET6, text, out[i].address) == 1)
      out[i].family = 6;
    else
      return fail(why, "`addresses` holds %.60s, which is no address", text ? text : "no text");
  }
  qsort(out, *count, sizeof *out, compare_addresses);
  size_t kept = 1;
  for (size_t i = 1; i < *count; i++)
    if (memcmp(&out[i], &out[kept - 1], sizeof *out) != 0)
      out[kept++] = out[i];
  *count = kept;
  return true;
}

static bool read_host(struct list_making *making, const json_t *value, char *why) {
  char text[NAME_MAX_TEXT];
  char reason[LIST_WHY];
  if (!read_name(value, text, reason))
    return fail(why, "`host`: %.300s", reason);
  size_t len = strlen(text);
  if (len < 2 || len >= LIST_TARGET)
    return fail(why, "`host` must be a host name of at most %d characters", LIST_TARGET - 1);
  text[len - 1] = '\0';
  const char *host = list_make_text(making, text);
  if (host == NULL)
    return no_memory(why);
  making->targets[0] = (struct probe_target){.host = host};
  return true;
}

static bool read_endpoint(struct list_making *making, const json_t *json, uint32_t domain,
                          uint16_t endpoint, char *why) {
  char reason[CHECK_WHY];
  size_t count = 1;
  const json_t *host = json_object_get(json, "host");
  bool ok = host != NULL ? read_host(making, host, why)
                         : read_addresses(making, json_object_get(json, "addresses"), &count, why);
  if (!ok)
    return false;
  struct list_check *check = list_make_check(making, json_object_get(json, "health"), reason);
  if (check == NULL)
    return fail(why, "`health`: %.200s", reason);
  const struct list_target target = {.domain = domain, .endpoint = endpoint};
  return list_make_subject(making, check, count, target) || no_memory(why);
}

/* The names of all endpoints, as indexes count them: in the order of the configuration where it is
 * looked at. */
static bool read_endpoint_names(struct list_making *making, struct list_domain *domain,
                                const json_t *steer, const json_t *endpoints, char *why) {
  const json_t *all = json_object_get(steer, "endpoints");
  size_t count = all != NULL ? json_array_size(all) : json_object_size(endpoints);
  if (count == 0 || count > STEER_MAX_ENDPOINTS)
    return fail(why, "must have 1 to %d endpoints", STEER_MAX_ENDPOINTS);
  domain->endpoints = list_make_array(making, count, sizeof *domain->endpoints);
  if (domain->endpoints == NULL)
    return no_memory(why);
  void *iter = json_object_iter((json_t *)endpoints);
  for (size_t i = 0; i < count; i++) {
    const char *name = all != NULL
                           ? json_string_value(json_object_get(json_array_get(all, i), "name"))
                           : json_object_iter_key(iter);
    if (name == NULL || !is_endpoint_name(name))
      return fail(why, "endpoint %zu has no name", i + 1);
    domain->endpoints[i] = list_make_text(making, name);
    if (domain->endpoints[i] == NULL)
      return no_memory(why);
    iter = all != NULL ? NULL : json_object_iter_next((json_t *)endpoints, iter);
  }
  domain->endpoint_count = (uint32_t)count;
  return true;
}

static bool read_endpoints(struct list_making *making, struct list_domain *domain, uint32_t index,
                           const json_t *json, const json_t *steer, char *why) {
  const json_t *endpoints = json_object_get(json, "endpoints");
  if (!json_is_object(endpoints))
    return fail(why, "`endpoints` must be a map");
  if (!read_endpoint_names(making, domain, steer, endpoints, why))
    return false;
  size_t found = 0;
  for (uint32_t i = 0; i < domain->endpoint_count; i++) {
    char reason[LIST_WHY];
    const json_t *endpoint = json_object_get(endpoints, domain->endpoints[i]);
    if (endpoint == NULL)
      continue;
    found++;
    if (!read_endpoint(making, endpoint, index, (uint16_t)i, reason))
      return fail(why, "endpoint %.80s: %.300s", domain->endpoints[i], reason);
  }
  if (found != json_object_size(endpoints))
    return fail(why, "`endpoints` has names that `steer` does not have, or has them twice");
  return true;
}

static bool read_alerts(struct list_making *making, struct list_domain *domain, const json_t *json,
                        const json_t *steer, char *why) {
  const char *owner = json_string_value(json_object_get(json, "owner"));
  if (owner != NULL) {
    domain->owner = list_make_text(making, owner);
    if (domain->owner == NULL)
      return no_memory(why);
  }
  if (steer == NULL)
    return true;
  char reason[DOMAIN_JSON_WHY];
  domain->alerts = json_incref(json_object_get(json, "alerts"));
  domain->steer = domain_json_decode(steer, reason);
  return domain->steer != NULL || fail(why, "`steer`: %.250s", reason);
}

static bool read_domain(struct list_making *making, const json_t *json, struct cursor steer_text,
                        char *why) {
  char name[NAME_MAX_TEXT];
  char reason[LIST_WHY];
  if (!read_name(json_object_get(json, "domain"), name, reason))
    return fail(why, "`domain`: %.300s", reason);
  uint32_t index;
  struct list_domain *domain = list_make_domain(making, name, &index, reason);
  bool ok = domain != NULL;
  json_t *steer = NULL;
  if (ok && steer_text.at != NULL && json_is_object(json_object_get(json, "alerts"))) {
    steer = take_value(&steer_text, reason);
    ok = steer != NULL;
  }
  ok = ok && read_endpoints(making, domain, index, json, steer, reason) &&
       read_alerts(making, domain, json, steer, reason);
  json_decref(steer);
  return ok || fail(why, "%.80s: %.350s", name, reason);
}

/* ---- the document -----------------------------------------------------------------------------
 */

struct document {
  struct list_making *making;
  bool domains, format;
};

static bool read_member(struct document *document, struct cursor *c, const char *key, char *why) {
  char reason[LIST_WHY];
  if (strcmp(key, "domains") == 0) {
    bool again = document->domains;
    document->domains = true;
    if (!again && read_domains(document->making, c, reason))
      return true;
    return fail(why, "`domains`: %.450s", again ? "is there twice" : reason);
  }
  json_t *value = take_value(c, why);
  if (value == NULL)
    return false;
  bool ok = true;
  if (strcmp(key, "format") == 0) {
    document->format = true;
    if (json_integer_value(value) != LIST_FORMAT)
      ok = fail(why, "`format` is not %d: the build is of another version of sluice", LIST_FORMAT);
  } else if (strcmp(key, "routes") == 0 && json_is_object(value)) {
    list_make_routes(document->making, value);
  }
  json_decref(value);
  return ok;
}

static bool read_document(struct document *document, struct cursor *c, char *why) {
  if (!take_char(c, '{'))
    return fail(why, "must be a JSON object");
  while (next_char(c) != '}') {
    json_t *key = take_value(c, why);
    bool ok = json_is_string(key) && take_char(c, ':');
    if (key != NULL && !ok)
      fail(why, "not JSON: a key or its `:` is missing");
    ok = ok && read_member(document, c, json_string_value(key), why);
    json_decref(key);
    if (!ok)
      return false;
    if (!take_char(c, ',') && next_char(c) != '}')
      return fail(why, "not JSON: `,` or `}` is missing");
  }
  c->at++;
  if (next_char(c) != '\0' || c->at != c->end)
    return fail(why, "something follows after the end");
  if (!document->domains || !document->format)
    return fail(why, "`%s` is missing", document->domains ? "format" : "domains");
  return true;
}

struct list *list_parse(const char *text, size_t len, char *why) {
  struct list_making *making = list_make_begin();
  if (making == NULL) {
    no_memory(why);
    return NULL;
  }
  struct document document = {.making = making};
  struct cursor cursor = {.at = text, .end = text + len};
  bool ok = read_document(&document, &cursor, why);
  struct list *list = list_make_end(making, ok);
  if (ok && list == NULL)
    no_memory(why);
  return list;
}

bool list_current(const char *data, char *build) {
  char *link = fs_join(data, "current");
  ssize_t len = link != NULL ? readlink(link, build, LIST_BUILD - 1) : -1;
  free(link);
  build[len > 0 ? len : 0] = '\0';
  return len > 0;
}

/* What short names of domains end in; for people's convenience only, so that it may fail. */
static char *read_default_zone(const char *folder) {
  char why[DOMAIN_LIST_WHY];
  char name[NAME_MAX_TEXT];
  char *path = fs_join(folder, "domains.json");
  struct domain_list *domains = path != NULL ? domain_list_open(path, why) : NULL;
  const json_t *zone =
      domains != NULL ? json_object_get(domain_list_header(domains), "default_zone") : NULL;
  char *out = json_is_string(zone) && read_name(zone, name, why) ? strdup(name) : NULL;
  domain_list_close(domains);
  free(path);
  return out;
}

struct list *list_read(const char *data, char *build, bool *missing, char *why) {
  *missing = !list_current(data, build);
  if (*missing) {
    fail(why, "there is no build in %.300s yet; `sluice build --out %.100s` makes one", data, data);
    return NULL;
  }
  char *folder = NULL;
  uint8_t *text = NULL;
  size_t len = 0;
  char reason[LIST_WHY];
  struct list *list = NULL;
  /* By what the link says and not through it: the list is that of `build` whatever happens. */
  if (asprintf(&folder, "%s%s%s", build[0] == '/' ? "" : data, build[0] == '/' ? "" : "/", build) <
      0) {
    no_memory(why);
    return NULL;
  }
  char *path = fs_join(folder, "checks.json");
  if (path == NULL)
    no_memory(why);
  else if (fs_read(path, LIST_MAX_BYTES, &text, &len, why))
    list = list_parse((const char *)text, len, reason);
  if (text != NULL && list == NULL)
    fail(why, "%.200s: %.300s", path, reason);
  if (list != NULL)
    list->default_zone = read_default_zone(folder);
  free(text);
  free(path);
  free(folder);
  return list;
}

const char *list_probe_text(const struct list_probe *probe) {
  return probe->target.family == 0 ? probe->target.host : probe->text;
}
