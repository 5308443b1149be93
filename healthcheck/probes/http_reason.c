/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/probes/http_reason.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "healthcheck/probes/reason.h"

static long long info_us(CURL *easy, CURLINFO info) {
  curl_off_t us = 0;
  return curl_easy_getinfo(easy, info, &us) == CURLE_OK ? (long long)us : 0;
}

/* libcurl puts the error of the socket into its text only, by the same words as strerror(). */
static int socket_error(const struct http_end *end) {
  static const int errors[] = {ECONNRESET, EPIPE, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH};
  long error = 0;
  curl_easy_getinfo(end->easy, CURLINFO_OS_ERRNO, &error);
  for (size_t i = 0; error == 0 && i < sizeof errors / sizeof *errors; i++)
    if (strstr(end->libcurl_text, strerror(errors[i])) != NULL)
      return errors[i];
  return (int)error;
}

static bool is_redirected(const struct http_end *end) {
  long redirects = 0;
  curl_easy_getinfo(end->easy, CURLINFO_REDIRECT_COUNT, &redirects);
  return redirects > 0;
}

const char *http_phase(const struct http_end *end) {
  switch (end->step) {
  case HTTP_CONNECTS:
    return "connect";
  case HTTP_SHAKES_HANDS:
    return "TLS handshake";
  case HTTP_SENT: /* a line that has begun shows nowhere else */
    if (!is_redirected(end) && info_us(end->easy, CURLINFO_STARTTRANSFER_TIME_T) != 0)
      return "reading the headers";
    return "waiting for the response";
  case HTTP_HEADERS:
    return "reading the headers";
  case HTTP_BODY:
    return "reading the body";
  }
  return "the exchange";
}

void http_statuses_text(const struct check *check, char *to, size_t size) {
  size_t at = 0;
  to[0] = '\0';
  for (size_t i = 0; i < check->status_count; i++) {
    const struct check_range *range = &check->statuses[i];
    char text[24];
    int n = range->from == range->to ? snprintf(text, sizeof text, "%u", range->from)
                                     : snprintf(text, sizeof text, "%u-%u", range->from, range->to);
    const char *between = i > 0 ? ", " : "";
    if (at + strlen(between) + (size_t)n + sizeof " ..." > size) {
      snprintf(to + at, size - at, " ...");
      return;
    }
    at += (size_t)snprintf(to + at, size - at, "%s%s", between, text);
  }
}

/* ---- TLS --------------------------------------------------------------------------------------
 */

/* The peer's alert: its number, and the name that RFC 8446 section 6 gives it. */
static bool alert_reason(int reason, char *to, size_t size) {
  int alert = reason - SSL_AD_REASON_OFFSET;
  if (alert < 0 || alert > 255)
    return false;
  snprintf(to, size, "TLS refused by the peer (alert %d, %s)", alert,
           SSL_alert_desc_string_long(alert));
  return true;
}

/* libcurl keeps OpenSSL's error as "error:0A00010B:..." in its text. */
static int openssl_reason(const char *text) {
  const char *at = strstr(text, "error:");
  return at != NULL ? ERR_GET_REASON(strtoul(at + strlen("error:"), NULL, 16)) : 0;
}

static void tls_reason(const struct http_end *end, char *to, size_t size) {
  int reason = openssl_reason(end->libcurl_text);
  if (alert_reason(reason, to, size))
    return;
  switch (reason) {
  case SSL_R_WRONG_VERSION_NUMBER:
  case SSL_R_HTTP_REQUEST:
  case SSL_R_HTTPS_PROXY_REQUEST:
  case SSL_R_PACKET_LENGTH_TOO_LONG:
  case SSL_R_BAD_RECORD_TYPE:
    snprintf(to, size, "the peer does not speak TLS");
    return;
  case SSL_R_UNSUPPORTED_PROTOCOL:
    snprintf(to, size, "the peer's TLS version is not supported");
    return;
  case SSL_R_UNEXPECTED_EOF_WHILE_READING:
    snprintf(to, size, "closed by the peer in TLS handshake");
    return;
  case SSL_R_DH_KEY_TOO_SMALL:
    snprintf(to, size, "the peer's TLS key is too short");
    return;
  default:
    break;
  }
  if (socket_error(end) == ECONNRESET)
    snprintf(to, size, "connection reset in TLS handshake");
  else if (strstr(end->libcurl_text, "SSL_ERROR_SYSCALL") != NULL)
    snprintf(to, size, "closed by the peer in TLS handshake");
  else
    snprintf(to, size, "TLS handshake failed: %s",
             reason != 0 ? ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, reason)) : "unknown");
}

static void certificate_reason(const struct http_end *end, char *to, size_t size) {
  if (end->refusal->error != 0)
    tls_refusal_text(end->refusal, to, size);
  else if (is_redirected(end))
    snprintf(to, size, "certificate is not for the host that the redirect names");
  else
    snprintf(to, size, "certificate is not for %.100s", end->host);
}

