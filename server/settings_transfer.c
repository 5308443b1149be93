/* SPDX-License-Identifier: Apache-2.0 */
#include "server/settings_transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

enum { SECRET_FILE_MAX = 4096, REASON = 400 };
_Static_assert((int)FS_WHY >= (int)TSIG_WHY, "one buffer for the reasons of both");

bool settings_transfer_init(struct settings_transfer *transfer) {
  static const struct tsig_policy policy = {.allow_md5 = true};
  *transfer = (struct settings_transfer){.keys = tsig_keys_new(&policy)};
  return transfer->keys != NULL;
}

void settings_transfer_close(struct settings_transfer *transfer) {
  tsig_keys_free(transfer->keys);
  transfer_policy_free(transfer->policy);
  *transfer = (struct settings_transfer){.keys = NULL};
}

bool settings_transfer_knows(const char *key) {
  return strcmp(key, "keys") == 0 || strcmp(key, "transfer") == 0;
}

static bool fail_at(const char *path, const struct yaml_node *node, const char *what,
                    const char *reason, char *why) {
  snprintf(why, SETTINGS_TRANSFER_WHY, "%.120s:%u:%u: `%.60s`: %.300s", path, node->line,
           node->column, what, reason);
  return false;
}

/* ---- keys -------------------------------------------------------------------------------------
 */

struct key_parts {
  const char *algorithm;
  struct yaml_node *secret;
  const char *secret_file;
};

static bool take_part(struct key_parts *parts, const struct yaml_pair *pair, char *reason) {
  const char *name = pair->key->text;
  if (pair->value->kind != YAML_SCALAR) {
    snprintf(reason, REASON, "`%.40s` must be a single value", name);
    return false;
  }
  if (strcmp(name, "algorithm") == 0)
    parts->algorithm = pair->value->text;
  else if (strcmp(name, "secret") == 0)
    parts->secret = pair->value;
  else if (strcmp(name, "secret_file") == 0)
    parts->secret_file = pair->value->text;
  else {
    snprintf(reason, REASON,
             "unknown key `%.40s` (a TSIG key has `algorithm`, `secret`, `secret_file`)", name);
    return false;
  }
  return true;
}

/* Adds a key whose secret stands in a file of its own. */
static bool add_from_file(struct settings_transfer *transfer, const char *name,
                          const struct key_parts *parts, char *reason) {
  uint8_t *text = NULL;
  size_t length = 0;
  char why[FS_WHY];
  bool ok = fs_read(parts->secret_file, SECRET_FILE_MAX, &text, &length, why);
  if (ok) {
    char *secret = (char *)text;
    size_t start = strspn(secret, " \t\r\n");
    secret[start + strcspn(secret + start, " \t\r\n")] = '\0';
    ok = tsig_keys_add(transfer->keys, name, parts->algorithm, secret + start, why);
    explicit_bzero(text, length);
  }
  free(text);
  if (!ok)
    snprintf(reason, REASON, "%.300s", why);
  return ok;
}

static bool add_key(struct settings_transfer *transfer, const char *name,
                    const struct key_parts *parts, char *reason) {
  if ((parts->secret != NULL) == (parts->secret_file != NULL)) {
    snprintf(reason, REASON, "needs one of `secret` (base64) and `secret_file` (a path)");
    return false;
  }
  if (parts->secret_file != NULL)
    return add_from_file(transfer, name, parts, reason);
  char why[TSIG_WHY];
  bool ok = tsig_keys_add(transfer->keys, name, parts->algorithm, parts->secret->text, why);
  explicit_bzero(parts->secret->text, parts->secret->len);
  if (!ok)
    snprintf(reason, REASON, "%.300s", why);
  return ok;
}

static bool take_keys(struct settings_transfer *transfer, const char *path,
                      const struct yaml_node *keys, char *why) {
  if (keys->kind != YAML_MAP)
    return fail_at(path, keys, "keys", "must be a map: NAME: {algorithm: ..., secret: ...}", why);
  for (size_t i = 0; i < keys->count; i++) {
    const struct yaml_pair *pair = &keys->pairs[i];
    struct key_parts parts = {.algorithm = "hmac-sha256"};
    char reason[REASON] = "must be a map: {algorithm: ..., secret: ...}";
    bool ok = pair->value->kind == YAML_MAP;
    for (size_t k = 0; ok && k < pair->value->count; k++)
      ok = take_part(&parts, &pair->value->pairs[k], reason);
    if (!ok || !add_key(transfer, pair->key->text, &parts, reason))
      return fail_at(path, pair->key, pair->key->text, reason, why);
  }
  return true;
}

/* ---- the policy for zones without one ---------------------------------------------------------
 */

/* A scalar as a text; a list as a list of texts, as is a single value where `list`. */
static json_t *to_json(const struct yaml_node *node, bool list) {
  if (node->kind == YAML_SCALAR && !list)
    return json_string(node->text);
  json_t *json = json_array();
  if (node->kind == YAML_SCALAR) {
    json_array_append_new(json, json_string(node->text));
    return json;
  }
  for (size_t i = 0; node->kind == YAML_LIST && i < node->count; i++)
    json_array_append_new(json, node->items[i]->kind == YAML_SCALAR
                                    ? json_string(node->items[i]->text)
                                    : json_null());
  if (node->kind == YAML_LIST)
    return json;
  json_decref(json);
  return json_null();
}

static bool take_policy(struct settings_transfer *transfer, const char *path,
                        const struct yaml_node *section, char *why) {
  char reason[TRANSFER_POLICY_WHY] = "must be a map with `allow`, `tsig` or `notify`";
  if (section->kind != YAML_MAP)
    return fail_at(path, section, "transfer", reason, why);
  json_t *json = json_object();
  for (size_t i = 0; i < section->count; i++) {
    const char *key = section->pairs[i].key->text;
    bool list = strcmp(key, "tsig") != 0;
    if (list && strcmp(key, "allow") != 0 && strcmp(key, "notify") != 0) {
      json_decref(json);
      return fail_at(path, section->pairs[i].key, key,
                     "unknown key (`transfer` has `allow`, `tsig`, `notify`)", why);
    }
    json_object_set_new(json, key, to_json(section->pairs[i].value, list));
  }
  struct transfer_policy *policy = transfer_policy_read(json, reason);
  json_decref(json);
  if (policy == NULL)
    return fail_at(path, section, "transfer", reason, why);
  transfer_policy_free(transfer->policy);
  transfer->policy = policy;
  return true;
}

bool settings_transfer_take(struct settings_transfer *transfer, const char *path,
                            const struct yaml_pair *section, char *why) {
  return strcmp(section->key->text, "keys") == 0 ? take_keys(transfer, path, section->value, why)
                                                 : take_policy(transfer, path, section->value, why);
}
