/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/alerts/sender.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct post {
  struct post *next;
  struct sender *sender;
  CURL *easy;
  struct curl_slist *headers;
  struct format_request request;
  size_t received;
  bool forbidden; /* the address is not allowed */
  sender_done_fn *done;
  void *arg;
};

struct watch { /* of one socket */
  uv_poll_t poll;
  struct sender *sender;
  curl_socket_t socket;
};

struct sender {
  uv_loop_t *loop;
  CURLM *multi;
  struct allowed *allowed;
  uv_timer_t timer;
  struct post *posts;
  size_t handles; /* of the loop, not closed yet */
  bool closing;
};

/* ---- the loop and libcurl ---------------------------------------------------------------------
 */

static void release(struct sender *sender) {
  if (--sender->handles > 0 || !sender->closing)
    return;
  allowed_free(sender->allowed);
  free(sender);
}

static void on_timer_closed(uv_handle_t *handle) {
  release(handle->data);
}

static void on_watch_closed(uv_handle_t *handle) {
  struct watch *watch = handle->data;
  struct sender *sender = watch->sender;
  free(watch);
  release(sender);
}

static void end_post(struct post *post, CURLcode code);

/* What libcurl has finished. */
static void collect(struct sender *sender) {
  CURLMsg *message;
  int left;
  while (!sender->closing && (message = curl_multi_info_read(sender->multi, &left)) != NULL) {
    if (message->msg != CURLMSG_DONE)
      continue;
    struct post *post = NULL;
    CURLcode code = message->data.result;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &post);
    end_post(post, code);
  }
}

static void on_socket(uv_poll_t *poll, int status, int events) {
  struct watch *watch = poll->data;
  struct sender *sender = watch->sender;
  int action = 0;
  int running;
  if (status < 0)
    action = CURL_CSELECT_ERR;
  if ((events & UV_READABLE) != 0)
    action |= CURL_CSELECT_IN;
  if ((events & UV_WRITABLE) != 0)
    action |= CURL_CSELECT_OUT;
  curl_multi_socket_action(sender->multi, watch->socket, action, &running);
  collect(sender);
}

static void on_timer(uv_timer_t *timer) {
  struct sender *sender = timer->data;
  int running;
  curl_multi_socket_action(sender->multi, CURL_SOCKET_TIMEOUT, 0, &running);
  collect(sender);
}

static int set_timer(CURLM *multi, long timeout_ms, void *arg) {
  struct sender *sender = arg;
  (void)multi;
  if (sender->closing)
    return 0;
  if (timeout_ms < 0)
    uv_timer_stop(&sender->timer);
  else
    uv_timer_start(&sender->timer, on_timer, (uint64_t)timeout_ms, 0);
  return 0;
}

static struct watch *make_watch(struct sender *sender, curl_socket_t socket) {
  struct watch *watch = calloc(1, sizeof *watch);
  if (watch == NULL)
    return NULL;
  watch->sender = sender;
  watch->socket = socket;
  if (uv_poll_init_socket(sender->loop, &watch->poll, socket) != 0) {
    free(watch);
    return NULL;
  }
  watch->poll.data = watch;
  sender->handles++;
  curl_multi_assign(sender->multi, socket, watch);
  return watch;
}

static int set_socket(CURL *easy, curl_socket_t socket, int what, void *arg, void *socket_arg) {
  struct sender *sender = arg;
  struct watch *watch = socket_arg;
  (void)easy;
  if (what == CURL_POLL_REMOVE) {
    if (watch == NULL)
      return 0;
    curl_multi_assign(sender->multi, socket, NULL);
    uv_poll_stop(&watch->poll);
    uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
    return 0;
  }
  if (watch == NULL)
    watch = make_watch(sender, socket);
  if (watch == NULL)
    return -1;
  int events = 0;
  if (what != CURL_POLL_OUT)
    events |= UV_READABLE;
  if (what != CURL_POLL_IN)
    events |= UV_WRITABLE;
  return uv_poll_start(&watch->poll, events, on_socket);
}

struct sender *sender_open(uv_loop_t *loop, struct allowed *allowed) {
  struct sender *sender = calloc(1, sizeof *sender);
  if (sender == NULL)
    return NULL;
  sender->multi = curl_multi_init();
  if (sender->multi == NULL) {
    free(sender);
    return NULL;
  }
  sender->loop = loop;
  sender->allowed = allowed;
  uv_timer_init(loop, &sender->timer);
  sender->timer.data = sender;
  sender->handles = 1;
  curl_multi_setopt(sender->multi, CURLMOPT_SOCKETFUNCTION, set_socket);
  curl_multi_setopt(sender->multi, CURLMOPT_SOCKETDATA, sender);
  curl_multi_setopt(sender->multi, CURLMOPT_TIMERFUNCTION, set_timer);
  curl_multi_setopt(sender->multi, CURLMOPT_TIMERDATA, sender);
  curl_multi_setopt(sender->multi, CURLMOPT_MAXCONNECTS, 8L);
  return sender;
}

/* ---- one request ------------------------------------------------------------------------------
 */

static void free_post(struct post *post) {
  for (struct curl_slist *h = post->headers; h != NULL; h = h->next)
    explicit_bzero(h->data, strlen(h->data));
  curl_slist_free_all(post->headers);
  curl_easy_cleanup(post->easy);
  format_close(&post->request);
  free(post);
}

