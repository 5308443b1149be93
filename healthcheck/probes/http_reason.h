/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why an exchange failed, in words: from libcurl's code, the error of the socket and the refusal of
 * a certificate.  Nothing that the peer sent gets into them, but numbers.
 */
#ifndef SLUICE_HEALTHCHECK_PROBES_HTTP_REASON_H
#define SLUICE_HEALTHCHECK_PROBES_HTTP_REASON_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/tls_trust.h"
#include "healthcheck/check.h"

/* Our own grounds for ending an exchange. */
enum http_stop {
  HTTP_RUNS,
  HTTP_ENOUGH, /* the verdict is known */
  HTTP_MANY_HEADERS,
  HTTP_OTHER_VERSION,
  HTTP_OTHER_ADDRESS,
  HTTP_NO_SOCKET,
};

/* Where an exchange is; from the start again after a redirect. */
enum http_step { HTTP_CONNECTS, HTTP_SHAKES_HANDS, HTTP_SENT, HTTP_HEADERS, HTTP_BODY };

struct http_end {
  CURL *easy;
  CURLcode code;
  enum http_stop stop;
  int socket_error; /* errno of HTTP_NO_SOCKET */
  enum http_step step;
  long status; /* of the last response that began; 0: none */
  const struct tls_refusal *refusal;
  const char *libcurl_text; /* CURLOPT_ERRORBUFFER; only numbers are taken from it */
  const char *host;         /* that a certificate must be for */
};

/* The reason of a failure other than a wrong status or body. */
void http_reason(const struct http_end *end, char *to, size_t size, bool *own_fault);

/* What the exchange waits for now; static text. */
const char *http_phase(const struct http_end *end);

/* "200-299, 301", cut where it is too long. */
void http_statuses_text(const struct check *check, char *to, size_t size);

#endif
