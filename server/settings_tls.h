/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of DNS over TLS: `tls-listen`, `tls-cert` and `tls-key`, in the file and as flags.
 */
#ifndef SLUICE_SERVER_SETTINGS_TLS_H
#define SLUICE_SERVER_SETTINGS_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "server/address.h"
#include "server/settings_place.h"

enum {
  SETTINGS_TLS_LISTEN = 64,
  SETTINGS_TLS_PORT = 853, /* RFC 7858 section 3.1 */
};

struct settings_tls {
  struct address listen[SETTINGS_TLS_LISTEN];
  struct settings_place at[SETTINGS_TLS_LISTEN]; /* where they are written */
  size_t listen_count;                           /* 0: no TLS */
  char *cert;                                    /* PEM files, both set if there is an address */
  char *key;
};

/* Adds "ADDRESS[@PORT]"; false with a reason in `why` (512 octets). */
bool settings_tls_add(struct settings_tls *tls, const char *text, char *why);

/* What must hold once all is read: `plain` are the addresses without TLS.  False with a reason, the
 * key that it is about, and the index of the address in `listen` (or their count: it is none). */
bool settings_tls_check(const struct settings_tls *tls, const struct address *plain, size_t count,
                        const char **key, size_t *item, char *why);

#endif
