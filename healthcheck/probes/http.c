/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http and https: one exchange by libcurl, on a connection of its own.
 *
 * The URL's host is the check's (or the endpoint's name, or its address); where the connection goes
 * is the endpoint's address alone, also after a redirect: it is put in when the socket is made.
 * What is read is bounded: headers, body, and octets in all.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/tls_trust.h"
#include "healthcheck/probe_kind.h"
#include "healthcheck/probes/http_loop.h"
#include "healthcheck/probes/http_reason.h"
#include "healthcheck/probes/match.h"

enum {
  HEADER_OCTETS = 64 << 10,
  USUAL_HEADER_OCTETS = 8 << 10, /* libcurl keeps the buffer of the longest line */
  REDIRECTS = 5,
  READ_BUFFER = 4 << 10,
  HOST_TEXT = 300,
  BUNDLES = 64,
};

struct http_shared {
  struct http_loop *loop;
  struct tls_trust *trust;
  unsigned bundle;
};

struct http {
  struct http_transfer transfer; /* first */
  struct http_shared *shared;
  struct probe *probe;
  struct curl_slist *headers, *connect_to;
  struct match *match;
  struct tls_refusal refusal;
  enum http_stop stop;
  int socket_error;
  /* When the socket was made, and how long connecting took where TLS follows: libcurl tells only
   * when both were done. */
  uint64_t socket_ns;
  int64_t connect_us;
  enum http_step step;
  long status; /* of the last response that began; 0: none */
  bool found;
  size_t header_octets, body_octets;
  char address[INET6_ADDRSTRLEN];
  char host[HOST_TEXT]; /* without port and brackets */
  bool host_has_port;
  char libcurl_text[CURL_ERROR_SIZE];
};

static void free_http(struct http *http) {
  if (http->transfer.easy != NULL)
    http_loop_give(http->shared->loop, &http->transfer);
  curl_slist_free_all(http->headers);
  curl_slist_free_all(http->connect_to);
  match_free(http->match);
  free(http);
}

static bool is_tls(const struct http *http) {
  return http->probe->check->type == CHECK_HTTPS;
}

/* ---- the verdict ------------------------------------------------------------------------------
 */

static bool is_wanted(const struct check *check, long status) {
  for (size_t i = 0; i < check->status_count; i++)
    if (status >= check->statuses[i].from && status <= check->statuses[i].to)
      return true;
  return false;
}

/* How long a phase took, of two points in time since the start; -1 if the second was not reached.
 */
static int64_t between(int64_t from, int64_t to) {
  if (to <= 0)
    return -1;
  return to > from ? to - from : 0;
}

static int64_t point(const struct http *http, CURLINFO info) {
  curl_off_t us = 0;
  return curl_easy_getinfo(http->transfer.easy, info, &us) == CURLE_OK ? (int64_t)us : 0;
}

static void note_phases(const struct http *http) {
  int64_t *phase_us = http->probe->result.phase_us;
  int64_t connected = http->connect_us > 0
                          ? point(http, CURLINFO_NAMELOOKUP_TIME_T) + http->connect_us
                          : point(http, CURLINFO_CONNECT_TIME_T);
  int64_t tls = point(http, CURLINFO_APPCONNECT_TIME_T);
  int64_t ready = point(http, CURLINFO_PRETRANSFER_TIME_T);
  int64_t first = point(http, CURLINFO_STARTTRANSFER_TIME_T);
  phase_us[PHASE_CONNECT] = between(0, connected);
  phase_us[PHASE_TLS] = is_tls(http) ? between(connected, tls) : -1;
  phase_us[PHASE_SEND] = between(tls > connected ? tls : connected, ready);
  phase_us[PHASE_FIRST] = between(ready, first);
}

/* All that was wanted has come: was it right? */
static void judge(struct http *http, bool *ok, char *reason) {
  const struct check *check = http->probe->check;
  char wanted[64];
  *ok = false;
  if (!is_wanted(check, http->status)) {
    http_statuses_text(check, wanted, sizeof wanted);
    snprintf(reason, PROBE_REASON, "status %ld, expected %s", http->status, wanted);
  } else if (check->body != NULL && !http->found && http->body_octets >= PROBE_BODY) {
    snprintf(reason, PROBE_REASON,
             "status %ld, but the expected text is not in the first 64 KiB of the body",
             http->status);
  } else if (check->body != NULL && !http->found) {
    snprintf(reason, PROBE_REASON,
             "status %ld, but the expected text is not in the body (%zu octets)", http->status,
             http->body_octets);
  } else {
    snprintf(reason, PROBE_REASON, "status %ld", http->status);
    *ok = true;
  }
}

static struct http_end end_of(const struct http *http, CURLcode code) {
  return (struct http_end){
      .easy = http->transfer.easy,
      .code = code,
      .stop = http->stop,
      .socket_error = http->socket_error,
      .step = http->step,
      .status = http->status,
      .refusal = &http->refusal,
      .libcurl_text = http->libcurl_text,
      .host = http->host,
  };
}

static void on_done(struct http_transfer *transfer, CURLcode code) {
  struct http *http = (struct http *)transfer;
  struct probe *probe = http->probe;
  char reason[PROBE_REASON];
  bool ok = false;
  note_phases(http);
  if (http->stop == HTTP_ENOUGH || (code == CURLE_OK && http->step == HTTP_BODY)) {
    judge(http, &ok, reason);
  } else {
    struct http_end end = end_of(http, code);
    http_reason(&end, reason, PROBE_REASON, &probe->result.own_fault);
  }
  free_http(http);
  probe_end(probe, ok, "%s", reason);
}

/* ---- what comes -------------------------------------------------------------------------------
 */

/* The line between headers and body. */
static bool is_empty_line(const char *line, size_t length) {
  return (length == 1 && line[0] == '\n') || (length == 2 && line[0] == '\r' && line[1] == '\n');
}

/* The final response's headers are there. */
static bool end_headers(struct http *http) {
  const struct check *check = http->probe->check;
  if (http->status < 200)
    return true;
  http->step = HTTP_BODY;
  if (check->follow_redirects && http->status >= 300 && http->status <= 399)
    return true;
  if (!is_wanted(check, http->status))
    http->stop = HTTP_ENOUGH;
  return http->stop == HTTP_RUNS;
}

/* CURLOPT_HEADERFUNCTION: one line at a time, of trailers too. */
static size_t take_header(char *line, size_t size, size_t count, void *arg) {
  struct http *http = arg;
  size_t length = size * count;
  http->header_octets += length;
  http->transfer.has_grown = http->header_octets > USUAL_HEADER_OCTETS;
  if (http->header_octets > HEADER_OCTETS) {
    http->stop = HTTP_MANY_HEADERS;
    return 0;
  }
  if (length > 7 && memcmp(line, "HTTP/", 5) == 0 &&
      (http->status == 0 || http->step == HTTP_BODY || http->status < 200)) {
    if (memcmp(line + 5, "1.", 2) != 0) {
      http->stop = HTTP_OTHER_VERSION;
      return 0;
    }
    curl_easy_getinfo(http->transfer.easy, CURLINFO_RESPONSE_CODE, &http->status);
    http->step = HTTP_HEADERS;
  }
  if (http->step < HTTP_BODY && is_empty_line(line, length))
    return end_headers(http) ? length : 0;
  return length;
}

/* CURLOPT_WRITEFUNCTION */
static size_t take_body(char *octets, size_t size, size_t count, void *arg) {
  struct http *http = arg;
  size_t length = size * count;
  if (http->match != NULL && match_feed(http->match, octets, length))
    http->found = true;
  http->body_octets += length;
  if (http->found || http->body_octets >= PROBE_BODY) {
    http->stop = HTTP_ENOUGH;
    return 0;
  }
  return length;
}

/* CURLOPT_OPENSOCKETFUNCTION: libcurl connects to what is put into `to`, and that is the endpoint's
 * address, whatever it was told or led to. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to) {
  struct http *http = arg;
  const struct sockaddr_storage *address = &http->probe->address;
  uint16_t port = ((const struct sockaddr_in *)&to->addr)->sin_port; /* of a redirect, perhaps */
  (void)purpose;
  if (to->family != address->ss_family || to->addrlen != http->probe->address_len) {
    http->stop = HTTP_OTHER_ADDRESS;
    return CURL_SOCKET_BAD;
  }
  memcpy(&to->addr, address, to->addrlen);
  ((struct sockaddr_in *)&to->addr)->sin_port = port; /* at the same place in sockaddr_in6 */
  http->step = HTTP_CONNECTS;
  http->status = 0;
  http->socket_ns = uv_hrtime();
  int fd = socket(to->family, to->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to->protocol);
  if (fd < 0) {
    http->stop = HTTP_NO_SOCKET;
    http->socket_error = errno;
    return CURL_SOCKET_BAD;
  }
  return fd;
}

