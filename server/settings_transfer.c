/* SPDX-License-Identifier: Apache-2.0 */
#include "server/settings_transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/fs.h"
#include "server/settings_fail.h"

enum { SECRET_FILE_MAX = 4096, REASON = 400 };
_Static_assert((int)SETTINGS_TRANSFER_WHY == (int)SETTINGS_FAIL_WHY, "one size for all reasons");

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

/* ---- keys -------------------------------------------------------------------------------------
 */

struct reading {
  struct settings_transfer *transfer;
  const char *path;
  char *why;
};

static bool fail_at(const struct reading *r, const struct yaml_node *at, const char *what,
                    const char *reason) {
  return settings_fail(r->path, at, what, reason, r->why);
}

struct key_parts {
  const struct yaml_node *name;
  const struct yaml_node *algorithm; /* NULL: hmac-sha256 */
  struct yaml_node *secret;
  const struct yaml_node *secret_file;
};

static bool take_part(const struct reading *r, struct key_parts *parts,
                      const struct yaml_pair *pair) {
  const char *name = pair->key->text;
  char reason[REASON];
  if (pair->value->kind != YAML_SCALAR) {
    snprintf(reason, REASON, "`%.40s` must be a single value", name);
    return fail_at(r, pair->value, parts->name->text, reason);
  }
  if (strcmp(name, "algorithm") == 0)
    parts->algorithm = pair->value;
  else if (strcmp(name, "secret") == 0)
    parts->secret = pair->value;
  else if (strcmp(name, "secret_file") == 0)
    parts->secret_file = pair->value;
  else {
    snprintf(reason, REASON,
             "unknown key `%.40s` (a TSIG key has `algorithm`, `secret`, `secret_file`)", name);
    return fail_at(r, pair->key, parts->name->text, reason);
  }
  return true;
}

/* The value for which tsig_keys_add() has refused the key. */
static const struct yaml_node *blamed(const struct tsig_keys *keys, const struct key_parts *parts) {
  uint8_t name[NAME_BUF];
  const char *wrong;
  if (name_from_text(name, parts->name->text, parts->name->len, NULL, &wrong) == 0 ||
      tsig_keys_find(keys, name) != NULL)
    return parts->name;
  if (parts->algorithm != NULL && !tsig_algorithm_known(parts->algorithm->text))
    return parts->algorithm;
  return parts->secret != NULL ? parts->secret : parts->secret_file;
}

static bool add(const struct reading *r, const struct key_parts *parts, const char *secret) {
  char why[TSIG_WHY];
  struct tsig_keys *keys = r->transfer->keys;
  const char *algorithm = parts->algorithm != NULL ? parts->algorithm->text : "hmac-sha256";
  return tsig_keys_add(keys, parts->name->text, algorithm, secret, why) ||
         fail_at(r, blamed(keys, parts), parts->name->text, why);
}

/* Adds a key whose secret stands in a file of its own. */
static bool add_from_file(const struct reading *r, const struct key_parts *parts) {
  uint8_t *text = NULL;
  size_t length = 0;
  char why[FS_WHY];
  if (!fs_read(parts->secret_file->text, SECRET_FILE_MAX, &text, &length, why))
    return fail_at(r, parts->secret_file, parts->name->text, why);
  char *secret = (char *)text;
  size_t start = strspn(secret, " \t\r\n");
  secret[start + strcspn(secret + start, " \t\r\n")] = '\0';
  bool ok = add(r, parts, secret + start);
  explicit_bzero(text, length);
  free(text);
  return ok;
}

static bool add_key(const struct reading *r, const struct key_parts *parts) {
  if ((parts->secret != NULL) == (parts->secret_file != NULL))
    return fail_at(r, parts->name, parts->name->text,
                   "needs one of `secret` (base64) and `secret_file` (a path)");
  if (parts->secret_file != NULL)
    return add_from_file(r, parts);
  bool ok = add(r, parts, parts->secret->text);
  explicit_bzero(parts->secret->text, parts->secret->len);
  return ok;
}

static bool take_keys(const struct reading *r, const struct yaml_node *keys) {
  if (keys->kind != YAML_MAP)
    return fail_at(r, keys, "keys", "must be a map: NAME: {algorithm: ..., secret: ...}");
  for (size_t i = 0; i < keys->count; i++) {
    const struct yaml_pair *pair = &keys->pairs[i];
    struct key_parts parts = {.name = pair->key};
    if (pair->value->kind != YAML_MAP)
      return fail_at(r, pair->value, pair->key->text,
                     "must be a map: {algorithm: ..., secret: ...}");
    for (size_t k = 0; k < pair->value->count; k++)
      if (!take_part(r, &parts, &pair->value->pairs[k]))
        return false;
    if (!add_key(r, &parts))
      return false;
  }
  return true;
}

