/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/config_health.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zones/record.h"

enum { MAX_INTERVAL = 86400 };

/* Types of checks as bits. */
enum { T_HTTP = 1, T_HTTPS = 2, T_TCP = 4, T_DNS = 8, T_ICMP = 16, T_EXEC = 32, T_ALL = 63 };
enum { T_WEB = T_HTTP | T_HTTPS };

static const char *const type_names[] = {"http", "https", "tcp", "dns", "icmp", "exec"};

enum kind {
  KIND_TYPE,
  KIND_TIME,
  KIND_COUNT,
  KIND_PORT,
  KIND_TEXT,
  KIND_PATH,
  KIND_WEB_HOST,
  KIND_METHOD,
  KIND_BOOL,
  KIND_HEADERS,
  KIND_EXPECT,
  KIND_DAMPING,
  KIND_NAME,
  KIND_DNS_NAME,
  KIND_RRTYPE,
  KIND_STATUS,
  KIND_RCODE,
  KIND_CHANGES,
};

struct field {
  const char *key;
  enum kind kind;
  unsigned types; /* checks that have it */
};

static const struct field fields[] = {
    {"type", KIND_TYPE, T_ALL},
    {"interval", KIND_TIME, T_ALL},
    {"timeout", KIND_TIME, T_ALL},
    {"rise", KIND_COUNT, T_ALL},
    {"fall", KIND_COUNT, T_ALL},
    {"damping", KIND_DAMPING, T_ALL},
    {"port", KIND_PORT, T_WEB | T_TCP | T_DNS},
    {"path", KIND_PATH, T_WEB},
    {"host", KIND_WEB_HOST, T_WEB},
    {"method", KIND_METHOD, T_WEB},
    {"headers", KIND_HEADERS, T_WEB},
    {"follow_redirects", KIND_BOOL, T_WEB},
    {"ca_file", KIND_TEXT, T_HTTPS},
    {"verify", KIND_BOOL, T_HTTPS},
    {"expect", KIND_EXPECT, T_WEB | T_TCP | T_DNS},
    {"send", KIND_TEXT, T_TCP},
    {"name", KIND_DNS_NAME, T_DNS},
    {"rrtype", KIND_RRTYPE, T_DNS},
    {"check", KIND_NAME, T_EXEC},
};

static const struct field expect_fields[] = {
    {"status", KIND_STATUS, T_WEB},
    {"body", KIND_TEXT, T_WEB},
    {"data", KIND_TEXT, T_TCP | T_DNS},
    {"rcode", KIND_RCODE, T_DNS},
};

static const struct field damping_fields[] = {
    {"changes", KIND_CHANGES, T_ALL},
    {"within", KIND_TIME, T_ALL},
    {"hold", KIND_TIME, T_ALL},
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static json_t *read_block(const struct config_file *file, const struct yaml_node *node,
                          const char *what, const struct field *list, size_t count);

/* ---- values -----------------------------------------------------------------------------------
 */

static json_t *read_method(const struct config_file *file, const struct yaml_node *node) {
  static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "OPTIONS"};
  int i = config_choice(file, node, "`method`", methods, COUNT(methods));
  return i < 0 ? NULL : json_string(methods[i]);
}

/* ASCII without spaces and control characters. */
static bool is_visible(const char *text) {
  for (; *text != '\0'; text++)
    if (*text <= ' ' || *text >= 0x7f)
      return false;
  return true;
}

/* A field value of RFC 9110 section 5.5: no control characters but tabs. */
static bool is_header_value(const char *text) {
  for (; *text != '\0'; text++)
    if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f)
      return false;
  return true;
}

static json_t *read_path(const struct config_file *file, const struct yaml_node *node) {
  char show[CONFIG_SHOW];
  if (node->kind == YAML_SCALAR && node->text[0] == '/' && is_visible(node->text))
    return json_string(node->text);
  config_error(file, node,
               "`path` must start with `/` and hold no spaces, control characters or letters "
               "outside of ASCII (write these as %%20 and so on), this is %s",
               config_show(node, show));
  return NULL;
}

