/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends requests to webhooks with libcurl, on the loop: POST of a JSON body, certificates verified,
 * redirects not followed, no proxy, one deadline, and connections only to addresses that are
 * allowed (allowed.h), which is asked for the address that is connected to.  What receivers answer
 * is counted and thrown away: never kept, logged or shown.
 *
 * Everything belongs to the loop's thread; callbacks come from the loop, never from inside of
 * sender_post().
 */
#ifndef SLUICE_HEALTHCHECK_ALERTS_SENDER_H
#define SLUICE_HEALTHCHECK_ALERTS_SENDER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "healthcheck/alerts/allowed.h"
#include "healthcheck/alerts/format.h"

enum {
  SENDER_CONNECT_MS = 5000,
  SENDER_ALL_MS = 15000,
  SENDER_REPLY = 64 << 10, /* octets that are read of an answer before it is cut */
  SENDER_ERROR = 256,
};

enum sender_verdict {
  SENDER_THROUGH, /* 2xx */
  SENDER_LATER,   /* may work later: no connection, time over, 408, 425, 429, 5xx */
  SENDER_REFUSED, /* will not: other answers */
};

struct sender_result {
  enum sender_verdict verdict;
  uint64_t after_ms;        /* Retry-After, or 0 */
  char error[SENDER_ERROR]; /* one line, of our own words */
};

typedef void sender_done_fn(void *arg, const struct sender_result *result);

struct sender;

/* `allowed` is taken over; NULL only without memory. */
struct sender *sender_open(uv_loop_t *loop, struct allowed *allowed);

/* Ends what runs without telling; handles are closed in the loop. */
void sender_close(struct sender *sender);

/* Starts; takes the request over, also when it fails (no memory). */
bool sender_post(struct sender *sender, struct format_request *request, sender_done_fn *done,
                 void *arg);

#endif
