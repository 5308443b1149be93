/* SPDX-License-Identifier: Apache-2.0 */
/* Records of NS1's API in canonical form. */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/providers/ns1_private.h"

enum { TTL_MAX = 2147483647, DEPTH_MAX = 16 };

bool ns1_is_neutral(const json_t *value) {
  switch (value ? json_typeof(value) : JSON_NULL) {
  case JSON_NULL:
  case JSON_FALSE:
    return true;
  case JSON_INTEGER:
    return json_integer_value(value) == 0;
  case JSON_REAL:
    return !(json_real_value(value) > 0) && !(json_real_value(value) < 0);
  case JSON_STRING:
    return json_string_length(value) == 0;
  case JSON_ARRAY:
    return json_array_size(value) == 0;
  case JSON_OBJECT:
    return json_object_size(value) == 0;
  default:
    return false;
  }
}

/* ---- order of lists ------------------------------------------------------------------------- */

struct keyed {
  char *text;
  json_t *value;
};

static int by_key(const void *a, const void *b) {
  return strcmp(((const struct keyed *)a)->text, ((const struct keyed *)b)->text);
}

/* A new list with the items of `list` by their text; `unique`: each once. */
static json_t *sort_list(const json_t *list, bool unique) {
  size_t count = json_array_size(list);
  struct keyed *items = calloc(count + 1, sizeof *items);
  json_t *out = json_array();
  bool ok = items && out;
  for (size_t i = 0; ok && i < count; i++) {
    items[i].value = json_array_get(list, i);
    items[i].text = json_dumps(items[i].value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    ok = items[i].text;
  }
  if (ok)
    qsort(items, count, sizeof *items, by_key);
  for (size_t i = 0; ok && i < count; i++)
    if (!unique || i == 0 || strcmp(items[i].text, items[i - 1].text) != 0)
      ok = json_array_append(out, items[i].value) == 0;
  for (size_t i = 0; items && i < count; i++)
    free(items[i].text);
  free(items);
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

static json_t *sorted(const json_t *value, int depth) {
  if (depth > DEPTH_MAX)
    return json_null();
  if (json_is_array(value)) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < json_array_size(value); i++)
      json_array_append_new(list, sorted(json_array_get(value, i), depth + 1));
    json_t *out = list ? sort_list(list, false) : NULL;
    json_decref(list);
    return out;
  }
  if (json_is_object(value)) {
    json_t *out = json_object();
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
        json_object_set_new(out, key, sorted(item, depth + 1));
    return out;
  }
  return json_deep_copy(value);
}

char *ns1_sorted_text(const json_t *document) {
  json_t *copy = sorted(document, 0);
  char *text = copy ? json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) : NULL;
  json_decref(copy);
  return text;
}

/* ---- values of keys ------------------------------------------------------------------------- */

static json_t *as_truth(const json_t *value) {
  const char *text = json_string_value(value);
  if (json_is_boolean(value))
    return json_boolean(json_is_true(value));
  if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= 1)
    return json_boolean(json_integer_value(value) == 1);
  if (text && (strcmp(text, "1") == 0 || strcmp(text, "true") == 0))
    return json_true();
  if (text && (strcmp(text, "0") == 0 || strcmp(text, "false") == 0))
    return json_false();
  return json_deep_copy(value);
}

static json_t *as_number(const json_t *value) {
  const char *text = json_string_value(value);
  double real = json_real_value(value);
  if (json_is_real(value) && real > -1e15 && real < 1e15) {
    json_int_t whole = (json_int_t)real;
    if (!((double)whole < real) && !((double)whole > real))
      return json_integer(whole);
  }
  if (text && *text && strlen(text) < 16 && strspn(text, "0123456789") == strlen(text))
    return json_integer(strtoll(text, NULL, 10));
  return json_deep_copy(value);
}

static json_t *as_code(const json_t *value) {
  char upper[32];
  const char *text = json_string_value(value);
  if (!text || strlen(text) >= sizeof upper)
    return json_deep_copy(value);
  size_t i = 0;
  for (; text[i]; i++)
    upper[i] = (char)toupper((unsigned char)text[i]);
  upper[i] = '\0';
  return json_string(upper);
}

static json_t *as_prefix(const json_t *value) {
  char text[64], again[INET6_ADDRSTRLEN], out[INET6_ADDRSTRLEN + 8];
  uint8_t octets[16];
  snprintf(text, sizeof text, "%s", json_is_string(value) ? json_string_value(value) : "");
  char *slash = strchr(text, '/');
  int family = strchr(text, ':') ? AF_INET6 : AF_INET;
  if (slash)
    *slash = '\0';
  if (!slash || inet_pton(family, text, octets) != 1 ||
      !inet_ntop(family, octets, again, sizeof again))
    return json_deep_copy(value);
  snprintf(out, sizeof out, "%s/%.4s", again, slash + 1);
  return json_string(out);
}

