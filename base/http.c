/* SPDX-License-Identifier: Apache-2.0 */
#include "base/http_private.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum {
  DEADLINE_MS = 30000,
  CONNECT_MS = 10000,
  ATTEMPTS = 12,
  HEADERS_MAX = 256 << 10, /* octets of all header fields of a reply */
  BACKOFF_MS = 200,
  BACKOFF_LATER_MS = 1000,
  BACKOFF_MAX_MS = 30000,
  PAUSE_MAX_S = 3600, /* no header makes us wait longer than this */
};

/* ---- time ----------------------------------------------------------------------------------- */

uint64_t http_now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void sleep_ms(uint64_t ms) {
  struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
  while (nanosleep(&t, &t) != 0 && errno == EINTR)
    ;
}

/* ---- what comes back ------------------------------------------------------------------------ */

static size_t on_body(char *data, size_t size, size_t count, void *arg) {
  struct http_receiving *r = arg;
  size_t n = size * count;
  if (n > (size_t)HTTP_REPLY_MAX - r->len) {
    r->too_large = true;
    return 0;
  }
  if (r->len + n + 1 > r->cap) {
    size_t cap = (r->len + n + 1) * 2;
    char *body = realloc(r->body, cap);
    if (!body) {
      r->no_memory = true;
      return 0;
    }
    r->body = body;
    r->cap = cap;
  }
  memcpy(r->body + r->len, data, n);
  r->len += n;
  r->body[r->len] = '\0';
  return n;
}

/* The value of the field if the line is of it: without spaces around, at most `size` octets. */
static bool field(const char *line, size_t len, const char *name, char *out, size_t size) {
  size_t n = strlen(name);
  if (len <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
    return false;
  line += n + 1;
  len -= n + 1;
  while (len > 0 && (*line == ' ' || *line == '\t'))
    line++, len--;
  while (len > 0 && (unsigned char)line[len - 1] <= ' ')
    len--;
  if (len >= size || memchr(line, 0, len))
    return false;
  memcpy(out, line, len);
  out[len] = '\0';
  return true;
}

/* A number of seconds or requests, or -1. */
static long number(const char *text) {
  char *end;
  if (*text < '0' || *text > '9')
    return -1;
  errno = 0;
  long n = strtol(text, &end, 10);
  return errno == 0 && (*end == '\0' || *end == '.' || *end == ',' || *end == ';') ? n : -1;
}

/* Retry-After is a number or a date (RFC 9110 section 10.2.3). */
static long retry_after(const char *text) {
  long n = number(text);
  if (n >= 0)
    return n;
  time_t when = curl_getdate(text, NULL);
  time_t now = time(NULL);
  if (when < 0)
    return -1;
  return when > now ? (long)(when - now) : 0;
}

/* A time to wait; some APIs give the Unix time at which the limit ends instead. */
static long reset_seconds(long n) {
  time_t now = time(NULL);
  return n > 1000000000 ? (n > now ? n - (long)now : 0) : n;
}

static size_t on_header(char *data, size_t size, size_t count, void *arg) {
  struct http_receiving *r = arg;
  size_t n = size * count;
  char value[4096];
  r->header_octets += n;
  if (r->header_octets > HEADERS_MAX) {
    r->too_large = true;
    return 0;
  }
  if (field(data, n, "Retry-After", value, sizeof value))
    r->pace.retry_after = retry_after(value);
  else if (field(data, n, "X-RateLimit-Remaining", value, sizeof value) ||
           field(data, n, "RateLimit-Remaining", value, sizeof value))
    r->pace.remaining = number(value);
  else if (field(data, n, "X-RateLimit-Reset", value, sizeof value) ||
           field(data, n, "RateLimit-Reset", value, sizeof value))
    r->pace.reset = reset_seconds(number(value));
  else if (field(data, n, "X-RateLimit-Period", value, sizeof value))
    r->pace.period = number(value);
  else if (field(data, n, "X-RateLimit-Limit", value, sizeof value))
    r->pace.limit = number(value);
  else if (!r->link && field(data, n, "Link", value, sizeof value))
    r->link = strdup(value);
  return n;
}

/* ---- the client ----------------------------------------------------------------------------- */

static void start_curl(void) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
}

