/* SPDX-License-Identifier: Apache-2.0 */
/* What the two ways to send (base/http.c: one, base/http_many.c: many) share.  Private to them. */
#ifndef SLUICE_BASE_HTTP_PRIVATE_H
#define SLUICE_BASE_HTTP_PRIVATE_H

#include "base/http.h"
#include "base/rng.h"

/* What header fields of one reply say of the pace; -1: nothing. */
struct http_pace {
  long retry_after, remaining, reset, period, limit; /* seconds, requests */
};

struct http_receiving {
  char *body;
  size_t len, cap, header_octets;
  char *link;
  struct http_pace pace;
  bool too_large, no_memory;
};

struct http_client {
  CURL *curl;
  CURLM *multi; /* of http_send_many(); or NULL: not used yet */
  struct http_options options;
  char *ca_file;
  uint64_t not_before[2]; /* monotonic ms, as rate limits ask; reads and writes */
  long left[2];           /* requests that the last reply still allowed; -1: it did not say */
  uint64_t told[2];       /* attempts that were begun when `left` was told */
  bool heard[2];          /* there was a reply */
  uint64_t begun;         /* attempts so far */
  size_t under_way;       /* of them, those that are not closed */
  struct rng rng;
};

/* One attempt of a request: what was sent and what came back. */
struct http_attempt {
  const struct http_request *request;
  unsigned number; /* from 1 */
  uint64_t order;  /* among all attempts of the client, from 1 */
  uint64_t end;    /* monotonic ms: the deadline of all attempts */
  struct http_receiving receiving;
  struct curl_slist *headers;
};

uint64_t http_now_ms(void);
bool http_is_read(const struct http_request *request);

/* False with `why` if the request must not be sent at all. */
bool http_may_leave(const struct http_client *client, const struct http_request *request,
                    char *why);

/* "HOST allows no more requests for now" */
void http_tell_limit(const struct http_request *request, char *why);

/* Sets the handle up for an attempt; false without memory.  http_attempt_close() in both cases,
 * once the handle is done. */
bool http_attempt_open(struct http_client *client, CURL *curl, struct http_attempt *attempt);
void http_attempt_close(struct http_client *client, CURL *curl, struct http_attempt *attempt);

/*
 * What becomes of an attempt that is closed and ended with `code`: true if it is to be repeated,
 * after *wait ms. Else *ok says whether there is a reply, and `reply` or `why` is filled in.
 */
bool http_attempt_judge(struct http_client *client, struct http_attempt *attempt, CURLcode code,
                        long status, struct http_reply *reply, bool *ok, char *why, uint64_t *wait);

#endif
