/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends requests with base/http.h, for tests/blackbox:
 *
 *   http_once METHOD URL DEADLINE_MS [read-only] [idempotent] [body TEXT] [secret HEADER] [times N]
 *             [ca FILE] [many N WINDOW]
 *
 * A line of JSON on stdout for each: {"ok","status","body","size","attempts","link","why"}.  With
 * `many`, N requests at a time to URL/0, URL/1, ...; then "sent" is in each line too.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/http.h"

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
  long times = 1;
  size_t many = 0;
  size_t window = 1;
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
    else if (!strcmp(argv[i], "times"))
      times = strtol(value, NULL, 10), i++;
  }
  struct http_client *client = http_open(&options);
  if (!client)
    return 1;
  if (many > 0)
    send_many(client, &request, many, window);
  for (long i = 0; many == 0 && i < times; i++) {
    struct http_reply reply;
    bool ok = http_send(client, &request, &reply, why);
    print(ok, &reply, why);
    http_reply_close(&reply);
  }
  http_close(client);
  return 0;
}