struct http_client *http_open(const struct http_options *options) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start_curl);
  struct http_client *client = calloc(1, sizeof *client);
  if (!client)
    return NULL;
  client->options = *options;
  client->left[0] = client->left[1] = -1;
  if (client->options.deadline_ms == 0)
    client->options.deadline_ms = DEADLINE_MS;
  client->curl = curl_easy_init();
  if (options->ca_file)
    client->ca_file = strdup(options->ca_file);
  rng_seed_kernel(&client->rng);
  if (client->curl && (!options->ca_file || client->ca_file))
    return client;
  http_close(client);
  return NULL;
}

void http_close(struct http_client *client) {
  if (!client)
    return;
  curl_easy_cleanup(client->curl);
  curl_multi_cleanup(client->multi);
  free(client->ca_file);
  free(client);
}

void http_reply_close(struct http_reply *reply) {
  free(reply->body);
  free(reply->link);
  *reply = (struct http_reply){0};
}

/* ---- one attempt ---------------------------------------------------------------------------- */

static bool is_clean(const char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < ' ' || *text == 0x7f)
      return false;
  return true;
}

bool http_is_read(const struct http_request *request) {
  return strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
}

static void wipe_headers(struct curl_slist *list) {
  for (struct curl_slist *h = list; h; h = h->next)
    explicit_bzero(h->data, strlen(h->data));
  curl_slist_free_all(list);
}

static bool add_header(struct curl_slist **list, const char *header) {
  struct curl_slist *more = curl_slist_append(*list, header);
  if (more)
    *list = more;
  return more;
}

static bool make_headers(const struct http_request *request, struct curl_slist **list) {
  bool ok = request->signs || add_header(list, "Expect:");
  for (size_t i = 0; ok && request->headers && request->headers[i]; i++)
    ok = is_clean(request->headers[i]) && add_header(list, request->headers[i]);
  if (ok && request->secret_header)
    ok = is_clean(request->secret_header) && add_header(list, request->secret_header);
  return ok;
}

static void set_options(const struct http_client *client, CURL *curl,
                        const struct http_request *request, struct http_receiving *receiving,
                        const struct curl_slist *headers, uint64_t left) {
  curl_easy_reset(curl); /* keeps the connection */
  curl_easy_setopt(curl, CURLOPT_URL, request->url);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  /* Where credentials go is told by the settings alone, not by the environment. */
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
  if (client->ca_file)
    curl_easy_setopt(curl, CURLOPT_CAINFO, client->ca_file);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)left);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)(left < CONNECT_MS ? left : CONNECT_MS));
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "sluice/" SLUICE_VERSION);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, receiving);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, receiving);
  if (request->body) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body);
  }
  if (strcmp(request->method, "HEAD") == 0)
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  else
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
  if (request->setup)
    request->setup(request->arg, curl);
}

/* A reply to what was sent after the last one that told of this is news.  Any other may have been
 * overtaken and tell of an earlier time, when more was left.  One that does not say only ends the
 * count when no other is under way. */
static void note_left(struct http_client *client, const struct http_attempt *attempt, bool read) {
  long remaining = attempt->receiving.pace.remaining;
  bool counts = remaining < 0 ? client->under_way == 0
                              : client->left[read] < 0 || remaining < client->left[read] ||
                                    attempt->order > client->told[read];
  if (!counts)
    return;
  client->left[read] = remaining;
  client->told[read] = client->begun;
}

/* Keeps the pace that a reply asks for. */
static void note_pace(struct http_client *client, const struct http_attempt *attempt, bool read) {
  const struct http_pace *pace = &attempt->receiving.pace;
  long wait = 0;
  if (pace->remaining == 0 && pace->reset >= 0)
    wait = pace->reset;
  else if (pace->remaining == 0 && pace->period > 0 && pace->limit > 0)
    wait = (pace->period + pace->limit - 1) / pace->limit;
  if (wait > PAUSE_MAX_S)
    wait = PAUSE_MAX_S;
  uint64_t until = http_now_ms() + (uint64_t)wait * 1000;
  if (until > client->not_before[read]) /* replies may come in another order than they were sent */
    client->not_before[read] = until;
  note_left(client, attempt, read);
  client->heard[read] = true;
}

bool http_attempt_open(struct http_client *client, CURL *curl, struct http_attempt *attempt) {
  uint64_t now = http_now_ms();
  client->under_way++;
  attempt->order = ++client->begun;
  attempt->headers = NULL;
  attempt->receiving = (struct http_receiving){.pace = {-1, -1, -1, -1, -1}};
  if (!make_headers(attempt->request, &attempt->headers))
    return false;
  set_options(client, curl, attempt->request, &attempt->receiving, attempt->headers,
              now < attempt->end ? attempt->end - now : 1);
  return true;
}

