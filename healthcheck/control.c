/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REQUEST_MAX = 64 << 10 };

struct health_control {
  struct control_socket *socket;
  uv_loop_t *loop;
  struct engine *engine;
  uint64_t started; /* loop time */
  void (*stop)(void *arg);
  void *arg;
};

static json_t *do_status(const struct health_control *control) {
  json_t *reply = engine_status(control->engine);
  if (reply == NULL)
    return NULL;
  json_object_set_new(reply, "pid", json_integer(getpid()));
  json_object_set_new(reply, "uptime",
                      json_integer((json_int_t)(uv_now(control->loop) - control->started) / 1000));
  return control_ok(reply);
}

static json_t *do_checks(const struct health_control *control, const char *domain,
                         const char *endpoint, json_int_t from) {
  char why[ENGINE_WHY];
  json_t *reply = engine_checks(control->engine, domain, endpoint, from, why);
  return reply == NULL && why[0] != '\0' ? control_error(1, why) : control_ok(reply);
}

static void on_tested(void *arg, const json_t *results) {
  control_reply(arg, json_pack("{s:b, s:O}", "ok", 1, "results", (json_t *)(uintptr_t)results));
}

static void do_test(const struct health_control *control, struct control_client *client,
                    const char *domain, const char *endpoint) {
  char why[ENGINE_WHY];
  if (domain == NULL) {
    control_reply(client, control_error(2, "`domain` is missing"));
    return;
  }
  struct engine_test *test = engine_test(control->engine, domain, endpoint, on_tested, client, why);
  if (test == NULL)
    control_reply(client, control_error(1, why));
  else
    control_wait(client, test);
}

static void on_reloaded(void *arg, const char *why) {
  control_reply(arg, why != NULL ? control_error(1, why) : control_ok(json_object()));
}

static void serve(void *arg, struct control_client *client, const json_t *request) {
  const struct health_control *control = arg;
  const char *command = json_string_value(json_object_get(request, "command"));
  const char *domain = json_string_value(json_object_get(request, "domain"));
  const char *endpoint = json_string_value(json_object_get(request, "endpoint"));
  if (command == NULL) {
    control_reply(client, control_error(2, "a request is a JSON object with `command`"));
  } else if (strcmp(command, "status") == 0) {
    control_reply(client, do_status(control));
  } else if (strcmp(command, "checks") == 0) {
    json_int_t from = json_integer_value(json_object_get(request, "from"));
    control_reply(client, do_checks(control, domain, endpoint, from));
  } else if (strcmp(command, "test") == 0) {
    do_test(control, client, domain, endpoint);
  } else if (strcmp(command, "reload") == 0) {
    control_wait(client, NULL);
    engine_reload(control->engine, on_reloaded, client);
  } else if (strcmp(command, "stop") == 0) {
    control_reply_and_stop(client, control_ok(json_object()));
  } else {
    control_reply(client, control_error(2, "unknown command; the checker knows status, checks, "
                                           "test, reload and stop"));
  }
}

/* Tests can be given up, reloads cannot. */
static bool gone(void *arg, struct control_client *client, void *waits) {
  (void)arg;
  (void)client;
  if (waits == NULL)
    return false;
  engine_test_cancel(waits);
  return true;
}

static void stop(void *arg) {
  const struct health_control *control = arg;
  control->stop(control->arg);
}

struct health_control *health_control_open(uv_loop_t *loop, const char *path, const char *group,
                                           struct engine *engine, void (*on_stop)(void *arg),
                                           void *arg, char *why) {
  struct health_control *control = malloc(sizeof *control);
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
  snprintf(why, HEALTH_CONTROL_WHY, "out of memory");
  if (control == NULL)
    return NULL;
  *control = (struct health_control){
      .loop = loop, .engine = engine, .started = uv_now(loop), .stop = on_stop, .arg = arg};
  control->socket = control_socket_open(loop, &options, why);
  if (control->socket != NULL)
    return control;
  free(control);
  return NULL;
}

void health_control_close(struct health_control *control) {
  if (control == NULL)
    return;
  control_socket_close(control->socket);
  free(control);
}