/* The Host header and the TLS SNI: more than one line would be a header of its own. */
static json_t *read_web_host(const struct config_file *file, const struct yaml_node *node) {
  static const char allowed[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:[]";
  char show[CONFIG_SHOW];
  if (node->kind == YAML_SCALAR && node->len > 0 && node->len <= NAME_MAX_WIRE &&
      strspn(node->text, allowed) == node->len)
    return json_string(node->text);
  config_error(file, node,
               "`host` must be a host name such as cdn.example.com (or an address), this is %s",
               config_show(node, show));
  return NULL;
}

static json_t *read_headers(const struct config_file *file, const struct yaml_node *node) {
  static const char token[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                              "!#$%&'*+-.^_`|~"; /* RFC 9110 section 5.6.2 */
  if (!config_is_map(file, node, "`headers`"))
    return NULL;
  json_t *headers = json_object();
  bool ok = headers != NULL;
  for (size_t i = 0; i < node->count; i++) {
    const struct yaml_pair *pair = &node->pairs[i];
    char show[CONFIG_SHOW];
    if (pair->key->len == 0 || strspn(pair->key->text, token) != pair->key->len) {
      config_error(file, pair->key, "%s is not the name of an HTTP header",
                   config_show(pair->key, show));
      ok = false;
    } else if (pair->value->kind != YAML_SCALAR || !is_header_value(pair->value->text)) {
      config_error(file, pair->value,
                   "the value of a header must be a text of one line without control "
                   "characters");
      ok = false;
    } else if (ok) {
      ok = json_object_set_new(headers, pair->key->text, json_string(pair->value->text)) == 0;
    }
  }
  if (ok)
    return headers;
  json_decref(headers);
  return NULL;
}

/* "200" or "200-299". */
static json_t *read_status_range(const struct config_file *file, const struct yaml_node *node) {
  char show[CONFIG_SHOW];
  unsigned v[2] = {0, 0};
  bool ok =
      node->kind == YAML_SCALAR && (node->len == 3 || (node->len == 7 && node->text[3] == '-'));
  for (size_t i = 0; ok && i < node->len; i++) {
    char c = node->text[i];
    if (i == 3)
      continue;
    ok = c >= '0' && c <= '9';
    v[i > 3] = v[i > 3] * 10 + (unsigned)(c - '0');
  }
  if (node->len == 3)
    v[1] = v[0];
  if (ok && v[0] >= 100 && v[1] <= 599 && v[0] <= v[1])
    return json_pack("[ii]", (int)v[0], (int)v[1]);
  config_error(file, node,
               "`status` must be HTTP status codes from 100 to 599, as 200 or 200-299; "
               "this is %s",
               config_show(node, show));
  return NULL;
}

static json_t *read_status(const struct config_file *file, const struct yaml_node *node) {
  json_t *list = json_array();
  bool ok = list != NULL;
  if (node->kind == YAML_LIST && node->count == 0) {
    config_error(file, node, "`status` must not be an empty list");
    ok = false;
  }
  size_t count = node->kind == YAML_LIST ? node->count : 1;
  for (size_t i = 0; i < count; i++) {
    json_t *range = read_status_range(file, node->kind == YAML_LIST ? node->items[i] : node);
    ok = range != NULL && list != NULL && json_array_append_new(list, range) == 0 && ok;
  }
  if (ok)
    return list;
  json_decref(list);
  return NULL;
}

static json_t *read_rcode(const struct config_file *file, const struct yaml_node *node) {
  static const char *const rcodes[] = {"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN",
                                       "NOTIMP",  "REFUSED", "YXDOMAIN", "YXRRSET",
                                       "NXRRSET", "NOTAUTH", "NOTZONE"};
  int i = config_choice(file, node, "`rcode`", rcodes, COUNT(rcodes));
  return i < 0 ? NULL : json_string(rcodes[i]);
}

static json_t *read_rrtype(const struct config_file *file, const struct yaml_node *node) {
  char type[16];
  char show[CONFIG_SHOW];
  uint16_t value = node->kind == YAML_SCALAR ? record_type(node->text, node->len) : 0;
  if (value != 0)
    return json_string(record_type_text(value, type));
  config_error(file, node, "`rrtype` must be a type of record such as A or SOA, this is %s",
               config_show(node, show));
  return NULL;
}

static json_t *read_dns_name(const struct config_file *file, const struct yaml_node *node) {
  uint8_t name[NAME_BUF];
  char text[NAME_MAX_TEXT];
  return config_host(file, node, "`name`", name) ? json_string(name_to_text(text, name)) : NULL;
}

static json_t *read_number(const struct config_file *file, const struct yaml_node *node,
                           const char *what, uint32_t min, uint32_t max) {
  uint32_t v;
  return config_number(file, node, what, min, max, &v) ? json_integer(v) : NULL;
}

static json_t *read_value(const struct config_file *file, const struct yaml_node *node,
                          const struct field *field) {
  char what[40];
  uint64_t ms;
  bool flag;
  snprintf(what, sizeof what, "`%s`", field->key);
  switch (field->kind) {
  case KIND_TYPE: {
    int i = config_choice(file, node, what, type_names, COUNT(type_names));
    return i < 0 ? NULL : json_string(type_names[i]);
  }
  case KIND_TIME:
    return config_milliseconds(file, node, what, MAX_INTERVAL, &ms) ? json_integer((json_int_t)ms)
                                                                    : NULL;
  case KIND_COUNT:
    return read_number(file, node, what, 1, 100);
  case KIND_CHANGES:
    return read_number(file, node, what, 2, 1000);
  case KIND_PORT:
    return read_number(file, node, what, 1, 65535);
  case KIND_TEXT:
    return config_text(file, node, what) ? json_string(node->text) : NULL;
  case KIND_NAME:
    return config_name(file, node, what) ? json_string(node->text) : NULL;
  case KIND_PATH:
    return read_path(file, node);
  case KIND_WEB_HOST:
    return read_web_host(file, node);
  case KIND_METHOD:
    return read_method(file, node);
  case KIND_BOOL:
    return config_bool(file, node, what, &flag) ? json_boolean(flag) : NULL;
  case KIND_HEADERS:
    return read_headers(file, node);
  case KIND_EXPECT:
    return read_block(file, node, what, expect_fields, COUNT(expect_fields));
  case KIND_DAMPING:
    return read_block(file, node, what, damping_fields, COUNT(damping_fields));
  case KIND_DNS_NAME:
    return read_dns_name(file, node);
  case KIND_RRTYPE:
    return read_rrtype(file, node);
  case KIND_STATUS:
    return read_status(file, node);
  case KIND_RCODE:
    return read_rcode(file, node);
  }
  return NULL;
}

static json_t *read_block(const struct config_file *file, const struct yaml_node *node,
                          const char *what, const struct field *list, size_t count) {
  const char *keys[COUNT(fields)];
  for (size_t i = 0; i < count; i++)
    keys[i] = list[i].key;
  bool ok = config_keys(file, node, what, keys, count);
  if (node->kind != YAML_MAP)
    return NULL;
  json_t *block = json_object();
  for (size_t i = 0; i < count; i++) {
    const struct yaml_node *value = yaml_get(node, list[i].key);
    if (value == NULL)
      continue;
    json_t *json = read_value(file, value, &list[i]);
    ok = json != NULL && json_object_set_new(block, list[i].key, json) == 0 && ok;
  }
  if (ok && block != NULL)
    return block;
  json_decref(block);
  return NULL;
}

json_t *config_health_block(const struct config_file *file, const struct yaml_node *node) {
  return read_block(file, node, "`health`", fields, COUNT(fields));
}

bool config_health_check_times(const struct config_file *file, const struct yaml_node *node,
                               const json_t *block) {
  const json_t *interval = json_object_get(block, "interval");
  const json_t *timeout = json_object_get(block, "timeout");
  if (interval == NULL || timeout == NULL ||
      json_integer_value(interval) >= json_integer_value(timeout))
    return true;
  config_error(file, yaml_get_key(node, "interval"),
               "`interval` (%lldms) is shorter than `timeout` (%lldms); make it at least as long",
               (long long)json_integer_value(interval), (long long)json_integer_value(timeout));
  return false;
}

/* ---- merging ----------------------------------------------------------------------------------
 */

static unsigned type_bit(const char *type) {
  for (size_t i = 0; i < COUNT(type_names); i++)
    if (type != NULL && strcmp(type, type_names[i]) == 0)
      return 1u << i;
  return 0;
}

static void list_types(unsigned types, char *out, size_t size) {
  size_t at = 0;
  for (size_t i = 0; i < COUNT(type_names); i++)
    if ((types & 1u << i) != 0 && at < size)
      at += (size_t)snprintf(out + at, size - at, "%s%s", at == 0 ? "" : ", ", type_names[i]);
}

static bool check_keys(const struct config_file *file, const struct yaml_node *node,
                       const char *type, const struct field *list, size_t count) {
  bool ok = true;
  for (size_t i = 0; i < count; i++) {
    const struct yaml_node *key = yaml_get_key(node, list[i].key);
    if (key == NULL || (list[i].types & type_bit(type)) != 0)
      continue;
    char types[64];
    list_types(list[i].types, types, sizeof types);
    config_error(file, key, "`%s` does not belong to a check of type %s, only to %s; remove it",
                 list[i].key, type, types);
    ok = false;
  }
  return ok;
}

bool config_health_check_keys(const struct config_file *file, const struct yaml_node *node,
                              const char *type) {
  bool ok = check_keys(file, node, type, fields, COUNT(fields));
  const struct yaml_node *expect = yaml_get(node, "expect");
  if (expect == NULL || expect->kind != YAML_MAP || !ok)
    return ok;
  return check_keys(file, expect, type, expect_fields, COUNT(expect_fields));
}

/* Puts `over` into `base`; objects are merged key by key (but headers and such have one level). */
static bool merge(json_t *base, const json_t *over) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)over, key, value) {
    json_t *below = json_object_get(base, key);
    if (json_is_object(below) && json_is_object(value)) {
      if (json_object_update(below, value) != 0)
        return false;
      continue;
    }
    if (json_object_set_new(base, key, json_deep_copy(value)) != 0)
      return false;
  }
  return true;
}