/* Each item by `as`, sorted; one that is no list is a list of one. */
static json_t *as_list(const json_t *value, json_t *(*as)(const json_t *)) {
  json_t *list = json_array();
  if (!list)
    return NULL;
  if (!json_is_array(value))
    json_array_append_new(list, as(value));
  for (size_t i = 0; i < json_array_size(value); i++)
    json_array_append_new(list, as(json_array_get(value, i)));
  json_t *out = sort_list(list, true);
  json_decref(list);
  return out;
}

static json_t *meta_value(const char *key, const json_t *value) {
  if (strcmp(key, "up") == 0)
    return as_truth(value);
  if (strcmp(key, "priority") == 0 || strcmp(key, "weight") == 0)
    return as_number(value);
  if (strcmp(key, "country") == 0 || strcmp(key, "georegion") == 0 ||
      strcmp(key, "us_state") == 0 || strcmp(key, "ca_province") == 0)
    return as_list(value, as_code);
  if (strcmp(key, "ip_prefixes") == 0)
    return as_list(value, as_prefix);
  if (strcmp(key, "asn") == 0)
    return as_list(value, as_number);
  return sorted(value, 0);
}

/* Sets what `meta` says into `out`.  A false or 0 of these three is not the same as none. */
static bool take_meta(const json_t *meta, json_t *out) {
  const char *key;
  json_t *value;
  bool ok = true;
  if (!ns1_is_neutral(meta) && !json_is_object(meta))
    return false;
  json_object_foreach((json_t *)(uintptr_t)meta, key, value) {
    bool counts =
        strcmp(key, "up") == 0 || strcmp(key, "priority") == 0 || strcmp(key, "weight") == 0;
    json_t *taken = meta_value(key, value);
    if (counts ? !json_is_null(value) : !ns1_is_neutral(taken))
      ok = ok && json_object_set(out, key, taken) == 0;
    json_decref(taken);
  }
  return ok;
}

/* ---- filters -------------------------------------------------------------------------------- */

static const char *const truths[] = {"remove_no_ip_prefixes", "remove_no_asn", "remove_no_location",
                                     "remove_no_georegion", "eliminate"};

/* Keys of `config` that we do not know are defaults of a newer version, and are no difference. */
static bool take_config(const json_t *config, json_t *out) {
  bool ok = true;
  for (size_t i = 0; i < sizeof truths / sizeof *truths; i++) {
    json_t *value = as_truth(json_object_get(config, truths[i]));
    if (!ns1_is_neutral(value))
      ok = json_object_set(out, truths[i], value) == 0 && ok;
    json_decref(value);
  }
  json_t *n = as_number(json_object_get(config, "N"));
  if (!ns1_is_neutral(n))
    ok = json_object_set(out, "N", n) == 0 && ok;
  json_decref(n);
  return ok;
}

