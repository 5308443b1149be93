/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/probes/http_loop.h"

#include <stdlib.h>

#include "healthcheck/probes/received.h"

enum {
  SPARE = 256,     /* easy handles that wait for their next use */
  LOOK_EVERY = 16, /* turns between two looks at how much has come */
};

struct http_loop {
  CURLM *multi;
  uv_loop_t *loop;
  uv_timer_t timer;
  bool in_timer;
  CURL *spare[SPARE];
  size_t spare_count;
};

/* A socket of libcurl's that it waits for. */
struct http_socket {
  uv_poll_t poll;
  curl_socket_t fd;
  struct http_loop *http;
  struct http_transfer *transfer;
};

/* ---- what has ended ---------------------------------------------------------------------------
 */

static struct http_transfer *transfer_of(CURL *easy) {
  char *private = NULL;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &private);
  return (struct http_transfer *)private;
}

static void take_ended(struct http_loop *http) {
  CURLMsg *message;
  int left;
  while ((message = curl_multi_info_read(http->multi, &left)) != NULL) {
    if (message->msg != CURLMSG_DONE)
      continue;
    struct http_transfer *transfer = transfer_of(message->easy_handle);
    transfer->done(transfer, message->data.result);
  }
}

/* ---- sockets ----------------------------------------------------------------------------------
 */

/* What a peer can send without that a limit on headers or body sees it (chunk extensions, bodies
 * of redirects, empty TLS records) is limited here. */
static bool is_flooded(struct http_socket *sock) {
  if (++sock->transfer->turns % LOOK_EVERY != 0)
    return false;
  return received_octets(sock->fd) > HTTP_OCTETS;
}

static void on_socket(uv_poll_t *poll, int status, int events) {
  struct http_socket *sock = poll->data;
  struct http_loop *http = sock->http;
  if (is_flooded(sock)) {
    sock->transfer->done(sock->transfer, CURLE_FILESIZE_EXCEEDED);
    return;
  }
  /* An error shows when libcurl reads or writes; CURL_CSELECT_ERR would hide which one. */
  int ready = status < 0 ? CURL_CSELECT_IN | CURL_CSELECT_OUT : 0;
  ready |= (events & UV_READABLE) ? CURL_CSELECT_IN : 0;
  ready |= (events & UV_WRITABLE) ? CURL_CSELECT_OUT : 0;
  int running;
  curl_multi_socket_action(http->multi, sock->fd, ready, &running);
  take_ended(http);
}

static void free_socket(uv_handle_t *handle) {
  free(handle->data);
}

static struct http_socket *open_socket(struct http_loop *http, CURL *easy, curl_socket_t fd) {
  struct http_socket *sock = calloc(1, sizeof *sock);
  if (sock == NULL)
    return NULL;
  sock->fd = fd;
  sock->http = http;
  sock->transfer = transfer_of(easy);
  if (uv_poll_init_socket(http->loop, &sock->poll, fd) != 0) {
    free(sock);
    return NULL;
  }
  sock->poll.data = sock;
  curl_multi_assign(http->multi, fd, sock);
  return sock;
}

/* CURLMOPT_SOCKETFUNCTION */
static int want_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *of_socket) {
  struct http_loop *http = arg;
  struct http_socket *sock = of_socket;
  if (what == CURL_POLL_REMOVE) {
    if (sock != NULL)
      uv_close((uv_handle_t *)&sock->poll, free_socket);
    curl_multi_assign(http->multi, fd, NULL);
    return 0;
  }
  if (sock == NULL)
    sock = open_socket(http, easy, fd);
  if (sock == NULL)
    return 0; /* the deadline will end it */
  int events =
      ((what & CURL_POLL_IN) ? UV_READABLE : 0) | ((what & CURL_POLL_OUT) ? UV_WRITABLE : 0);
  uv_poll_start(&sock->poll, events, on_socket);
  return 0;
}

/* ---- libcurl's timer --------------------------------------------------------------------------
 */

static void on_timer(uv_timer_t *timer) {
  struct http_loop *http = timer->data;
  int running;
  http->in_timer = true;
  curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
  take_ended(http);
  http->in_timer = false;
}

/* CURLMOPT_TIMERFUNCTION */
static int want_timer(CURLM *multi, long ms, void *arg) {
  struct http_loop *http = arg;
  (void)multi;
  if (ms < 0) {
    uv_timer_stop(&http->timer);
    return 0;
  }
  /* One of 0 that is set from the timer itself would run before any descriptor is looked at. */
  uint64_t wait = ms == 0 && http->in_timer ? 1 : (uint64_t)ms;
  uv_timer_start(&http->timer, on_timer, wait, 0);
  return 0;
}

/* ---- handles ----------------------------------------------------------------------------------
 */

bool http_loop_take(struct http_loop *http, struct http_transfer *transfer) {
  transfer->turns = 0;
  transfer->has_grown = false;
  transfer->easy = http->spare_count > 0 ? http->spare[--http->spare_count] : curl_easy_init();
  return transfer->easy != NULL;
}

bool http_loop_start(struct http_loop *http, struct http_transfer *transfer) {
  if (curl_easy_setopt(transfer->easy, CURLOPT_PRIVATE, transfer) != CURLE_OK)
    return false;
  return curl_multi_add_handle(http->multi, transfer->easy) == CURLM_OK;
}

void http_loop_give(struct http_loop *http, struct http_transfer *transfer) {
  CURL *easy = transfer->easy;
  transfer->easy = NULL;
  curl_multi_remove_handle(http->multi, easy); /* no harm where it was not added */
  if (http->spare_count == SPARE || transfer->has_grown) {
    curl_easy_cleanup(easy);
    return;
  }
  curl_easy_reset(easy);
  http->spare[http->spare_count++] = easy;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

struct http_loop *http_loop_open(uv_loop_t *loop) {
  struct http_loop *http = calloc(1, sizeof *http);
  if (http == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    free(http);
    return NULL;
  }
  http->multi = curl_multi_init();
  if (http->multi == NULL) {
    curl_global_cleanup();
    free(http);
    return NULL;
  }
  http->loop = loop;
  uv_timer_init(loop, &http->timer);
  http->timer.data = http;
  curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, want_socket);
  curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
  curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, want_timer);
  curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
  curl_multi_setopt(http->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
  return http;
}

static void free_loop(uv_handle_t *handle) {
  free(handle->data);
}

void http_loop_close(struct http_loop *http) {
  if (http == NULL)
    return;
  for (size_t i = 0; i < http->spare_count; i++)
    curl_easy_cleanup(http->spare[i]);
  curl_multi_cleanup(http->multi);
  curl_global_cleanup();
  uv_close((uv_handle_t *)&http->timer, free_loop);
}
