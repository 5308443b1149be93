/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zones/record.h"

enum {
  TIME_MAX = 86400 * 1000, /* ms */
  COUNT_MAX = 100,
  CHANGES_MIN = 2,
  CHANGES_MAX = 1000,
  TEXT_MAX = 64 << 10,
  HEADERS_MAX = 256,
  STATUSES_MAX = 500,
};

static const char *const type_names[] = {"http", "https", "tcp", "dns", "icmp", "exec"};
enum { TYPES = sizeof type_names / sizeof *type_names };

const char *check_type_name(enum check_type type) {
  return type_names[type];
}

__attribute__((format(printf, 2, 3))) static bool fail(char *why, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(why, CHECK_WHY, format, args);
  va_end(args);
  return false;
}

/* ---- single values ----------------------------------------------------------------------------
 */

static bool read_number(const json_t *json, const char *key, uint32_t least, uint32_t most,
                        uint32_t *out, char *why) {
  const json_t *value = json_object_get(json, key);
  json_int_t number = json_integer_value(value);
  if (!json_is_integer(value) || number < (json_int_t)least || number > (json_int_t)most)
    return fail(why, "`%s` must be a number from %u to %u", key, least, most);
  *out = (uint32_t)number;
  return true;
}

static bool read_short(const json_t *json, const char *key, uint32_t least, uint32_t most,
                       uint16_t *out, char *why) {
  uint32_t number = 0;
  bool ok = read_number(json, key, least, most, &number, why);
  *out = (uint16_t)number;
  return ok;
}

/* A text without control characters (`any`: with what it likes, but no NUL). */
static bool take_text(const json_t *value, const char *key, bool any, char **out, char *why) {
  const char *text = json_string_value(value);
  size_t len = text != NULL ? strlen(text) : 0;
  if (text == NULL || len != json_string_length(value) || len > TEXT_MAX)
    return fail(why, "`%s` must be a text of at most %d octets", key, TEXT_MAX);
  for (size_t i = 0; !any && i < len; i++)
    if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f)
      return fail(why, "`%s` holds a control character", key);
  *out = strdup(text);
  return *out != NULL || fail(why, "out of memory");
}

static bool read_text(const json_t *json, const char *key, char **out, char *why) {
  return take_text(json_object_get(json, key), key, false, out, why);
}

/* As read_text(); a key that is not there leaves NULL. */
static bool read_optional(const json_t *json, const char *key, bool any, char **out, char *why) {
  const json_t *value = json_object_get(json, key);
  return value == NULL || json_is_null(value) || take_text(value, key, any, out, why);
}

static bool read_flag(const json_t *json, const char *key, bool otherwise, bool *out, char *why) {
  const json_t *value = json_object_get(json, key);
  *out = value != NULL ? json_is_true(value) : otherwise;
  return value == NULL || json_is_boolean(value) || fail(why, "`%s` must be true or false", key);
}

/* ---- parts ------------------------------------------------------------------------------------
 */

static bool read_headers(struct check *check, const json_t *json, char *why) {
  json_t *headers = json_object_get(json, "headers");
  if (headers == NULL)
    return true;
  if (!json_is_object(headers) || json_object_size(headers) > HEADERS_MAX)
    return fail(why, "`headers` must be a map of at most %d", HEADERS_MAX);
  check->headers = calloc(json_object_size(headers) + 1, sizeof *check->headers);
  if (check->headers == NULL)
    return fail(why, "out of memory");
  const char *name;
  json_t *value;
  json_object_foreach(headers, name, value) {
    struct check_header *header = &check->headers[check->header_count++];
    if (*name == '\0' || strpbrk(name, " \t\r\n:") != NULL || strlen(name) > TEXT_MAX)
      return fail(why, "`headers` has a name that is none of a header");
    header->name = strdup(name);
    if (header->name == NULL)
      return fail(why, "out of memory");
    if (!take_text(value, "headers", false, &header->value, why))
      return false;
  }
  return true;
}

static bool read_statuses(struct check *check, const json_t *expect, char *why) {
  const json_t *list = json_object_get(expect, "status");
  size_t count = json_array_size(list);
  if (count == 0 || count > STATUSES_MAX)
    return fail(why, "`expect.status` must be a list of 1 to %d ranges", STATUSES_MAX);
  check->statuses = calloc(count, sizeof *check->statuses);
  if (check->statuses == NULL)
    return fail(why, "out of memory");
  for (size_t i = 0; i < count; i++) {
    const json_t *range = json_array_get(list, i);
    json_int_t from = json_integer_value(json_array_get(range, 0));
    json_int_t to = json_integer_value(json_array_get(range, 1));
    if (json_array_size(range) != 2 || from < 100 || to > 599 || from > to)
      return fail(why, "`expect.status` must hold pairs of status codes from 100 to 599");
    check->statuses[check->status_count++] =
        (struct check_range){.from = (uint16_t)from, .to = (uint16_t)to};
  }
  return true;
}