/* What a broader block says about another type of check is left out. */
static void drop_foreign(json_t *health, unsigned type) {
  json_t *expect = json_object_get(health, "expect");
  for (size_t i = 0; i < COUNT(expect_fields); i++)
    if ((expect_fields[i].types & type) == 0)
      json_object_del(expect, expect_fields[i].key);
  for (size_t i = 0; i < COUNT(fields); i++)
    if ((fields[i].types & type) == 0)
      json_object_del(health, fields[i].key);
}

static bool fill(json_t *health, const char *key, json_t *value) {
  if (json_object_get(health, key) != NULL) {
    json_decref(value);
    return true;
  }
  return json_object_set_new(health, key, value) == 0;
}

static bool fill_expect(json_t *health, unsigned type) {
  if ((type & (T_WEB | T_DNS)) == 0)
    return true;
  if (!fill(health, "expect", json_object()))
    return false;
  json_t *expect = json_object_get(health, "expect");
  if ((type & T_WEB) != 0)
    return fill(expect, "status", json_pack("[[ii]]", 200, 299));
  return fill(expect, "rcode", json_string("NOERROR"));
}

static bool fill_gaps(json_t *health, unsigned type) {
  bool ok = fill(health, "interval", json_integer(10000)) &&
            fill(health, "timeout", json_integer(3000)) && fill(health, "rise", json_integer(2)) &&
            fill(health, "fall", json_integer(3)) && fill_expect(health, type);
  if ((type & T_WEB) != 0)
    ok = ok && fill(health, "port", json_integer(type == T_HTTP ? 80 : 443)) &&
         fill(health, "path", json_string("/")) && fill(health, "method", json_string("GET")) &&
         fill(health, "headers", json_object()) && fill(health, "follow_redirects", json_false());
  if (type == T_HTTPS)
    ok = ok && fill(health, "verify", json_true());
  if (type == T_DNS)
    ok = ok && fill(health, "port", json_integer(53)) && fill(health, "rrtype", json_string("A"));
  json_t *damping = json_object_get(health, "damping");
  if (damping != NULL)
    ok = ok && fill(damping, "changes", json_integer(5)) &&
         fill(damping, "within", json_integer(600000)) &&
         fill(damping, "hold", json_integer(300000));
  return ok;
}