/* ---- all the rest -----------------------------------------------------------------------------
 */

static bool is_redirect(long status) {
  return status >= 300 && status <= 399;
}

static const char *place(const struct http_end *end) {
  if (end->status == 0)
    return "before the response";
  return end->step == HTTP_BODY ? "in the middle of the body" : "in the middle of the headers";
}

static void broken_reason(const struct http_end *end, char *to, size_t size) {
  int error = socket_error(end);
  if (error == 0 && end->code == CURLE_RECV_ERROR && end->step == HTTP_BODY)
    snprintf(to, size, "the body's chunks are malformed");
  else
    snprintf(to, size, "%s %s", reason_broken(error), place(end));
}

static void closed_reason(const struct http_end *end, char *to, size_t size) {
  if (end->status == 0)
    snprintf(to, size, "closed by the peer without a response");
  else if (end->status < 200)
    snprintf(to, size, "closed by the peer after status %ld", end->status);
  else
    snprintf(to, size, "closed by the peer %s", place(end));
}

static void stop_reason(const struct http_end *end, char *to, size_t size, bool *own_fault) {
  switch (end->stop) {
  case HTTP_MANY_HEADERS:
    snprintf(to, size, "more than 64 KiB of headers");
    return;
  case HTTP_OTHER_VERSION:
    snprintf(to, size, "the peer answers in another version of HTTP than 1");
    return;
  case HTTP_OTHER_ADDRESS:
    snprintf(to, size, "would connect to another address than the endpoint's");
    return;
  case HTTP_NO_SOCKET:
    snprintf(to, size, "%s", reason_connect(end->socket_error, own_fault));
    return;
  case HTTP_ENOUGH:
  case HTTP_RUNS:
    snprintf(to, size, "ended"); /* not used: these have a verdict */
    return;
  }
}

static void connect_reason(const struct http_end *end, char *to, size_t size, bool *own_fault) {
  long error = 0;
  curl_easy_getinfo(end->easy, CURLINFO_OS_ERRNO, &error);
  snprintf(to, size, "%s", reason_connect((int)error, own_fault));
}

/* libcurl has no other code for a header line that is longer than it takes (100 KiB). */
static void memory_reason(const struct http_end *end, char *to, size_t size, bool *own_fault) {
  if (info_us(end->easy, CURLINFO_STARTTRANSFER_TIME_T) != 0 && end->step < HTTP_BODY) {
    snprintf(to, size, "more than 64 KiB of headers");
    return;
  }
  *own_fault = true;
  snprintf(to, size, "this machine has no memory left");
}

void http_reason(const struct http_end *end, char *to, size_t size, bool *own_fault) {
  if (end->stop != HTTP_RUNS) {
    stop_reason(end, to, size, own_fault);
    return;
  }
  switch (end->code) {
  case CURLE_OK: /* libcurl takes the end of the connection for the end of the headers */
  case CURLE_GOT_NOTHING:
    closed_reason(end, to, size);
    return;
  case CURLE_COULDNT_CONNECT:
    if (end->step >= HTTP_SHAKES_HANDS)
      tls_reason(end, to, size);
    else
      connect_reason(end, to, size, own_fault);
    return;
  case CURLE_OPERATION_TIMEDOUT:
    snprintf(to, size, "timeout in connect");
    return;
  case CURLE_PEER_FAILED_VERIFICATION:
    certificate_reason(end, to, size);
    return;
  case CURLE_SSL_CONNECT_ERROR:
    tls_reason(end, to, size);
    return;
  case CURLE_PARTIAL_FILE:
    snprintf(to, size, "closed by the peer in the middle of the body");
    return;
  case CURLE_RECV_ERROR:
  case CURLE_SEND_ERROR:
    broken_reason(end, to, size);
    return;
  case CURLE_UNSUPPORTED_PROTOCOL:
    snprintf(to, size, "%s",
             is_redirect(end->status) ? "redirect to another protocol than HTTP"
                                      : "the peer does not speak HTTP");
    return;
  case CURLE_WEIRD_SERVER_REPLY:
  case CURLE_HTTP2:
    snprintf(to, size, "the peer does not speak HTTP as it should");
    return;
  case CURLE_URL_MALFORMAT:
    snprintf(to, size, "%s",
             is_redirect(end->status) ? "redirect to what is no URL"
                                      : "`host` is no name of a host");
    return;
  case CURLE_TOO_MANY_REDIRECTS:
    snprintf(to, size, "more than 5 redirects");
    return;
  case CURLE_FILESIZE_EXCEEDED:
    snprintf(to, size, "more than 1 MiB came without an end");
    return;
  case CURLE_OUT_OF_MEMORY:
    memory_reason(end, to, size, own_fault);
    return;
  default:
    snprintf(to, size, "exchange failed: %s", curl_easy_strerror(end->code));
  }
}