/* The name of the key that is nearest to `word`, in `best` (NAME_MAX_TEXT octets), or "". */
static void find_nearest(const struct tsig_keys *keys, const char *word, char *best) {
  char text[NAME_MAX_TEXT];
  const struct tsig_key *key;
  best[0] = '\0';
  for (size_t i = 0; (key = tsig_keys_at(keys, i)) != NULL; i++) {
    const char *const two[] = {best, name_to_text(text, tsig_key_name(key))};
    if (diag_nearest(word, two, 2) == text)
      strcpy(best, text);
  }
}

const struct tsig_key *settings_transfer_find_key(const struct tsig_keys *keys, const uint8_t *name,
                                                  const char *path, struct settings_place at,
                                                  char *why) {
  char text[NAME_MAX_TEXT], near[NAME_MAX_TEXT], reason[REASON];
  const struct tsig_key *key = tsig_keys_find(keys, name);
  if (key != NULL)
    return key;
  find_nearest(keys, name_to_text(text, name), near);
  if (near[0] != '\0')
    snprintf(reason, REASON, "there is no key %.160s in `keys:` (did you mean `%.160s`?)", text,
             near);
  else
    snprintf(reason, REASON, "there is no key %.160s in `keys:`; add it there, or name one of them",
             text);
  settings_fail_at(path, at, "tsig", reason, why);
  return NULL;
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

/* The first item of the value under `key` that is wrong by itself, or the value as a whole. */
static const struct yaml_node *find_wrong(const char *key, const struct yaml_node *value) {
  char ignored[TRANSFER_POLICY_WHY];
  for (size_t i = 0; value->kind == YAML_LIST && i < value->count; i++) {
    json_t *one = json_pack("{s:o}", key, to_json(value->items[i], true));
    struct transfer_policy *policy = transfer_policy_read(one, ignored);
    bool ok = policy != NULL;
    transfer_policy_free(policy);
    json_decref(one);
    if (!ok)
      return value->items[i];
  }
  return value;
}

static bool check_pair(const struct reading *r, const struct yaml_pair *pair, bool list) {
  const char *key = pair->key->text;
  char reason[TRANSFER_POLICY_WHY];
  json_t *alone = json_pack("{s:o}", key, to_json(pair->value, list));
  struct transfer_policy *policy = transfer_policy_read(alone, reason);
  json_decref(alone);
  if (policy == NULL)
    return fail_at(r, list ? find_wrong(key, pair->value) : pair->value, "transfer", reason);
  transfer_policy_free(policy);
  return true;
}

static bool take_policy(const struct reading *r, const struct yaml_node *section) {
  char reason[TRANSFER_POLICY_WHY] = "must be a map with `allow`, `tsig` or `notify`";
  if (section->kind != YAML_MAP)
    return fail_at(r, section, "transfer", reason);
  json_t *json = json_object();
  for (size_t i = 0; i < section->count; i++) {
    const char *key = section->pairs[i].key->text;
    bool list = strcmp(key, "tsig") != 0;
    bool known = !list || strcmp(key, "allow") == 0 || strcmp(key, "notify") == 0;
    if (!known)
      fail_at(r, section->pairs[i].key, key,
              "unknown key (`transfer` has `allow`, `tsig`, `notify`)");
    if (!known || !check_pair(r, &section->pairs[i], list)) {
      json_decref(json);
      return false;
    }
    json_object_set_new(json, key, to_json(section->pairs[i].value, list));
    if (!list)
      r->transfer->key_at = settings_place_of(section->pairs[i].value);
  }
  struct transfer_policy *policy = transfer_policy_read(json, reason);
  json_decref(json);
  if (policy == NULL)
    return fail_at(r, section, "transfer", reason);
  transfer_policy_free(r->transfer->policy);
  r->transfer->policy = policy;
  r->transfer->path = r->path;
  return true;
}

bool settings_transfer_has_key(const struct settings_transfer *transfer, char *why) {
  const struct transfer_policy *policy = transfer->policy;
  return policy == NULL || !policy->has_key ||
         settings_transfer_find_key(transfer->keys, policy->key, transfer->path, transfer->key_at,
                                    why) != NULL;
}

bool settings_transfer_take(struct settings_transfer *transfer, const char *path,
                            const struct yaml_pair *section, char *why) {
  const struct reading r = {transfer, path, why};
  return strcmp(section->key->text, "keys") == 0 ? take_keys(&r, section->value)
                                                 : take_policy(&r, section->value);
}
