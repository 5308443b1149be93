/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl's multi handle on the loop: each transfer is a callback when it ends, and easy handles
 * are used again, without their connections.
 */
#ifndef SLUICE_HEALTHCHECK_PROBES_HTTP_LOOP_H
#define SLUICE_HEALTHCHECK_PROBES_HTTP_LOOP_H

#include <curl/curl.h>
#include <stdbool.h>
#include <uv.h>

struct http_loop;

/* A transfer, part of what its owner keeps for it. */
struct http_transfer {
  CURL *easy;
  /* From the loop, when the transfer ended by itself, or brought more octets than any limit
   * allows (CURLE_FILESIZE_EXCEEDED).  It is still added: the owner ends by http_loop_give(). */
  void (*done)(struct http_transfer *transfer, CURLcode code);
  unsigned turns; /* how often its socket was ready */
  bool has_grown; /* set by the owner: the handle keeps much memory, and is not for further use */
};

enum {
  /* Octets that a transfer may receive in all, redirects and what libcurl skips included. */
  HTTP_OCTETS = 1 << 20,
};

struct http_loop *http_loop_open(uv_loop_t *loop); /* NULL without memory */
/* All transfers have been given back; handles are closed in the loop. */
void http_loop_close(struct http_loop *http);

/* A handle without any option set, in transfer->easy; false without memory. */
bool http_loop_take(struct http_loop *http, struct http_transfer *transfer);

/* Starts the transfer, once its options are set. */
bool http_loop_start(struct http_loop *http, struct http_transfer *transfer);

/* Ends the transfer, started or not: its connection is closed, the handle is used for another one.
 */
void http_loop_give(struct http_loop *http, struct http_transfer *transfer);

#endif
