/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sync/import_health.h"

#include <stdio.h>
#include <string.h>

json_t *import_health_common(const json_t *health) {
  json_t *out = NULL;
  const char *name;
  json_t *settings;
  json_object_foreach((json_t *)(uintptr_t)health, name, settings) {
    const char *key;
    json_t *value;
    void *next;
    if (!out) {
      out = json_copy(settings);
      continue;
    }
    json_object_foreach_safe(out, next, key, value) {
      const json_t *other = json_object_get(settings, key);
      if (!other || !json_equal(value, other))
        json_object_del(out, key);
    }
  }
  return out;
}

json_t *import_health_own(const json_t *settings, const json_t *common) {
  const char *key;
  json_t *value;
  if (!settings)
    return NULL;
  json_t *out = json_copy((json_t *)(uintptr_t)settings);
  json_object_foreach((json_t *)(uintptr_t)common, key, value) json_object_del(out, key);
  return out;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* "10s", or "1500ms". */
static void write_time(struct yaml_out *yaml, const json_t *value) {
  char text[40];
  json_int_t ms = json_integer_value(value);
  snprintf(text, sizeof text, "%lld%s", (long long)(ms % 1000 ? ms : ms / 1000),
           ms % 1000 ? "ms" : "s");
  yaml_out_text(yaml, text);
}

static void write_scalar(struct yaml_out *yaml, const json_t *value) {
  const char *text = json_string_value(value);
  if (json_is_boolean(value))
    yaml_out_bool(yaml, json_is_true(value));
  else if (json_is_integer(value) && json_integer_value(value) >= 0)
    yaml_out_number(yaml, (uint64_t)json_integer_value(value));
  else
    yaml_out_text(yaml, text ? text : "");
}

/* [[200, 299], [301, 301]] as [200-299, 301]. */
static void write_ranges(struct yaml_out *yaml, const json_t *ranges) {
  size_t i;
  const json_t *range;
  yaml_out_list(yaml, true);
  json_array_foreach(ranges, i, range) {
    char text[48];
    json_int_t from = json_integer_value(json_array_get(range, 0));
    json_int_t to = json_integer_value(json_array_get(range, 1));
    int n = snprintf(text, sizeof text, "%lld", (long long)from);
    if (to != from)
      snprintf(text + n, sizeof text - (size_t)n, "-%lld", (long long)to);
    yaml_out_text(yaml, text);
  }
  yaml_out_end_list(yaml);
}

static void write_expect(struct yaml_out *yaml, const json_t *expect) {
  static const char *const texts[] = {"body", "data", "rcode"};
  const json_t *status = json_object_get(expect, "status");
  yaml_out_map(yaml, true);
  if (json_array_size(status) > 0) {
    yaml_out_text(yaml, "status");
    write_ranges(yaml, status);
  }
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const json_t *value = json_object_get(expect, texts[i]);
    if (!value)
      continue;
    yaml_out_text(yaml, texts[i]);
    write_scalar(yaml, value);
  }
  yaml_out_end_map(yaml);
}

static void write_damping(struct yaml_out *yaml, const json_t *damping) {
  yaml_out_map(yaml, true);
  yaml_out_text(yaml, "changes");
  write_scalar(yaml, json_object_get(damping, "changes"));
  yaml_out_text(yaml, "within");
  write_time(yaml, json_object_get(damping, "within"));
  yaml_out_text(yaml, "hold");
  write_time(yaml, json_object_get(damping, "hold"));
  yaml_out_end_map(yaml);
}

static void write_headers(struct yaml_out *yaml, const json_t *headers) {
  const char *name;
  json_t *value;
  yaml_out_map(yaml, true);
  json_object_foreach((json_t *)(uintptr_t)headers, name, value) {
    yaml_out_text(yaml, name);
    write_scalar(yaml, value);
  }
  yaml_out_end_map(yaml);
}

void import_health_write(struct yaml_out *yaml, const json_t *settings) {
  static const char *const times[] = {"interval", "timeout"};
  const json_t *headers = json_object_get(settings, "headers");
  static const char *const scalars[] = {
      "rise", "fall", "port",   "path",  "host",   "method", "verify", "follow_redirects",
      "send", "name", "rrtype", "check", "ca_file"};
  const json_t *type = json_object_get(settings, "type");
  const json_t *expect = json_object_get(settings, "expect");
  yaml_out_map(yaml, true);
  if (type) {
    yaml_out_text(yaml, "type");
    write_scalar(yaml, type);
  }
  for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
    const json_t *value = json_object_get(settings, scalars[i]);
    if (!value)
      continue;
    yaml_out_text(yaml, scalars[i]);
    write_scalar(yaml, value);
  }
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    const json_t *value = json_object_get(settings, times[i]);
    if (!value)
      continue;
    yaml_out_text(yaml, times[i]);
    write_time(yaml, value);
  }
  if (json_object_get(settings, "damping")) {
    yaml_out_text(yaml, "damping");
    write_damping(yaml, json_object_get(settings, "damping"));
  }
  if (json_object_size(headers) > 0) {
    yaml_out_text(yaml, "headers");
    write_headers(yaml, headers);
  }
  if (expect) {
    yaml_out_text(yaml, "expect");
    write_expect(yaml, expect);
  }
  yaml_out_end_map(yaml);
}