void http_attempt_close(struct http_client *client, CURL *curl, struct http_attempt *attempt) {
  client->under_way--;
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, NULL);
  wipe_headers(attempt->headers);
  attempt->headers = NULL;
}

/* ---- again, or not -------------------------------------------------------------------------- */

/* True if surely nothing of the request reached the server's program. */
static bool never_arrived(CURLcode code) {
  return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT ||
         code == CURLE_SSL_CONNECT_ERROR;
}

static enum http_again judge_error(const struct http_request *request, CURLcode code,
                                   const struct http_receiving *receiving) {
  if (receiving->too_large || receiving->no_memory)
    return HTTP_NO;
  switch (code) {
  case CURLE_COULDNT_RESOLVE_HOST:
  case CURLE_COULDNT_CONNECT:
  case CURLE_SSL_CONNECT_ERROR:
  case CURLE_OPERATION_TIMEDOUT:
  case CURLE_SEND_ERROR:
  case CURLE_RECV_ERROR:
  case CURLE_GOT_NOTHING:
  case CURLE_PARTIAL_FILE:
  case CURLE_HTTP2:
  case CURLE_HTTP2_STREAM:
    return never_arrived(code) || http_is_read(request) || request->idempotent ? HTTP_RETRY
                                                                               : HTTP_NO;
  default:
    return HTTP_NO; /* a certificate, an address: the same the next time */
  }
}

static enum http_again judge_reply(const struct http_client *client,
                                   const struct http_request *request,
                                   const struct http_reply *reply) {
  enum http_again again = client->options.again ? client->options.again(reply) : HTTP_NO;
  if (again != HTTP_NO)
    return again;
  if (reply->status == 429)
    return HTTP_RETRY_LATER;
  if (reply->status >= 500 && reply->status != 501 &&
      (http_is_read(request) || request->idempotent))
    return HTTP_RETRY;
  return HTTP_NO;
}

/* Backoff with jitter, and never earlier than the server says. */
static uint64_t wait_for(struct http_client *client, enum http_again again, unsigned attempts,
                         const struct http_pace *pace) {
  uint64_t base = again == HTTP_RETRY_LATER ? BACKOFF_LATER_MS : BACKOFF_MS;
  uint64_t full = base << (attempts < 10 ? attempts - 1 : 9);
  if (full > BACKOFF_MAX_MS)
    full = BACKOFF_MAX_MS;
  uint64_t wait = full / 2 + rng_below(&client->rng, (uint32_t)(full / 2 + 1));
  long asked = pace->retry_after > PAUSE_MAX_S ? PAUSE_MAX_S : pace->retry_after;
  if (asked >= 0 && (uint64_t)asked * 1000 > wait)
    wait = (uint64_t)asked * 1000 + rng_below(&client->rng, BACKOFF_MS);
  return wait;
}

/* ---- messages ------------------------------------------------------------------------------- */

/* "host" or "host:port" of the address, nothing else of it. */
static void host_of(const char *url, char *out, size_t size) {
  CURLU *parts = curl_url();
  char *host = NULL;
  char *port = NULL;
  if (parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK)
    curl_url_get(parts, CURLUPART_HOST, &host, 0);
  if (host)
    curl_url_get(parts, CURLUPART_PORT, &port, 0);
  snprintf(out, size, "%.150s%s%.6s", host ? host : "the server", port ? ":" : "",
           port ? port : "");
  curl_free(host);
  curl_free(port);
  curl_url_cleanup(parts);
}

static void tell(const struct http_client *client, const struct http_request *request,
                 CURLcode code, const struct http_receiving *receiving, char *why) {
  char host[170];
  host_of(request->url, host, sizeof host);
  if (receiving->too_large)
    snprintf(why, HTTP_WHY, "the reply of %s is larger than %d MiB", host, HTTP_REPLY_MAX >> 20);
  else if (receiving->no_memory || code == CURLE_OUT_OF_MEMORY)
    snprintf(why, HTTP_WHY, "no memory for a request to %s", host);
  else if (code == CURLE_OPERATION_TIMEDOUT)
    snprintf(why, HTTP_WHY, "%s did not answer within %llu s", host,
             (unsigned long long)(client->options.deadline_ms + 999) / 1000);
  else if (code == CURLE_PARTIAL_FILE || code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR)
    snprintf(why, HTTP_WHY, "the reply of %s is cut short", host);
  else if (code == CURLE_PEER_FAILED_VERIFICATION)
    snprintf(why, HTTP_WHY, "the certificate of %s is not trusted", host);
  else
    snprintf(why, HTTP_WHY, "%s: %.80s", host, curl_easy_strerror(code));
}

