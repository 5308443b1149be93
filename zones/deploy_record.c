/* SPDX-License-Identifier: Apache-2.0 */
#include "zones/deploy_record.h"

#include <stdio.h>
#include <string.h>

#include "base/name.h"
#include "zones/build_lists.h"
#include "zones/serial.h"

enum { FORMAT = 1, SHA = 64 };

static bool bad(char *why, const char *key) {
  snprintf(why, DEPLOY_RECORD_WHY, "the deploy record is damaged: `%s` is not as it must be", key);
  return false;
}

static bool is_hex(const char *text, size_t digits) {
  return text && strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static bool take_hex(const json_t *root, const char *key, size_t digits, char *out, char *why) {
  const char *text = json_string_value(json_object_get(root, key));
  if (!is_hex(text, digits))
    return bad(why, key);
  memcpy(out, text, digits + 1);
  return true;
}

static bool take_number(const json_t *root, const char *key, int64_t least, int64_t *out,
                        char *why) {
  const json_t *value = json_object_get(root, key);
  *out = json_integer_value(value);
  return (json_is_integer(value) && *out >= least) || bad(why, key);
}

static bool take_text(const json_t *root, const char *key, char out[DEPLOY_RECORD_TEXT],
                      char *why) {
  const json_t *value = json_object_get(root, key);
  if (json_is_string(value) && json_string_length(value) < DEPLOY_RECORD_TEXT)
    deploy_record_text(out, json_string_value(value));
  else
    return bad(why, key);
  return true;
}

static bool take_kind(struct deploy_record *record, const json_t *root, char *why) {
  const char *kind = json_string_value(json_object_get(root, "kind"));
  if (kind && !strcmp(kind, "push")) {
    record->kind = DEPLOY_PUSH;
    return true;
  }
  if (!kind || strcmp(kind, "rollback") != 0)
    return bad(why, "kind");
  record->kind = DEPLOY_ROLLBACK;
  return take_number(root, "of", 1, &record->of, why);
}

/* A new object with just what is known. */
static json_t *take_zones(const json_t *root, const char *key, char *why) {
  const json_t *zones = json_object_get(root, key);
  const char *name;
  json_t *entry;
  json_t *out = json_is_object(zones) ? json_object() : NULL;
  if (!out) {
    bad(why, key);
    return NULL;
  }
  json_object_foreach((json_t *)zones, name, entry) {
    const json_t *serial = json_object_get(entry, "serial");
    const char *input = json_string_value(json_object_get(entry, "input"));
    if (strlen(name) < NAME_MAX_TEXT && serial_is_valid(serial) && is_hex(input, SHA) &&
        json_object_set_new(
            out, name,
            json_pack("{s:I, s:s}", "serial", json_integer_value(serial), "input", input)) == 0)
      continue;
    bad(why, key);
    json_decref(out);
    return NULL;
  }
  return out;
}

static bool take_all(struct deploy_record *record, const json_t *root, char *why) {
  int64_t format;
  if (!json_is_object(root))
    return bad(why, "{}");
  if (!take_number(root, "format", 1, &format, why))
    return false;
  if (format != FORMAT) {
    snprintf(why, DEPLOY_RECORD_WHY,
             "the deploy record has format %lld, of a newer sluice; update this one",
             (long long)format);
    return false;
  }
  if (!json_is_null(json_object_get(root, "origin")) &&
      !take_text(root, "origin", record->origin, why))
    return false;
  return take_number(root, "deploy", 1, &record->number, why) &&
         take_hex(root, "commit", 40, record->commit, why) &&
         take_number(root, "at", 0, &record->at, why) && take_text(root, "who", record->who, why) &&
         take_kind(record, root, why) && take_hex(root, "build", 16, record->build, why) &&
         (record->zones = take_zones(root, "zones", why)) != NULL &&
         (record->retired = take_zones(root, "retired", why)) != NULL;
}

bool deploy_record_read(struct deploy_record *record, const void *text, size_t len, char *why) {
  memset(record, 0, sizeof *record);
  json_error_t error;
  json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
  bool ok = root;
  if (!ok)
    snprintf(why, DEPLOY_RECORD_WHY, "the deploy record is damaged: line %d, column %d: %.100s",
             error.line, error.column, error.text);
  ok = ok && take_all(record, root, why);
  json_decref(root);
  if (!ok)
    deploy_record_close(record);
  return ok;
}

void deploy_record_close(struct deploy_record *record) {
  json_decref(record->zones);
  json_decref(record->retired);
  memset(record, 0, sizeof *record);
}

/* ---- writing ----------------------------------------------------------------------------------
 */

bool deploy_record_write(const struct deploy_record *record, struct buf *out) {
  json_t *of = record->kind == DEPLOY_ROLLBACK ? json_integer(record->of) : json_null();
  return build_dump(json_pack("{s:i, s:I, s:s, s:I, s:s, s:s?, s:s, s:o, s:s, s:O, s:O}", "format",
                              FORMAT, "deploy", (json_int_t)record->number, "commit",
                              record->commit, "at", (json_int_t)record->at, "who", record->who,
                              "origin", record->origin[0] ? record->origin : NULL, "kind",
                              record->kind == DEPLOY_ROLLBACK ? "rollback" : "push", "of", of,
                              "build", record->build, "zones", record->zones, "retired",
                              record->retired),
                    out);
}

/* Octets of the UTF-8 character at `p`, 0 if there is none (RFC 3629 section 4). */
static size_t character(const unsigned char *p) {
  if (*p < 0x80)
    return 1;
  size_t n = *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : *p >= 0xc2 ? 2 : 0;
  for (size_t i = 1; i < n; i++)
    if ((p[i] & 0xc0) != 0x80)
      return 0;
  bool low = (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xf0 && p[1] < 0x90);
  bool high = (*p == 0xed && p[1] > 0x9f) || (*p == 0xf4 && p[1] > 0x8f) || *p > 0xf4;
  return low || high ? 0 : n;
}

void deploy_record_text(char out[DEPLOY_RECORD_TEXT], const char *text) {
  const unsigned char *p = (const unsigned char *)text;
  size_t used = 0;
  while (*p) {
    size_t n = character(p);
    bool plain = n > 1 || (n == 1 && *p >= 0x20 && *p != 0x7f && *p != '<' && *p != '>');
    size_t need = plain ? n : 1;
    if (used + need >= DEPLOY_RECORD_TEXT)
      break;
    if (plain)
      memcpy(out + used, p, n);
    else
      out[used] = '?';
    used += need;
    p += n ? n : 1;
  }
  out[used] = 0;
}
