/* SPDX-License-Identifier: Apache-2.0 */
#include "server/settings_secondary.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "server/settings_fail.h"
#include "server/settings_tls.h"
#include "server/settings_transfer.h"

enum { DIGITS_MAX = 12, DNS_PORT = 53 };

struct reading {
  const struct settings_tls_peers *peers;
  const char *path;
  char *why;
};

static bool fail(const struct reading *r, const struct yaml_node *at, const char *key,
                 const char *reason) {
  return settings_fail(r->path, at, key, reason, r->why);
}

static bool read_name(const struct reading *r, const struct yaml_node *value, const char *key,
                      uint8_t *out) {
  uint8_t name[NAME_BUF];
  const char *reason = NULL;
  char text[256];
  if (value->kind != YAML_SCALAR || value->len == 0)
    return fail(r, value, key, "must be a name");
  if (name_from_text(name, value->text, value->len, NULL, &reason) == 0) {
    snprintf(text, sizeof text, "`%.100s` is not a domain name: %.100s", value->text, reason);
    return fail(r, value, key, text);
  }
  name_copy_lower(out, name);
  return true;
}

static bool read_number(const struct reading *r, const struct yaml_node *value, const char *key,
                        uint64_t *out) {
  size_t digits = value->kind == YAML_SCALAR ? strspn(value->text, "0123456789") : 0;
  if (digits == 0 || digits > DIGITS_MAX || value->text[digits] != '\0' || value->text[0] == '0')
    return fail(r, value, key, "must be a number from 1 on");
  *out = strtoull(value->text, NULL, 10);
  return true;
}

static bool read_tls(const struct reading *r, const struct yaml_node *value,
                     const struct settings_tls_peer **out) {
  char text[160];
  if (value->kind != YAML_SCALAR)
    return fail(r, value, "tls", "must be a name of the section `tls:`");
  *out = settings_tls_peers_find(r->peers, value->text);
  if (*out != NULL)
    return true;
  snprintf(text, sizeof text, "there is no `%.80s` in the section `tls:`", value->text);
  return fail(r, value, "tls", text);
}

static bool read_address(const struct reading *r, const struct yaml_node *value, unsigned port,
                         struct address *out) {
  const char *reason = "must be an address, or ADDRESS@PORT";
  char text[256];
  if (value->kind == YAML_SCALAR && address_parse_port(value->text, port, out, &reason)) {
    if (!address_is_wildcard(out))
      return true;
    reason = "no primary has this address";
  }
  if (value->kind != YAML_SCALAR)
    return fail(r, value, "primaries", reason);
  snprintf(text, sizeof text, "`%.80s`: %.100s", value->text, reason);
  return fail(r, value, "primaries", text);
}

/* RFC 9103 section 7.3: the port is that of DNS over TLS, too. */
static unsigned default_port(const struct settings_primary *primary) {
  return primary->tls != NULL ? SETTINGS_TLS_PORT : DNS_PORT;
}

/* An address, or {address: ..., tls: ...}; `primary` has the zone's `tls`. */
static bool read_primary(const struct reading *r, const struct yaml_node *value,
                         struct settings_primary *primary) {
  if (value->kind != YAML_MAP)
    return read_address(r, value, default_port(primary), &primary->address);
  const struct yaml_node *address = yaml_get(value, "address");
  const struct yaml_node *tls = yaml_get(value, "tls");
  for (size_t i = 0; i < value->count; i++) {
    const struct yaml_node *key = value->pairs[i].key;
    if (value->pairs[i].value != address && value->pairs[i].value != tls)
      return fail(r, key, key->text, "unknown key (a primary has `address` and `tls`)");
  }
  if (address == NULL)
    return fail(r, value, "primaries", "`address` is missing");
  return (tls == NULL || read_tls(r, tls, &primary->tls)) &&
         read_address(r, address, default_port(primary), &primary->address);
}

static bool read_primaries(const struct reading *r, const struct yaml_node *value,
                           const struct settings_tls_peer *tls,
                           struct settings_secondary_zone *zone) {
  size_t count = value->kind == YAML_LIST ? value->count : 0;
  if (count == 0 || count > SETTINGS_SECONDARY_PRIMARIES)
    return fail(r, value, "primaries", "must be a list of 1 to 16 addresses");
  zone->primaries = calloc(count, sizeof *zone->primaries);
  if (zone->primaries == NULL)
    return fail(r, value, "primaries", "out of memory");
  zone->primary_count = count;
  for (size_t i = 0; i < count; i++) {
    zone->primaries[i].tls = tls;
    if (!read_primary(r, value->items[i], &zone->primaries[i]))
      return false;
  }
  return true;
}

static bool unknown_key(const struct reading *r, const struct yaml_node *key) {
  static const char *const known[] = {"zone", "primaries",   "tls",
                                      "tsig", "max-records", "max-octets"};
  const char *near = diag_nearest(key->text, known, sizeof known / sizeof *known);
  char text[128] = "unknown key";
  if (near != NULL)
    snprintf(text, sizeof text, "unknown key (did you mean `%s`?)", near);
  return fail(r, key, key->text, text);
}