/* ---- sending -------------------------------------------------------------------------------- */

static void take_reply(struct http_receiving *receiving, long status, unsigned attempts,
                       struct http_reply *reply) {
  *reply = (struct http_reply){
      .status = status,
      .body = receiving->body ? receiving->body : strdup(""),
      .body_len = receiving->len,
      .link = receiving->link,
      .attempts = attempts,
  };
}

bool http_may_leave(const struct http_client *client, const struct http_request *request,
                    char *why) {
  if (client->options.read_only && !http_is_read(request)) {
    snprintf(why, HTTP_WHY, "a request that writes was about to be sent while only reading");
    return false;
  }
  bool ok = is_clean(request->url) && (!request->secret_header || is_clean(request->secret_header));
  for (size_t i = 0; ok && request->headers && request->headers[i]; i++)
    ok = is_clean(request->headers[i]);
  if (!ok)
    snprintf(why, HTTP_WHY, "a request holds control characters; look at the provider's settings");
  return ok;
}

void http_tell_limit(const struct http_request *request, char *why) {
  char host[170];
  host_of(request->url, host, sizeof host);
  snprintf(why, HTTP_WHY, "%s allows no more requests for now (its rate limit)", host);
}

bool http_attempt_judge(struct http_client *client, struct http_attempt *attempt, CURLcode code,
                        long status, struct http_reply *reply, bool *ok, char *why,
                        uint64_t *wait) {
  const struct http_request *request = attempt->request;
  struct http_receiving *receiving = &attempt->receiving;
  enum http_again again;
  bool read = http_is_read(request);
  *ok = code == CURLE_OK;
  *reply = (struct http_reply){0};
  if (*ok) {
    note_pace(client, attempt, read);
    take_reply(receiving, status, attempt->number, reply);
    again = reply->body ? judge_reply(client, request, reply) : HTTP_NO;
  } else {
    again = judge_error(request, code, receiving);
    tell(client, request, code, receiving, why);
    free(receiving->body);
    free(receiving->link);
  }
  uint64_t now = http_now_ms();
  *wait = again == HTTP_NO ? 0 : wait_for(client, again, attempt->number, &receiving->pace);
  if (again != HTTP_NO && client->not_before[read] > now + *wait)
    *wait = client->not_before[read] - now;
  if (again == HTTP_RETRY_LATER && client->not_before[read] < now + *wait)
    client->not_before[read] = now + *wait; /* for all others too */
  if (again != HTTP_NO && attempt->number < ATTEMPTS && now + *wait < attempt->end) {
    http_reply_close(reply);
    return true;
  }
  if (*ok && !reply->body) {
    http_reply_close(reply);
    snprintf(why, HTTP_WHY, "no memory for a reply");
    *ok = false;
  }
  return false;
}

bool http_send(struct http_client *client, const struct http_request *request,
               struct http_reply *reply, char *why) {
  uint64_t end = http_now_ms() + client->options.deadline_ms;
  uint64_t start = client->not_before[http_is_read(request)];
  struct http_attempt attempt = {.request = request, .end = end};
  *reply = (struct http_reply){0};
  if (!http_may_leave(client, request, why))
    return false;
  if (start > end) {
    http_tell_limit(request, why);
    return false;
  }
  if (start > http_now_ms())
    sleep_ms(start - http_now_ms());
  for (;;) {
    long status = 0;
    uint64_t wait;
    bool ok;
    CURLcode code = CURLE_OUT_OF_MEMORY;
    attempt.number++;
    if (http_attempt_open(client, client->curl, &attempt)) {
      code = curl_easy_perform(client->curl);
      curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    }
    http_attempt_close(client, client->curl, &attempt);
    if (!http_attempt_judge(client, &attempt, code, status, reply, &ok, why, &wait))
      return ok;
    sleep_ms(wait);
  }
}