/* Data of a dns check are a record's, in the words of a master file; a text is any. */
static bool check_dns_data(const struct config_file *file, const struct yaml_node *where,
                           const struct yaml_node *block, const json_t *health) {
  const char *data = json_string_value(json_object_get(json_object_get(health, "expect"), "data"));
  const char *type_text = json_string_value(json_object_get(health, "rrtype"));
  uint16_t type = type_text != NULL ? record_type(type_text, strlen(type_text)) : 0;
  if (data == NULL || type == 0 || type == RECORD_TXT || type == RECORD_SPF)
    return true;
  struct record_rdata *rdata = malloc(sizeof *rdata);
  struct master_text text;
  struct master_entry entry;
  struct master_word word;
  const char *reason = "it is empty";
  char why[RECORD_WHY];
  size_t bad;
  master_text_init(&text, data, strlen(data));
  text.single = true;
  bool ok = rdata != NULL && master_text_next(&text, &entry, &word, &reason) == MASTER_ENTRY;
  if (ok) {
    ok = record_read(type, entry.words, entry.count, NULL, rdata, &bad, why);
    reason = why;
  }
  const struct yaml_node *key = yaml_get_key(yaml_get(block, "expect"), "data");
  if (!ok)
    config_error(file, key != NULL ? key : where,
                 "`expect.data` is not data of a record of type %s: %s", type_text,
                 rdata != NULL ? reason : "out of memory");
  master_text_close(&text);
  free(rdata);
  return ok;
}