/* CURLOPT_PREREQFUNCTION: connected, TLS is ready, the request is sent next. */
static int note_ready(void *arg, char *to, char *from, int to_port, int from_port) {
  struct http *http = arg;
  (void)to;
  (void)from;
  (void)to_port;
  (void)from_port;
  http->step = HTTP_SENT;
  return CURL_PREREQFUNC_OK;
}

/* ---- the request ------------------------------------------------------------------------------
 */

/* Takes brackets and port off `host`, as in "[::1]:8443" or "cdn.example.com:8443".  False for what
 * would end up in another part of the URL. */
static bool take_host(struct http *http) {
  const struct probe *probe = http->probe;
  const char *from = probe->check->host != NULL   ? probe->check->host
                     : probe->target->family == 0 ? probe->target->host
                                                  : http->address;
  size_t length = strlen(from);
  const char *colon = strchr(from, ':');
  if (from[0] == '[') {
    from++;
    length = strcspn(from, "]");
    http->host_has_port = strncmp(from + length, "]:", 2) == 0;
  } else if (colon != NULL && strchr(colon + 1, ':') == NULL) {
    length = (size_t)(colon - from);
    http->host_has_port = true;
  }
  int n = snprintf(http->host, sizeof http->host, "%.*s", (int)length, from);
  return n > 0 && (size_t)n < sizeof http->host && strcspn(http->host, "/?#@\\%[]") == (size_t)n;
}