static bool read_key(const struct reading *r, const struct yaml_pair *pair,
                     const struct settings_tls_peer *tls, struct settings_secondary_zone *zone) {
  const char *key = pair->key->text;
  if (strcmp(key, "zone") == 0) {
    zone->at = settings_place_of(pair->value);
    return read_name(r, pair->value, key, zone->apex);
  }
  if (strcmp(key, "primaries") == 0)
    return read_primaries(r, pair->value, tls, zone);
  if (strcmp(key, "tls") == 0)
    return true; /* was read before */
  if (strcmp(key, "max-records") == 0)
    return read_number(r, pair->value, key, &zone->max_records);
  if (strcmp(key, "max-octets") == 0)
    return read_number(r, pair->value, key, &zone->max_octets);
  if (strcmp(key, "tsig") != 0)
    return unknown_key(r, pair->key);
  zone->has_key = true;
  zone->key_at = settings_place_of(pair->value);
  return read_name(r, pair->value, key, zone->key);
}

static bool read_zone(const struct reading *r, const struct yaml_node *value,
                      struct settings_secondary_zone *zone) {
  if (value->kind != YAML_MAP)
    return fail(r, value, "secondary", "must be a list of maps with `zone` and `primaries`");
  const struct settings_tls_peer *tls = NULL;
  const struct yaml_node *named = yaml_get(value, "tls");
  if (named != NULL && !read_tls(r, named, &tls))
    return false;
  zone->max_records = SETTINGS_SECONDARY_RECORDS;
  zone->max_octets = SETTINGS_SECONDARY_OCTETS;
  for (size_t i = 0; i < value->count; i++)
    if (!read_key(r, &value->pairs[i], tls, zone))
      return false;
  if (yaml_get(value, "zone") == NULL)
    return fail(r, value, "secondary", "`zone` is missing");
  if (zone->primary_count == 0)
    return fail(r, value, "secondary", "`primaries` is missing");
  return true;
}

static int by_apex(const void *a, const void *b) {
  const struct settings_secondary_zone *x = a;
  const struct settings_secondary_zone *y = b;
  int order = name_compare(x->apex, y->apex);
  if (order == 0)
    order = (x->at.line > y->at.line) - (x->at.line < y->at.line);
  return order != 0 ? order : (x->at.column > y->at.column) - (x->at.column < y->at.column);
}

static bool check_repeated(const struct reading *r, const struct settings_secondary *s) {
  char name[NAME_MAX_TEXT];
  char text[400];
  for (size_t i = 1; i < s->count; i++) {
    const struct settings_secondary_zone *first = &s->zones[i - 1];
    const struct settings_secondary_zone *second = &s->zones[i];
    if (!name_equal(first->apex, second->apex))
      continue;
    snprintf(text, sizeof text, "zone %.160s is given twice (line %u, column %u); remove one",
             name_to_text(name, second->apex), first->at.line, first->at.column);
    return settings_fail_at(r->path, second->at, "secondary", text, r->why);
  }
  return true;
}

bool settings_secondary_read(struct settings_secondary *secondary,
                             const struct settings_tls_peers *peers, const char *path,
                             const struct yaml_node *value, char *why) {
  const struct reading r = {peers, path, why};
  secondary->path = path;
  secondary->at = settings_place_of(value);
  if (value->kind != YAML_LIST)
    return fail(&r, value, "secondary", "must be a list of maps with `zone` and `primaries`");
  if (value->count > SETTINGS_SECONDARY_ZONES)
    return fail(&r, value, "secondary", "at most 100000 zones are possible");
  secondary->zones = calloc(value->count + 1, sizeof *secondary->zones);
  if (secondary->zones == NULL)
    return fail(&r, value, "secondary", "out of memory");
  secondary->count = value->count;
  for (size_t i = 0; i < value->count; i++)
    if (!read_zone(&r, value->items[i], &secondary->zones[i]))
      return false;
  qsort(secondary->zones, secondary->count, sizeof *secondary->zones, by_apex);
  return check_repeated(&r, secondary);
}

void settings_secondary_close(struct settings_secondary *secondary) {
  for (size_t i = 0; i < secondary->count; i++)
    free(secondary->zones[i].primaries);
  free(secondary->zones);
  *secondary = (struct settings_secondary){.zones = NULL};
}

bool settings_secondary_key(const struct settings_secondary *secondary,
                            const struct settings_secondary_zone *zone,
                            const struct tsig_keys *keys, const struct tsig_key **key, char *why) {
  *key = NULL;
  if (zone->has_key)
    *key = settings_transfer_find_key(keys, zone->key, secondary->path, zone->key_at, why);
  return !zone->has_key || *key != NULL;
}

bool settings_secondary_has_state(const struct settings_secondary *secondary, const char *state,
                                  char *why) {
  return secondary->count == 0 || state != NULL ||
         settings_fail_at(secondary->path, secondary->at, "secondary",
                          "the zones need a folder to be kept in; set `state`", why);
}
