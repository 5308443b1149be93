/* SPDX-License-Identifier: Apache-2.0 */
#include "server/commit_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"

/* ---- values -----------------------------------------------------------------------------------
 */

static bool fail(char *why, const char *what, const char *rule) {
  snprintf(why, STORE_WHY, "%s: %s", what, rule);
  return false;
}

bool commit_request_text(const char *text, size_t most, const char *what, char *why) {
  if (text == NULL)
    return true;
  size_t length = strlen(text);
  if (length == 0 || length > most) {
    snprintf(why, STORE_WHY, "%s: must have 1 to %zu octets, not %zu", what, most, length);
    return false;
  }
  for (const unsigned char *c = (const unsigned char *)text; *c != 0; c++)
    if (*c < 0x20 || *c == 0x7f)
      return fail(why, what, "must be one line without control characters");
  return true;
}

/* An optional text: missing and null are the same. */
static bool read_text(const json_t *json, const char *key, size_t most, const char **text,
                      char *why) {
  const json_t *value = json_object_get(json, key);
  *text = json_string_value(value);
  if (value != NULL && !json_is_null(value) && *text == NULL)
    return fail(why, key, "must be a text or null");
  return commit_request_text(*text, most, key, why);
}

static bool read_number(const json_t *json, const char *key, int64_t least, int64_t most,
                        int64_t *number, char *why) {
  const json_t *value = json_object_get(json, key);
  *number = json_integer_value(value);
  if (value == NULL || json_is_null(value))
    *number = 0;
  else if (!json_is_integer(value))
    return fail(why, key, "must be a whole number");
  if (*number >= least && *number <= most)
    return true;
  snprintf(why, STORE_WHY, "%s: must be a number from %" PRId64 " to %" PRId64, key, least, most);
  return false;
}

/* The canonical text of a domain's name, in the request's memory. */
static bool read_domain(struct commit_request *request, const json_t *value, const char **domain,
                        char *why) {
  const char *text = json_string_value(value);
  uint8_t mixed[NAME_BUF], owner[NAME_BUF];
  char name[NAME_MAX_TEXT];
  const char *reason = "";
  if (text == NULL)
    return fail(why, "domain", "must be the name of a domain");
  if (name_from_text(mixed, text, strlen(text), NULL, &reason) == 0) {
    snprintf(why, STORE_WHY, "domain: `%.200s` is no domain name: %s", text, reason);
    return false;
  }
  name_copy_lower(owner, mixed);
  name_to_text(name, owner);
  *domain = arena_copy(&request->memory, name, strlen(name) + 1, 0);
  return *domain != NULL || fail(why, "domain", "out of memory");
}

/* A JSON value as text, in the request's memory. */
static bool dump(struct commit_request *request, const json_t *value, const char **text,
                 char *why) {
  char *dumped = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
  size_t length = dumped != NULL ? strlen(dumped) : 0;
  *text = NULL;
  if (dumped == NULL)
    return fail(why, "what", "cannot be kept");
  if (length <= COMMIT_WHAT)
    *text = arena_copy(&request->memory, dumped, length + 1, 0);
  free(dumped);
  if (*text != NULL)
    return true;
  return length > COMMIT_WHAT ? fail(why, "what", "must have at most 65536 octets")
                              : fail(why, "what", "out of memory");
}

/* An array of at most `most` items, and room for as many of `size`; NULL stands for an empty one.
 */
static bool read_list(struct commit_request *request, const json_t *json, const char *key,
                      size_t most, size_t size, void **items, size_t *count, char *why) {
  const json_t *list = json_object_get(json, key);
  if (list != NULL && !json_is_null(list) && !json_is_array(list))
    return fail(why, key, "must be a list");
  *count = json_array_size(list);
  if (*count > most) {
    snprintf(why, STORE_WHY, "%s: at most %zu are possible in one request", key, most);
    return false;
  }
  *items = arena_alloc(&request->memory, (*count + 1) * size, 16);
  if (*items == NULL)
    return fail(why, key, "out of memory");
  memset(*items, 0, (*count + 1) * size);
  return true;
}

/* Puts where it is in front of a message. */
static bool fail_at(const char *list, size_t at, char *why) {
  char reason[STORE_WHY];
  snprintf(reason, sizeof reason, "%s", why);
  snprintf(why, STORE_WHY, "%s[%zu]: %.400s", list, at, reason);
  return false;
}

/* ---- changes ----------------------------------------------------------------------------------
 */

static bool read_kind(const json_t *json, struct store_key *key, char *why) {
  static const char *const names[] = {
      [STORE_WEIGHT] = "weight", [STORE_STATUS] = "status", [STORE_HEALTH] = "health"};
  const char *text = json_string_value(json_object_get(json, "kind"));
  for (int i = STORE_WEIGHT; text != NULL && i <= STORE_HEALTH; i++) {
    if (strcmp(text, names[i]) == 0) {
      key->kind = (enum store_kind)i;
      return true;
    }
  }
  return fail(why, "kind", "must be `weight`, `status` or `health`");
}

/* What else tells an override from others depends on its kind. */
static bool read_place(const json_t *json, struct store_key *key, char *why) {
  int64_t number;
  key->region = "";
  switch (key->kind) {
  case STORE_WEIGHT:
    if (!read_text(json, "region", COMMIT_NAME, &key->region, why))
      return false;
    if (key->region == NULL)
      return fail(why, "region", "a weight belongs to a region");
    if (!read_number(json, "level", 1, UINT16_MAX, &number, why))
      return false;
    key->level = (uint32_t)number;
    return true;
  case STORE_HEALTH:
    if (!read_number(json, "family", 4, 6, &number, why) || number == 5)
      return fail(why, "family", "must be 4 or 6");
    key->family = (uint8_t)number;
    return true;
  default:
    return true;
  }
}

