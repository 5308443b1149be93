/* SPDX-License-Identifier: Apache-2.0 */
#include "server/settings_tls_peers.h"

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/name.h"
#include "server/settings_fail.h"

_Static_assert((int)TLS_WHY == (int)SETTINGS_FAIL_WHY, "one size for all reasons");

enum {
  PIN_TEXT = 44, /* 32 octets in base64, the last of its letters a padding */
};

struct reading {
  const char *path;
  char *why;
};

static bool fail(const struct reading *r, const struct yaml_node *at, const char *key,
                 const char *reason) {
  return settings_fail(r->path, at, key, reason, r->why);
}

static bool is_text(const struct yaml_node *value) {
  return value->kind == YAML_SCALAR && value->len > 0 && strlen(value->text) == value->len;
}

static bool read_file_name(const struct reading *r, const struct yaml_pair *pair, char **out,
                           struct settings_place *at) {
  *at = settings_place_of(pair->value);
  if (!is_text(pair->value))
    return fail(r, pair->value, pair->key->text, "must be the path of a PEM file");
  *out = strdup(pair->value->text);
  return *out != NULL || fail(r, pair->value, pair->key->text, "out of memory");
}

/* A name as certificates have it: no address, no wildcard, without the last dot. */
static bool is_hostname(const struct yaml_node *value) {
  uint8_t name[NAME_BUF];
  struct in6_addr address;
  const char *reason;
  return is_text(value) &&
         value->len == strspn(value->text, "abcdefghijklmnopqrstuvwxyz"
                                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") &&
         inet_pton(AF_INET, value->text, &address) != 1 &&
         name_from_text(name, value->text, value->len, NULL, &reason) > 1;
}

static bool read_hostname(const struct reading *r, const struct yaml_pair *pair, char **out) {
  const struct yaml_node *value = pair->value;
  if (!is_hostname(value))
    return fail(r, value, pair->key->text, "must be the host name in the primary's certificate");
  size_t len = value->text[value->len - 1] == '.' ? value->len - 1 : value->len;
  *out = strndup(value->text, len);
  return *out != NULL || fail(r, value, pair->key->text, "out of memory");
}

static bool read_pin(const struct yaml_node *value, uint8_t *out) {
  uint8_t octets[PIN_TEXT / 4 * 3];
  if (!is_text(value) || value->len != PIN_TEXT || value->text[PIN_TEXT - 1] != '=' ||
      strspn(value->text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/") !=
          PIN_TEXT - 1)
    return false;
  if (EVP_DecodeBlock(octets, (const unsigned char *)value->text, PIN_TEXT) < TLS_PIN)
    return false;
  memcpy(out, octets, TLS_PIN);
  return true;
}

static bool read_pins(const struct reading *r, const struct yaml_pair *pair,
                      struct tls_peer *peer) {
  const struct yaml_node *value = pair->value;
  struct yaml_node *const *items = value->kind == YAML_LIST ? value->items : &pair->value;
  size_t count = value->kind == YAML_LIST ? value->count : 1;
  if (count == 0 || count > SETTINGS_TLS_PINS)
    return fail(r, value, pair->key->text, "must be a list of 1 to 16 pins");
  peer->pins = calloc(count, sizeof *peer->pins);
  if (peer->pins == NULL)
    return fail(r, value, pair->key->text, "out of memory");
  peer->pin_count = count;
  for (size_t i = 0; i < count; i++)
    if (!read_pin(items[i], peer->pins[i]))
      return fail(r, items[i], pair->key->text,
                  "must be the SHA-256 of a public key (SPKI) in base64: 44 letters");
  return true;
}

static bool read_key(const struct reading *r, const struct yaml_pair *pair,
                     struct settings_tls_peer *item) {
  struct tls_peer *peer = &item->peer;
  static const char *const known[] = {"hostname", "ca_file", "pins", "cert_file", "key_file"};
  const char *key = pair->key->text;
  if (strcmp(key, "hostname") == 0)
    return read_hostname(r, pair, &peer->hostname);
  if (strcmp(key, "ca_file") == 0)
    return read_file_name(r, pair, &peer->ca_file, &item->ca_at);
  if (strcmp(key, "pins") == 0)
    return read_pins(r, pair, peer);
  if (strcmp(key, "cert_file") == 0)
    return read_file_name(r, pair, &peer->cert_file, &item->cert_at);
  if (strcmp(key, "key_file") == 0)
    return read_file_name(r, pair, &peer->key_file, &item->key_at);
  const char *near = diag_nearest(key, known, sizeof known / sizeof *known);
  char text[128] = "unknown key (`tls` has `hostname`, `ca_file`, `pins`, `cert_file`, `key_file`)";
  if (near != NULL)
    snprintf(text, sizeof text, "unknown key (did you mean `%s`?)", near);
  return fail(r, pair->key, key, text);
}

static bool read_peer(const struct reading *r, const struct yaml_pair *pair,
                      struct settings_tls_peer *item) {
  const struct yaml_node *value = pair->value;
  const char *name = pair->key->text;
  struct tls_peer *peer = &item->peer;
  item->at = settings_place_of(pair->key);
  item->name = strdup(name);
  if (item->name == NULL)
    return fail(r, pair->key, name, "out of memory");
  if (value->kind != YAML_MAP)
    return fail(r, value, name, "must be a map with `hostname` or `pins`");
  for (size_t i = 0; i < value->count; i++)
    if (!read_key(r, &value->pairs[i], item))
      return false;
  /* RFC 9103 section 9.3.2: strict privacy only, so the peer must be known by something. */
  if (peer->hostname == NULL && peer->pin_count == 0)
    return fail(r, pair->key, name,
                "needs `hostname` or `pins`: a primary that nobody verifies "
                "may be anybody");
  if (peer->ca_file != NULL && peer->hostname == NULL)
    return fail(r, yaml_get(value, "ca_file"), "ca_file", "needs `hostname`");
  if ((peer->cert_file == NULL) != (peer->key_file == NULL))
    return fail(r, pair->key, name, "`cert_file` and `key_file` go together");
  return true;
}

bool settings_tls_peers_read(struct settings_tls_peers *peers, const char *path,
                             const struct yaml_node *value, char *why) {
  const struct reading r = {path, why};
  peers->path = path;
  if (value->kind != YAML_MAP)
    return fail(&r, value, "tls", "must be a map: NAME: {hostname: ...}");
  if (value->count > SETTINGS_TLS_PEERS)
    return fail(&r, value, "tls", "at most 1000 are possible");
  peers->items = calloc(value->count + 1, sizeof *peers->items);
  if (peers->items == NULL)
    return fail(&r, value, "tls", "out of memory");
  peers->count = value->count;
  for (size_t i = 0; i < value->count; i++)
    if (!read_peer(&r, &value->pairs[i], &peers->items[i]))
      return false;
  return true;
}

void settings_tls_peers_close(struct settings_tls_peers *peers) {
  for (size_t i = 0; i < peers->count; i++) {
    struct settings_tls_peer *item = &peers->items[i];
    free(item->name);
    free(item->peer.hostname);
    free(item->peer.ca_file);
    free(item->peer.pins);
    free(item->peer.cert_file);
    free(item->peer.key_file);
  }
  free(peers->items);
  *peers = (struct settings_tls_peers){.items = NULL};
}

const struct settings_tls_peer *settings_tls_peers_find(const struct settings_tls_peers *peers,
                                                        const char *name) {
  for (size_t i = 0; i < peers->count; i++)
    if (strcmp(peers->items[i].name, name) == 0)
      return &peers->items[i];
  return NULL;
}

void settings_tls_peers_blame(const struct settings_tls_peers *peers,
                              const struct settings_tls_peer *peer, enum tls_blame file,
                              char *why) {
  char reason[TLS_WHY + 64];
  struct settings_place at = peer->at;
  switch (file) {
  case TLS_BLAME_NONE:
    snprintf(reason, sizeof reason, "%s", why);
    break;
  case TLS_BLAME_CERT:
    at = peer->cert_at;
    snprintf(reason, sizeof reason, "cert_file: %s", why);
    break;
  case TLS_BLAME_KEY:
    at = peer->key_at;
    snprintf(reason, sizeof reason, "key_file: %s", why);
    break;
  case TLS_BLAME_CA: /* the reason has the key */
    at = peer->ca_at;
    snprintf(reason, sizeof reason, "%s; name a PEM file that this program may read", why);
    break;
  }
  settings_fail_append(why,
                       snprintf(why, SETTINGS_FAIL_WHY, "%.180s:%u:%u: tls `%.40s`: ", peers->path,
                                at.line, at.column, peer->name),
                       reason);
}
