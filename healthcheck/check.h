/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is checked and how: the settings of a check, as a build's checks.json describes them
 * (zones/config_health.h, times in milliseconds).  Immutable once read; shared by all that is
 * checked in the same way.
 */
#ifndef SLUICE_HEALTHCHECK_CHECK_H
#define SLUICE_HEALTHCHECK_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum check_type { CHECK_HTTP, CHECK_HTTPS, CHECK_TCP, CHECK_DNS, CHECK_ICMP, CHECK_EXEC };

struct check_range {
  uint16_t from, to;
};

struct check_header {
  char *name, *value;
};

struct check {
  enum check_type type;
  uint32_t interval, timeout; /* ms; interval >= timeout */
  uint16_t rise, fall;        /* 1 to 100 */
  uint16_t port;              /* 0 where the type has none */
  struct {                    /* changes == 0: no damping */
    uint32_t changes;
    uint32_t within, hold; /* ms */
  } damping;

  /* http, https */
  char *path, *method;
  char *host; /* Host (with `port` unless it is the usual one, or one is written here) and SNI;
               * or NULL: the endpoint's own host name or address */
  struct check_header *headers;
  size_t header_count;
  struct check_range *statuses;
  size_t status_count;
  char *body; /* must be in the first 64 KiB, or NULL */
  bool follow_redirects;
  bool verify;
  char *ca_file; /* or NULL: the system's */

  /* tcp, dns */
  char *send;   /* tcp, or NULL */
  char *expect; /* tcp: text to come; dns: rdata in presentation form; or NULL */

  /* dns */
  char *name;
  uint16_t rrtype;
  uint8_t rcode;

  char *program; /* exec: its name in the machine's settings */
};

enum { CHECK_WHY = 256 };

/* Reads the merged settings of an endpoint; trusts nothing in them.  NULL with one line in `why`;
 * freed by check_free(). */
struct check *check_read(const json_t *json, char *why);
void check_free(struct check *check);

/* "http", ... */
const char *check_type_name(enum check_type type);

#endif