static bool check_whole(const struct config_file *file, const struct yaml_node *where,
                        const struct yaml_node *block, const json_t *health, unsigned type) {
  json_int_t interval = json_integer_value(json_object_get(health, "interval"));
  json_int_t timeout = json_integer_value(json_object_get(health, "timeout"));
  bool ok = true;
  if (interval < timeout) {
    const struct yaml_node *key = yaml_get_key(block, "interval");
    if (key == NULL)
      key = yaml_get_key(block, "timeout");
    config_error(
        file, key != NULL ? key : where,
        "`interval` (%lldms) is shorter than `timeout` (%lldms)%s; make it at least as long",
        (long long)interval, (long long)timeout,
        key != NULL ? "" : ", by defaults.yaml and the built-in 10s and 3s");
    ok = false;
  }
  if (type == T_TCP && json_object_get(health, "port") == NULL) {
    config_error(file, where, "a check of type tcp needs `port`");
    ok = false;
  }
  if (type == T_DNS && json_object_get(health, "name") == NULL) {
    config_error(file, where, "a check of type dns needs `name`, the name to ask for");
    ok = false;
  }
  if (type == T_DNS && !check_dns_data(file, where, block, health))
    ok = false;
  if (type == T_EXEC && json_object_get(health, "check") == NULL) {
    config_error(file, where,
                 "a check of type exec needs `check`, the name of a program in the "
                 "machine's settings");
    ok = false;
  }
  return ok;
}

json_t *config_health_merge(const struct config_file *file, const struct yaml_node *where,
                            const struct yaml_node *block, const json_t *defaults,
                            const json_t *domain, const json_t *endpoint) {
  json_t *health = json_object();
  bool ok = health != NULL && (defaults == NULL || merge(health, defaults)) &&
            merge(health, domain) && (endpoint == NULL || merge(health, endpoint));
  unsigned type = ok ? type_bit(json_string_value(json_object_get(health, "type"))) : 0;
  if (ok && type == 0) {
    config_error(file, where, "`health` needs `type`: http, https, tcp, dns, icmp or exec");
    ok = false;
  }
  if (ok) {
    drop_foreign(health, type);
    ok = fill_gaps(health, type) && check_whole(file, where, block, health, type);
  }
  if (ok)
    return health;
  json_decref(health);
  return NULL;
}