/* The URL; `#` would end what is sent of it. */
static char *make_url(const struct http *http) {
  const struct check *check = http->probe->check;
  bool v6 = strchr(http->host, ':') != NULL;
  size_t size = strlen(http->host) + 3 * strlen(check->path) + 32;
  char *url = malloc(size);
  if (url == NULL)
    return NULL;
  size_t at = (size_t)snprintf(url, size, "%s://%s%s%s:%u", is_tls(http) ? "https" : "http",
                               v6 ? "[" : "", http->host, v6 ? "]" : "", check->port);
  for (const char *c = check->path; *c != '\0'; c++)
    at += (size_t)snprintf(url + at, size - at, *c == '#' ? "%%23" : "%c", *c);
  return url;
}

static bool add_line(struct curl_slist **list, const char *line) {
  struct curl_slist *longer = curl_slist_append(*list, line);
  if (longer == NULL)
    return false;
  *list = longer;
  return true;
}

static bool add_header(struct http *http, const char *name, const char *value) {
  size_t size = strlen(name) + strlen(value) + 3;
  char *line = malloc(size);
  if (line == NULL)
    return false;
  if (value[0] != '\0')
    snprintf(line, size, "%s: %s", name, value);
  else
    snprintf(line, size, "%s;", name); /* libcurl's spelling of an empty value */
  bool ok = add_line(&http->headers, line);
  free(line);
  return ok;
}

static bool has_header(const struct check *check, const char *name) {
  for (size_t i = 0; i < check->header_count; i++)
    if (strcasecmp(check->headers[i].name, name) == 0)
      return true;
  return false;
}

static bool make_headers(struct http *http) {
  const struct check *check = http->probe->check;
  bool ok = add_line(&http->headers, "Expect:") && /* none */
            (has_header(check, "Content-Type") || add_line(&http->headers, "Content-Type:")) &&
            (has_header(check, "Connection") || add_header(http, "Connection", "close"));
  /* Without a port, libcurl's own is right: with the check's port unless that is the usual one. */
  if (http->host_has_port && !has_header(check, "Host"))
    ok = ok && add_header(http, "Host", check->host);
  for (size_t i = 0; ok && i < check->header_count; i++)
    ok = add_header(http, check->headers[i].name, check->headers[i].value);
  return ok;
}

