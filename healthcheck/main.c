/* SPDX-License-Identifier: Apache-2.0 */
/* sluice-healthd: reads its settings, starts the checker and waits for signals. */
#include <signal.h>
#include <stdlib.h>
#include <uv.h>

#include "base/log.h"
#include "base/supervisor.h"
#include "healthcheck/control.h"
#include "healthcheck/engine.h"
#include "healthcheck/settings.h"

enum { EXIT_USAGE = 2 };

struct program {
  uv_loop_t loop;
  uv_signal_t hangup, terminate, interrupt;
  uv_timer_t watchdog;
  struct engine *engine;
  struct health_control *control;
};

static void stop(void *arg) {
  struct program *program = arg;
  uv_stop(&program->loop); /* what is left is done outside of the loop's callbacks */
}

static void on_reloaded(void *arg, const char *why) {
  (void)arg;
  (void)why; /* the engine has logged it */
  supervisor_ready("checking");
}

static void on_signal(uv_signal_t *handle, int number) {
  struct program *program = handle->data;
  if (number != SIGHUP) {
    stop(program);
    return;
  }
  supervisor_reloading();
  engine_reload(program->engine, on_reloaded, program);
}

static void on_watchdog(uv_timer_t *timer) {
  (void)timer;
  supervisor_alive();
}

static bool open_handles(struct program *program) {
  uv_signal_t *handles[] = {&program->hangup, &program->terminate, &program->interrupt};
  const int numbers[] = {SIGHUP, SIGTERM, SIGINT};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    if (uv_signal_init(&program->loop, handles[i]) != 0)
      return false;
    handles[i]->data = program;
    if (uv_signal_start(handles[i], on_signal, numbers[i]) != 0)
      return false;
  }
  uv_timer_init(&program->loop, &program->watchdog);
  uint64_t every = supervisor_watchdog_ms();
  return every == 0 || uv_timer_start(&program->watchdog, on_watchdog, every, every) == 0;
}

static bool open_parts(struct program *program, const struct health_settings *settings, char *why) {
  program->engine = engine_open(&program->loop, settings, why);
  if (program->engine == NULL)
    return false;
  if (settings->control == NULL)
    return true;
  program->control = health_control_open(&program->loop, settings->control, settings->group,
                                         program->engine, stop, program, why);
  return program->control != NULL;
}

static void close_all(struct program *program) {
  health_control_close(program->control);
  engine_close(program->engine);
  uv_close((uv_handle_t *)&program->hangup, NULL);
  uv_close((uv_handle_t *)&program->terminate, NULL);
  uv_close((uv_handle_t *)&program->interrupt, NULL);
  uv_close((uv_handle_t *)&program->watchdog, NULL);
  uv_run(&program->loop, UV_RUN_DEFAULT);
  uv_loop_close(&program->loop);
}

static int run(const struct health_settings *settings) {
  static struct program program;
  char why[ENGINE_WHY];
  if (uv_loop_init(&program.loop) != 0 || !open_handles(&program)) {
    log_error("out of memory");
    return EXIT_FAILURE;
  }
  bool ok = open_parts(&program, settings, why);
  if (ok) {
    engine_say_ready(program.engine);
    supervisor_ready("checking");
    uv_run(&program.loop, UV_RUN_DEFAULT);
    log_info("stopping");
    supervisor_stopping();
  } else {
    log_error("%s", why);
  }
  close_all(&program);
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
