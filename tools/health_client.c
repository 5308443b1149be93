/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/health_client.h"

#include <stdio.h>

#include "tools/cli.h"
#include "tools/client.h"

static const char *checker_socket(const struct machine *machine) {
  return machine->healthd;
}

const char *health_socket(const char *given, const char *settings) {
  static const struct client_place place = {"SLUICE_HEALTHD_SOCKET", checker_socket,
                                            "/run/sluice/healthd.sock"};
  return client_find(&place, given, settings);
}

int health_call(const char *path, json_t *request, json_t **reply) {
  char why[CLIENT_WHY];
  *reply = NULL;
  if (!request) {
    cli_error("out of memory");
    return CLI_FAILED;
  }
  enum client_result result = client_try(path, request, CLIENT_WAIT, reply, why);
  json_decref(request);
  if (result == CLIENT_ABSENT)
    cli_error("no health checker listens at %s; start sluice-healthd with --control, or name its "
              "socket with --socket",
              path);
  else if (result != CLIENT_ANSWERED)
    cli_error("%s", why);
  int status = result == CLIENT_ANSWERED ? client_judge(*reply) : CLI_FAILED;
  if (status != CLI_DONE) {
    json_decref(*reply);
    *reply = NULL;
  }
  return status;
}

const char *health_text(const json_t *object, const char *key, const char *otherwise) {
  const char *text = json_string_value(json_object_get(object, key));
  return text && *text ? text : otherwise;
}

void health_what(const json_t *check, char *out, size_t size) {
  const json_t *port = json_object_get(check, "port");
  const char *what = health_text(check, "what", NULL);
  char number[32] = "";
  if (json_is_integer(port))
    snprintf(number, sizeof number, ", port %lld", (long long)json_integer_value(port));
  snprintf(out, size, "%s%s%s%s", health_text(check, "type", "?"), number, what ? ", " : "",
           what ? what : "");
}
