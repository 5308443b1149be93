/* SPDX-License-Identifier: Apache-2.0 */
#include "healthcheck/control.h"

static const char *text(const json_t *request, const char *key) {
  return json_string_value(json_object_get(request, key));
}

static json_t *status(void *arg, const json_t *request) {
  (void)request;
  return engine_status(arg);
}

static void do_checks(void *arg, struct control_client *client, const json_t *request) {
  struct engine *engine = arg;
  char why[ENGINE_WHY];
  json_int_t from = json_integer_value(json_object_get(request, "from"));
  json_t *reply =
      engine_checks(engine, text(request, "domain"), text(request, "endpoint"), from, why);
  bool refused = reply == NULL && why[0] != '\0';
  control_reply(client, refused ? control_error(1, why) : control_ok(reply));
}

static void on_tested(void *arg, const json_t *results) {
  control_reply(arg, json_pack("{s:b, s:O}", "ok", 1, "results", (json_t *)(uintptr_t)results));
}

static void do_test(void *arg, struct control_client *client, const json_t *request) {
  struct engine *engine = arg;
  const char *domain = text(request, "domain");
  char why[ENGINE_WHY];
  if (domain == NULL) {
    control_reply(client, control_error(2, "`domain` is missing"));
    return;
  }
  struct engine_test *test =
      engine_test(engine, domain, text(request, "endpoint"), on_tested, client, why);
  if (test == NULL)
    control_reply(client, control_error(1, why));
  else
    control_wait(client, test);
}

static void on_reloaded(void *arg, const char *why) {
  control_reply(arg, why != NULL ? control_error(1, why) : control_ok(json_object()));
}

static void do_reload(void *arg, struct control_client *client, const json_t *request) {
  (void)request;
  control_wait(client, NULL);
  engine_reload(arg, on_reloaded, client);
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

struct control_commands *health_control_open(struct service *service, const char *path,
                                             const char *group, struct engine *engine, char *why) {
  static const struct control_command commands[] = {
      {"checks", do_checks}, {"test", do_test}, {"reload", do_reload}};
  const struct control_commands_options options = {
      .path = path,
      .group = group,
      .unknown = "unknown command; the checker knows status, checks, test, reload and stop",
      .status = status,
      .commands = commands,
      .count = sizeof commands / sizeof *commands,
      .gone = gone,
      .arg = engine,
  };
  return control_commands_open(service, &options, why);
}
