/* SPDX-License-Identifier: Apache-2.0 */
#include "server/settings_protect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/fs.h"

enum { THOUSANDTHS = 1000, CHAOS_MAX = 255, SECRETS_FILE_MAX = 4096 };

/* What a number of the map sets. */
struct limit_key {
  const char *name;
  uint32_t least, most;
  bool is_rate;
  enum ratelimit_category category;
};

static const struct limit_key limit_keys[] = {
    {"answers", 1, RATELIMIT_RATE_MAX / THOUSANDTHS, true, RATELIMIT_ANSWER},
    {"nodata", 1, RATELIMIT_RATE_MAX / THOUSANDTHS, true, RATELIMIT_NODATA},
    {"nxdomain", 1, RATELIMIT_RATE_MAX / THOUSANDTHS, true, RATELIMIT_NXDOMAIN},
    {"errors", 1, RATELIMIT_RATE_MAX / THOUSANDTHS, true, RATELIMIT_ERROR},
    {"all", 1, RATELIMIT_RATE_MAX / THOUSANDTHS, true, RATELIMIT_ALL},
    {"slip", 0, 255, false, 0},
    {"ipv4-prefix", 0, 32, false, 0},
    {"ipv6-prefix", 0, 128, false, 0},
    {"table", 1, RATELIMIT_BUCKETS_MAX, false, 0},
};
enum { LIMIT_KEYS = sizeof limit_keys / sizeof limit_keys[0] };

static bool fail_at(const char *path, const struct yaml_node *node, const char *reason, char *why) {
  snprintf(why, SETTINGS_PROTECT_WHY, "%.200s:%u:%u: %.260s", path, node->line, node->column,
           reason);
  return false;
}

static bool read_number(const struct limit_key *key, const char *text, uint32_t *value) {
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 9 || text[digits] != '\0' || (text[0] == '0' && digits > 1))
    return false;
  *value = (uint32_t)strtoul(text, NULL, 10);
  return *value >= key->least && *value <= key->most;
}

static void set_number(struct ratelimit_config *limit, const struct limit_key *key,
                       uint32_t value) {
  if (key->is_rate)
    limit->rate[key->category] = value * THOUSANDTHS;
  else if (strcmp(key->name, "slip") == 0)
    limit->slip = (uint8_t)value;
  else if (strcmp(key->name, "ipv4-prefix") == 0)
    limit->prefix_v4 = (uint8_t)value;
  else if (strcmp(key->name, "ipv6-prefix") == 0)
    limit->prefix_v6 = (uint8_t)value;
  else
    limit->buckets = value;
}

static bool read_exempt(struct settings_protect *p, const char *path, const struct yaml_node *list,
                        char *why) {
  if (list->kind != YAML_LIST)
    return fail_at(path, list, "`exempt` must be a list of addresses or prefixes", why);
  if (list->count > RATELIMIT_EXEMPT_MAX)
    return fail_at(path, list, "`exempt` has too many prefixes (at most 4096)", why);
  p->exempt = calloc(list->count ? list->count : 1, sizeof *p->exempt);
  if (p->exempt == NULL)
    return fail_at(path, list, "out of memory", why);
  for (size_t i = 0; i < list->count; i++) {
    char reason[RATELIMIT_WHY];
    const struct yaml_node *item = list->items[i];
    if (item->kind != YAML_SCALAR)
      return fail_at(path, item, "`exempt` must be a list of addresses or prefixes", why);
    if (!ratelimit_prefix_parse(item->text, &p->exempt[i], reason))
      return fail_at(path, item, reason, why);
  }
  p->limit.exempt = p->exempt;
  p->limit.exempt_count = list->count;
  return true;
}

static bool unknown_key(const char *path, const struct yaml_node *node, char *why) {
  const char *names[LIMIT_KEYS + 1] = {"exempt"};
  for (size_t i = 0; i < LIMIT_KEYS; i++)
    names[i + 1] = limit_keys[i].name;
  const char *near = diag_nearest(node->text, names, LIMIT_KEYS + 1);
  char reason[200];
  snprintf(reason, sizeof reason, "unknown key `%.60s` in `rate-limit`%s%s%s", node->text,
           near ? " (did you mean `" : "", near ? near : "", near ? "`?)" : "");
  return fail_at(path, node, reason, why);
}

static bool read_pair(struct settings_protect *p, const char *path, const struct yaml_pair *pair,
                      char *why) {
  if (strcmp(pair->key->text, "exempt") == 0)
    return read_exempt(p, path, pair->value, why);
  for (size_t i = 0; i < LIMIT_KEYS; i++) {
    const struct limit_key *key = &limit_keys[i];
    if (strcmp(pair->key->text, key->name) != 0)
      continue;
    uint32_t value;
    if (pair->value->kind != YAML_SCALAR || !read_number(key, pair->value->text, &value)) {
      char reason[160];
      snprintf(reason, sizeof reason, "`%s` must be a number from %u to %u", key->name, key->least,
               key->most);
      return fail_at(path, pair->value, reason, why);
    }
    if (strcmp(key->name, "table") == 0 && (value & (value - 1)) != 0)
      return fail_at(path, pair->value, "`table` must be a power of two, such as 16384", why);
    set_number(&p->limit, key, value);
    return true;
  }
  return unknown_key(path, pair->key, why);
}

bool settings_protect_read(struct settings_protect *protect, const char *path,
                           const struct yaml_node *map, char *why) {
  if (map->kind != YAML_MAP)
    return fail_at(path, map, "`rate-limit` must be a map such as {answers: 200, slip: 2}", why);
  ratelimit_defaults(&protect->limit);
  protect->limited = true;
  for (size_t i = 0; i < map->count; i++)
    if (!read_pair(protect, path, &map->pairs[i], why))
      return false;
  return true;
}

bool settings_protect_check(const struct settings_protect *p, const char **key, char *why) {
  bool off = p->cookies != NULL && strcmp(p->cookies, "off") == 0;
  *key = "cookies";
  if (p->cookies != NULL && !off && strcmp(p->cookies, "on") != 0) {
    snprintf(why, SETTINGS_PROTECT_WHY, "`%.100s` is neither `on` nor `off`", p->cookies);
    return false;
  }
  if (off && p->cookie_secrets != NULL) {
    *key = "cookie-secrets";
    snprintf(why, SETTINGS_PROTECT_WHY, "it has no use with `cookies: off`; remove one of the two");
    return false;
  }
  const char *texts[] = {p->chaos_version, p->chaos_id};
  for (int i = 0; i < 2; i++) {
    if (texts[i] != NULL && strlen(texts[i]) > CHAOS_MAX) {
      *key = i == 0 ? "chaos-version" : "chaos-id";
      snprintf(why, SETTINGS_PROTECT_WHY, "at most %d octets are possible", CHAOS_MAX);
      return false;
    }
  }
  return true;
}

bool settings_protect_secrets(const char *path, struct cookie_secrets *secrets, char *why) {
  uint8_t *text = NULL;
  size_t len = 0;
  char reason[COOKIE_WHY];
  *secrets = (struct cookie_secrets){.count = 0};
  if (!fs_read(path, SECRETS_FILE_MAX, &text, &len, why))
    return false;
  bool ok = cookie_secrets_parse((const char *)text, len, secrets, reason);
  explicit_bzero(text, len);
  free(text);
  if (!ok)
    snprintf(why, SETTINGS_PROTECT_WHY, "%.300s: %s", path, reason);
  return ok;
}

void settings_protect_close(struct settings_protect *protect) {
  free(protect->exempt);
  protect->exempt = NULL;
}
