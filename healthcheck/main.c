/* SPDX-License-Identifier: Apache-2.0 */
/* sluice-healthd: reads its settings, starts the checker and waits for signals. */
#include <signal.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/service.h"
#include "base/supervisor.h"
#include "healthcheck/control.h"
#include "healthcheck/engine.h"
#include "healthcheck/settings.h"

enum { EXIT_USAGE = 2 };

static const char status_line[] = "checking"; /* for the service manager */

struct program {
  struct service service;
  struct engine *engine;
  struct control_commands *control;
};

static void on_reloaded(void *arg, const char *why) {
  (void)arg;
  (void)why; /* the engine has logged it */
  supervisor_ready(status_line);
}

static void reload(void *arg) {
  struct program *program = arg;
  supervisor_reloading();
  engine_reload(program->engine, on_reloaded, program);
}

static bool open_parts(struct program *program, const struct health_settings *settings, char *why) {
  program->engine = engine_open(&program->service.loop, settings, why);
  if (program->engine == NULL)
    return false;
  if (settings->control == NULL)
    return true;
  program->control = health_control_open(&program->service, settings->control, settings->group,
                                         program->engine, why);
  return program->control != NULL;
}

static int run(const struct health_settings *settings) {
  static struct program program;
  char why[ENGINE_WHY];
  if (!service_open(&program.service, reload, &program)) {
    log_error("out of memory");
    return EXIT_FAILURE;
  }
  bool ok = open_parts(&program, settings, why);
  if (ok) {
    engine_say_ready(program.engine);
    service_run(&program.service, status_line);
  } else {
    log_error("%s", why);
  }
  control_commands_close(program.control);
  engine_close(program.engine);
  service_close(&program.service);
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
  static struct health_settings settings;
  char why[HEALTH_SETTINGS_WHY];
  int status = EXIT_SUCCESS;
  signal(SIGPIPE, SIG_IGN);
  enum health_settings_result result = health_settings_read(&settings, argc, argv, why);
  log_setup("sluice-healthd", settings.log, LOG_LEVEL_INFO);
  switch (result) {
  case HEALTH_SETTINGS_OK:
    status = run(&settings);
    break;
  case HEALTH_SETTINGS_DONE:
    break;
  case HEALTH_SETTINGS_USAGE:
    log_error("%s", why);
    status = EXIT_USAGE;
    break;
  case HEALTH_SETTINGS_BAD:
    log_error("%s", why);
    status = EXIT_FAILURE;
    break;
  }
  health_settings_close(&settings);
  return status;
}