static json_t *take_filters(const json_t *filters) {
  json_t *out = json_array();
  size_t i;
  const json_t *filter;
  bool ok = out && (ns1_is_neutral(filters) || json_is_array(filters));
  json_array_foreach(filters, i, filter) {
    const char *name = json_string_value(json_object_get(filter, "filter"));
    json_t *one = name ? json_pack("{s:s}", "filter", name) : NULL;
    ok = ok && one && take_config(json_object_get(filter, "config"), one);
    json_t *off = as_truth(json_object_get(filter, "disabled"));
    if (ok && !ns1_is_neutral(off))
      ok = json_object_set(one, "disabled", off) == 0;
    json_decref(off);
    if (!ok || json_array_append(out, one) != 0)
      ok = false;
    json_decref(one);
  }
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

/* ---- the record ----------------------------------------------------------------------------- */

static json_t *take_regions(const json_t *regions) {
  json_t *out = json_object();
  const char *name;
  json_t *region;
  bool ok = out && (ns1_is_neutral(regions) || json_is_object(regions));
  json_object_foreach((json_t *)(uintptr_t)regions, name, region) {
    json_t *one = json_object();
    ok = ok && one && take_meta(json_object_get(region, "meta"), one) &&
         json_object_set(out, name, one) == 0;
    json_decref(one);
  }
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

static json_t *take_answer(const char *type, const json_t *answer) {
  const json_t *region = json_object_get(answer, "region");
  char *text = ns1_answer_text(type, json_object_get(answer, "answer"));
  json_t *out = text ? json_pack("{s:s}", "rdata", text) : NULL;
  free(text);
  const json_t *meta = json_object_get(answer, "meta");
  bool ok = out && !json_object_get(meta, "rdata") && !json_object_get(meta, "region") &&
            take_meta(meta, out) && (ns1_is_neutral(region) || json_is_string(region));
  if (ok && !ns1_is_neutral(region))
    ok = json_object_set(out, "region", (json_t *)(uintptr_t)region) == 0;
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

static const char *region_of(const json_t *answer) {
  const char *region = json_string_value(json_object_get(answer, "region"));
  return region ? region : "";
}

/* Answers of one region beside each other, in the order of `order`; within by their text. */
static json_t *by_region(const json_t *answers, const json_t *order) {
  json_t *all = sort_list(answers, false);
  json_t *places = json_object();
  json_t *groups = json_array();
  json_t *out = json_array();
  size_t i;
  json_t *item;
  bool ok = all && places && groups && out;
  json_array_foreach(order, i, item) {
    ok = ok &&
         json_object_set_new(places, json_string_value(item), json_integer((json_int_t)i)) == 0;
    ok = ok && json_array_append_new(groups, json_array()) == 0;
  }
  json_array_foreach(all, i, item) {
    size_t at = (size_t)json_integer_value(json_object_get(places, region_of(item)));
    ok = ok && json_array_append(json_array_get(groups, at), item) == 0;
  }
  json_array_foreach(groups, i, item) ok = ok && json_array_extend(out, item) == 0;
  json_decref(all);
  json_decref(places);
  json_decref(groups);
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

static json_t *region_order(const json_t *answers) {
  json_t *seen = json_object();
  json_t *out = json_array();
  size_t i;
  const json_t *answer;
  bool ok = seen && out;
  json_array_foreach(answers, i, answer) {
    const char *region = region_of(answer);
    if (json_object_get(seen, region))
      continue;
    ok = ok && json_object_set_new(seen, region, json_true()) == 0 &&
         json_array_append_new(out, json_string(region)) == 0;
  }
  json_decref(seen);
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

static json_t *plain_rrset(json_int_t ttl, const json_t *answers) {
  json_t *values = json_array();
  size_t i;
  const json_t *answer;
  bool ok = values && json_array_size(answers) > 0;
  json_array_foreach(answers, i, answer) {
    ok = ok && json_object_size(answer) == 1 &&
         json_array_append(values, json_object_get(answer, "rdata")) == 0;
  }
  json_t *list = ok ? sort_list(values, true) : NULL;
  json_decref(values);
  return list ? json_pack("{s:I, s:o}", "ttl", ttl, "values", list) : NULL;
}

static bool has_meta(const json_t *answers) {
  size_t i;
  const json_t *answer;
  json_array_foreach(answers, i, answer) {
    if (json_object_size(answer) > 1)
      return true;
  }
  return false;
}

static json_t *steered(json_int_t ttl, const json_t *record, json_t *filters, json_t *regions,
                       const json_t *answers) {
  json_t *order = region_order(answers);
  json_t *list = order ? by_region(answers, order) : NULL;
  json_t *subnet = as_truth(json_object_get(record, "use_client_subnet"));
  json_t *out =
      list ? json_pack("{s:I, s:b, s:O, s:O, s:O, s:O}", "ttl", ttl, "subnet", json_is_true(subnet),
                       "filters", filters, "order", order, "regions", regions, "answers", list)
           : NULL;
  json_t *more = json_object();
  bool ok = out && more && take_meta(json_object_get(record, "meta"), more);
  if (ok && json_object_size(more) > 0)
    ok = json_object_set(out, "more", more) == 0;
  json_decref(more);
  json_decref(order);
  json_decref(list);
  json_decref(subnet);
  if (ok)
    return out;
  json_decref(out);
  return NULL;
}

static bool take_ttl(const json_t *record, json_int_t *ttl) {
  const json_t *value = json_object_get(record, "ttl");
  *ttl = json_integer_value(value);
  return json_is_integer(value) && *ttl >= 0 && *ttl <= TTL_MAX;
}

json_t *ns1_canonical(const char *type, const json_t *record) {
  json_int_t ttl;
  json_t *out = NULL;
  if (!take_ttl(record, &ttl) || !ns1_is_neutral(json_object_get(record, "link")))
    return NULL;
  json_t *filters = take_filters(json_object_get(record, "filters"));
  json_t *regions = take_regions(json_object_get(record, "regions"));
  json_t *answers = json_array();
  size_t i;
  const json_t *answer;
  bool ok = filters && regions && answers && json_is_array(json_object_get(record, "answers"));
  json_array_foreach(json_object_get(record, "answers"), i, answer) {
    json_t *one = ok ? take_answer(type, answer) : NULL;
    ok = one && json_array_append(answers, one) == 0;
    json_decref(one);
  }
  bool plain = ok && json_array_size(filters) == 0 && json_object_size(regions) == 0 &&
               ns1_is_neutral(json_object_get(record, "meta")) && !has_meta(answers);
  if (ok)
    out = plain ? plain_rrset(ttl, answers) : steered(ttl, record, filters, regions, answers);
  json_decref(filters);
  json_decref(regions);
  json_decref(answers);
  return out;
}

json_t *ns1_canonical_short(const char *type, const json_t *item) {
  json_int_t ttl = 0;
  json_t *values = json_array();
  size_t i;
  const json_t *answer;
  const json_t *list = json_object_get(item, "short_answers");
  bool ok = values && take_ttl(item, &ttl) && json_array_size(list) > 0 &&
            ns1_is_neutral(json_object_get(item, "link"));
  json_array_foreach(list, i, answer) {
    char *text = ok && json_is_string(answer) ? ns1_value(type, json_string_value(answer)) : NULL;
    ok = text && json_array_append_new(values, json_string(text)) == 0;
    free(text);
  }
  json_t *unique = ok ? sort_list(values, true) : NULL;
  json_decref(values);
  return unique ? json_pack("{s:I, s:o}", "ttl", ttl, "values", unique) : NULL;
}
