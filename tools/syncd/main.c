/* SPDX-License-Identifier: Apache-2.0 */
/* sluice-syncd: reads its settings, starts the engine and waits for signals. */
#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/supervisor.h"
#include "tools/syncd/control.h"
#include "tools/syncd/engine.h"

enum { EXIT_USAGE = 2 };

static const char help[] =
    "Usage: sluice-syncd -c FILE\n"
    "\n"
    "Keeps other DNS providers level with this server: retries, ends of timed\n"
    "overrides, health.  It alone reads the providers' credentials.\n"
    "\n"
    "  -c, --config FILE     the machine's settings (section `syncd:`)\n"
    "      --help, --version\n"
    "\n"
    "Signals: SIGTERM saves the queues and ends.\n"
    "\n"
    "Examples:\n"
    "  sluice-syncd -c /etc/sluice/sluice.yaml\n";

struct program {
  uv_loop_t loop;
  uv_signal_t terminate, interrupt;
  uv_timer_t watchdog;
  struct engine *engine;
  struct syncd_control *control;
};

static void stop(void *arg) {
  struct program *program = arg;
  uv_stop(&program->loop); /* what is left is done outside of the loop's callbacks */
}

static void on_signal(uv_signal_t *handle, int number) {
  (void)number;
  stop(handle->data);
}

static void on_watchdog(uv_timer_t *timer) {
  (void)timer;
  supervisor_alive();
}

static bool open_handles(struct program *program) {
  uv_signal_t *handles[] = {&program->terminate, &program->interrupt};
  const int numbers[] = {SIGTERM, SIGINT};
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

static bool open_parts(struct program *program, const struct syncd_settings *settings, char *why) {
  program->engine = engine_open(&program->loop, settings, why);
  if (program->engine == NULL)
    return false;
  program->control = syncd_control_open(&program->loop, settings->control, settings->group,
                                        program->engine, stop, program, why);
  return program->control != NULL;
}

static void close_all(struct program *program) {
  syncd_control_close(program->control);
  engine_close(program->engine);
  uv_close((uv_handle_t *)&program->terminate, NULL);
  uv_close((uv_handle_t *)&program->interrupt, NULL);
  uv_close((uv_handle_t *)&program->watchdog, NULL);
  uv_run(&program->loop, UV_RUN_DEFAULT);
  uv_loop_close(&program->loop);
}

static int run(const struct syncd_settings *settings) {
  static struct program program;
  char why[ENGINE_WHY];
  if (uv_loop_init(&program.loop) != 0 || !open_handles(&program)) {
    log_error("out of memory");
    return EXIT_FAILURE;
  }
  bool ok = open_parts(&program, settings, why);
  if (ok) {
    log_info("ready");
    supervisor_ready("keeping providers level");
    uv_run(&program.loop, UV_RUN_DEFAULT);
    log_info("stopping");
    supervisor_stopping();
    engine_save(program.engine);
    /* A request to a provider may take long; its job is in the queue and will be done again. */
    if (engine_is_busy(program.engine)) {
      unlink(settings->control);
      _exit(EXIT_SUCCESS);
    }
  } else {
    log_error("%s", why);
  }
  close_all(&program);
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The file of -c; NULL with the exit status. */
static const char *read_arguments(int argc, char **argv, int *status) {
  static const struct option options[] = {{"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'v'},
                                          {"config", required_argument, NULL, 'c'},
                                          {NULL, 0, NULL, 0}};
  const char *file = NULL;
  int c;
  opterr = 0;
  *status = EXIT_USAGE;
  while ((c = getopt_long(argc, argv, ":c:", options, NULL)) != -1) {
    if (c == 'h' || c == 'v') {
      fputs(c == 'h' ? help : "sluice-syncd " SLUICE_VERSION "\n", stdout);
      *status = EXIT_SUCCESS;
      return NULL;
    }
    if (c != 'c') {
      log_error("%s %.100s (see sluice-syncd --help)",
                c == ':' ? "a value is missing after" : "unknown option", argv[optind - 1]);
      return NULL;
    }
    file = optarg;
  }
  if (optind == argc && file != NULL)
    return file;
  log_error(file == NULL ? "-c FILE is missing (see sluice-syncd --help)"
                         : "unexpected arguments (see sluice-syncd --help)");
  return NULL;
}

int main(int argc, char **argv) {
  struct syncd_settings settings;
  char why[SYNCD_SETTINGS_WHY];
  int status;
  signal(SIGPIPE, SIG_IGN);
  umask(0077);                           /* the queues are nobody else's business */
  setenv("UV_THREADPOOL_SIZE", "64", 0); /* one for each provider */
  json_object_seed(0);
  log_setup("sluice-syncd", LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
  const char *file = read_arguments(argc, argv, &status);
  if (file == NULL)
    return status;
  bool ok = syncd_settings_read(&settings, file, why);
  log_setup("sluice-syncd", settings.log, LOG_LEVEL_INFO);
  if (!ok)
    log_error("%s", why);
  status = ok ? run(&settings) : EXIT_FAILURE;
  syncd_settings_close(&settings);
  return status;
}