static void unlink_post(struct post *post) {
  struct post **at = &post->sender->posts;
  while (*at != post)
    at = &(*at)->next;
  *at = post->next;
  curl_multi_remove_handle(post->sender->multi, post->easy);
}

void sender_close(struct sender *sender) {
  if (sender == NULL)
    return;
  sender->closing = true;
  while (sender->posts != NULL) {
    struct post *post = sender->posts;
    unlink_post(post);
    free_post(post);
  }
  curl_multi_cleanup(sender->multi);
  uv_close((uv_handle_t *)&sender->timer, on_timer_closed);
}

/* The answer is counted, not kept; one that does not end is cut. */
static size_t on_data(char *data, size_t size, size_t count, void *arg) {
  struct post *post = arg;
  (void)data;
  post->received += size * count;
  return post->received > SENDER_REPLY ? 0 : size * count;
}

static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address) {
  struct post *post = arg;
  (void)purpose;
  if (!allowed_address(post->sender->allowed, &address->addr)) {
    post->forbidden = true;
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static uint64_t retry_after(const struct post *post) {
  curl_off_t seconds = 0;
  if (curl_easy_getinfo(post->easy, CURLINFO_RETRY_AFTER, &seconds) != CURLE_OK || seconds <= 0)
    return 0;
  return seconds > 86400 ? 86400000 : (uint64_t)seconds * 1000;
}

static void judge_status(const struct post *post, long status, struct sender_result *result) {
  bool later = status == 408 || status == 425 || status == 429 || status >= 500;
  result->after_ms = later ? retry_after(post) : 0;
  if (status >= 200 && status < 300)
    result->verdict = SENDER_THROUGH;
  else
    result->verdict = later ? SENDER_LATER : SENDER_REFUSED;
  snprintf(result->error, sizeof result->error, "status %ld%s", status,
           status >= 300 && status < 400 ? " (redirects are not followed)" : "");
}

static const char *phase_of(const struct post *post) {
  curl_off_t connected = 0;
  curl_off_t resolved = 0;
  curl_off_t secured = 0;
  curl_easy_getinfo(post->easy, CURLINFO_NAMELOOKUP_TIME_T, &resolved);
  curl_easy_getinfo(post->easy, CURLINFO_CONNECT_TIME_T, &connected);
  curl_easy_getinfo(post->easy, CURLINFO_PRETRANSFER_TIME_T, &secured);
  if (secured > 0)
    return "waiting for the answer";
  if (connected > 0)
    return "the TLS handshake";
  return resolved > 0 ? "connecting" : "resolving the name";
}

static void end_post(struct post *post, CURLcode code) {
  struct sender_result result = {.verdict = SENDER_LATER};
  long status = 0;
  curl_easy_getinfo(post->easy, CURLINFO_RESPONSE_CODE, &status);
  /* The status is known although the rest was cut or did not come: it counts. */
  if (status >= 200 && (code == CURLE_OK || code == CURLE_WRITE_ERROR || status < 300))
    judge_status(post, status, &result);
  else if (post->forbidden)
    snprintf(result.error, sizeof result.error,
             "its address is not public; add the network to `webhook-allow` if it is right");
  else if (code == CURLE_OPERATION_TIMEDOUT)
    snprintf(result.error, sizeof result.error, "timeout in %s", phase_of(post));
  else
    snprintf(result.error, sizeof result.error, "%s", curl_easy_strerror(code));
  unlink_post(post);
  sender_done_fn *done = post->done;
  void *arg = post->arg;
  free_post(post);
  done(arg, &result);
}

static bool add_header(struct post *post, const char *line) {
  struct curl_slist *more = curl_slist_append(post->headers, line);
  if (more == NULL)
    return false;
  post->headers = more;
  return true;
}

static bool set_up(struct post *post) {
  CURL *easy = post->easy;
  bool ok = add_header(post, "Content-Type: application/json") && add_header(post, "Expect:");
  if (ok && post->request.authorization != NULL)
    ok = add_header(post, post->request.authorization);
  return ok && curl_easy_setopt(easy, CURLOPT_PRIVATE, post) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_URL, post->request.url) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_POSTFIELDS, post->request.body) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_HTTPHEADER, post->headers) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_USERAGENT, "sluice-healthd/" SLUICE_VERSION) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
         /* Without it, libcurl would wait for its thread that resolves, and with it the loop. */
         curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)SENDER_CONNECT_MS) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)SENDER_ALL_MS) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, post) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_data) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_HEADERDATA, post) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_WRITEDATA, post) == CURLE_OK;
}

bool sender_post(struct sender *sender, struct format_request *request, sender_done_fn *done,
                 void *arg) {
  struct post *post = calloc(1, sizeof *post);
  if (post == NULL) {
    format_close(request);
    return false;
  }
  post->sender = sender;
  post->request = *request;
  *request = (struct format_request){NULL, NULL, NULL};
  post->done = done;
  post->arg = arg;
  post->easy = curl_easy_init();
  if (post->easy == NULL || !set_up(post) ||
      curl_multi_add_handle(sender->multi, post->easy) != CURLM_OK) {
    free_post(post);
    return false;
  }
  post->next = sender->posts;
  sender->posts = post;
  return true;
}
