/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/syncd/control.h"

static const char *asked_domain(const json_t *request) {
  return json_string_value(json_object_get(request, "domain"));
}

static json_t *status(void *arg, const json_t *request) {
  return engine_status(arg, asked_domain(request));
}

static void on_synced(void *arg, json_t *reply) {
  control_reply(arg, control_ok(reply));
}

static void do_sync(void *arg, struct control_client *client, const json_t *request) {
  struct engine *engine = arg;
  const char *domain = asked_domain(request);
  const json_t *given = json_object_get(request, "wait");
  json_int_t wait = json_is_integer(given) ? json_integer_value(given) : ENGINE_WAIT_MS;
  if (domain == NULL) {
    control_reply(client, control_error(2, "`domain` is missing"));
    return;
  }
  if (engine_unready(engine) != NULL) {
    control_reply(client, control_error(3, engine_unready(engine)));
    return;
  }
  wait = wait < 0 ? 0 : wait > ENGINE_WAIT_MS ? ENGINE_WAIT_MS : wait;
  struct engine_wait *waits = engine_sync(engine, domain, (uint64_t)wait, on_synced, client);
  if (waits != NULL)
    control_wait(client, waits);
}

static void do_retry(void *arg, struct control_client *client, const json_t *request) {
  (void)request;
  engine_retry(arg);
  control_reply(client, control_ok(json_object()));
}

static bool gone(void *arg, struct control_client *client, void *waits) {
  (void)arg;
  (void)client;
  engine_wait_cancel(waits);
  return true;
}

struct control_commands *syncd_control_open(struct service *service, const char *path,
                                            const char *group, struct engine *engine, char *why) {
  static const struct control_command commands[] = {{"sync", do_sync}, {"retry", do_retry}};
  const struct control_commands_options options = {
      .path = path,
      .group = group,
      .unknown = "unknown command; sluice-syncd knows status, sync, retry and stop",
      .status = status,
      .commands = commands,
      .count = sizeof commands / sizeof *commands,
      .gone = gone,
      .arg = engine,
  };
  return control_commands_open(service, &options, why);
}