/* Whatever URL or redirect says, no name is resolved: open_socket() puts the endpoint's address in
 * place of these, the port is the URL's.  libcurl files connections under this text, and walks
 * through all texts and through all connections of one when a connection ends; a few texts for all
 * probes keep both short. */
static bool make_connect_to(struct http *http) {
  char line[INET6_ADDRSTRLEN + 8];
  unsigned number = http->shared->bundle++ % BUNDLES + 1;
  if (http->probe->address.ss_family == AF_INET6)
    snprintf(line, sizeof line, "::[::%x]:", number);
  else
    snprintf(line, sizeof line, "::127.0.0.%u:", number);
  return add_line(&http->connect_to, line);
}

/* Collects failures of curl_easy_setopt(), whose value has a type of its own for each option. */
#define SET(option, value) (ok = curl_easy_setopt(easy, option, value) == CURLE_OK && ok)

static bool set_method(struct http *http) {
  CURL *easy = http->transfer.easy;
  const char *method = http->probe->check->method;
  bool ok = true;
  if (strcmp(method, "GET") == 0)
    return true;
  if (strcmp(method, "HEAD") == 0) {
    SET(CURLOPT_NOBODY, 1L);
    return ok;
  }
  if (strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0) {
    SET(CURLOPT_POSTFIELDS, ""); /* a body of no octets */
    SET(CURLOPT_POSTFIELDSIZE, 0L);
  }
  if (strcmp(method, "POST") != 0)
    SET(CURLOPT_CUSTOMREQUEST, method);
  return ok;
}

static bool set_request(struct http *http) {
  CURL *easy = http->transfer.easy;
  bool ok = make_headers(http) && make_connect_to(http);
  char *url = make_url(http);
  if (url == NULL || !ok) {
    free(url);
    return false;
  }
  SET(CURLOPT_URL, url);
  free(url);
  SET(CURLOPT_PATH_AS_IS, 1L);
  SET(CURLOPT_HTTPHEADER, http->headers);
  SET(CURLOPT_CONNECT_TO, http->connect_to);
  SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  SET(CURLOPT_HTTP09_ALLOWED, 0L);
  SET(CURLOPT_USERAGENT, "sluice-healthd/" SLUICE_VERSION);
  SET(CURLOPT_PROXY, ""); /* also none from the environment */
  SET(CURLOPT_PROTOCOLS_STR, is_tls(http) ? "https" : "http");
  if (http->probe->check->follow_redirects) {
    SET(CURLOPT_FOLLOWLOCATION, 1L);
    SET(CURLOPT_MAXREDIRS, (long)REDIRECTS);
    SET(CURLOPT_PROTOCOLS_STR, is_tls(http) ? "https" : "http,https");
    SET(CURLOPT_REDIR_PROTOCOLS_STR, is_tls(http) ? "https" : "http,https");
  }
  return set_method(http) && ok;
}

static bool set_limits(struct http *http) {
  CURL *easy = http->transfer.easy;
  bool ok = true;
  SET(CURLOPT_NOSIGNAL, 1L);
  SET(CURLOPT_BUFFERSIZE, (long)READ_BUFFER);
  SET(CURLOPT_FRESH_CONNECT, 1L);
  SET(CURLOPT_FORBID_REUSE, 1L);
  SET(CURLOPT_DNS_CACHE_TIMEOUT, 0L); /* its cache is searched whole at each end of a transfer */
  SET(CURLOPT_ERRORBUFFER, http->libcurl_text);
  SET(CURLOPT_HEADERFUNCTION, take_header);
  SET(CURLOPT_HEADERDATA, http);
  SET(CURLOPT_WRITEFUNCTION, take_body);
  SET(CURLOPT_WRITEDATA, http);
  SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
  SET(CURLOPT_OPENSOCKETDATA, http);
  SET(CURLOPT_PREREQFUNCTION, note_ready);
  SET(CURLOPT_PREREQDATA, http);
  return ok;
}

/* CURLOPT_SSL_CTX_FUNCTION: for each connection. */
static CURLcode set_context(CURL *easy, void *context, void *arg) {
  struct http *http = arg;
  char why[TLS_TRUST_WHY];
  (void)easy;
  http->step = HTTP_SHAKES_HANDS;
  http->connect_us = (int64_t)((uv_hrtime() - http->socket_ns) / 1000) + 1;
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (is_tls(http) && !http->probe->check->verify)
    return CURLE_OK;
  X509_STORE *store = tls_trust_get(http->shared->trust, http->probe->check->ca_file, why);
  if (store == NULL)
    return CURLE_SSL_CACERT_BADFILE;
  tls_trust_use(context, store, &http->refusal);
  return CURLE_OK;
}

