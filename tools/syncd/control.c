/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/syncd/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REQUEST_MAX = 64 << 10 };

struct syncd_control {
  struct control_socket *socket;
  uv_loop_t *loop;
  struct engine *engine;
  uint64_t started; /* loop time */
  void (*stop)(void *arg);
  void *arg;
};

static json_t *do_status(const struct syncd_control *control, const char *domain) {
  json_t *reply = engine_status(control->engine, domain);
  if (reply == NULL)
    return NULL;
  json_object_set_new(reply, "pid", json_integer(getpid()));
  json_object_set_new(reply, "uptime",
                      json_integer((json_int_t)(uv_now(control->loop) - control->started) / 1000));
  return control_ok(reply);
}

static void on_synced(void *arg, json_t *reply) {
  control_reply(arg, control_ok(reply));
}

static void do_sync(const struct syncd_control *control, struct control_client *client,
                    const json_t *request, const char *domain) {
  const json_t *given = json_object_get(request, "wait");
  json_int_t wait = json_is_integer(given) ? json_integer_value(given) : ENGINE_WAIT_MS;
  if (domain == NULL) {
    control_reply(client, control_error(2, "`domain` is missing"));
    return;
  }
  if (engine_unready(control->engine) != NULL) {
    control_reply(client, control_error(3, engine_unready(control->engine)));
    return;
  }
  wait = wait < 0 ? 0 : wait > ENGINE_WAIT_MS ? ENGINE_WAIT_MS : wait;
  struct engine_wait *waits =
      engine_sync(control->engine, domain, (uint64_t)wait, on_synced, client);
  if (waits != NULL)
    control_wait(client, waits);
}

static void serve(void *arg, struct control_client *client, const json_t *request) {
  const struct syncd_control *control = arg;
  const char *command = json_string_value(json_object_get(request, "command"));
  const char *domain = json_string_value(json_object_get(request, "domain"));
  if (command == NULL) {
    control_reply(client, control_error(2, "a request is a JSON object with `command`"));
  } else if (strcmp(command, "status") == 0) {
    control_reply(client, do_status(control, domain));
  } else if (strcmp(command, "sync") == 0) {
    do_sync(control, client, request, domain);
  } else if (strcmp(command, "retry") == 0) {
    engine_retry(control->engine);
    control_reply(client, control_ok(json_object()));
  } else if (strcmp(command, "stop") == 0) {
    control_reply_and_stop(client, control_ok(json_object()));
  } else {
    control_reply(client, control_error(2, "unknown command; sluice-syncd knows status, sync, "
                                           "retry and stop"));
  }
}

static bool gone(void *arg, struct control_client *client, void *waits) {
  (void)arg;
  (void)client;
  engine_wait_cancel(waits);
  return true;
}

static void stop(void *arg) {
  const struct syncd_control *control = arg;
  control->stop(control->arg);
}

struct syncd_control *syncd_control_open(uv_loop_t *loop, const char *path, const char *group,
                                         struct engine *engine, void (*on_stop)(void *arg),
                                         void *arg, char *why) {
  struct syncd_control *control = malloc(sizeof *control);
  const struct control_socket_options options = {
      .path = path,
      .group = group,
      .give = true,
      .request_max = REQUEST_MAX,
      .serve = serve,
      .gone = gone,
      .stop = stop,
      .arg = control,
  };
  snprintf(why, SYNCD_CONTROL_WHY, "out of memory");
  if (control == NULL)
    return NULL;
  *control = (struct syncd_control){
      .loop = loop, .engine = engine, .started = uv_now(loop), .stop = on_stop, .arg = arg};
  control->socket = control_socket_open(loop, &options, why);
  if (control->socket != NULL)
    return control;
  free(control);
  return NULL;
}

void syncd_control_close(struct syncd_control *control) {
  if (control == NULL)
    return;
  control_socket_close(control->socket);
  free(control);
}