static bool read_web(struct check *check, const json_t *json, char *why) {
  const json_t *expect = json_object_get(json, "expect");
  if (!read_text(json, "path", &check->path, why) ||
      !read_text(json, "method", &check->method, why) ||
      !read_optional(json, "host", false, &check->host, why) || !read_headers(check, json, why) ||
      !read_statuses(check, expect, why) ||
      !read_optional(expect, "body", true, &check->body, why) ||
      !read_flag(json, "follow_redirects", false, &check->follow_redirects, why))
    return false;
  if (check->path[0] != '/')
    return fail(why, "`path` must start with `/`");
  if (check->method[0] == '\0' ||
      strspn(check->method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != strlen(check->method))
    return fail(why, "`method` is none of HTTP");
  if (check->type == CHECK_HTTP)
    return true;
  return read_flag(json, "verify", true, &check->verify, why) &&
         read_optional(json, "ca_file", false, &check->ca_file, why);
}

static bool read_rcode(struct check *check, const json_t *expect, char *why) {
  static const char *const names[] = {"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN",
                                      "NOTIMP",  "REFUSED", "YXDOMAIN", "YXRRSET",
                                      "NXRRSET", "NOTAUTH", "NOTZONE"};
  const char *rcode = json_string_value(json_object_get(expect, "rcode"));
  for (size_t i = 0; rcode != NULL && i < sizeof names / sizeof *names; i++) {
    if (strcmp(rcode, names[i]) != 0)
      continue;
    check->rcode = (uint8_t)i;
    return true;
  }
  return fail(why, "`expect.rcode` must be the name of a response code, such as NOERROR");
}

static bool read_dns(struct check *check, const json_t *json, char *why) {
  const json_t *expect = json_object_get(json, "expect");
  const char *type = json_string_value(json_object_get(json, "rrtype"));
  if (!read_text(json, "name", &check->name, why) || !read_rcode(check, expect, why) ||
      !read_optional(expect, "data", false, &check->expect, why))
    return false;
  check->rrtype = type != NULL ? record_type(type, strlen(type)) : 0;
  return check->rrtype != 0 || fail(why, "`rrtype` must be a type of record, such as A");
}

static bool read_by_type(struct check *check, const json_t *json, char *why) {
  bool has_port = check->type != CHECK_ICMP && check->type != CHECK_EXEC;
  if (has_port && !read_short(json, "port", 1, UINT16_MAX, &check->port, why))
    return false;
  switch (check->type) {
  case CHECK_HTTP:
  case CHECK_HTTPS:
    return read_web(check, json, why);
  case CHECK_TCP:
    return read_optional(json, "send", true, &check->send, why) &&
           read_optional(json_object_get(json, "expect"), "data", true, &check->expect, why);
  case CHECK_DNS:
    return read_dns(check, json, why);
  case CHECK_EXEC:
    return read_text(json, "check", &check->program, why);
  case CHECK_ICMP:
    break;
  }
  return true;
}

static bool read_damping(struct check *check, const json_t *json, char *why) {
  const json_t *damping = json_object_get(json, "damping");
  if (damping == NULL || json_is_null(damping))
    return true;
  return read_number(damping, "changes", CHANGES_MIN, CHANGES_MAX, &check->damping.changes, why) &&
         read_number(damping, "within", 1, TIME_MAX, &check->damping.within, why) &&
         read_number(damping, "hold", 1, TIME_MAX, &check->damping.hold, why);
}

static bool read_type(struct check *check, const json_t *json, char *why) {
  const char *type = json_string_value(json_object_get(json, "type"));
  for (int i = 0; type != NULL && i < TYPES; i++) {
    if (strcmp(type, type_names[i]) != 0)
      continue;
    check->type = (enum check_type)i;
    return true;
  }
  return fail(why, "`type` must be http, https, tcp, dns, icmp or exec");
}

struct check *check_read(const json_t *json, char *why) {
  struct check *check = calloc(1, sizeof *check);
  if (check == NULL) {
    fail(why, "out of memory");
    return NULL;
  }
  bool ok = read_type(check, json, why) &&
            read_number(json, "interval", 1, TIME_MAX, &check->interval, why) &&
            read_number(json, "timeout", 1, TIME_MAX, &check->timeout, why) &&
            read_short(json, "rise", 1, COUNT_MAX, &check->rise, why) &&
            read_short(json, "fall", 1, COUNT_MAX, &check->fall, why) &&
            read_damping(check, json, why) && read_by_type(check, json, why);
  if (ok && check->interval < check->timeout)
    ok = fail(why, "`interval` is shorter than `timeout`");
  if (ok)
    return check;
  check_free(check);
  return NULL;
}

void check_free(struct check *check) {
  if (check == NULL)
    return;
  for (size_t i = 0; i < check->header_count; i++) {
    free(check->headers[i].name);
    free(check->headers[i].value);
  }
  free(check->headers);
  free(check->statuses);
  free(check->path);
  free(check->method);
  free(check->host);
  free(check->body);
  free(check->ca_file);
  free(check->send);
  free(check->expect);
  free(check->name);
  free(check->program);
  free(check);
}
