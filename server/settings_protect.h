/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings that protect the server and its neighbours:
 *
 *   cookies: on                     # DNS cookies (RFC 7873), on unless said otherwise
 *   cookie-secrets: FILE            # shared between servers of one address; else made and rotated
 * here chaos-version: TEXT             # answer to version.bind CH TXT; refused without chaos-id:
 * TEXT                  # answer to id.server CH TXT; refused without rate-limit: # responses over
 * UDP to one network in a second; off without answers: 200                  #   like answers,
 * referrals nodata: 100 nxdomain: 100 errors: 50 all: 1000                     #   all together
 *     slip: 2                       #   every n-th response over the limit is sent empty with TC;
 * 0: none ipv4-prefix: 24               #   what counts as one network ipv6-prefix: 56 table: 16384
 * #   buckets of 64 octets for each worker, a power of two exempt: [192.0.2.0/24]
 *
 * A limit that is left out does not limit.
 */
#ifndef SLUICE_SERVER_SETTINGS_PROTECT_H
#define SLUICE_SERVER_SETTINGS_PROTECT_H

#include "server/cookie.h"
#include "server/ratelimit.h"
#include "zones/yaml_tree.h"

struct settings_protect {
  char *cookies;                   /* "on", "off" or NULL */
  char *cookie_secrets;            /* file, or NULL */
  char *chaos_version;             /* or NULL */
  char *chaos_id;                  /* or NULL */
  bool limited;                    /* there is a `rate-limit` */
  struct ratelimit_config limit;   /* rates of the whole server; `exempt` points to the next */
  struct ratelimit_prefix *exempt; /* or NULL */
};

enum { SETTINGS_PROTECT_WHY = 512 };

/* Takes the map `rate-limit`; false with `path:line:column: ...` in `why`. */
bool settings_protect_read(struct settings_protect *protect, const char *path,
                           const struct yaml_node *map, char *why);

/* Checks what is set together; false with a reason, and the key that it is about. */
bool settings_protect_check(const struct settings_protect *protect, const char **key, char *why);

/* Reads the file of `cookie-secrets`; false with a reason, and *secrets holds none. */
bool settings_protect_secrets(const char *path, struct cookie_secrets *secrets, char *why);

/* Frees the exempt list; the texts are freed with the other texts of the settings. */
void settings_protect_close(struct settings_protect *protect);

#endif
