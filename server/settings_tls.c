/* SPDX-License-Identifier: Apache-2.0 */
#include "server/settings_tls.h"

#include <stdio.h>
#include <string.h>

enum { WHY = 512 };

static bool holds(const struct address *list, size_t count, const struct address *address) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(list[i].text, address->text) == 0)
      return true;
  return false;
}

bool settings_tls_add(struct settings_tls *tls, const char *text, char *why) {
  const char *reason;
  struct address address;
  if (!address_parse_port(text, SETTINGS_TLS_PORT, &address, &reason)) {
    snprintf(why, WHY, "`%.100s`: %s", text, reason);
    return false;
  }
  if (holds(tls->listen, tls->listen_count, &address)) {
    snprintf(why, WHY, "%s is given twice", address.text);
    return false;
  }
  if (tls->listen_count == SETTINGS_TLS_LISTEN) {
    snprintf(why, WHY, "at most %d addresses are possible", SETTINGS_TLS_LISTEN);
    return false;
  }
  tls->listen[tls->listen_count++] = address;
  return true;
}

bool settings_tls_check(const struct settings_tls *tls, const struct address *plain, size_t count,
                        const char **key, size_t *item, char *why) {
  *item = tls->listen_count;
  if (tls->listen_count == 0 && tls->cert == NULL && tls->key == NULL)
    return true;
  if (tls->listen_count == 0 || tls->cert == NULL || tls->key == NULL) {
    *key = tls->listen_count > 0 ? "tls-listen" : tls->cert != NULL ? "tls-cert" : "tls-key";
    snprintf(why, WHY, "tls-%s is missing: tls-listen, tls-cert and tls-key go together",
             tls->listen_count == 0 ? "listen"
             : tls->cert == NULL    ? "cert"
                                    : "key");
    return false;
  }
  for (size_t i = 0; i < tls->listen_count; i++) {
    if (holds(plain, count, &tls->listen[i])) {
      *key = "tls-listen";
      snprintf(why, WHY, "%s is in both listen and tls-listen; give each a port of its own",
               tls->listen[i].text);
      *item = i;
      return false;
    }
  }
  return true;
}
