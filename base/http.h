/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the HTTP APIs of DNS providers, by libcurl: what all of them need and none should
 * forget (deadline, retries by reason, rate limits from headers, bounded replies, no redirects, no
 * proxies by accident, secrets that never reach a message).
 *
 * A client belongs to one thread and keeps its connections.  A request is sent again after
 * transport errors, 429 and 5xx, with backoff and jitter and as Retry-After or the rate limit
 * headers say, as long as the deadline allows; a kind of provider adds its own reasons by `again`.
 */
#ifndef SLUICE_BASE_HTTP_H
#define SLUICE_BASE_HTTP_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_client;

enum { HTTP_WHY = 256, HTTP_REPLY_MAX = 64 << 20 };

struct http_request {
  const char *method;
  const char *url;
  const char *const *headers; /* "Name: value" without secrets; ends with NULL; or NULL */
  const char *secret_header;  /* one more, never logged; or NULL */
  const void *body;           /* or NULL */
  size_t body_len;
  bool idempotent; /* may be sent again although the first may have arrived */
  bool signs; /* `setup` makes libcurl sign header fields: none is given that is not sent.  The body
               * must be below 1 MiB, or "Expect: 100-continue" goes with it */
  /* Anything else to set on the easy handle (AWS_SIGV4, ...); or NULL. */
  void (*setup)(void *arg, CURL *curl);
  void *arg;
};

struct http_reply {
  long status;
  char *body; /* NUL-terminated */
  size_t body_len;
  char *link; /* Link header, for paging; or NULL */
  unsigned attempts;
};

enum http_again { HTTP_NO, HTTP_RETRY, HTTP_RETRY_LATER /* throttled: back off longer */ };

struct http_options {
  uint64_t deadline_ms; /* for a call of http_send(), retries included */
  const char *ca_file;  /* or NULL: the system's */
  enum http_again (*again)(const struct http_reply *reply); /* or NULL */
  bool read_only; /* only GET and HEAD leave; others fail */
};

struct http_client *http_open(const struct http_options *options);
void http_close(struct http_client *client);

/*
 * Sends a request and waits.  True with a reply of whatever status (to be freed with
 * http_reply_close()); false with one line in `why` (HTTP_WHY octets) that names the host, never
 * the secret or a body: no connection, TLS, deadline, too large, truncated.
 */
bool http_send(struct http_client *client, const struct http_request *request,
               struct http_reply *reply, char *why);
void http_reply_close(struct http_reply *reply);

/* One of many requests, and what came of it. */
struct http_exchange {
  struct http_request request;
  struct http_reply reply; /* to be freed with http_reply_close() */
  bool sent;               /* it was begun: it may have been done */
  bool ok;                 /* there is a reply, of whatever status; else `why` */
  char why[HTTP_WHY];
};

/*
 * Sends many requests, `window` of them (1 to 64) at a time over connections that are kept, each
 * with its own repetitions and its own deadline from when it was begun.  All keep the pace of rate
 * limits: no more are under way than the last reply still allows, and until there was one, the
 * first goes alone.
 *
 * After one that failed (no reply, or a status other than 2xx) no other one is begun; those under
 * way are waited for.  The results are in `list`, in the order of the requests.  True if all were
 * sent and have a status of 2xx.
 */
bool http_send_many(struct http_client *client, struct http_exchange *list, size_t count,
                    size_t window);

#endif
