/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends requests with base/http.h, for tests/blackbox:
 *
 *   http_once METHOD URL DEADLINE_MS [read-only] [idempotent] [body TEXT] [secret HEADER] [times N]
 *             [ca FILE]
 *
 * A line of JSON on stdout for each: {"ok","status","body","size","attempts","link","why"}.
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

int main(int argc, char **argv) {
  struct http_options options = {0};
  struct http_request request = {0};
  char why[HTTP_WHY];
  long times = 1;
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
    else if (!strcmp(argv[i], "times"))
      times = strtol(value, NULL, 10), i++;
  }
  struct http_client *client = http_open(&options);
  if (!client)
    return 1;
  for (long i = 0; i < times; i++) {
    struct http_reply reply;
    bool ok = http_send(client, &request, &reply, why);
    print(ok, &reply, why);
    http_reply_close(&reply);
  }
  http_close(client);
  return 0;
}
