/* SPDX-License-Identifier: Apache-2.0 */
/* Health checks of endpoints: such as we switch (pushed), or such as Route 53 probes by itself. */
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "steering/layers.h"
#include "tools/providers/route53_private.h"

static long long integer(const json_t *json, const char *key, long long otherwise) {
  const json_t *value = json_object_get(json, key);
  return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static const char *body_of(const json_t *check) {
  return json_string_value(json_object_get(json_object_get(check, "expect"), "body"));
}

/* A probe is a GET without more headers, and good with 200 to 399: what else we accept it would
 * call down for ever. */
static const char *cannot_web(const json_t *check) {
  const char *method = json_string_value(json_object_get(check, "method"));
  const char *body = body_of(check);
  size_t i;
  const json_t *range;
  if (method && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
    return "Route 53 can only check by GET; use `health: pushed`";
  if (json_object_size(json_object_get(check, "headers")) > 0)
    return "Route 53 sends no headers of ours with its checks; use `health: pushed`";
  if (body && strlen(body) > ROUTE53_SEARCH_MAX)
    return "Route 53 can look for 255 octets of a body at most; use `health: pushed`";
  json_array_foreach(json_object_get(json_object_get(check, "expect"), "status"), i, range) {
    if (json_integer_value(json_array_get(range, 0)) < 200 ||
        json_integer_value(json_array_get(range, 1)) > 399)
      return "Route 53 can only check for the statuses 200 to 399; use `health: pushed`";
  }
  return NULL;
}

/* The name of an endpoint that is a host, without the final dot. */
static const char *host_of(const struct steer_endpoint *e, char text[NAME_MAX_TEXT]) {
  name_to_text(text, e->host);
  if (strlen(text) > 1)
    text[strlen(text) - 1] = '\0';
  return text;
}

/* Without an address a check has one name: where it connects to, and the Host header. */
static bool wants_two_names(const json_t *check, const struct steer_endpoint *e,
                            enum steer_type type) {
  char text[NAME_MAX_TEXT];
  const char *host = json_string_value(json_object_get(check, "host"));
  return type == STEER_CNAME && host && strcasecmp(host, host_of(e, text)) != 0;
}

/* Why Route 53 cannot do this check; NULL: it can. */
static const char *cannot(const json_t *check, const char *kind, const struct steer_endpoint *e,
                          enum steer_type type) {
  if (strcmp(kind, "http") == 0 || strcmp(kind, "https") == 0)
    return wants_two_names(check, e, type)
               ? "Route 53 cannot check a host by another name; use `health: pushed`"
               : cannot_web(check);
  if (strcmp(kind, "tcp") != 0)
    return "Route 53 can only check http, https and tcp; use `health: pushed`";
  if (json_object_get(check, "send") || json_object_get(json_object_get(check, "expect"), "data"))
    return "Route 53 cannot check what a tcp server says; use `health: pushed`";
  return NULL;
}

/* Where it is: the first address of the family, or the host. */
static bool set_target(const struct steer_endpoint *e, enum steer_type type, json_t *body) {
  char text[NAME_MAX_TEXT];
  if (type == STEER_CNAME)
    return json_object_set_new(body, "host", json_string(host_of(e, text))) == 0;
  inet_ntop(type == STEER_A ? AF_INET : AF_INET6,
            type == STEER_A ? (const void *)e->addr4[0] : (const void *)e->addr6[0], text,
            sizeof text);
  return json_object_set_new(body, "address", json_string(text)) == 0;
}

static bool set_web(const json_t *check, bool tls, json_t *body) {
  static const char *const types[2][2] = {{"HTTP", "HTTP_STR_MATCH"}, {"HTTPS", "HTTPS_STR_MATCH"}};
  const char *path = json_string_value(json_object_get(check, "path"));
  const char *host = json_string_value(json_object_get(check, "host"));
  const char *search = body_of(check);
  bool ok = json_object_set_new(body, "type", json_string(types[tls][search != NULL])) == 0 &&
            json_object_set_new(body, "path", json_string(path ? path : "/")) == 0;
  if (ok && search)
    ok = json_object_set_new(body, "search", json_string(search)) == 0;
  if (ok && host)
    ok = json_object_set_new(body, "host", json_string(host)) == 0;
  if (ok && tls)
    ok = json_object_set_new(body, "sni", json_true()) == 0;
  return ok;
}

json_t *route53_check(const struct provider_domain *domain, uint32_t endpoint, enum steer_type type,
                      const char **why) {
  const struct steer_endpoint *e = &domain->steer->endpoints[endpoint];
  const struct steer_status *status = domain->facts.status ? &domain->facts.status[endpoint] : NULL;
  const json_t *check = json_object_get(domain->health, e->name);
  const char *kind = json_string_value(json_object_get(check, "type"));
  bool known = status && (status->health4 != HEALTH_UNKNOWN || status->health6 != HEALTH_UNKNOWN);
  *why = NULL;
  if (!check && !(domain->pushed && known))
    return NULL;
  if (!domain->pushed)
    *why = cannot(check, kind ? kind : "", e, type);
  if (*why)
    return NULL;
  bool down =
      domain->pushed && status && status_is_down(e, status, type) && !status_is_disabled(e, status);
  long long fall = integer(check, "fall", 3);
  long long interval = integer(check, "interval", 30000) < 30000 && !domain->pushed ? 10 : 30;
  json_t *body = json_pack("{s:s, s:I, s:I, s:I, s:b, s:b}", "type", "TCP", "port",
                           (json_int_t)integer(check, "port", 80), "interval", (json_int_t)interval,
                           "threshold", (json_int_t)(fall > 10 ? 10 : fall), "disabled",
                           domain->pushed, "inverted", down);
  if (body && set_target(e, type, body) &&
      (domain->pushed || strcmp(kind, "tcp") == 0 ||
       set_web(check, strcmp(kind, "https") == 0, body)))
    return body;
  json_decref(body);
  return NULL;
}
