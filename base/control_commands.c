/* SPDX-License-Identifier: Apache-2.0 */
#include "base/control_commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REQUEST_MAX = 64 << 10 };

struct control_commands {
  struct control_socket *socket;
  struct control_commands_options options;
  struct service *service;
  uint64_t started; /* loop time */
};

static json_t *status(const struct control_commands *c, const json_t *request) {
  json_t *reply = c->options.status(c->options.arg, request);
  if (reply == NULL)
    return NULL;
  uint64_t up = (uv_now(&c->service->loop) - c->started) / 1000;
  json_object_set_new(reply, "pid", json_integer(getpid()));
  json_object_set_new(reply, "uptime", json_integer((json_int_t)up));
  return control_ok(reply);
}

static void serve(void *arg, struct control_client *client, const json_t *request) {
  const struct control_commands *c = arg;
  const char *name = json_string_value(json_object_get(request, "command"));
  if (name == NULL) {
    control_reply(client, control_error(2, "a request is a JSON object with `command`"));
    return;
  }
  if (strcmp(name, "status") == 0) {
    control_reply(client, status(c, request));
    return;
  }
  if (strcmp(name, "stop") == 0) {
    control_reply_and_stop(client, control_ok(json_object()));
    return;
  }
  for (size_t i = 0; i < c->options.count; i++) {
    if (strcmp(name, c->options.commands[i].name) == 0) {
      c->options.commands[i].run(c->options.arg, client, request);
      return;
    }
  }
  control_reply(client, control_error(2, c->options.unknown));
}

static bool gone(void *arg, struct control_client *client, void *waits) {
  const struct control_commands *c = arg;
  return c->options.gone(c->options.arg, client, waits);
}

static void stop(void *arg) {
  const struct control_commands *c = arg;
  service_stop(c->service);
}

struct control_commands *control_commands_open(struct service *service,
                                               const struct control_commands_options *options,
                                               char *why) {
  struct control_commands *c = malloc(sizeof *c);
  const struct control_socket_options socket = {
      .path = options->path,
      .group = options->group,
      .give = true,
      .request_max = REQUEST_MAX,
      .serve = serve,
      .gone = gone,
      .stop = stop,
      .arg = c,
  };
  snprintf(why, CONTROL_SOCKET_WHY, "out of memory");
  if (c == NULL)
    return NULL;
  *c = (struct control_commands){
      .options = *options, .service = service, .started = uv_now(&service->loop)};
  c->socket = control_socket_open(&service->loop, &socket, why);
  if (c->socket != NULL)
    return c;
  free(c);
  return NULL;
}

void control_commands_close(struct control_commands *commands) {
  if (commands == NULL)
    return;
  control_socket_close(commands->socket);
  free(commands);
}
