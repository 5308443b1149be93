/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends requests with base/http.h, for tests/blackbox:
 *
 *   http_once METHOD URL DEADLINE_MS [read-only] [idempotent] [body TEXT] [secret HEADER] [times N]
 *             [ca FILE] [many N WINDOW] [break N] [then N WINDOW]
 *
 * A line of JSON on stdout for each: {"ok","status","body","size","attempts","link","why"}.  With
 * `many`, N requests at a time to URL/0, URL/1, ...; then "sent" is in each line too.  With `break`
 * these cannot be driven on after N replies.  With `then`, after all others, the same as `many`.
 */
#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/http.h"

/* ---- libcurl, for `break` (linked with --wrap) ------------------------------------------------
 */

static long replies_left = -1; /* until it breaks; -1: never */

CURLMsg *__real_curl_multi_info_read(CURLM *multi, int *left);
CURLMsg *__wrap_curl_multi_info_read(CURLM *multi, int *left);
CURLMsg *__wrap_curl_multi_info_read(CURLM *multi, int *left) {
  CURLMsg *message = __real_curl_multi_info_read(multi, left);
  if (message && message->msg == CURLMSG_DONE && replies_left > 0)
    replies_left--;
  return message;
}

CURLMcode __real_curl_multi_poll(CURLM *multi, struct curl_waitfd *more, unsigned count, int ms,
                                 int *ready);
CURLMcode __wrap_curl_multi_poll(CURLM *multi, struct curl_waitfd *more, unsigned count, int ms,
                                 int *ready);
CURLMcode __wrap_curl_multi_poll(CURLM *multi, struct curl_waitfd *more, unsigned count, int ms,
                                 int *ready) {
  if (replies_left != 0)
    return __real_curl_multi_poll(multi, more, count, ms, ready);
  replies_left = -1;
  return CURLM_OUT_OF_MEMORY;
}

/* ---- requests ---------------------------------------------------------------------------------
 */

static void print(bool ok, const struct http_reply *reply, const char *why) {
  json_t *line = json_pack("{s:b, s:I, s:s%, s:I, s:I, s:s?, s:s}", "ok", (int)ok, "status",
                           (json_int_t)reply->status, "body", reply->body ? reply->body : "",
                           reply->body_len < 200 ? reply->body_len : (size_t)200, "size",
                           (json_int_t)reply->body_len, "attempts", (json_int_t)reply->attempts,
                           "link", reply->link, "why", ok ? "" : why);
  json_dumpf(line, stdout, JSON_ENSURE_ASCII);
  putchar('\n');
  json_decref(line);
}

static void send_many(struct http_client *client, const struct http_request *request, size_t count,
                      size_t window) {
  struct http_exchange *list = calloc(count + 1, sizeof *list);
  for (size_t i = 0; list && i < count; i++) {
    char *url = NULL;
    list[i].request = *request;
    if (asprintf(&url, "%s/%zu", request->url, i) >= 0)
      list[i].request.url = url;
  }
  if (!list)
    return;
  bool ok = http_send_many(client, list, count, window);
  for (size_t i = 0; i < count; i++) {
    print(list[i].ok, &list[i].reply, list[i].why);
    printf("{\"sent\": %s, \"all\": %s}\n", list[i].sent ? "true" : "false", ok ? "true" : "false");
    http_reply_close(&list[i].reply);
    free((char *)(uintptr_t)list[i].request.url);
  }
  free(list);
}

int main(int argc, char **argv) {
  struct http_options options = {0};
  struct http_request request = {0};
  char why[HTTP_WHY];
  long times = -1;
  size_t many = 0, then = 0;
  size_t window = 1, then_window = 1;
  if (argc < 4)
    return 2;
  request.method = argv[1];
  request.url = argv[2];
  options.deadline_ms = strtoull(argv[3], NULL, 10);
  for (int i = 4; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (!strcmp(argv[i], "read-only"))
      options.read_only = true;
    else if (!strcmp(argv[i], "idempotent"))
      request.idempotent = true;
    else if (!strcmp(argv[i], "body"))
      request.body = value, request.body_len = strlen(value), i++;
    else if (!strcmp(argv[i], "secret"))
      request.secret_header = value, i++;
    else if (!strcmp(argv[i], "ca"))
      options.ca_file = value, i++;
    else if (!strcmp(argv[i], "many") && i + 2 < argc)
      many = strtoul(value, NULL, 10), window = strtoul(argv[i + 2], NULL, 10), i += 2;
    else if (!strcmp(argv[i], "then") && i + 2 < argc)
      then = strtoul(value, NULL, 10), then_window = strtoul(argv[i + 2], NULL, 10), i += 2;
    else if (!strcmp(argv[i], "break"))
      replies_left = strtol(value, NULL, 10), i++;
    else if (!strcmp(argv[i], "times"))
      times = strtol(value, NULL, 10), i++;
  }
  struct http_client *client = http_open(&options);
  if (!client)
    return 1;
  if (many > 0)
    send_many(client, &request, many, window);
  if (times < 0)
    times = many > 0 ? 0 : 1;
  for (long i = 0; i < times; i++) {
    struct http_reply reply;
    bool ok = http_send(client, &request, &reply, why);
    print(ok, &reply, why);
    http_reply_close(&reply);
  }
  if (then > 0)
    send_many(client, &request, then, then_window);
  http_close(client);
  return 0;
}