/* Also for http: a redirect may lead to https, which is verified. */
static bool set_tls(struct http *http) {
  CURL *easy = http->transfer.easy;
  const struct check *check = http->probe->check;
  bool ok = true;
  bool verify = !is_tls(http) || check->verify;
  if (!is_tls(http) && !check->follow_redirects)
    return true;
  SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
  SET(CURLOPT_SSL_VERIFYPEER, verify ? 1L : 0L);
  SET(CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L);
  SET(CURLOPT_CAINFO, NULL); /* libcurl would parse it each time */
  SET(CURLOPT_CAPATH, NULL);
  SET(CURLOPT_CA_CACHE_TIMEOUT, 0L); /* else the store of one probe is that of all */
  SET(CURLOPT_SSL_SESSIONID_CACHE, 0L);
  SET(CURLOPT_SSL_CTX_FUNCTION, set_context);
  SET(CURLOPT_SSL_CTX_DATA, http);
  return ok;
}

/* ---- the kind ---------------------------------------------------------------------------------
 */

static bool open_http(struct probe_set *set, void **shared, char *why) {
  struct http_shared *http = calloc(1, sizeof *http);
  if (http != NULL) {
    http->loop = http_loop_open(probe_loop(set));
    http->trust = tls_trust_open();
  }
  if (http != NULL && http->loop != NULL && http->trust != NULL) {
    *shared = http;
    return true;
  }
  if (http != NULL) {
    http_loop_close(http->loop);
    tls_trust_close(http->trust);
  }
  free(http);
  snprintf(why, PROBE_WHY, "out of memory");
  return false;
}

static void close_http(void *shared) {
  struct http_shared *http = shared;
  http_loop_close(http->loop);
  tls_trust_close(http->trust);
  free(http);
}

/* A ca_file that cannot be used fails the probe before it connects. */
static bool has_trust(struct http *http, char *reason) {
  const struct check *check = http->probe->check;
  char why[TLS_TRUST_WHY];
  if (!is_tls(http) || !check->verify || tls_trust_get(http->shared->trust, check->ca_file, why))
    return true;
  snprintf(reason, PROBE_REASON, "%s", why);
  return false;
}

static bool start_http(struct probe *probe, void *shared, void **state,
                       struct probe_result *result) {
  struct http *http = calloc(1, sizeof *http);
  if (http == NULL)
    goto no_memory;
  http->probe = probe;
  http->shared = shared;
  http->transfer.done = on_done;
  const struct sockaddr_storage *address = &probe->address;
  const void *bytes = address->ss_family == AF_INET6
                          ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                          : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
  inet_ntop(address->ss_family, bytes, http->address, sizeof http->address);
  bool ok = take_host(http);
  if (!ok)
    snprintf(result->reason, sizeof result->reason, "`host` is no name of a host");
  if (!ok || !has_trust(http, result->reason)) {
    free_http(http);
    return false;
  }
  if (probe->check->body != NULL) {
    http->match = match_new(probe->check->body, PROBE_BODY);
    if (http->match == NULL)
      goto no_memory;
  }
  if (!http_loop_take(http->shared->loop, &http->transfer) || !set_request(http) ||
      !set_limits(http) || !set_tls(http) || !http_loop_start(http->shared->loop, &http->transfer))
    goto no_memory;
  *state = http;
  return true;
no_memory:
  snprintf(result->reason, sizeof result->reason, "this machine has no memory left");
  result->own_fault = true;
  if (http != NULL)
    free_http(http);
  return false;
}

static void stop_http(void *state, const char **phase) {
  struct http *http = state;
  struct http_end end = end_of(http, CURLE_OPERATION_TIMEDOUT);
  note_phases(http);
  *phase = http_phase(&end);
  free_http(http);
}

const struct probe_kind probe_kind_http = {
    .open = open_http,
    .close = close_http,
    .start = start_http,
    .stop = stop_http,
};