static bool read_value(const json_t *json, struct store_override *override, char *why) {
  int64_t number;
  bool weight = override->key.kind == STORE_WEIGHT;
  if (!json_is_integer(json_object_get(json, "value")))
    return fail(why, "value", "must be a whole number");
  if (!read_number(json, "value", weight ? 0 : 1, weight ? UINT16_MAX : 2, &number, why))
    return false;
  override->value = (int32_t)number;
  return read_number(json, "expires_at", 0, INT64_MAX / 2000, &override->expires_at, why) &&
         read_text(json, "reason", COMMIT_TEXT, &override->reason, why) &&
         read_text(json, "cause", COMMIT_NAME, &override->cause, why);
}

/* "" has its meaning: there was no override before. */
static bool read_before(const json_t *json, struct store_override *override, char *why) {
  const json_t *value = json_object_get(json, "before");
  override->before = json_string_value(value);
  if (override->before == NULL || override->before[0] == '\0')
    return value == NULL || json_is_null(value) || override->before != NULL ||
           fail(why, "before", "must be a text or null");
  return commit_request_text(override->before, COMMIT_WHAT, "before", why);
}

static bool read_change(struct commit_request *request, const json_t *json,
                        struct store_change *change, char *why) {
  const char *op = json_string_value(json_object_get(json, "op"));
  struct store_key *key = &change->override.key;
  change->drop = op != NULL && strcmp(op, "drop") == 0;
  if (!change->drop && (op == NULL || strcmp(op, "set") != 0))
    return fail(why, "op", "must be `set` or `drop`");
  if (!read_domain(request, json_object_get(json, "domain"), &key->domain, why) ||
      !read_kind(json, key, why) || !read_text(json, "endpoint", COMMIT_NAME, &key->endpoint, why))
    return false;
  if (key->endpoint == NULL)
    return fail(why, "endpoint", "must be the name of an endpoint");
  if (!read_place(json, key, why))
    return false;
  return change->drop ||
         (read_value(json, &change->override, why) && read_before(json, &change->override, why));
}

/* ---- the rest ---------------------------------------------------------------------------------
 */

static bool read_expect(struct commit_request *request, const json_t *json,
                        struct store_expect *expect, char *why) {
  const json_t *revision = json_array_get(json, 1);
  if (json_array_size(json) != 2 || !json_is_integer(revision) || json_integer_value(revision) < 0)
    return fail(why, "expect", "must be [DOMAIN, REVISION]");
  expect->revision = (uint64_t)json_integer_value(revision);
  return read_domain(request, json_array_get(json, 0), &expect->domain, why);
}

static bool read_audit(struct commit_request *request, const json_t *json,
                       struct store_audit *audit, char *why) {
  const json_t *what = json_object_get(json, "what");
  if (!read_text(json, "command", COMMIT_NAME, &audit->command, why) ||
      !read_text(json, "reason", COMMIT_TEXT, &audit->reason, why) ||
      !read_domain(request, json_object_get(json, "domain"), &audit->domain, why))
    return false;
  if (audit->command == NULL)
    return fail(why, "command", "must tell what was done");
  if (!json_is_object(what))
    return fail(why, "what", "must be an object");
  return dump(request, what, &audit->what, why);
}

static bool read_lists(struct commit_request *r, const json_t *json, char *why) {
  struct store_batch *batch = &r->batch;
  if (!read_list(r, json, "expect", COMMIT_EXPECTS, sizeof *r->expect, (void **)&r->expect,
                 &batch->expect_count, why) ||
      !read_list(r, json, "changes", COMMIT_CHANGES, sizeof *r->changes, (void **)&r->changes,
                 &batch->change_count, why) ||
      !read_list(r, json, "audits", COMMIT_AUDITS, sizeof *r->audits, (void **)&r->audits,
                 &batch->audit_count, why))
    return false;
  const json_t *list = json_object_get(json, "expect");
  for (size_t i = 0; i < batch->expect_count; i++)
    if (!read_expect(r, json_array_get(list, i), &r->expect[i], why))
      return fail_at("expect", i, why);
  list = json_object_get(json, "changes");
  for (size_t i = 0; i < batch->change_count; i++)
    if (!read_change(r, json_array_get(list, i), &r->changes[i], why))
      return fail_at("changes", i, why);
  list = json_object_get(json, "audits");
  for (size_t i = 0; i < batch->audit_count; i++)
    if (!read_audit(r, json_array_get(list, i), &r->audits[i], why))
      return fail_at("audits", i, why);
  return true;
}

bool commit_request_read(struct commit_request *request, const json_t *json, char *why) {
  *request = (struct commit_request){.as = NULL};
  arena_init(&request->memory);
  if (!read_text(json, "request", COMMIT_NAME, &request->batch.request, why) ||
      !read_text(json, "as", COMMIT_NAME, &request->as, why) ||
      !read_text(json, "origin", COMMIT_TEXT, &request->origin, why) ||
      !read_lists(request, json, why))
    return false;
  request->batch.expect = request->expect;
  request->batch.changes = request->changes;
  request->batch.audits = request->audits;
  return true;
}

void commit_request_close(struct commit_request *request) {
  arena_close(&request->memory);
}
